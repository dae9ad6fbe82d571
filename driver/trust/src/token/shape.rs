//! The bounds of a token's content. They are checked before its checks are evaluated.
//!
//! Datalog joins facts: a query with n predicates over m facts looks at m to the n combinations, and the library
//! looks at the clock only between queries. So rules (which make facts of facts) are refused, and so are long
//! queries, many facts, closures over sets, arithmetic and regular expressions. What remains looks at no more
//! than the square of [`MOST_OF_FIRST`] and [`MOST_OF_OTHERS`] together: the most that is possible takes 3 ms
//! (`token_check_most_us`).
//!
//! The content is read from the text that the library prints. That text quotes strings without escaping them, so
//! strings are checked first: none may have a character that ends one.

use crate::error::Error;
use biscuit_auth::builder::{Binary, BlockBuilder, Expression, Op, Rule, Scope, Term, Unary};
use biscuit_auth::{Biscuit, builder};

/// The most blocks of a token.
pub(super) const MOST_BLOCKS: usize = 8;
/// The most facts, and checks, of the organisation's own block, and of one of others.
const MOST_OF_FIRST: usize = 16;
const MOST_OF_OTHERS: usize = 8;
/// The most scopes of a check, facts that one joins, and conditions and operations of one.
const MOST_SCOPES: usize = 8;
const MOST_PREDICATES: usize = 2;
const MOST_EXPRESSIONS: usize = 8;
const MOST_OPS: usize = 128;
/// The deepest nesting of brackets. The library's reader goes one call deeper for each, and tries each more than once.
const MOST_DEPTH: usize = 6;
/// The longest string of a token, bytes.
pub(super) const MAX_SYMBOL: usize = 128;

/// True for a character that strings of a token may have.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.@/: ".contains(c)
}

/// The words of the organisation in the first block of a token.
#[derive(Debug)]
pub(super) struct Content {
    /// The only name in `check if holder("NAME")`.
    holder: String,
    /// The names in `vo("NAME")`.
    vos: Vec<String>,
    /// The names in `group("NAME")`.
    groups: Vec<String>,
}

impl Content {
    /// The name of the only holder.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// The holder's groups.
    pub(super) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Checks that it is of this organisation, whose key signed it.
    ///
    /// # Errors
    /// It names another, or a group is no name.
    pub(super) fn is_of(&self, vo: &str) -> Result<(), Error> {
        if self.vos != [vo] {
            return Err(Error::Refused(format!("the key of {vo} signed a token of {:?}", self.vos.join(", "))));
        }
        self.groups.iter().try_for_each(|group| crate::identity::check_name(group))
    }
}

/// Reads a token whose signatures hold.
///
/// # Errors
/// The bound that it exceeds, or it is bound to no holder.
pub(super) fn content(token: &Biscuit) -> Result<Content, Error> {
    let blocks = blocks(token)?;
    for (n, block) in blocks.iter().enumerate() {
        let most = if n == 0 { MOST_OF_FIRST } else { MOST_OF_OTHERS };
        bounded(block, most).map_err(|what| Error::Refused(format!("block {n} of the token {what}")))?;
    }
    let first = blocks.into_iter().next().unwrap_or_default();
    let nobody = "the token is bound to no holder: its first block must check holder(NAME)";
    let holder = first.checks.iter().find_map(bound_to).ok_or_else(|| Error::Refused(nobody.to_owned()))?;
    let texts = |name: &str| {
        let of_name = first.facts.iter().filter(|fact| fact.predicate.name == name);
        let text = |fact: &builder::Fact| match &fact.predicate.terms[..] {
            [Term::Str(text)] => Some(text.clone()),
            _ => None,
        };
        of_name.filter_map(text).collect()
    };
    Ok(Content { holder, vos: texts("vo"), groups: texts("group") })
}

/// The content of all blocks.
fn blocks(token: &Biscuit) -> Result<Vec<BlockBuilder>, Error> {
    let wrong = super::refused("the token cannot be read");
    let block = |n: usize| {
        for symbol in token.block_symbols(n).map_err(&wrong)? {
            if symbol.len() > MAX_SYMBOL || !symbol.chars().all(is_plain) {
                let what = "has a string that is too long, or has characters other than letters, digits, spaces and - _ . @ / :";
                return Err(Error::Refused(format!("block {n} of the token {what}")));
            }
        }
        let source = token.print_block_source(n).map_err(&wrong)?;
        if depth(&source) > MOST_DEPTH {
            let what = format!("block {n} of the token nests conditions deeper than {MOST_DEPTH}");
            return Err(Error::Refused(what));
        }
        BlockBuilder::new().code(source).map_err(&wrong)
    };
    (0..token.block_count()).map(block).collect()
}

