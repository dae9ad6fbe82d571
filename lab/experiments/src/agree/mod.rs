//! One plan and one script of packets through three planes: the engine's port, the plane in user space, and the kernel's.
//!
//! They must tell packets apart in the same way, admit the same packets to their classes, share the link alike, and keep the
//! order within a class. The engine plays in its own time, the other two on real packets.

mod players;
mod script;

use bed::error::Error;
use bed::scratch::Scratch;
use bed::testbed::UpOptions;
use players::{EnginePlayer, LivePlayer, Player};
use script::ScriptPacket;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use terms::{FlowKey, Span};
use traffic::plan::{ClassId, Counters};
use traffic::plane::PlaneCounters;

/// The time after which every queue is full, and that after which the counting ends.
const FULL: Span = Span::from_secs(1);
const END: Span = Span::from_secs(5);
/// The most by which shares may differ.
pub const MOST: f64 = 0.02;

/// The differences between the planes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Agreement {
    /// Kinds of packets that are in another class on some plane than in the engine.
    pub classified_differently: u64,
    /// Flows of whose packets some plane admits others than the engine.
    pub admitted_differently: u64,
    /// The largest difference of a class's share of the link between two planes, relative.
    pub share_worst: f64,
    /// Packets that left after a later one of their class.
    pub reordered: u64,
    /// The differences, in words.
    #[serde(skip)]
    pub differences: Vec<String>,
    /// By class: its share of the link on each plane.
    #[serde(skip)]
    pub shares: Vec<(u16, Vec<f64>)>,
    /// The planes' names.
    #[serde(skip)]
    pub planes: Vec<&'static str>,
}

impl Agreement {
    /// True if they agree.
    pub fn holds(&self) -> bool {
        (self.classified_differently, self.admitted_differently, self.reordered) == (0, 0, 0)
            && self.share_worst <= MOST
    }
}

/// Plays the script on all three.
///
/// # Errors
/// A privilege is missing, or a plane does not come up.
pub fn run(options: &UpOptions) -> Result<Agreement, Error> {
    bed::Bed::possible()?;
    // Without the right to it the machine's other work may hold the sender up.
    let _ = linux::process::go_first();
    let scratch = Scratch::create()?;
    let state = scratch.path().join("kernel");
    std::fs::create_dir(&state).map_err(linux::error::SystemError::doing(format!("make {}", state.display())))?;
    let found = play(options, scratch.path(), &state);
    // The kernel's plane pins its maps there.
    linux::mount::unmount_below(&state)?;
    found
}

fn play(options: &UpOptions, home: &Path, state: &Path) -> Result<Agreement, Error> {
    let mut engine = EnginePlayer::new()?;
    let mut user = LivePlayer::user(&options.program, home)?;
    let mut kernel = LivePlayer::kernel(state)?;
    compare(&mut [&mut engine, &mut user, &mut kernel])
}

fn compare(players: &mut [&mut dyn Player]) -> Result<Agreement, Error> {
    let mut found = Agreement { planes: players.iter().map(|player| player.name()).collect(), ..Agreement::default() };
    for (words, packets) in script::kinds() {
        let seen = players.iter_mut().map(|player| classified(*player, &packets));
        let seen = seen.collect::<Result<Vec<_>, _>>()?;
        if seen.iter().any(|classes| *classes != seen[0]) {
            found.classified_differently += 1;
            found.differences.push(format!("{words}: {}", by_plane(&found.planes, &seen)));
        }
    }
    let policed = script::policed();
    let seen = players.iter_mut().map(|player| admitted(*player, &policed)).collect::<Result<Vec<_>, _>>()?;
    for (flow, engine) in &seen[0] {
        let each: Vec<_> = seen.iter().map(|flows| flows.get(flow).copied()).collect();
        if each.iter().any(|counted| *counted != Some(*engine)) {
            found.admitted_differently += 1;
            found.differences.push(format!("{flow:?}: {}", by_plane(&found.planes, &each)));
        }
    }
    let crowd = script::crowd(END);
    let mut shares = Vec::new();
    for player in players {
        let (share, reordered) = crowded(*player, &crowd)?;
        if reordered > 0 {
            found.differences.push(format!("{}: {reordered} packets left after a later one", player.name()));
        }
        found.reordered += reordered;
        shares.push(share);
    }
    found.shares = script::crowded().map(|class| (class.0, of_class(&shares, class))).collect();
    found.share_worst = found.shares.iter().map(|(_, shares)| apart(shares)).fold(0.0, f64::max);
    Ok(found)
}

