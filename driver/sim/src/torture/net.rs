//! The net of the stress test: a ring of nodes with chords, so that every route has an alternative, and its
//! sessions.

use super::Torture;
use crate::map::{RouteMap, address};
use crate::rng::Rng;
use crate::scenario::{Impairment, LinkId, NodeId, Scenario, ScenarioAction, SimLinkSpec, SimNodeSpec};
use node::io::AppId;
use terms::{Bytes, Rate, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;

/// K of the state lifetime (RFC 2205 section 3.7).
pub const KEEP: u32 = 3;

/// One session: its sender, its receiver and its traffic.
#[derive(Clone, Copy, Debug)]
pub struct SessionPlan {
    /// The sender's node.
    pub from: NodeId,
    /// The receiver's node.
    pub to: NodeId,
    /// The application on both nodes.
    pub app: AppId,
    /// The session.
    pub session: Session,
    /// The sender's address and port.
    pub template: SenderTemplate,
    /// The sender's traffic.
    pub tspec: Tspec,
}

/// The net, with a script that changes nothing.
pub fn scenario(torture: &Torture) -> Scenario {
    let nodes = torture.nodes.max(3);
    let mut rng = Rng::new(torture.seed, 1 << 40);
    let mut links: Vec<SimLinkSpec> = Vec::new();
    let mut join = |a: usize, b: usize, rng: &mut Rng| {
        let delay = Span::from_micros(200 + rng.below(10_000));
        links.push(SimLinkSpec::ethernet(NodeId(a), NodeId(b), Rate::from_mbps(10), delay, SchedulerKind::Htb));
    };
    for n in 0..nodes {
        join(n, (n + 1) % nodes, &mut rng);
    }
    for _ in 0..nodes / 3 {
        let a = rng.below(nodes as u64) as usize;
        let b = (a + 2 + rng.below(nodes as u64 - 3) as usize) % nodes;
        join(a, b, &mut rng);
    }
    Scenario {
        seed: torture.seed,
        nodes: (0..nodes)
            .map(|n| SimNodeSpec { keep: KEEP, ..SimNodeSpec::new(&format!("n{n}"), torture.refresh) })
            .collect(),
        // That links are meddled with must be known from the start; so far no harm is done to them.
        script: (0..links.len())
            .map(|n| (Time::ZERO, ScenarioAction::Impair(LinkId(n), Impairment::default())))
            .collect(),
        links,
        ..Scenario::default()
    }
}

/// The sessions. Most ask for little; one in eight asks for so much that two do not fit on a link.
pub fn talks(torture: &Torture, scenario: &Scenario) -> Vec<SessionPlan> {
    let map = RouteMap::new(scenario);
    let nodes = scenario.nodes.len() as u64;
    let mut rng = Rng::new(torture.seed, 1 << 41);
    let home = |node: NodeId| {
        let attachment = map.attachments(node)[0];
        address(LinkId(attachment.link.0), attachment.side)
    };
    let talk = |n: usize| {
        let from = rng.below(nodes);
        let to = (from + 1 + rng.below(nodes - 1)) % nodes;
        let (from, to) = (NodeId(from as usize), NodeId(to as usize));
        let r = if rng.below(8) == 0 { Rate::from_kbps(5_000) } else { Rate::from_kbps(20 + rng.below(100)) };
        let port = 5_000 + n as u16;
        SessionPlan {
            from,
            to,
            app: AppId(u64::from(port)),
            session: Session { dst: home(to), protocol: 17, dst_port: port },
            template: SenderTemplate { src: home(from), src_port: port.into() },
            tspec: Tspec { r, b: Bytes::new(10_000), p: Rate::INFINITE, m: 500, M: 1_500 },
        }
    };
    (0..torture.sessions).map(talk).collect()
}
