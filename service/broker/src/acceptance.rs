//! Acceptances as they travel: signed and read here, believed by `booking::leg`.

use booking::leg::{self, Acceptance, AcceptanceFault, ExpectedLeg, HeardAcceptance};
use commit::TransactionId;
use documents::book::{Instant, WindowDoc};
use documents::legs::{AcceptanceDoc, LegDoc};
use documents::topology::StatementDoc;
use std::sync::Arc;
use terms::{Span, Time};
use trust::{SignedStatement, StatementSigner, TrustGate};

/// The purpose of these statements: a text signed for another proves nothing here.
const PURPOSE: &str = "acceptance";
/// The time for which an acceptance may be relied on for a vote.
const LIFE: Span = Span::from_secs(60);

/// Our own signature, and those that we believe.
#[derive(Clone, Debug)]
pub struct Voice {
    /// Our domain's name.
    pub domain: String,
    /// Signs with the key of our certificate.
    pub signer: StatementSigner,
    /// Checks the signatures of neighbours.
    pub gate: Arc<TrustGate>,
}

/// The borders and names of our own acceptance.
#[derive(Clone, Debug)]
pub struct OwnAcceptance<'a> {
    /// The number of the change that the broker that asked first has drawn.
    pub origin: TransactionId,
    /// The reservation's name here.
    pub reservation: &'a str,
    /// The domain from which packets come.
    pub entry: &'a str,
    /// The domain to which they go on.
    pub exit: Option<&'a str>,
    /// The agreement that it counts against.
    pub sla: Option<String>,
    /// The leg.
    pub leg: &'a LegDoc,
}

impl Voice {
    /// Signs our own acceptance; `after` are the acceptances of the domains after us, the nearest first.
    ///
    /// # Errors
    /// A sentence: the signature cannot be made.
    pub fn accept(&self, own: &OwnAcceptance<'_>, after: &[StatementDoc], now: Time) -> Result<StatementDoc, String> {
        let next = after.first().map(|next| hex(&digest(next)));
        let doc = AcceptanceDoc {
            transaction: own.origin.to_string(),
            domain: self.domain.clone(),
            reservation: own.reservation.to_owned(),
            entry: Some(own.entry.to_owned()),
            exit: own.exit.map(str::to_owned),
            forward: own.leg.forward,
            reverse: own.leg.reverse,
            windows: own.leg.windows.clone(),
            sla: own.sla.clone(),
            expires: Instant(now.saturating_add(LIFE)),
            next,
        };
        let text = serde_json::to_string(&doc).map_err(|error| error.to_string())?;
        let SignedStatement { text, chain, signature } =
            self.signer.sign(PURPOSE, &text).map_err(|error| error.to_string())?;
        Ok(StatementDoc { text, chain: chain.iter().map(|one| hex(one)).collect(), signature: hex(&signature) })
    }

    /// Checks the acceptances of a domain that was asked, the nearest domain's first; `entry`: the domain from which
    /// packets come to it.
    ///
    /// # Errors
    /// A sentence that says why they are not believed.
    pub fn check(
        &self,
        (entry, domain): (&str, &str),
        origin: TransactionId,
        leg: &LegDoc,
        said: &[StatementDoc],
        now: Time,
    ) -> Result<(), String> {
        let refused = |why: String| format!("the acceptance of {domain} is not believed: {why}");
        let mut heard = Vec::new();
        for (place, statement) in said.iter().take(leg::MOST_DOMAINS).enumerate() {
            let content = content(statement).ok_or_else(|| refused("it cannot be read".to_owned()))?;
            // Only the authority of the one that was asked is surely known here; the others are bound by the digests.
            let signer = if place == 0 { Some(self.signer_of(statement).map_err(&refused)?) } else { None };
            heard.push(HeardAcceptance { content, digest: digest(statement), signer });
        }
        let windows = windows(&leg.windows);
        let (forward, reverse) = (leg.forward, leg.reverse);
        let expected = ExpectedLeg { transaction: origin, entry, domain, forward, reverse, windows: &windows };
        let believed: Result<(), AcceptanceFault> = leg::check(&heard, &expected, now);
        believed.map_err(|fault| refused(fault.to_string()))
    }

    /// The domain whose broker signed a statement.
    fn signer_of(&self, statement: &StatementDoc) -> Result<String, String> {
        let bytes = |text: &str| unhex(text).ok_or_else(|| "it has no hexadecimal digits".to_owned());
        let chain = statement.chain.iter().map(|one| bytes(one)).collect::<Result<Vec<_>, _>>()?;
        let signed = SignedStatement { text: statement.text.clone(), chain, signature: bytes(&statement.signature)? };
        let identity = self.gate.stated(PURPOSE, &signed).map_err(|error| error.to_string())?;
        identity.domain.ok_or_else(|| "our own domain has signed it".to_owned())
    }
}

/// The windows of a document.
pub fn windows(docs: &[WindowDoc]) -> Vec<(Time, Time)> {
    docs.iter().map(|window| (window.start.0, window.end.0)).collect()
}

/// The content of an acceptance; `None`: it cannot be read.
pub fn document(statement: &StatementDoc) -> Option<AcceptanceDoc> {
    serde_json::from_str(&statement.text).ok()
}

fn content(statement: &StatementDoc) -> Option<Acceptance> {
    let doc = document(statement)?;
    let next = match &doc.next {
        Some(next) => Some(unhex(next)?.try_into().ok()?),
        None => None,
    };
    Some(Acceptance {
        transaction: TransactionId::parse(&doc.transaction)?,
        domain: doc.domain,
        entry: doc.entry,
        exit: doc.exit,
        forward: doc.forward,
        reverse: doc.reverse,
        windows: windows(&doc.windows),
        expires: doc.expires.0,
        next,
    })
}

fn digest(statement: &StatementDoc) -> leg::AcceptanceDigest {
    leg::digest(&statement.text, statement.signature.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}
