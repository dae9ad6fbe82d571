//! The gate for tokens: which organisations are believed, and what their tokens say about a request.

use super::key::TokenPublicKey;
use super::limits::{kind, number, seconds};
use super::{MAX_TOKEN, MAX_TOKEN_TEXT, refused, shape};
use crate::error::Error;
use biscuit_auth::builder::{AuthorizerBuilder, Fact, Term, fact};
use biscuit_auth::datalog::RunLimits;
use biscuit_auth::error::{FailedCheck, Logic, Token as TokenError};
use biscuit_auth::{Biscuit, UnverifiedBiscuit};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use terms::book::{ResourceKind, Token};
use terms::ports::book::{Question, TokenPort};

/// The tokens that are kept as they were read.
const KEPT: usize = 64;
/// The longest evaluation. Its cost is bounded by the token's shape; a busy machine is no reason to refuse.
const MOST_TIME: Duration = Duration::from_secs(1);
/// The most checks that a refusal names.
const TOLD: usize = 3;

/// An organisation whose tokens are believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Organisation {
    /// Its name, as its tokens and our rules have it.
    pub name: String,
    /// Its public key.
    pub key: TokenPublicKey,
    /// The name of our own domain in its tokens: they mean `anl/alice` by our `alice`. `None`: they have our plain
    /// names.
    pub domain: Option<String>,
    /// The domains whose word about people of other domains is taken: they say `esnet/anl/alice` for `anl/alice`.
    pub through: Vec<String>,
    /// The numbers of revoked blocks, hexadecimal.
    pub revoked: BTreeSet<String>,
}

/// The gate for tokens.
#[derive(Debug, Default)]
pub struct TokenGate {
    organisations: Vec<Organisation>,
    /// The name of this node, before the names of its resources.
    node: String,
    read: Mutex<VecDeque<(Arc<[u8]>, Arc<Biscuit>)>>,
}

impl Organisation {
    /// The name in its tokens for a caller.
    fn name_of<'a>(&self, caller: &'a str) -> std::borrow::Cow<'a, str> {
        let mut name = caller;
        while let Some((domain, rest)) = name.split_once('/')
            && rest.contains('/')
            && self.through.iter().any(|believed| believed == domain)
        {
            name = rest;
        }
        match &self.domain {
            Some(domain) if terms::book::foreign(name).is_none() => format!("{domain}/{name}").into(),
            _ => name.into(),
        }
    }

    fn revokes(&self, token: &Biscuit) -> Option<String> {
        token.revocation_identifiers().iter().map(|id| hex(id)).find(|id| self.revoked.contains(id))
    }
}

impl TokenGate {
    /// A gate at the node of this name.
    pub fn new(node: &str, organisations: Vec<Organisation>) -> TokenGate {
        TokenGate { organisations, node: node.to_owned(), read: Mutex::default() }
    }

    /// Reads the token that a caller shows.
    ///
    /// # Errors
    /// It is malformed, forged, revoked, too much, of an organisation that is not known here, or another's.
    pub fn shown(&self, text: &str, caller: &str) -> Result<Token, Error> {
        let text = text.trim();
        if text.len() > MAX_TOKEN_TEXT {
            return Err(Error::Refused(format!("a token has at most {MAX_TOKEN} bytes")));
        }
        let wrong = refused("this is no token");
        let claimed = UnverifiedBiscuit::from_base64(text).map_err(&wrong)?;
        let bytes: Arc<[u8]> = claimed.to_vec().map_err(&wrong)?.into();
        let (organisation, token) = self.verified(claimed)?;
        if let Some(id) = organisation.revokes(&token) {
            return Err(Error::Refused(format!("the token is revoked: {id}")));
        }
        let holder = shape::holder(&token)?;
        let name = organisation.name_of(caller);
        if holder != name {
            let what = format!("the token of {} is {holder}'s, and you are {name}", organisation.name);
            return Err(Error::Refused(what));
        }
        let groups = said(&token, organisation)?;
        let id = token.revocation_identifiers().last().map(|id| hex(id)).unwrap_or_default();
        self.keep(bytes.clone(), Arc::new(token));
        Ok(Token { vo: organisation.name.clone(), groups, id, bytes })
    }

