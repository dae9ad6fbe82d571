//! The judge. It reads what is on each disk at the moment at which it is there, and knows what clients were told. It
//! keeps a book of its own: the changes in the order in which they became durable, with sums by brute force.

use super::agent::{Key, RESOURCES, branch};
use super::tally::Tally;
use super::wish::{Change, Transaction, Wish, WishKind};
use booking::io::RecordTable;
use booking::{BookingState, JournaledReservation};
use commit::record::CoordinatorRecord;
use commit::{Branch, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use terms::Time;
use terms::book::amount_at;

/// The kinds of violation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Law {
    /// A change was made by some of its members and not by others, or without a decision.
    Half,
    /// An acknowledged change is not there.
    Lost,
    /// More is promised than there is.
    Overbooked,
    /// A promise, a transaction or room has no end.
    Stuck,
}

/// The disk of an agent, read.
#[derive(Clone, Default)]
pub(super) struct Image {
    rows: BTreeMap<Vec<u8>, JournaledReservation>,
    /// Each part of a transaction: true if the change was made, and true if the agent alone decided so.
    branches: BTreeMap<Branch, (Option<bool>, bool)>,
    /// The changes that were made, in order.
    made: Vec<Branch>,
    /// The latest calendar time that the agent has seen: what was before it is over.
    seen: Time,
}

/// The judge.
pub(super) struct Judge {
    pub(super) transactions: BTreeMap<TransactionId, Transaction>,
    pub(super) wishes: Vec<Wish>,
    images: Vec<Image>,
    copies: Vec<Option<Image>>,
    /// The decisions to commit on the coordinators' disks.
    decided: BTreeSet<TransactionId>,
    /// The ends that clients were told.
    told: BTreeMap<TransactionId, bool>,
    /// Decisions of operators.
    operators: BTreeMap<Branch, bool>,
    contradicted: BTreeSet<Branch>,
    /// Transactions of which a disk was set back: a restored copy knows nothing of what came after it.
    excused: BTreeSet<TransactionId>,
    /// The groups of which a disk was set back.
    excused_groups: BTreeSet<String>,
    /// The decisions in the copies of coordinators' disks.
    decided_copies: BTreeMap<usize, BTreeSet<TransactionId>>,
    /// The decisions that coordinators' disks have lost.
    lost_decisions: BTreeMap<usize, BTreeSet<TransactionId>>,
    /// Brokers that are gone for ever.
    pub(super) gone: BTreeSet<usize>,
    pub(super) violations: BTreeMap<Law, u64>,
    pub(super) words: Vec<String>,
}

/// The most violations that are described.
const DESCRIBED: usize = 8;

impl Judge {
    pub(super) fn new(agents: usize) -> Judge {
        Judge {
            transactions: BTreeMap::new(),
            wishes: Vec::new(),
            images: vec![Image::default(); agents],
            copies: vec![None; agents],
            decided: BTreeSet::new(),
            told: BTreeMap::new(),
            operators: BTreeMap::new(),
            contradicted: BTreeSet::new(),
            excused: BTreeSet::new(),
            excused_groups: BTreeSet::new(),
            decided_copies: BTreeMap::new(),
            lost_decisions: BTreeMap::new(),
            gone: BTreeSet::new(),
            violations: BTreeMap::new(),
            words: Vec::new(),
        }
    }

    pub(super) fn broken(&mut self, law: Law, now: Time, what: String) {
        *self.violations.entry(law).or_default() += 1;
        if self.words.len() < DESCRIBED {
            self.words.push(format!("{law:?} at {:.3} s: {what}", seconds(now)));
        }
    }

    /// True if the decision to commit is on a disk.
    pub(super) fn is_decided(&self, id: TransactionId) -> bool {
        self.decided.contains(&id)
    }

    /// A client was told the end of its transaction.
    pub(super) fn tell(&mut self, now: Time, id: TransactionId, committed: bool) {
        self.told.insert(id, committed);
        if committed && !self.decided.contains(&id) {
            self.broken(Law::Half, now, format!("{id} is acknowledged before its decision is on the disk"));
        }
    }

