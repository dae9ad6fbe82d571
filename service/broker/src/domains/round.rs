//! Rounds: our own domain is looked at and published, then every neighbour's broker is asked.

use super::ask::ask;
use super::own::{FreeAmounts, FreeOverTime, InnerRouting, OwnDomain, addresses, own_domain};
use crate::agents::own_voice;
use crate::broker::Broker;
use crate::gather::each;
use crate::routed;
use crate::wire::Outward;
use documents::agent::Request;
use documents::book::{BookAnswer, Instant, ResourceRow, StepDoc, WindowDoc};
use std::sync::Arc;
use terms::{Rate, Time};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;
use topology::FreeStep;

/// Keeps what is published and known up to date until it is stopped. Without a domain there is nothing to do.
pub async fn keep(broker: Arc<Broker>, outward: Option<Outward>, mut stopped: watch::Receiver<bool>) {
    let Some(outward) = outward.filter(|_| broker.domains.own().is_some()) else {
        let _ = stopped.changed().await;
        return;
    };
    loop {
        let one = async {
            round(&broker, &outward).await;
            sleep(broker.domains.settings.refresh).await;
        };
        tokio::select! {
            () = one => {}
            _ = stopped.changed() => return,
        }
    }
}

async fn round(broker: &Arc<Broker>, outward: &Outward) {
    let found = look(broker).await;
    let (domains, now) = (broker.domains.clone(), broker.clock.today());
    // Signing, checking and writing take time.
    let published = spawn_blocking(move || {
        domains.pass(now);
        domains.publish(now, found);
    });
    let _ = published.await;
    let mut questions = JoinSet::new();
    for neighbour in broker.domains.neighbours.clone() {
        let (seen, outward) = (broker.domains.seen(), outward.clone());
        questions.spawn(async move {
            let answer = ask(&neighbour, &outward, &seen).await;
            (neighbour.name, answer)
        });
    }
    while let Some(asked) = questions.join_next().await {
        let Ok((name, answer)) = asked else { continue };
        let (domains, now) = (broker.domains.clone(), broker.clock.today());
        let _ = spawn_blocking(move || domains.heard(now, &name, answer)).await;
    }
}

/// Looks at our own domain: links, and what is free on them. An agent that does not answer has no links and nothing free.
async fn look(broker: &Broker) -> Result<OwnDomain, String> {
    let map = broker.map().await.map_err(|problem| problem.detail)?;
    let now = broker.clock.today();
    let window = WindowDoc { start: Instant(now), end: Instant(now.saturating_add(broker.domains.settings.ahead)) };
    let answers = each(&broker.agents, |_, agent| async move {
        match agent.ask(&own_voice(), Request::resources(Some(window))).await? {
            BookAnswer::Resources(rows) => Ok(rows),
            _ => Err(crate::problem::Problem::unavailable("an agent does not say what resources it has")),
        }
    });
    let mut free = FreeAmounts::new();
    for (agent, rows) in broker.agents.iter().zip(answers.await) {
        for row in rows.unwrap_or_default().into_iter().filter(|row| row.resource.starts_with("net/")) {
            free.insert((agent.name.to_string(), row.resource.clone()), over_time(&row));
        }
    }
    let domains = &broker.domains;
    let neighbours: Vec<(&str, &[String])> =
        domains.neighbours.iter().map(|one| (one.name.as_str(), one.links.as_slice())).collect();
    let routes = match broker.is_steered() {
        true => routed::AgentRoutes::default(),
        false => routed::ask(&broker.agents, &addresses(&map)).await,
    };
    let routing = if broker.is_steered() { InnerRouting::Steered } else { InnerRouting::Kernels(&routes) };
    let mut found = own_domain(&map, &free, &neighbours, routing);
    if !domains.settings.networks.is_empty() {
        found.networks.clone_from(&domains.settings.networks);
    }
    Ok(found)
}

/// The free amounts of a resource. Its first step counts from ever on: it began at our question.
fn over_time(row: &ResourceRow) -> FreeOverTime {
    // Amounts of the network are rates, in bit/s; supply is rounded down.
    let rate = |amount: f64| Rate::from_bps(amount.max(0.0) as u64);
    let step = |(number, step): (usize, &StepDoc)| FreeStep {
        start: if number == 0 { Time::ZERO } else { step.start.0 },
        rate: rate(step.amount),
    };
    FreeOverTime { rate: rate(row.capacity), steps: row.timeline.iter().enumerate().map(step).collect() }
}
