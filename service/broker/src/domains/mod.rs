//! Paths over domains (GARA, section 4.1): what our domain publishes, what others publish, and the paths found on it.
//!
//! Each broker signs an advertisement of its domain with the key of its certificate, and asks its neighbours' brokers for
//! all that they know. An advertisement keeps its own domain's signature on its way, so that it counts only if this
//! broker's file names that domain's authority (`[[tls.domain]]`): no domain is believed about another one. Interiors
//! stay private.
//!
//! Reading order: [`own`] (what we publish), [`text`] (as what), [`KnownDomains`] (what is believed), [`round`] (when),
//! [`ask`] (the question to a neighbour), [`answer`] (the call).

pub mod answer;
mod ask;
mod numbers;
pub mod own;
mod round;
pub mod settings;
pub mod text;

pub use round::keep;
pub use settings::TopologySettings;

use crate::config::BrokerConfig;
use crate::neighbours::NeighbourDomain;
use crate::shelf::Shelf;
use documents::book::Instant;
use documents::topology::{DomainPathRow, DomainsDoc, KnownDomainRow, NeighbourRow, StatementDoc};
use numbers::KeptNumbers;
use own::OwnDomain;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use terms::{Rate, Span, Time};
use topology::{Advertisement, DomainPath, PathNeed, TopologyMap};
use trust::{SignedStatement, StatementSigner, TrustGate};

/// The purpose of a signed advertisement.
const PURPOSE: &str = "topology";
/// The longest text of an advertisement, bytes.
pub const MOST_TEXT: usize = 256 << 10;
/// The most advertisements that are looked at of one answer.
const MOST_STATEMENTS: usize = 256;
/// The most paths of one search.
pub const MOST_PATHS: usize = 8;

/// The known domains.
#[derive(Debug)]
pub struct KnownDomains {
    own: Option<OwnVoice>,
    neighbours: Vec<NeighbourDomain>,
    settings: TopologySettings,
    numbers: KeptNumbers,
    known: Mutex<Known>,
}

/// Our own domain's name, its signature, and the authorities that we trust.
#[derive(Debug)]
struct OwnVoice {
    domain: String,
    signer: StatementSigner,
    gate: Arc<TrustGate>,
}

#[derive(Debug, Default)]
struct Known {
    map: TopologyMap,
    signed: BTreeMap<String, Learnt>,
    neighbours: BTreeMap<String, NeighbourRow>,
    unpublished: Option<String>,
}

/// An advertisement as it was signed, and the neighbour that passed it on; `None`: our own.
#[derive(Clone, Debug)]
struct Learnt {
    statement: SignedStatement,
    from: Option<String>,
}

impl KnownDomains {
    /// Opens what was kept of earlier; `gate` knows the authorities. Without `domain`, or without TLS, nothing is
    /// published and nothing is asked.
    ///
    /// # Errors
    /// A sentence: the key of our certificate signs no statements, or the kept numbers cannot be read.
    pub fn open(config: &BrokerConfig, gate: Option<Arc<TrustGate>>, shelf: Shelf) -> Result<KnownDomains, String> {
        let numbers = KeptNumbers::of(shelf);
        let mut known = Known::default();
        let own = match (&config.neighbours.own, &config.tls, gate) {
            (Some(domain), Some(files), Some(gate)) => {
                let signer = StatementSigner::open(files).map_err(|error| error.to_string())?;
                known.map = TopologyMap::with_numbers(numbers.read()?);
                known.unpublished = Some("the agents were not asked yet".to_owned());
                Some(OwnVoice { domain: domain.clone(), signer, gate })
            }
            _ => None,
        };
        let mut neighbours = config.neighbours.all.clone();
        neighbours.retain(|one| !one.distant);
        for NeighbourDomain { name, .. } in &neighbours {
            let row = NeighbourRow {
                neighbour: name.clone(),
                answered: None,
                away: Some("it was not asked yet".to_owned()),
                refused: 0,
                why: None,
            };
            known.neighbours.insert(name.clone(), row);
        }
        let known = Mutex::new(known);
        Ok(KnownDomains { own, neighbours, settings: config.topology.clone(), numbers, known })
    }