    /// An operator decides a promise.
    pub(super) fn operator(&mut self, branch: Branch, commit: bool) {
        self.operators.insert(branch, commit);
    }

    /// An agent says that its coordinator has decided otherwise. True: than an operator.
    pub(super) fn contradict(&mut self, branch: Branch) -> bool {
        self.contradicted.insert(branch);
        self.operators.contains_key(&branch)
    }

    /// Records of a coordinator are on its disk.
    pub(super) fn coordinator_wrote(&mut self, now: Time, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
        for (key, value) in changes {
            let Some(value) = value else { continue };
            let Ok(CoordinatorRecord::Transaction { id, committed: Some(_), .. }) = CoordinatorRecord::read(key, value)
            else {
                continue;
            };
            if self.decided.insert(id) {
                self.was_promised(now, id);
            }
        }
    }

    /// A transaction is decided: every member must have promised, on its disk.
    fn was_promised(&mut self, now: Time, id: TransactionId) {
        let Some(transaction) = self.transactions.get(&id).cloned() else { return };
        if transaction.change() == Change::Cancel || self.excused.contains(&id) {
            return;
        }
        for (member, agent) in transaction.agents().iter().enumerate() {
            let part = Branch { transaction: id, member: member as u32 };
            match self.images[*agent].branches.get(&part) {
                Some((None, _) | (_, true)) => {}
                found => {
                    let law = if found.is_none() { Law::Lost } else { Law::Half };
                    self.broken(law, now, format!("{id} is decided, and a{agent} has no promise: {found:?}"));
                }
            }
        }
    }

    /// Records of an agent are on its disk. `calendar`: its time of day.
    pub(super) fn agent_wrote(
        &mut self,
        now: Time,
        calendar: Time,
        agent: usize,
        changes: &[(Key, Option<Vec<u8>>)],
        tally: &mut Tally,
    ) {
        self.images[agent].seen = self.images[agent].seen.max(calendar);
        for ((table, key), value) in changes {
            if let Some((part, made, alone)) = branch(*table, key, value.as_deref()) {
                self.ended(now, agent, part, made, alone, tally);
            }
            if *table != RecordTable::Reservation {
                continue;
            }
            match value.as_deref().map(JournaledReservation::read) {
                None => _ = self.images[agent].rows.remove(key),
                Some(Ok(row)) => _ = self.images[agent].rows.insert(key.clone(), row),
                Some(Err(corrupt)) => self.broken(Law::Lost, now, format!("a{agent} wrote nonsense: {corrupt:?}")),
            }
        }
        self.sum(now, agent);
    }

    /// A part of a transaction is promised, or has ended.
    fn ended(&mut self, now: Time, agent: usize, part: Branch, made: Option<bool>, alone: bool, tally: &mut Tally) {
        let image = &mut self.images[agent];
        let before = image.branches.get(&part).copied();
        // A coordinator's decision that comes later does not change who ended it.
        let was_alone = before.is_some_and(|(_, alone)| alone);
        image.branches.insert(part, (made, alone || was_alone));
        let Some(made) = made.filter(|_| before.is_none_or(|(before, _)| before.is_none())) else { return };
        if made {
            image.made.push(part);
        }
        let id = part.transaction;
        if self.excused.contains(&id) {
            return;
        }
        let decided = self.decided.contains(&id);
        if !alone && made != decided {
            let what = if made { "made without a decision" } else { "dropped, though it is decided" };
            self.broken(Law::Half, now, format!("{part:?} at a{agent} is {what}"));
        }
        if alone && self.operators.get(&part) != Some(&made) {
            let over =
                self.transactions.get(&id).is_some_and(|of| self.wishes[of.wish()].end() <= self.images[agent].seen);
            if made || !over {
                self.broken(Law::Half, now, format!("a{agent} has ended {part:?} alone"));
            }
            tally.count("C11 promise is moot", "");
        }
    }

