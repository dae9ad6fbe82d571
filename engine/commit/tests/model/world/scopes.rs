//! The scopes that are searched, and the count of defects that are found.

use super::mutant::{MUTANTS, Mutant};
use super::{Report, Scope, search};

/// One transaction at two participants, one crash, and every order of everything else.
const SMALL: Scope = Scope {
    name: "2 participants, 1 transaction, 1 crash",
    participants: 2,
    transactions: 1,
    crashes: 1,
    failures: 0,
    ticks: 0,
    // Room for a second promise of the same part, which a full host would refuse by itself.
    capacity: 2,
    until: None,
    gives_up: 1,
    overlaps: false,
    deviations: None,
};

/// The scopes without a defect. Each is searched to its end.
pub const SCOPES: [Scope; 4] = [
    Scope { name: "2 participants, 1 transaction, 2 crashes", crashes: 2, ..SMALL },
    Scope { name: "the same, 1 crash, with events while a process writes", overlaps: true, ..SMALL },
    Scope { name: "the same, 1 crash and 1 failed write", failures: 1, ..SMALL },
    Scope {
        name: "the same, 1 crash, and every window passes after 2 of 3 ticks; messages in order",
        ticks: 3,
        until: Some(2),
        deviations: Some(0),
        ..SMALL
    },
];

/// Larger scopes: the number of deviations of the network is limited as that of crashes is. Each is searched to its end.
pub const LARGE: [Scope; 2] = [
    Scope {
        name: "2 participants, 2 transactions (1 may be given up), 2 crashes; messages in order",
        transactions: 2,
        crashes: 2,
        deviations: Some(0),
        ..SMALL
    },
    Scope {
        name: "3 participants, 1 transaction, 2 crashes, 1 deviation of the network",
        participants: 3,
        crashes: 2,
        gives_up: 0,
        deviations: Some(1),
        ..SMALL
    },
];

/// Scopes that take minutes.
pub const NIGHTLY: [Scope; 3] = [
    Scope {
        name: "3 participants, 2 transactions (both may be given up), 1 crash; messages in order",
        participants: 3,
        transactions: 2,
        gives_up: 2,
        deviations: Some(0),
        ..SMALL
    },
    Scope {
        name: "3 participants, 2 transactions, 1 crash, 1 deviation of the network",
        participants: 3,
        transactions: 2,
        gives_up: 0,
        deviations: Some(1),
        ..SMALL
    },
    Scope {
        name: "2 participants, 2 transactions (1 may be given up), 1 crash, 1 deviation of the network",
        transactions: 2,
        deviations: Some(1),
        ..SMALL
    },
];

/// The scope in which a defect shows.
fn scope_of(mutant: Mutant) -> Scope {
    match mutant {
        Mutant::FailedIsDecided | Mutant::FailedIsPromised => Scope { failures: 1, ..SMALL },
        Mutant::PromisesUncounted => Scope { transactions: 2, crashes: 0, capacity: 1, ..SMALL },
        _ => SMALL,
    }
}

/// Searches a scope without a defect, to its end.
pub fn check(scope: Scope) -> Report {
    search(scope, Mutant::None, 1)
}

/// Every defect, its description, and the search until it is found.
pub fn mutants() -> impl Iterator<Item = (Mutant, &'static str, Report)> {
    MUTANTS.iter().map(|(mutant, words)| (*mutant, *words, search(scope_of(*mutant), *mutant, 1)))
}