/// The nesting of brackets in a block's text; its strings have none.
fn depth(source: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for c in source.chars() {
        match c {
            '(' | '{' | '[' => now += 1,
            ')' | '}' | ']' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

fn bounded(block: &BlockBuilder, most: usize) -> Result<(), String> {
    if !block.rules.is_empty() {
        return Err("has rules: a token has facts and checks only".to_owned());
    }
    let alternatives: usize = block.checks.iter().map(|check| check.queries.len()).sum();
    if block.facts.len() > most || alternatives > most {
        return Err(format!("has more than {most} facts or checks, alternatives counted"));
    }
    let flat = |term: &Term| matches!(term, Term::Integer(_) | Term::Str(_) | Term::Date(_) | Term::Bool(_));
    if !block.facts.iter().all(|fact| fact.predicate.terms.iter().all(flat)) {
        return Err("has a fact of something else than numbers, texts, dates and truth values".to_owned());
    }
    for check in &block.checks {
        check.queries.iter().try_for_each(query)?;
    }
    Ok(())
}

fn query(query: &Rule) -> Result<(), String> {
    if query.body.len() > MOST_PREDICATES || query.expressions.len() > MOST_EXPRESSIONS {
        return Err(format!(
            "has a check of more than {MOST_PREDICATES} facts or {MOST_EXPRESSIONS} conditions at once"
        ));
    }
    let ops: usize = query.expressions.iter().map(|Expression { ops }| count(ops)).sum();
    if ops > MOST_OPS {
        return Err(format!("has a check of more than {MOST_OPS} operations"));
    }
    let all = query.expressions.iter().flat_map(|Expression { ops }| ops);
    if let Some(op) = all.map(foreign).find_map(|found| found) {
        return Err(format!("has a check with {op}: tokens compare, and say `and` and `or`"));
    }
    let strange = |scope: &Scope| !matches!(scope, Scope::Authority | Scope::Previous | Scope::PublicKey(_));
    if query.scopes.len() > MOST_SCOPES || query.scopes.iter().any(strange) {
        return Err("has a check with too many or unknown scopes".to_owned());
    }
    Ok(())
}

/// The number of operations, those in closures included.
fn count(ops: &[Op]) -> usize {
    let one = |op: &Op| match op {
        Op::Closure(_, inner) => 1 + count(inner),
        _ => 1,
    };
    ops.iter().map(one).sum()
}

/// An operation that tokens may not have.
fn foreign(op: &Op) -> Option<String> {
    use Binary::{
        And, Contains, Equal, GreaterOrEqual, GreaterThan, HeterogeneousEqual, HeterogeneousNotEqual, LazyAnd, LazyOr,
        LessOrEqual, LessThan, NotEqual, Or, Prefix, Suffix,
    };
    match op {
        Op::Value(Term::Map(_) | Term::Array(_) | Term::Parameter(_)) => Some("a map, an array or a parameter".into()),
        Op::Value(_) | Op::Unary(Unary::Negate | Unary::Parens) => None,
        Op::Binary(
            And
            | Or
            | LazyAnd
            | LazyOr
            | Contains
            | Prefix
            | Suffix
            | Equal
            | NotEqual
            | HeterogeneousEqual
            | HeterogeneousNotEqual
            | LessThan
            | LessOrEqual
            | GreaterThan
            | GreaterOrEqual,
        ) => None,
        // The right side of && and || is one without parameters: it is evaluated once.
        Op::Closure(parameters, inner) if parameters.is_empty() => inner.iter().find_map(foreign),
        Op::Closure(..) => Some("a function".into()),
        Op::Unary(other) => Some(format!("{other:?}")),
        Op::Binary(other) => Some(format!("{other:?}")),
    }
}

/// The name of a check that is `check if holder("NAME")` and nothing else.
fn bound_to(check: &builder::Check) -> Option<String> {
    let [Rule { body, expressions, scopes, .. }] = &check.queries[..] else { return None };
    let [predicate] = &body[..] else { return None };
    let [Term::Str(name)] = &predicate.terms[..] else { return None };
    let plain = expressions.is_empty() && scopes.is_empty() && predicate.name == "holder";
    (plain && matches!(check.kind, builder::CheckKind::One)).then(|| name.clone())
}