    /// Adds up what an agent's disk promises, at every instant from now on at which a sum changes.
    fn sum(&mut self, now: Time, agent: usize) {
        let image = &self.images[agent];
        let live = |row: &&JournaledReservation| {
            row.state.is_booked()
                || row.state == BookingState::Promised
                || (row.state == BookingState::Held && row.hold_until > image.seen)
        };
        let live: Vec<(&JournaledReservation, u64)> =
            image.rows.values().filter(live).map(|row| (row, self.promised_amount(image, row))).collect();
        let mut over = None;
        for (name, _, capacity) in RESOURCES {
            let parts = || {
                let of = |(row, more): &(&JournaledReservation, u64)| (row.parts[0].1.clone(), *more);
                live.iter().filter(move |(row, _)| row.parts[0].0 == name).map(of)
            };
            for t in parts().flat_map(|(steps, _)| steps).map(|step| step.window.start().max(image.seen)) {
                let at = |(steps, more): (Vec<_>, u64)| match amount_at(&steps, t) {
                    0 => 0,
                    amount => amount.max(more),
                };
                let sum: u64 = parts().map(at).sum();
                if sum > capacity {
                    over = Some(format!("a{agent} has promised {sum} of {capacity} of {name}"));
                }
            }
        }
        if let Some(what) = over {
            self.broken(Law::Overbooked, now, what);
        }
    }

    /// The amount that an undecided modification promises for a reservation; zero: there is none.
    fn promised_amount(&self, image: &Image, row: &JournaledReservation) -> u64 {
        let open = image.branches.iter().filter(|(_, (made, _))| made.is_none());
        let amount = |(part, _): (&Branch, &(Option<bool>, bool))| {
            let of = self.transactions.get(&part.transaction)?;
            let its = of.change() == Change::Modify && self.wishes[of.wish()].group() == row.group;
            of.amount(part.member).filter(|_| its)
        };
        open.filter_map(amount).max().unwrap_or(0)
    }

    /// The number of holds of an agent that have run out while they are promised.
    pub(super) fn outlived_holds(&self, agent: usize, calendar: Time) -> usize {
        let outlived = |row: &&JournaledReservation| {
            row.state == BookingState::Promised && row.hold_until > Time::ZERO && row.hold_until <= calendar
        };
        self.images[agent].rows.values().filter(outlived).count()
    }

    /// The amount of a resource that an agent's disk has booked at an instant.
    pub(super) fn booked(&self, agent: usize, resource: usize, at: Time) -> u64 {
        let rows = self.images[agent].rows.values().filter(|row| row.state.is_booked());
        let parts = rows.flat_map(|row| &row.parts).filter(|(name, _)| *name == RESOURCES[resource].0);
        parts.map(|(_, steps)| amount_at(steps, at)).sum()
    }

    /// Copies of an agent's disk are made.
    pub(super) fn copy(&mut self, agent: usize) {
        self.copies[agent] = Some(self.images[agent].clone());
    }

    /// An agent's disk is set back to its copy.
    pub(super) fn restored(&mut self, agent: usize) {
        let Some(copy) = self.copies[agent].take() else { return };
        let seen = self.images[agent].seen;
        let now = std::mem::replace(&mut self.images[agent], Image { seen, ..copy });
        let then = &self.images[agent];
        let parts = now.branches.iter().filter(|(part, end)| then.branches.get(part) != Some(end));
        let mut lost: BTreeSet<TransactionId> = parts.map(|(part, _)| part.transaction).collect();
        let rows = now.rows.iter().filter(|(key, row)| then.rows.get(*key) != Some(row));
        let groups: BTreeSet<String> = rows.map(|(_, row)| row.group.clone()).collect();
        let touched =
            |of: &&Transaction| of.agents().contains(&agent) && groups.contains(self.wishes[of.wish()].group());
        lost.extend(self.transactions.iter().filter(|(_, of)| touched(of)).map(|(id, _)| *id));
        self.excused.extend(lost);
        self.excused_groups.extend(groups);
    }

    /// A copy of a coordinator's disk is made.
    pub(super) fn copy_coordinator(&mut self, broker: usize) {
        let decided = self.decided_by(broker);
        self.decided_copies.insert(broker, decided);
    }

