//! Recovery: the records of an earlier run are read, and put where they belong.

use crate::io::{Event, JournalRecord, Output, RecordTable};
use crate::journal::Journal;
use crate::promise::Branches;
use crate::promise::grown_parts;
use crate::promise::record::{self, PromiseRecord, StoredChange, StoredPromise};
use crate::record::{Stored, StoredFields};
use crate::reservations::{Part, Prepared, Promised, Reservation, Reservations, accounts, key_of};
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use commit::participant::Input;
use terms::Time;
use terms::ports::Ledger;

/// An amount beyond every resource: sums under it cannot overflow.
const MOST: u64 = 1 << 62;
const FOREIGN_KEY: &str = "its key is another's";
const IMPOSSIBLE: &str = "no book can have written it";

/// Reads a record of an earlier run. The report, if it is corrupt.
pub(crate) fn read<L: Ledger>(
    table: &mut Reservations,
    journal: &mut Journal,
    (branches, now): (&mut Branches, Time),
    ledger: &L,
    record: JournalRecord,
) -> Option<Output> {
    let JournalRecord { table: of, key, value: Some(value) } = record else { return None };
    let read = match of {
        RecordTable::Reservation => reservation(table, journal, ledger, &key, &value),
        RecordTable::Event => event(journal, &key, &value),
        RecordTable::Audit => Ok(()),
        RecordTable::Promise => promise(branches, now, &key, &value),
    };
    read.err().map(|what| Output::Corrupt { table: of, key, what })
}

fn event(journal: &mut Journal, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
    let event = Event::decode(value).map_err(|corrupt| corrupt.0)?;
    if event.seq.to_be_bytes()[..] != *key {
        return Err(FOREIGN_KEY);
    }
    if event.seq == u64::MAX {
        return Err(IMPOSSIBLE);
    }
    journal.restore(event);
    Ok(())
}

fn promise(branches: &mut Branches, now: Time, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
    match record::read(key, value).map_err(|corrupt| corrupt.0)? {
        PromiseRecord::Participant(record) => branches.tell(now, Input::Recovering(record)),
        PromiseRecord::Change(found) => branches.restore(found),
    }
    Ok(())
}

/// Joins the promises that were read with their reservations. The reports of those that are corrupt.
pub(crate) fn promises(table: &mut Reservations, branches: &mut Branches) -> Vec<Output> {
    let mut corrupt = Vec::new();
    for found in branches.found() {
        if let Err(what) = join(table, branches, &found) {
            let key = record::deleted(found.branch).key;
            corrupt.push(Output::Corrupt { table: RecordTable::Promise, key, what });
        }
    }
    for number in table.numbers() {
        let lost = table.get(number).is_some_and(|r| r.state == BookingState::Promised && r.promise.is_none());
        if lost {
            let what = "it is promised, and its promise is not there: cancel it, or let it end";
            corrupt.push(Output::Corrupt { table: RecordTable::Reservation, key: key_of(number), what });
        }
    }
    corrupt
}

fn join(table: &mut Reservations, branches: &mut Branches, found: &StoredPromise) -> Result<(), &'static str> {
    let participant = branches.participant();
    let coordinator = participant.coordinator(found.branch).ok_or("a promised change without its promise")?;
    let (coordinator, is_open) = (coordinator.into(), participant.is_promised(found.branch));
    let r = table.get(found.number).ok_or("a promise of a reservation that is not there")?.clone();
    if is_open {
        if r.state.is_over() || r.promise.is_some() {
            return Err(IMPOSSIBLE);
        }
        let change = changed(table, &r, &found.change)?;
        table.promise(found.number, Promised { branch: found.branch, coordinator, change });
    }
    branches.enter(found.branch, found.number);
    Ok(())
}