    /// Our own domain's name; `None`: we publish nothing.
    pub fn own(&self) -> Option<&str> {
        self.own.as_ref().map(|own| own.domain.as_str())
    }

    /// The domain of a host, as its domain publishes it.
    pub fn home(&self, now: Time, host: IpAddr) -> Option<String> {
        self.locked().map.home(now, host).map(str::to_owned)
    }

    /// The paths over domains with room for a rate in all windows, the cheapest first; at most [`MOST_PATHS`]. Each
    /// domain's entry and exit are as that domain publishes them. Empty: none is known.
    pub fn paths(&self, now: Time, ends: (IpAddr, IpAddr), rate: Rate, windows: &[(Time, Time)]) -> Vec<DomainPath> {
        self.locked().map.paths(now, ends.0, ends.1, PathNeed { rate, windows }, MOST_PATHS)
    }

    /// The same as documents, with the least that is free on each.
    pub fn path_rows(
        &self,
        now: Time,
        ends: (IpAddr, IpAddr),
        rate: Rate,
        windows: &[(Time, Time)],
    ) -> Vec<DomainPathRow> {
        let (known, need) = (self.locked(), PathNeed { rate, windows });
        let row = |path: DomainPath| DomainPathRow {
            cost: path.cost,
            free: known.map.free_on(&path, need).map(Rate::as_bps),
            hops: path.hops.iter().map(text::hop).collect(),
        };
        known.map.paths(now, ends.0, ends.1, need, MOST_PATHS).into_iter().map(row).collect()
    }

    /// Publishes our own domain, if it has changed or the last time is a while ago; `Err`: why it is not known now,
    /// and what was published before holds until it is over.
    pub fn publish(&self, now: Time, found: Result<OwnDomain, String>) {
        let Some(voice) = &self.own else { return };
        let published = found.and_then(|content| self.publish_as(voice, now, &content));
        self.locked().unpublished = published.err();
    }

    fn publish_as(&self, voice: &OwnVoice, now: Time, exact: &OwnDomain) -> Result<(), String> {
        let (mut map, before) = {
            let known = self.locked();
            (known.map.clone(), known.map.of(&voice.domain).cloned())
        };
        let mut grain = self.settings.grain;
        let (text, advertisement) = loop {
            let OwnDomain { networks, pairs } = exact.coarse(now, now.saturating_add(self.settings.ahead), grain);
            if let Some(before) = &before
                && (&before.networks, &before.pairs) == (&networks, &pairs)
                && now < before.issued.saturating_add(Span::from_nanos(self.settings.life().as_nanos() / 2))
            {
                return Ok(());
            }
            // Not below the clock: who has lost the file is not refused by everybody for long.
            let last = map.numbers().get(&voice.domain).copied().unwrap_or(0);
            let number = last.saturating_add(1).max(now.as_secs());
            let until = now.saturating_add(self.settings.life());
            let one = Advertisement { domain: voice.domain.clone(), number, issued: now, until, networks, pairs };
            let text = serde_json::to_string(&text::doc(&one)).map_err(|error| error.to_string())?;
            if text.len() <= MOST_TEXT {
                break (text, one);
            }
            if grain.step >= self.settings.ahead {
                let what = "the domain is too large to be published whole: name fewer networks or borders";
                return Err(what.to_owned());
            }
            grain.step = grain.step.saturating_add(grain.step);
        };
        map.take(now, &voice.domain, advertisement).map_err(|unfit| unfit.to_string())?;
        self.numbers.write(map.numbers()).map_err(|error| format!("its number cannot be kept: {error}"))?;
        let statement = voice.signer.sign(PURPOSE, &text).map_err(|error| error.to_string())?;
        let mut known = self.locked();
        known.map = map;
        known.signed.insert(voice.domain.clone(), Learnt { statement, from: None });
        Ok(())
    }