fn by_plane<T: std::fmt::Debug>(planes: &[&str], seen: &[T]) -> String {
    planes.iter().zip(seen).map(|(plane, seen)| format!("{plane} {seen:?}")).collect::<Vec<_>>().join(", ")
}

fn of_class(shares: &[BTreeMap<ClassId, f64>], class: ClassId) -> Vec<f64> {
    shares.iter().map(|shares| shares.get(&class).copied().unwrap_or(0.0)).collect()
}

/// By how much the largest is more than the least.
fn apart(shares: &[f64]) -> f64 {
    let (least, most) = shares.iter().fold((f64::MAX, 0.0_f64), |(a, b), share| (a.min(*share), b.max(*share)));
    if least > 0.0 { most / least - 1.0 } else { f64::INFINITY }
}

/// By class: the packets that it sent.
fn classified(player: &mut dyn Player, packets: &[ScriptPacket]) -> Result<BTreeMap<ClassId, u64>, Error> {
    let before = packets_of(player)?;
    player.begin();
    player.play(packets)?;
    player.settle()?;
    let after = packets_of(player)?;
    let more = after.into_iter().map(|(class, packets)| (class, packets - before.get(&class).unwrap_or(&0)));
    Ok(more.filter(|(_, packets)| *packets > 0).collect())
}

/// The classes below the link, with one number of each.
fn classes(player: &dyn Player, counters: &PlaneCounters, of: impl Fn(&Counters) -> u64) -> BTreeMap<ClassId, u64> {
    let ours = counters.classes.iter().filter(|((oif, class), _)| *oif == player.oif() && *class != ClassId::LINK);
    ours.map(|((_, class), counted)| (*class, of(counted))).collect()
}

fn packets_of(player: &mut dyn Player) -> Result<BTreeMap<ClassId, u64>, Error> {
    let counters = player.counters()?;
    Ok(classes(player, &counters, |counted| counted.packets))
}

/// By flow: what conformed to its bucket, and what did not.
fn admitted(player: &mut dyn Player, packets: &[ScriptPacket]) -> Result<BTreeMap<FlowKey, Counters>, Error> {
    player.begin();
    player.play(packets)?;
    player.settle()?;
    let (counters, oif) = (player.counters()?, player.oif());
    let flows = script::flows();
    let of = |flow: &FlowKey| counters.flows.get(&(oif, *flow)).copied().unwrap_or_default();
    Ok(flows.iter().map(|(flow, _)| (*flow, of(flow))).collect())
}

/// By class: its share of what was sent while all had more than their due; and the packets that left out of order.
fn crowded(player: &mut dyn Player, packets: &[ScriptPacket]) -> Result<(BTreeMap<ClassId, f64>, u64), Error> {
    player.left()?;
    player.begin();
    let full = packets.partition_point(|packet| packet.at() < FULL);
    player.play(&packets[..full])?;
    let before = player.counters()?;
    player.play(&packets[full..])?;
    let after = player.counters()?;
    player.settle()?;
    let mut reordered = 0;
    let mut last: BTreeMap<u8, u32> = BTreeMap::new();
    for (stream, number) in player.left()? {
        let most = last.entry(stream).or_insert(number);
        reordered += u64::from(number < *most);
        *most = number.max(*most);
    }
    let [before, after] = [before, after].map(|counters| classes(player, &counters, |counted| counted.bytes));
    let more: BTreeMap<ClassId, u64> =
        after.into_iter().map(|(class, bytes)| (class, bytes - before.get(&class).unwrap_or(&0))).collect();
    let all: u64 = more.values().sum();
    Ok((more.into_iter().map(|(class, bytes)| (class, bytes as f64 / all.max(1) as f64)).collect(), reordered))
}