    /// A coordinator's disk is set back, or is gone: orders and decisions that the copy does not know are lost. A decision
    /// that no member has heard of is known nowhere then.
    pub(super) fn coordinator_restored(&mut self, broker: usize) {
        let orders = self.transactions.iter().filter(|(_, of)| of.broker() == broker && of.change() == Change::Cancel);
        self.excused.extend(orders.map(|(id, _)| *id).collect::<Vec<_>>());
        let Some(copy) = self.decided_copies.remove(&broker) else { return };
        let lost: Vec<TransactionId> = self.decided_by(broker).difference(&copy).copied().collect();
        let unheard: Vec<TransactionId> = lost.iter().copied().filter(|id| !self.is_made_anywhere(*id)).collect();
        self.excused.extend(unheard);
        self.lost_decisions.entry(broker).or_default().extend(lost);
    }

    /// An operator uses a coordinator's older disk, although members know of decisions that it has lost.
    pub(super) fn older_accepted(&mut self, broker: usize) {
        self.excused.extend(self.lost_decisions.remove(&broker).unwrap_or_default());
    }

    /// The decisions on a coordinator's disk.
    fn decided_by(&self, broker: usize) -> BTreeSet<TransactionId> {
        let its = |id: &&TransactionId| self.transactions.get(id).is_some_and(|of| of.broker() == broker);
        self.decided.iter().filter(its).copied().collect()
    }

    /// True if a member has made its part.
    fn is_made_anywhere(&self, id: TransactionId) -> bool {
        let made = |(part, (made, _)): (&Branch, &(Option<bool>, bool))| part.transaction == id && *made == Some(true);
        self.images.iter().any(|image| image.branches.iter().any(made))
    }

    /// True if this wish may be one thing at one member and another at the next for ever, which its client is shown: a
    /// disk that knew of it was set back, or an operator or time decided otherwise.
    pub(super) fn may_be_broken(&mut self, now: Time, wish: usize) -> bool {
        self.is_excused(wish) || self.has_contradiction(now, wish)
    }

    /// True if a disk was set back that knew of this wish.
    fn is_excused(&self, wish: usize) -> bool {
        self.excused_groups.contains(self.wishes[wish].group())
            || self.transactions.iter().any(|(id, of)| of.wish() == wish && self.excused.contains(id))
    }

    /// Everybody is up, and time has passed: each wish is true everywhere or nowhere.
    pub(super) fn conclude(&mut self, now: Time) {
        for agent in 0..self.images.len() {
            let open = self.images[agent].branches.iter().filter(|(_, (made, _))| made.is_none());
            let open: Vec<Branch> = open.map(|(part, _)| *part).collect();
            for part in open {
                self.broken(Law::Stuck, now, format!("a{agent} still promises {part:?}"));
            }
            let limbo = |row: &&JournaledReservation| matches!(row.state, BookingState::Promised | BookingState::Held);
            let limbo = self.images[agent].rows.values().filter(limbo).map(|row| row.group.clone());
            for group in limbo.collect::<Vec<_>>() {
                self.broken(Law::Stuck, now, format!("{group} is neither booked nor over at a{agent}"));
            }
        }
        for wish in 0..self.wishes.len() {
            if !self.is_excused(wish) && !self.has_contradiction(now, wish) {
                self.compare(now, wish);
            }
        }
    }

