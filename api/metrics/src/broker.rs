//! The page of a broker: itself, its agents, and what can be reserved at each.

use crate::agent::{fill_interfaces, fill_resources};
use crate::page::{Page, labels};
use documents::book::ResourceRow;
use documents::overview::{AgentInterfaces, AgentRow};

/// The state of a broker.
#[derive(Clone, Debug)]
pub struct BrokerFigures {
    /// Its name as a coordinator.
    pub broker: String,
    /// Its version.
    pub version: String,
    /// Its agents.
    pub agents: Vec<AgentRow>,
    /// The interfaces of those that answer.
    pub interfaces: Vec<AgentInterfaces>,
    /// The resources, as AGENT/RESOURCE.
    pub resources: Vec<ResourceRow>,
    /// Transactions that have not come to their end at all agents.
    pub open_transactions: usize,
}

/// The page of a broker.
pub fn of_broker(found: &BrokerFigures) -> String {
    let mut page = Page::new();
    page.gauges("up", "1 if the broker answers", [(labels([]), 1.0)]);
    let named = labels([("broker", found.broker.as_str()), ("version", found.version.as_str())]);
    page.gauges("info", "The broker, and its version", [(named, 1.0)]);
    let of = |agent: &str| labels([("agent", agent)]);
    let up = |row: &AgentRow| (of(&row.agent), f64::from(u8::from(row.away.is_none())));
    page.gauges("agent_up", "1 if the agent answers the broker", found.agents.iter().map(up));
    let uptime = |row: &AgentRow| Some((of(&row.agent), row.uptime_ms? as f64 / 1e3));
    page.gauges("agent_uptime_seconds", "Time since the agent's start", found.agents.iter().filter_map(uptime));
    let notes = |one: &AgentInterfaces| (of(&one.agent), one.notes.len() as f64);
    page.gauges("agent_notes", "Notes for the operator", found.interfaces.iter().map(notes));
    let signalled = |one: &AgentInterfaces| (of(&one.agent), one.signalled as f64);
    let help = "Reservations by RSVP and Boomerang";
    page.gauges("agent_signalled_reservations", help, found.interfaces.iter().map(signalled));
    let open = found.open_transactions as f64;
    page.gauges("open_transactions", "Transactions without an end at all agents", [(labels([]), open)]);
    let resources = found.resources.iter().map(|row| (String::new(), row));
    fill_resources(&mut page, resources, |_| labels([]));
    let interfaces = found.interfaces.iter().flat_map(|one| one.interfaces.iter().map(|row| (one.agent.clone(), row)));
    fill_interfaces(&mut page, interfaces, of);
    page.text()
}
