//! `sluice doctor --disk`: the throughput of a disk, and the entry for the agent's file.

use crate::args::DoctorArgs;
use crate::complain::Complaint;
use linux::storage::Device;
use linux::storage::measure::{self, DiskSpeed, Trial};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The total time above which the user is asked first.
const LONG: Duration = Duration::from_secs(10);
const PHASES: u32 = 3;

/// Measures and prints.
pub fn run(path: &Path, args: &DoctorArgs) -> Result<ExitCode, Complaint> {
    let span = Duration::from_nanos(args.span.as_nanos());
    if span < Duration::from_millis(50) || span > Duration::from_secs(600) {
        return Err(Complaint::usage("a phase takes from 50ms to 10m".to_owned()));
    }
    let request = usize::try_from(args.request.get()).unwrap_or(usize::MAX);
    if !(4096..=64 << 20).contains(&request) || !request.is_multiple_of(4096) {
        return Err(Complaint::usage("a request is a multiple of 4kb, at most 64mb".to_owned()));
    }
    if span * PHASES > LONG && !args.yes && !agreed(path, span * PHASES)? {
        return Ok(ExitCode::from(1));
    }
    let device = Device::find(&path.to_string_lossy()).ok();
    let trial = Trial { span, request, ..Trial::default() };
    let found = measure::measure(path, trial).map_err(|failed| Complaint::world(failed.to_string()))?;
    let name = device.map_or_else(|| path.display().to_string(), |device| device.name);
    if args.json {
        println!("{}", as_json(&name, request, &found));
    } else {
        print(&name, path, request, &found);
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks on a terminal; without a terminal the answer is a refusal.
fn agreed(path: &Path, span: Duration) -> Result<bool, Complaint> {
    let what = format!("this keeps the disk of {} busy for about {} s", path.display(), span.as_secs());
    if !std::io::stdin().is_terminal() {
        return Err(Complaint::usage(format!("{what}: add --yes, or give a shorter --span")));
    }
    eprint!("{what}; go on? [y/N] ");
    // A question that cannot be shown is answered by nobody.
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn as_json(name: &str, request: usize, found: &DiskSpeed) -> serde_json::Value {
    serde_json::json!({
        "device": name,
        "request_bytes": request,
        "reads_bytes_per_s": found.reads,
        "writes_bytes_per_s": found.writes,
        "both_bytes_per_s": found.both,
        "capacity_bytes_per_s": found.capacity(),
    })
}

fn print(name: &str, path: &Path, request: usize, found: &DiskSpeed) {
    let rate = |bytes: u64| format!("{:>9.1} MB/s", bytes as f64 / 1e6);
    println!("disk {name}, direct requests of {} KiB, one after the other", request >> 10);
    println!("  reads alone             {}", rate(found.reads));
    if let (Some(writes), Some(both)) = (found.writes, found.both) {
        println!("  writes alone            {}", rate(writes));
        println!("  both, the slower        {}", rate(both));
    } else {
        println!("  (a device itself is only read; name a folder on it to measure writing too)");
    }
    println!("\nin the agent's file, less what you want to keep in hand:\n");
    println!(
        "[[disk]]\nname = \"{name}\"\ndevice = \"{}\"\ncapacity = \"{}kbps\"",
        path.display(),
        found.capacity() / 1000
    );
}
