//! One run: the network of the appendix with one CBS, one shaper, one seed.

use super::published::red;
use crate::experiment::sweep::RunFailed;
use serde::{Deserialize, Serialize};
use sim::World;
use sim::scenario::{SourceId, TcpId};
use sim::scenarios::rfc2963::{Params, ROUTERS, Shaping, WORKSTATIONS, rfc2963};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The shaper of C6 to C10.
    pub shaping: Shaping,
    /// CBS, in KB of 1,000 bytes.
    pub kilobytes: u64,
    /// All parameters of the simulation.
    pub params: Params,
}

impl Run {
    /// A name for progress and messages.
    pub fn name(&self) -> String {
        let Params { seed, unresponsive, .. } = self.params;
        format!("{:?} {} {seed}{}", self.shaping, self.kilobytes, if unresponsive { " unresponsive" } else { "" })
    }
}

/// The rates of a customer's workstations, Mb/s over the measured window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CustomerResult {
    /// Bytes marked green: IP bytes before drops.
    pub green: f64,
    /// Bytes marked yellow.
    pub yellow: f64,
    /// All marked bytes.
    pub total: f64,
    /// Bytes that applications received in order; of UDP, the packets that came.
    pub goodput: f64,
}

impl CustomerResult {
    /// Bytes marked red.
    pub fn red(&self) -> f64 {
        red([self.green, self.yellow, self.total])
    }
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Played {
    /// The customers C1 to C10.
    pub customers: Vec<CustomerResult>,
    /// Data packets sent.
    pub packets: u64,
    /// Events played.
    pub events: u64,
    /// The time that the run took on its core, seconds.
    pub seconds: f64,
}

/// Plays a run.
///
/// # Errors
/// A law of the simulator did not hold.
pub fn play(run: &Run) -> Result<Played, RunFailed> {
    let begun = std::time::Instant::now();
    let built = rfc2963(&run.params);
    let mut world = World::new(&built.scenario).map_err(|wrong| RunFailed(wrong.what))?;
    let (from, until) = built.scenario.measured;
    world.run_until(until);
    world.check().map_err(|broken| RunFailed(format!("{} at {:?}: please report this", broken.law, broken.at)))?;
    let seconds = until.since(from).as_nanos() as f64 / 1e9;
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
    let mut customers = vec![CustomerResult::default(); ROUTERS];
    for (place, customer) in built.customers.iter().enumerate() {
        let report = world.egress(customer.uplink, 0);
        customers[place].green = mbps(report.offered[0].bytes);
        customers[place].yellow = mbps(report.offered[1].bytes);
        customers[place].total = mbps(report.total().bytes);
    }
    for connection in 0..built.scenario.connections.len() {
        let report = world.tcp(TcpId(connection));
        customers[report.group as usize].goodput += mbps(report.goodput.get());
    }
    for source in 0..built.scenario.sources.len() {
        customers[source / WORKSTATIONS].goodput += mbps(world.flow(SourceId(source)).bytes_in_window);
    }
    let (packets, events) = (world.packets(), world.events());
    Ok(Played { customers, packets, events, seconds: begun.elapsed().as_secs_f64() })
}