    /// True if an operator or time decided a part of this wish otherwise than its coordinator, which must have been
    /// told.
    fn has_contradiction(&mut self, now: Time, wish: usize) -> bool {
        let mut found = false;
        let its: Vec<(TransactionId, Transaction)> =
            self.transactions.iter().filter(|(_, of)| of.wish() == wish).map(|(id, of)| (*id, of.clone())).collect();
        for (id, of) in its {
            for (member, agent) in of.agents().iter().enumerate() {
                let part = Branch { transaction: id, member: member as u32 };
                let end = self.images[*agent].branches.get(&part).copied();
                let by_operator = self.operators.get(&part).is_some_and(|commit| *commit != self.decided.contains(&id));
                let otherwise = end.is_some_and(|(made, alone)| alone && made != Some(self.decided.contains(&id)));
                if (by_operator && end.is_some_and(|(made, _)| made != Some(self.decided.contains(&id)))) || otherwise {
                    found = true;
                }
                // If the coordinator is gone for ever, nobody can tell.
                let untold = !self.contradicted.contains(&part) && !self.gone.contains(&of.broker());
                if otherwise && untold && !self.excused.contains(&id) {
                    self.broken(Law::Stuck, now, format!("{part:?} at a{agent} was never contradicted"));
                }
            }
        }
        found
    }

    /// The sequential book: what the decided changes make of a wish, in the order in which its first member made
    /// them, against the disk of each member.
    fn compare(&mut self, now: Time, wish: usize) {
        let of = self.wishes[wish].clone();
        let all: Vec<(TransactionId, Transaction)> =
            self.transactions.iter().filter(|(_, t)| t.wish() == wish).map(|(id, t)| (*id, t.clone())).collect();
        let decided =
            |change: &dyn Fn(Change) -> bool| all.iter().any(|(id, t)| change(t.change()) && self.decided.contains(id));
        let created = decided(&|change| matches!(change, Change::Create | Change::Book));
        let cancelled = decided(&|change| change == Change::Cancel);
        let told = all.iter().any(|(id, _)| self.told.get(id) == Some(&true));
        let mut labels = BTreeSet::new();
        for part in of.parts() {
            let image = &self.images[part.agent()];
            let is = |row: &&JournaledReservation| {
                row.group == of.group() && (row.state.is_booked() || row.state == BookingState::Ended)
            };
            let rows: Vec<JournaledReservation> = image.rows.values().filter(is).cloned().collect();
            let place = format!("{} at a{}", of.group(), part.agent());
            if cancelled {
                if rows.iter().any(|row| row.state.is_booked()) {
                    self.broken(Law::Half, now, format!("{place} is cancelled elsewhere and booked here"));
                }
                continue;
            }
            let [row] = &rows[..] else {
                match rows.len() {
                    0 if of.kind() == WishKind::Single && of.is_acknowledged() => {
                        self.broken(Law::Lost, now, format!("{place} was acknowledged and is not there"));
                    }
                    0 if created => {
                        let law = if told { Law::Lost } else { Law::Half };
                        self.broken(law, now, format!("{place} is decided and not there"));
                    }
                    0 => {}
                    n => self.broken(Law::Half, now, format!("{place} is there {n} times")),
                }
                continue;
            };
            if !created && of.kind() != WishKind::Single {
                self.broken(Law::Half, now, format!("{place} is there, and was never decided"));
                continue;
            }
            labels.insert(row.label.clone());
            let (label, amount) = self.expected(wish, part.agent());
            let has = row.parts[0].1.first().map_or(0, |step| step.amount);
            if label.is_some_and(|label| label != row.label) || has != amount.unwrap_or(part.amount()) {
                self.broken(Law::Lost, now, format!("{place} has {has} as {}: not its last change", row.label));
            }
        }
        if labels.len() > 1 {
            self.broken(Law::Half, now, format!("{} was changed by some: {labels:?}", of.group()));
        }
    }

    /// The label and the amount that the last change gives that an agent made.
    fn expected(&self, wish: usize, agent: usize) -> (Option<String>, Option<u64>) {
        let (mut label, mut amount) = (None, None);
        for part in &self.images[agent].made {
            let Some(of) = self.transactions.get(&part.transaction).filter(|of| of.wish() == wish) else { continue };
            match of.change() {
                Change::Create => (label, amount) = (Some(of.label().to_owned()), None),
                Change::Modify => {
                    (label, amount) = (Some(of.label().to_owned()), of.amount(part.member));
                }
                Change::Book | Change::Cancel => {}
            }
        }
        (label, amount)
    }
}

fn seconds(at: Time) -> f64 {
    at.since(super::world::BEGIN).as_nanos() as f64 / 1e9
}