/// The change of a reservation that a record promises.
fn changed(table: &mut Reservations, r: &Reservation, change: &StoredChange) -> Result<Prepared, &'static str> {
    let is_promised = r.state == BookingState::Promised;
    Ok(match change {
        StoredChange::Create if is_promised => Prepared::Create,
        StoredChange::Hold if is_promised => Prepared::Hold,
        StoredChange::Modify { label, parts } if !is_promised && parts.len() == r.parts.len() => {
            let mut next = r.parts.clone();
            for (part, (steps, grant)) in next.iter_mut().zip(parts) {
                (part.steps, part.grant) = (steps.clone(), table.name_grant(grant.clone()));
            }
            let grown = grown_parts(r, &next, Vec::new());
            if !grown.iter().all(|part| is_countable(table, r.owner, part)) {
                return Err(IMPOSSIBLE);
            }
            Prepared::Modify { next, label: label.clone(), grown }
        }
        StoredChange::Bind { part, binding } if !is_promised && *part < r.parts.len() => {
            Prepared::Bind { part: *part, binding: binding.clone() }
        }
        _ => return Err(IMPOSSIBLE),
    })
}

/// True if a part's amounts can be added to all sums.
fn is_countable(table: &Reservations, owner: u32, part: &Part) -> bool {
    let of_rules = accounts(table.grant(part.grant))
        .map(|(rule, group)| table.sums().of_rule(&rule, &group, Some(part.resource), &part.steps));
    let of_owner = table.sums().of_owner(owner, Some(part.resource), &part.steps);
    of_rules.fold(of_owner, u64::max) <= MOST
}

fn reservation<L: Ledger>(
    table: &mut Reservations,
    journal: &mut Journal,
    ledger: &L,
    key: &[u8],
    value: &[u8],
) -> Result<(), &'static str> {
    let stored = Stored::decode(value).map_err(|corrupt| corrupt.0)?.into_fields();
    if key != key_of(stored.number) && key != stored.handle.0 {
        return Err(FOREIGN_KEY);
    }
    if table.number_of(stored.handle).is_some() {
        return Err("it comes twice");
    }
    if !is_possible(table, &stored) {
        return Err(IMPOSSIBLE);
    }
    if key == stored.handle.0 {
        // Earlier builds had this key.
        journal.delete(RecordTable::Reservation, key.to_vec());
    }
    restore(table, ledger, stored);
    Ok(())
}

/// True if a record can stand beside those that came before: its number and its key are its own, and its
/// owner's sums are at most `MOST`.
fn is_possible(table: &Reservations, stored: &StoredFields) -> bool {
    let owner = table.owners().find(&stored.owner);
    let keyed = stored.key.as_ref().zip(owner).is_some_and(|(mark, owner)| table.of_key(owner, &mark.key).is_some());
    let foreground = || stored.parts.iter().filter(|part| part.background.is_none());
    let place = |name: &str| table.resources().find(name);
    let of_owner = foreground().fold(0_u64, |sum, part| {
        let peak = part.steps.iter().map(|step| step.amount).max().unwrap_or(0);
        let together = |owner| table.sums().of_owner(owner, place(&part.resource), &part.steps);
        sum.saturating_add(owner.map_or(peak, together))
    });
    let of_rules = foreground().flat_map(|part| {
        let resource = place(&part.resource);
        accounts(&part.grant).map(move |(rule, group)| table.sums().of_rule(&rule, &group, resource, &part.steps))
    });
    // Parts of one reservation on one resource come together at most so often.
    let most = of_owner.max(of_rules.fold(0_u64, u64::saturating_add));
    let free = stored.number < u64::MAX && table.get(stored.number).is_none();
    free && !keyed && (stored.state.is_over() || most <= MOST)
}

fn restore<L: Ledger>(table: &mut Reservations, ledger: &L, stored: StoredFields) {
    let parts = stored.parts.into_iter().map(|part| Part {
        resource: table.name_resource(&part.resource, ledger),
        steps: part.steps,
        slots: Vec::new(),
        background: part.background,
        shape: part.shape,
        binding: part.binding,
        grant: table.name_grant(part.grant),
    });
    let parts: Vec<Part> = parts.collect();
    let owner = table.name_owner(&stored.owner);
    table.insert(Reservation {
        handle: stored.handle,
        number: stored.number,
        owner,
        label: stored.label.into_boxed_str(),
        group: stored.group.into_boxed_str(),
        members: stored.members.into(),
        key: stored.key.map(Box::new),
        created: stored.created,
        over: stored.over,
        version: stored.version,
        state: stored.state,
        hold_until: stored.hold_until,
        notice: stored.notice,
        parts,
        busy: None,
        promise: None,
        look: Time::FOREVER,
        unborn: false,
    });
}
