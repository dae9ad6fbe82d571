//! `sluice mace watch`: what promoted flows bring and count as, a line each second, as a picture that grows.

use super::ask;
use crate::complain::Complaint;
use crate::places::AgentArgs;
use crate::rates::rate;
use clap::Args;
use documents::mace::MaceDoc;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::Span;

/// The places of a picture, which reach from nothing to a quarter more than what is allocated.
const WIDTH: u64 = 40;
/// The lines between two headings.
const PAGE: u32 = 20;

/// Options of `sluice mace watch`.
#[derive(Args, Debug)]
pub struct MaceWatchArgs {
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The time between two lines
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "1s")]
    pub every: Span,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = documents::units::parse_span)]
    pub patience: Option<Span>,
    /// Print JSON, one object a line: everything that the agent says about it
    #[arg(long)]
    pub json: bool,
}

/// Prints a line for each interface with recognition until the time is over or the agent is gone.
pub fn run(args: &MaceWatchArgs) -> Result<ExitCode, Complaint> {
    if args.every < Span::from_millis(100) {
        return Err(Complaint::usage("--every: 100 ms at least".to_owned()));
    }
    let mut client = args.agent.connect()?;
    let begun = Instant::now();
    let every = Duration::from_nanos(args.every.as_nanos());
    for line in 0_u32.. {
        let due = every * line;
        if args.patience.is_some_and(|span| due > Duration::from_nanos(span.as_nanos())) {
            break;
        }
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let rows = ask(&mut client)?;
        if rows.is_empty() {
            println!("{}", super::NOWHERE);
            break;
        }
        if !args.json && line % PAGE == 0 {
            println!("{:>8} {}", "after", heading());
        }
        for doc in &rows {
            if args.json {
                println!("{}", serde_json::to_string(doc).map_err(|e| Complaint::world(e.to_string()))?);
            } else {
                println!("{:>7.1}s {}", begun.elapsed().as_secs_f64(), picture(doc));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn heading() -> String {
    let words = ["flows", "declared", "measured", "estimated", "admitted", "refused"];
    let [flows, declared, measured, estimated, admitted, refused] = words;
    format!(
        "{flows:>5} {declared:>10} {measured:>10} {estimated:>10} {admitted:>8} {refused:>8}  # measured, = estimated, | allocated"
    )
}

/// A line: numbers, and a bar with a mark where the allocation ends.
fn picture(doc: &MaceDoc) -> String {
    let measured = doc.measured_wire_bps.unwrap_or(0);
    let most = doc.allocated_wire_bps.saturating_mul(5) / 4;
    // The place that a rate reaches; what is more than the picture ends with it.
    let reach = |bps: u64| bps.min(most).saturating_mul(WIDTH).checked_div(most).unwrap_or(0);
    let cell = |at: u64| match at {
        at if at == reach(doc.allocated_wire_bps) => '|',
        at if at < reach(measured) => '#',
        at if at < reach(doc.estimate_wire_bps) => '=',
        _ => ' ',
    };
    let bar: String = (0..WIDTH).map(cell).collect();
    let line = format!(
        "{:>5} {:>10} {:>10} {:>10} {:>8} {:>8}  {bar}",
        doc.promoted,
        rate(doc.declared_wire_bps),
        doc.measured_wire_bps.map_or_else(|| "not yet".to_owned(), rate),
        rate(doc.estimate_wire_bps),
        doc.counts.admitted,
        doc.counts.refused,
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::mace::MaceCountRow;

    fn doc(allocated: u64, measured: Option<u64>, estimate: u64) -> MaceDoc {
        let zero = r#"{"asked":0,"admitted":31,"refused":4,"failed":0,"silent":0,"ended":0,"samples":0,"doubted":0}"#;
        let counts: MaceCountRow = serde_json::from_str(zero).unwrap();
        MaceDoc {
            interface: "eth1".to_owned(),
            rule: "measured-sum".to_owned(),
            allocated_wire_bps: allocated,
            measured_wire_bps: measured,
            estimate_wire_bps: estimate,
            declared_wire_bps: 9_000_000,
            in_doubt: false,
            period_ms: 1_000,
            window: 5,
            flows: Vec::new(),
            promoted: 31,
            signalled: None,
            applications: Vec::new(),
            shadows: Vec::new(),
            decisions: Vec::new(),
            counts,
        }
    }

    #[test]
    fn a_bar_is_what_is_measured_and_estimated_of_what_is_allocated() {
        let bar = |doc: &MaceDoc| picture(doc).split_once("4  ").unwrap().1.to_owned();
        let half = format!("{}{}{}|", "#".repeat(16), "=".repeat(8), " ".repeat(8));
        assert_eq!(bar(&doc(4_000_000, Some(2_000_000), 3_000_000)), half);
        let over = format!("{}|{}", "#".repeat(32), "=".repeat(7));
        assert_eq!(bar(&doc(4_000_000, Some(4_000_000), u64::MAX)), over);
        assert_eq!(bar(&doc(4_000_000, None, 0)), format!("{}|", " ".repeat(32)));
        assert_eq!(bar(&doc(0, Some(5), 5)), "|", "nothing was left to allocate");
    }
}
