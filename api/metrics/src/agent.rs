//! The page of one agent, and what pages of brokers have of each of theirs.

use crate::page::{Labels, Page, labels};
use documents::agent::{CounterRow, InterfaceRow, Status};
use documents::book::ResourceRow;

/// The answers of an agent.
#[derive(Clone, Debug)]
pub struct AgentFigures {
    /// Its status.
    pub status: Status,
    /// Its message counters.
    pub counters: Vec<CounterRow>,
    /// Its resources.
    pub resources: Vec<ResourceRow>,
}

/// The page of an agent; `None`: it does not answer.
pub fn of_agent(found: Option<&AgentFigures>) -> String {
    let mut page = Page::new();
    page.gauges("up", "1 if the agent answers", [(labels([]), f64::from(u8::from(found.is_some())))]);
    let Some(AgentFigures { status, counters, resources }) = found else { return page.text() };
    let agent = &status.agent;
    let named = labels([("node", agent.node.as_str()), ("version", agent.version.as_str())]);
    page.gauges("info", "The node, and the version of its agent", [(named, 1.0)]);
    let up = agent.uptime_ms as f64 / 1e3;
    page.gauges("uptime_seconds", "Time since the agent's start", [(labels([]), up)]);
    let notes = status.notes.len() as f64;
    page.gauges("notes", "Notes for the operator: see `sluice status`", [(labels([]), notes)]);
    let signalled = status.reservations.len() as f64;
    page.gauges("signalled_reservations", "Reservations by RSVP and Boomerang", [(labels([]), signalled)]);
    let late = status.turns.wall.p999_us as f64 / 1e6;
    let help = "Time that 999 of 1,000 turns of the agent's loop did not exceed";
    page.gauges("turn_p999_seconds", help, [(labels([]), late)]);
    page.counters("turns", "Turns of the agent's loop", [(labels([]), status.turns.turns)]);
    messages(&mut page, counters);
    let of_none = |_: &str| labels([]);
    fill_resources(&mut page, resources.iter().map(|row| (String::new(), row)), of_none);
    fill_interfaces(&mut page, status.interfaces.iter().map(|row| (String::new(), row)), of_none);
    page.text()
}

/// RSVP messages by their type, and what was dropped, by reason.
fn messages(page: &mut Page, counters: &[CounterRow]) {
    // The reasons of drops have words before them; types of messages are one word.
    let is_type = |row: &&CounterRow| !row.name.contains([' ', ':']) && row.name != "refused";
    let kind = |row: &CounterRow| labels([("type", row.name.as_str())]);
    let types = || counters.iter().filter(is_type);
    page.counters("messages_received", "RSVP messages", types().map(|row| (kind(row), row.received)));
    page.counters("messages_sent", "RSVP messages", types().map(|row| (kind(row), row.sent)));
    let rest = counters.iter().filter(|row| !is_type(row));
    let reason = |row: &CounterRow| (labels([("reason", row.name.as_str())]), row.received + row.sent);
    page.counters("messages_dropped", "RSVP messages that were dropped, refused or not sent", rest.map(reason));
}

/// Adds the resources, with the labels of `of`.
pub(crate) fn fill_resources<'a>(
    page: &mut Page,
    rows: impl Iterator<Item = (String, &'a ResourceRow)> + Clone,
    of: impl Fn(&str) -> Labels,
) {
    let each = |value: fn(&ResourceRow) -> f64| {
        let row = |(agent, row): (String, &ResourceRow)| {
            let mut named = of(&agent);
            named.extend(labels([("resource", row.resource.as_str()), ("unit", row.unit.as_str())]));
            (named, value(row))
        };
        rows.clone().map(row).collect::<Vec<_>>()
    };
    page.gauges("resource_capacity", "The most that can be booked, in the resource's unit", each(|row| row.capacity));
    page.gauges("resource_free", "The amount that can be booked now", each(|row| row.free));
    page.gauges("resource_background", "The amount that background parts have now", each(|row| row.background_now));
    page.gauges("resource_missing", "What is promised and not there", each(|row| row.missing.unwrap_or(0.0)));
    page.gauges("resource_reservations", "Reservations that are not over", each(|row| row.reservations as f64));
}

/// Interfaces and their classes, with the labels of `of`.
pub(crate) fn fill_interfaces<'a>(
    page: &mut Page,
    rows: impl Iterator<Item = (String, &'a InterfaceRow)> + Clone,
    of: impl Fn(&str) -> Labels,
) {
    let named = |agent: &str, row: &InterfaceRow| {
        let mut named = of(agent);
        named.extend(labels([("interface", row.name.as_str())]));
        named
    };
    let each = |value: fn(&InterfaceRow) -> u64| {
        let known = rows.clone().filter(|(_, row)| row.rate_wire_bps.is_some());
        known.map(|(agent, row)| (named(&agent, row), value(row) as f64)).collect::<Vec<_>>()
    };
    let rate = each(|row| row.rate_wire_bps.unwrap_or(0));
    page.gauges("interface_bits_per_second", "Rate of the link, link headers included", rate);
    page.gauges(
        "interface_reserved_bits_per_second",
        "The rate that the ledger holds",
        each(|row| row.reserved_wire_bps),
    );
    page.gauges("interface_free_bits_per_second", "The free rate", each(|row| row.free_wire_bps));
    // Several classes of the plane may have one name: a flow of guaranteed service has one of its own.
    let classes = |value: fn(&documents::agent::ClassRow) -> u64| {
        let mut sums = std::collections::BTreeMap::new();
        for (agent, row) in rows.clone() {
            for class in &row.classes {
                let mut labels_ = named(&agent, row);
                labels_.extend(labels([("class", class.name.as_str())]));
                *sums.entry(labels_).or_insert(0u64) += value(class);
            }
        }
        sums
    };
    page.counters("class_packets", "Packets sent, by class", classes(|class| class.packets));
    page.counters("class_bytes", "Bytes sent, link headers included, by class", classes(|class| class.bytes));
    page.counters("class_drops", "Packets dropped, by class", classes(|class| class.drops));
    let rates = classes(|class| class.rate_wire_bps).into_iter().map(|(labels, rate)| (labels, rate as f64));
    page.gauges("class_guaranteed_bits_per_second", "Guaranteed rate, by class", rates);
}
