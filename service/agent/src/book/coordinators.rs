//! Brokers that coordinate transactions over several agents, as this agent sees them.

use booking::promise::Contradiction;

/// The words for a decision that contradicts an earlier one of an operator or of time.
pub(crate) fn contradicted(what: &Contradiction) -> String {
    let which = what.handle.map_or_else(|| "a reservation that is no longer kept".to_owned(), |one| one.text());
    let (theirs, ours) = if what.committed { ("made", "dropped") } else { ("dropped", "made") };
    let transaction = what.branch.transaction;
    format!("transaction {transaction}: the other members have {theirs} the change; here it was {ours}: {which}")
}