    /// Takes what a neighbour's broker has answered. What is refused changes nothing.
    pub fn heard(&self, now: Time, neighbour: &str, answer: Result<Vec<StatementDoc>, String>) {
        let Some(voice) = &self.own else { return };
        let statements = match answer {
            Ok(statements) => statements,
            Err(why) => {
                self.locked().neighbour(neighbour, |row| row.away = Some(why));
                return;
            }
        };
        let mut map = self.locked().map.clone();
        let (mut fresh, mut refused) = (Vec::new(), Vec::new());
        for doc in statements.into_iter().take(MOST_STATEMENTS) {
            match believe(voice, now, &mut map, doc) {
                Ok((domain, statement)) => fresh.push((domain, statement)),
                Err(why) => refused.push(why),
            }
        }
        if !fresh.is_empty()
            && let Err(error) = self.numbers.write(map.numbers())
        {
            refused.push(format!("the numbers cannot be kept: {error}"));
            fresh.clear();
        }
        let mut known = self.locked();
        if !fresh.is_empty() {
            known.map = map;
        }
        for (domain, statement) in fresh {
            known.signed.insert(domain, Learnt { statement, from: Some(neighbour.to_owned()) });
        }
        known.neighbour(neighbour, |row| {
            (row.answered, row.away) = (Some(Instant(now)), None);
            row.refused = row.refused.saturating_add(refused.len() as u64);
            row.why = refused.pop().or(row.why.take());
        });
    }

    /// Forgets what is over.
    pub fn pass(&self, now: Time) {
        let mut known = self.locked();
        known.map.pass(now);
        let Known { map, signed, .. } = &mut *known;
        signed.retain(|domain, _| map.of(domain).is_some());
    }

    /// The advertisements as they were signed, without those whose domain has no higher number than in `seen`.
    pub fn statements(&self, now: Time, seen: &BTreeMap<String, u64>) -> Vec<StatementDoc> {
        let known = self.locked();
        let newer =
            |one: &&Advertisement| now < one.until && seen.get(&one.domain).is_none_or(|number| *number < one.number);
        let signed = known.map.all().filter(newer).filter_map(|one| known.signed.get(&one.domain));
        signed.map(|learnt| text::statement_doc(&learnt.statement)).collect()
    }

    /// The number of each advertisement that is known.
    fn seen(&self) -> BTreeMap<String, u64> {
        self.locked().map.all().map(|one| (one.domain.clone(), one.number)).collect()
    }

    /// All that is known, for people.
    pub fn doc(&self, now: Time) -> DomainsDoc {
        let known = self.locked();
        let row = |one: &Advertisement| KnownDomainRow {
            learnt_from: known.signed.get(&one.domain).and_then(|learnt| learnt.from.clone()),
            advertisement: text::doc(one),
        };
        DomainsDoc {
            own: self.own().map(str::to_owned),
            domains: known.map.all().filter(|one| now < one.until).map(row).collect(),
            neighbours: known.neighbours.values().cloned().collect(),
            unpublished: known.unpublished.clone(),
            ..DomainsDoc::default()
        }
    }

    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn neighbour(&mut self, name: &str, change: impl FnOnce(&mut NeighbourRow)) {
        if let Some(row) = self.neighbours.get_mut(name) {
            change(row);
        }
    }
}

/// Checks a statement of another domain, and takes it into the map.
///
/// # Errors
/// The reason why it is not believed; then the map is as before.
fn believe(
    voice: &OwnVoice,
    now: Time,
    map: &mut TopologyMap,
    doc: StatementDoc,
) -> Result<(String, SignedStatement), String> {
    if doc.text.len() > MOST_TEXT {
        return Err(format!("an advertisement is longer than {MOST_TEXT} bytes"));
    }
    let statement = text::statement(doc).ok_or("a statement's digits are no hexadecimal ones")?;
    let signer = voice.gate.stated(PURPOSE, &statement).map_err(|error| error.to_string())?;
    // Nobody tells us about ourselves.
    let domain = signer.domain.clone().ok_or("an advertisement is signed by our own authority")?;
    let advertisement = text::read(&statement.text).map_err(|why| format!("an advertisement of {domain}: {why}"))?;
    map.take(now, &domain, advertisement).map_err(|unfit| format!("an advertisement of {domain}: {unfit}"))?;
    Ok((domain, statement))
}
