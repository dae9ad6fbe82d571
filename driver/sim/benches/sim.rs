//! The simulator's speed: RFC 2963's network with full TCP.

use bench::{Bench, nanos};
use sim::World;
use sim::scenario::TcpId;
use sim::scenarios::rfc2963::{Params, Shaping, rfc2963};
use terms::Span;

fn main() {
    let bench = Bench::from_args();
    for shaping in [Shaping::TrRas] {
        let built = rfc2963(&Params { shaping, duration: Span::from_secs(102), ..Params::default() });
        let mut world = World::new(&built.scenario).expect("it means something");
        let took = nanos(|| world.run_until(built.scenario.measured.1)) / 1e9;
        world.check().expect("every law holds");
        let data: u64 = (0..100).map(|n| world.tcp(TcpId(n)).sent).sum();
        let hops: u64 = world.hops().iter().map(|hop| hop.counts.delivered).sum();
        bench.report("sim_rfc2963_packets_per_s", data as f64 / took, "1/s", 1);
        bench.report("sim_rfc2963_hops_per_s", hops as f64 / took, "1/s", 1);
        bench.report("sim_rfc2963_events_per_s", world.events() as f64 / took, "1/s", 1);
        println!("{took} s, {data} data, {hops} hops, {} events, {:?}", world.events(), world.lost());
        println!("sizes {} {}", size_of::<sim::connections::SenderEnd>(), size_of::<sim::connections::ReceiverEnd>());
        for (n, customer) in built.customers.iter().enumerate() {
            let egress = world.egress(customer.uplink, 0);
            let mbps = |bytes: u64| bytes as f64 * 8.0 / 100e6;
            let goodput: u64 =
                (0..100).map(|n| world.tcp(TcpId(n))).filter(|r| r.group == n as u32).map(|r| r.goodput.get()).sum();
            let t: Vec<_> = (0..100).map(|n| world.tcp(TcpId(n))).filter(|r| r.group == n as u32).collect();
            println!(
                "C{} green {:.2} yellow {:.2} total {:.2} goodput {:.2} timeouts {} rec {} rtx {}",
                n + 1,
                mbps(egress.offered[0].bytes),
                mbps(egress.offered[1].bytes),
                mbps(egress.total().bytes),
                mbps(goodput),
                t.iter().map(|r| r.timeouts).sum::<u64>(),
                t.iter().map(|r| r.recoveries).sum::<u64>(),
                t.iter().map(|r| r.retransmitted).sum::<u64>()
            );
        }
    }
}
