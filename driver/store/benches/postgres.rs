//! Decisions through the store on PostgreSQL with 1 and with 64 callers, beside `pgbench` that commits one row with one
//! client on the same server, in turns in the same run, because a disk's speed drifts.
//!
//! A decision here is what a coordinator writes for one: the record of the transaction of 300 bytes, the record of its epoch, and
//! the end of the transaction before. The server's folder is below the system's temporary folder (`TMPDIR`): a disk, and not
//! memory.

mod callers;

use bench::postgres::PostgresServer;
use bench::{Bench, median};
use callers::Callers;
use std::time::Duration;
use store::postgres::{JournalCandidate, Leadership, PostgresOptions};
use store::{Batch, Record, TableId};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

fn main() {
    let bench = Bench::from_args();
    if !["decisions_per_s_c1", "decisions_per_s_c64", "pgbench_rows_per_s"].iter().any(|name| bench.wants(name)) {
        return;
    }
    let server = match PostgresServer::start("bench", &[]) {
        Ok(server) => server,
        Err(why) => return bench::skipped(why),
    };
    server.sql("CREATE TABLE row (number bigserial PRIMARY KEY, value bytea)").expect("a table");
    let script = server.socket().with_file_name("row.sql");
    let one = "INSERT INTO row (value) VALUES (decode(repeat('07', 100), 'hex'));";
    std::fs::write(&script, one).expect("a script");
    let options = PostgresOptions::new(&server.connection(), None, "bench", "bench").expect("a connection string");
    let mut candidate = JournalCandidate::new(options).expect("a candidate");
    let Ok(Leadership::Leads(store)) = candidate.attempt() else { panic!("nobody else leads here") };
    let callers = Callers::start(*store, decision, ROUND);
    let (mut one, mut many, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let measured = [callers.run(1), pgbench(&server, &script), callers.run(64)];
        if round > 0 {
            one.push(measured[0]);
            rows.push(measured[1]);
            many.push(measured[2]);
        }
    }
    let ratio = |ours: &[f64]| median(&mut ours.iter().zip(&rows).map(|(a, b)| a / b).collect::<Vec<_>>());
    let (first, second) = (ratio(&one), ratio(&many));
    bench.report("decisions_per_s_c1", median(&mut one), "1/s", ROUNDS);
    bench.report("decisions_per_s_c64", median(&mut many), "1/s", ROUNDS);
    bench.report("pgbench_rows_per_s", median(&mut rows), "1/s", ROUNDS);
    bench.report_beside("decisions_per_s_c1", "decisions_ratio_c1", first, "x", ROUNDS);
    bench.report_beside("decisions_per_s_c64", "decisions_ratio_c64", second, "x", ROUNDS);
}

/// Commits a second of one client, one row each, prepared as ours are.
fn pgbench(server: &PostgresServer, script: &std::path::Path) -> f64 {
    let mut command = server.command("pgbench");
    command.args(["-n", "-c", "1", "-j", "1", "-M", "prepared", "-T", &ROUND.as_secs().to_string(), "-f"]).arg(script);
    let socket = server.socket();
    command.arg("-h").arg(socket.parent().expect("a folder")).args(["-U", "sluice", "postgres"]);
    let output = command.output().expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn decision(number: u64) -> Batch {
    let id = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(2);
    vec![
        Record::Put { table: TableId(1), key: id(number), value: vec![1; 300] },
        Record::Put { table: TableId(1), key: vec![0], value: number.to_be_bytes().repeat(4) },
        Record::Delete { table: TableId(1), key: id(number.wrapping_sub(64)) },
    ]
}