    /// Checks the signatures with the key that the token names.
    fn verified(&self, claimed: UnverifiedBiscuit) -> Result<(&Organisation, Biscuit), Error> {
        let number = claimed.root_key_id();
        let known = self.organisations.iter().find(|one| Some(one.key.number()) == number);
        let organisation = known.ok_or_else(|| {
            let names: Vec<&str> = self.organisations.iter().map(|one| one.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::Refused(format!(
                "the token is of an organisation that is not known here ([[vo]] of the policy: {names})"
            ))
        })?;
        let forged = |error| Error::Refused(format!("the token is forged or damaged: {error}"));
        let token = claimed.verify(organisation.key.0).map_err(forged)?;
        Ok((organisation, token))
    }

    fn keep(&self, bytes: Arc<[u8]>, token: Arc<Biscuit>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.iter().any(|(known, _)| *known == bytes) {
            return;
        }
        read.truncate(KEPT - 1);
        read.push_front((bytes, token));
    }

    /// A token that was shown before. It is read anew if others came since.
    fn known(&self, token: &Token) -> Result<Arc<Biscuit>, Error> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = read.iter().find(|(bytes, _)| Arc::ptr_eq(bytes, &token.bytes) || *bytes == token.bytes);
        if let Some((_, token)) = found {
            return Ok(token.clone());
        }
        drop(read);
        let claimed = UnverifiedBiscuit::from(&token.bytes).map_err(refused("this is no token"))?;
        let (_, verified) = self.verified(claimed)?;
        shape::holder(&verified)?;
        let verified = Arc::new(verified);
        self.keep(token.bytes.clone(), verified.clone());
        Ok(verified)
    }

    fn failed(&self, token: &Token, question: &Question<'_>) -> Result<(), Error> {
        let biscuit = self.known(token)?;
        // The policy's file may have been read again since the token was shown.
        let organisation = self.organisations.iter().find(|one| one.name == token.vo);
        let organisation = organisation
            .ok_or_else(|| Error::Refused(format!("the organisation {} is not known here any more", token.vo)))?;
        if let Some(id) = organisation.revokes(&biscuit) {
            return Err(Error::Refused(format!("the token is revoked: {id}")));
        }
        let holder = organisation.name_of(&question.caller.name);
        let facts = about(question, &holder, &self.node);
        let evaluation = || -> Result<(), TokenError> {
            let builder = facts.into_iter().try_fold(AuthorizerBuilder::new(), AuthorizerBuilder::fact)?;
            let limits = RunLimits { max_facts: 4_096, max_iterations: 8, max_time: MOST_TIME };
            builder.code("allow if true")?.set_limits(limits).build(&biscuit)?.authorize().map(drop)
        };
        evaluation().map_err(|error| Error::Refused(words(&error)))
    }
}

impl TokenPort for TokenGate {
    fn check(&self, token: &Token, question: &Question<'_>) -> Result<(), String> {
        self.failed(token, question).map_err(|error| error.to_string())
    }
}

/// The facts of a request, as checks may ask for them (docs/tokens.md).
fn about(question: &Question<'_>, holder: &str, node: &str) -> Vec<Fact> {
    let text = |text: &str| Term::Str(text.to_owned());
    let window = question.window;
    vec![
        fact("holder", &[text(holder)]),
        fact("resource", &[text(question.resource)]),
        fact("resource", &[text(&format!("{node}/{}", question.resource))]),
        fact("kind", &[text(kind(ResourceKind::of(question.resource)))]),
        fact("amount", &[Term::Integer(number(question.amount))]),
        fact("label", &[text(question.label)]),
        fact("background", &[Term::Bool(question.background)]),
        fact("time", &[Term::Date(seconds(question.now))]),
        fact("start", &[Term::Date(seconds(window.start()))]),
        fact("end", &[Term::Date(seconds(window.end()))]),
        fact("length", &[Term::Integer(number(question.length.as_nanos().div_ceil(terms::Span::NANOS_PER_SEC)))]),
    ]
}

/// The groups that the organisation's own block says, after a look at its name.
fn said(token: &Biscuit, organisation: &Organisation) -> Result<Vec<String>, Error> {
    let first = shape::blocks(token)?.into_iter().next().unwrap_or_default();
    let texts = |name: &'static str| {
        first.facts.iter().filter(move |fact| fact.predicate.name == name).filter_map(|fact| {
            match &fact.predicate.terms[..] {
                [Term::Str(text)] => Some(text.clone()),
                _ => None,
            }
        })
    };
    if !texts("vo").eq([organisation.name.clone()]) {
        let all: Vec<String> = texts("vo").collect();
        let what = format!("the key of {} signed a token of {:?}", organisation.name, all.join(", "));
        return Err(Error::Refused(what));
    }
    let groups: Vec<String> = texts("group").collect();
    groups.iter().try_for_each(|group| crate::identity::check_name(group))?;
    Ok(groups)
}

/// The checks that failed.
fn words(error: &TokenError) -> String {
    let TokenError::FailedLogic(Logic::Unauthorized { checks, .. } | Logic::NoMatchingPolicy { checks }) = error else {
        return format!("its checks cannot be evaluated: {error}");
    };
    let rule = |check: &FailedCheck| match check {
        FailedCheck::Block(check) => format!("{} (block {})", check.rule, check.block_id),
        FailedCheck::Authorizer(check) => check.rule.clone(),
    };
    let all: Vec<String> = checks.iter().take(TOLD).map(rule).collect();
    format!("the token does not allow it: {}", all.join("; "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
