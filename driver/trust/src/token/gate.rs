//! The gate for tokens: which organisations are believed, and what their tokens say about a request.

use super::key::TokenPublicKey;
use super::limits::{kind, number, seconds};
use super::shape::{Content, MOST_BLOCKS};
use super::{MAX_TOKEN, MAX_TOKEN_TEXT, refused, shape};
use crate::error::Error;
use biscuit_auth::builder::{AuthorizerBuilder, Fact, Term, fact};
use biscuit_auth::datalog::RunLimits;
use biscuit_auth::error::{FailedCheck, Logic, Token as TokenError};
use biscuit_auth::{Biscuit, UnverifiedBiscuit};
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use terms::book::{ResourceKind, VoToken};
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
    /// Those that were read last, the latest first.
    read: Mutex<VecDeque<Arc<ReadToken>>>,
}

/// A token whose signatures hold and whose content is within the bounds.
#[derive(Debug)]
struct ReadToken {
    /// The text in which it was shown, if it was read from one.
    text: Option<String>,
    bytes: Arc<[u8]>,
    biscuit: Biscuit,
    content: Content,
    vo: String,
    /// The numbers of its blocks.
    ids: Vec<String>,
}

impl Organisation {
    /// The name in its tokens for a caller. A domain that is believed about others' people is not about its own
    /// machines' users (`esnet/main/uid:0` stays as it is), nor about ours, who come to us themselves.
    fn name_of<'a>(&self, caller: &'a str) -> std::borrow::Cow<'a, str> {
        let foreign = terms::book::foreign;
        if let (Some(domain), None) = (&self.domain, foreign(caller)) {
            return format!("{domain}/{caller}").into();
        }
        let mut name = caller;
        while let Some((by, rest)) = name.split_once('/')
            && foreign(rest).is_some_and(|of| self.domain.as_deref() != Some(of))
            && self.through.iter().any(|believed| believed == by)
        {
            name = rest;
        }
        name.into()
    }

    fn revokes<'a>(&self, ids: &'a [String]) -> Option<&'a String> {
        ids.iter().find(|id| self.revoked.contains(*id))
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
    pub fn shown(&self, text: &str, caller: &str) -> Result<VoToken, Error> {
        let text = text.trim();
        if text.len() > MAX_TOKEN_TEXT {
            return Err(Error::Refused(format!("a token has at most {MAX_TOKEN} bytes")));
        }
        let known = match self.found(|known| known.text.as_deref() == Some(text)) {
            Some(known) => known,
            None => {
                self.read(UnverifiedBiscuit::from_base64(text).map_err(refused("this is no token"))?, Some(text))?
            }
        };
        let organisation = self.organisation(&known.vo)?;
        if let Some(id) = organisation.revokes(&known.ids) {
            return Err(Error::Refused(format!("the token is revoked: {id}")));
        }
        let name = organisation.name_of(caller);
        if known.content.holder() != name {
            let what = format!("the token of {} is {}'s, and you are {name}", known.vo, known.content.holder());
            return Err(Error::Refused(what));
        }
        Ok(VoToken {
            vo: known.vo.clone(),
            groups: known.content.groups().to_vec(),
            id: known.ids.last().cloned().unwrap_or_default(),
            bytes: known.bytes.clone(),
        })
    }

    /// Checks the signatures with the key that the token names, and its content, and keeps it.
    fn read(&self, claimed: UnverifiedBiscuit, text: Option<&str>) -> Result<Arc<ReadToken>, Error> {
        if claimed.block_count() > MOST_BLOCKS {
            return Err(Error::Refused(format!("a token has at most {MOST_BLOCKS} blocks")));
        }
        let number = claimed.root_key_id();
        let known = self.organisations.iter().find(|one| Some(one.key.number()) == number);
        let organisation = known.ok_or_else(|| {
            let names: Vec<&str> = self.organisations.iter().map(|one| one.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let what = "the token is of an organisation that is not known here ([[vo]] of the policy";
            Error::Refused(format!("{what}: {names})"))
        })?;
        let bytes: Arc<[u8]> = claimed.to_vec().map_err(refused("this is no token"))?.into();
        let forged = |error| Error::Refused(format!("the token is forged or damaged: {error}"));
        let biscuit = claimed.verify(organisation.key.key()).map_err(forged)?;
        let content = shape::content(&biscuit)?;
        let vo = organisation.name.clone();
        content.is_of(&vo)?;
        let ids = biscuit.revocation_identifiers().iter().map(|id| hex(id)).collect();
        let read = Arc::new(ReadToken { text: text.map(str::to_owned), bytes, biscuit, content, vo, ids });
        let mut kept = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(KEPT - 1);
        kept.push_front(read.clone());
        Ok(read)
    }

    /// A token that was read before.
    fn found(&self, is: impl Fn(&ReadToken) -> bool) -> Option<Arc<ReadToken>> {
        let kept = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|known| is(known)).cloned()
    }

    /// The organisation of this name. The policy's file may have been read again since a token was shown.
    fn organisation(&self, name: &str) -> Result<&Organisation, Error> {
        let found = self.organisations.iter().find(|one| one.name == name);
        found.ok_or_else(|| Error::Refused(format!("the organisation {name} is not known here any more")))
    }

    fn failed(&self, token: &VoToken, question: &Question<'_>) -> Result<(), Error> {
        let known = match self.found(|known| known.bytes == token.bytes) {
            Some(known) => known,
            // Others came since it was shown.
            None => guarded(|| {
                self.read(UnverifiedBiscuit::from(&token.bytes).map_err(refused("this is no token"))?, None)
            })?,
        };
        let organisation = self.organisation(&token.vo)?;
        if let Some(id) = organisation.revokes(&known.ids) {
            return Err(Error::Refused(format!("the token is revoked: {id}")));
        }
        let holder = organisation.name_of(&question.caller.name);
        let facts = about(question, &holder, &self.node);
        let evaluation = || -> Result<(), TokenError> {
            let builder = facts.into_iter().try_fold(AuthorizerBuilder::new(), AuthorizerBuilder::fact)?;
            let limits = RunLimits { max_facts: 4_096, max_iterations: 8, max_time: MOST_TIME };
            builder.code("allow if true")?.set_limits(limits).build(&known.biscuit)?.authorize().map(drop)
        };
        guarded(|| evaluation().map_err(|error| Error::Refused(words(&error))))
    }
}

impl TokenPort for TokenGate {
    fn check(&self, token: &VoToken, question: &Question<'_>) -> Result<(), String> {
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

/// Runs the library on bytes of strangers. If it panics, the token is refused.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let failed = |_| Err(Error::Refused("the token cannot be evaluated".to_owned()));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(failed)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
