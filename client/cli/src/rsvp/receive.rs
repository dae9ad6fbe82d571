//! `sluice rsvp receive`: shows the senders of a session and reserves for them, in every style.

use super::args::{AskArgs, ReceiveArgs, Reserve, ServiceName};
use super::{follow, service, session_id, tspec};
use crate::complain::Complaint;
use documents::agent::{EventDoc, FlowSpecDoc, Request, SenderId, StyleDoc, TspecDoc};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;
use terms::guaranteed::{received, rspec_for};
use terms::{Adspec, GuaranteedTerms, Rate};

/// A sender that is present: its traffic, and the properties of its path.
struct Sender {
    tspec: TspecDoc,
    /// The largest packet that its path and our own link carry, bytes, as far as they report it.
    mtu: Option<u32>,
    /// `C_tot` and `D_tot`, where every hop offers guaranteed service.
    terms: Option<GuaranteedTerms>,
}

/// A RESERVE call's lists.
type Lists = (Vec<SenderId>, Vec<FlowSpecDoc>);

/// Runs it.
pub fn run(args: &ReceiveArgs) -> Result<ExitCode, Complaint> {
    check(args)?;
    let ask = &args.ask;
    let mut client = args.agent.connect()?;
    let session = session_id(&ask.session, ask.protocol);
    if args.priority.is_some() {
        client.call(Request::Priority { priority: args.priority })?;
    }
    client.call(Request::Receiver { session })?;
    let only: Vec<SenderId> = ask.filters.iter().map(|&end| end.into()).collect();
    let mut there: BTreeMap<(IpAddr, u32), Sender> = BTreeMap::new();
    let mut asked: Lists = Default::default();
    let mut pending = 0usize;
    follow(&mut client, args.patience, args.json, |client, event| match event {
        EventDoc::Path { sender, tspec, path_mtu, own_mtu, c_tot_bytes, d_tot_us, .. } => {
            let Some(reserve) = args.reserve else { return Ok(None) };
            if !only.is_empty() && !only.contains(sender) {
                return Ok(None);
            }
            let terms = c_tot_bytes.zip(*d_tot_us).map(|(c_tot, d_tot)| GuaranteedTerms {
                c_tot,
                d_tot,
                ..GuaranteedTerms::default()
            });
            let mtu = [*path_mtu, *own_mtu].into_iter().flatten().min();
            there.insert((sender.src, sender.src_port), Sender { tspec: *tspec, mtu, terms });
            let lists = lists(args, reserve, &there)?;
            if lists == asked {
                return Ok(None);
            }
            pending += new_ones(ask, &lists, &asked);
            let (senders, flowspecs) = lists.clone();
            client.call(Request::Reserve {
                session,
                style: ask.style,
                senders,
                flowspecs,
                confirm: !args.no_confirm,
            })?;
            asked = lists;
            Ok(None)
        }
        EventDoc::Confirm { .. } if args.once => {
            pending = pending.saturating_sub(1);
            Ok((pending == 0).then_some(ExitCode::SUCCESS))
        }
        EventDoc::Error { answers, .. } if args.once && answers == "resv" => Ok(Some(ExitCode::from(1))),
        _ => Ok(None),
    })
}

fn check(args: &ReceiveArgs) -> Result<(), Complaint> {
    check_ask(&args.ask)?;
    if args.delay.is_some() && args.ask.service != ServiceName::Guaranteed {
        return Err(Complaint::usage("--delay is a promise of --service guaranteed: write both"));
    }
    Ok(())
}

/// Checks a request, of an application or of an operator.
pub(super) fn check_ask(ask: &AskArgs) -> Result<(), Complaint> {
    if ask.style == StyleDoc::Wf && !ask.filters.is_empty() {
        return Err(Complaint::usage("--style wf takes every sender: leave --filter out, or write --style se"));
    }
    if ask.service_rate.is_some() && ask.service != ServiceName::Guaranteed {
        return Err(Complaint::usage("--service-rate is R of --service guaranteed: write both"));
    }
    Ok(())
}

/// The number of confirmations to expect after a change: one for each new or changed flow for `ff`, else one.
fn new_ones(ask: &AskArgs, now: &Lists, before: &Lists) -> usize {
    if ask.style != StyleDoc::Ff {
        return 1;
    }
    let known: Vec<_> = before.0.iter().zip(&before.1).collect();
    now.0.iter().zip(&now.1).filter(|flow| !known.contains(flow)).count()
}

/// The senders and flowspecs of the request, for the senders present.
fn lists(args: &ReceiveArgs, reserve: Reserve, there: &BTreeMap<(IpAddr, u32), Sender>) -> Result<Lists, Complaint> {
    let senders = there.keys().map(|&(src, src_port)| SenderId { src, src_port });
    // Senders that share a reservation share its M, which every one of their paths must carry.
    let least = there.values().filter_map(|sender| sender.mtu).min().filter(|_| args.ask.style != StyleDoc::Ff);
    let each: Vec<FlowSpecDoc> =
        there.values().map(|sender| flowspec(args, reserve, sender, least.or(sender.mtu))).collect::<Result<_, _>>()?;
    Ok(match args.ask.style {
        StyleDoc::Ff => (senders.collect(), each),
        StyleDoc::Se => (senders.collect(), vec![largest(&each)?]),
        StyleDoc::Wf => (Vec::new(), vec![largest(&each)?]),
    })
}

fn flowspec(args: &ReceiveArgs, reserve: Reserve, sender: &Sender, mtu: Option<u32>) -> Result<FlowSpecDoc, Complaint> {
    let tspec = match reserve {
        Reserve::Same => received(&sender.tspec.into(), mtu, None).into(),
        Reserve::Rate(rate) => tspec(rate, &args.traffic)?,
    };
    if args.ask.service == ServiceName::ControlledLoad {
        return Ok(service(tspec, None));
    }
    let rate = match args.delay {
        None => args.ask.service_rate.map_or(tspec.r_bps, Rate::as_bps),
        Some(wanted) => {
            let terms = sender.terms.ok_or_else(|| {
                Complaint::refused(
                    "a hop of the path keeps no delay bound, so none can be promised (guaranteed service)",
                )
            })?;
            let path = Adspec { guaranteed: Some(terms), ..Adspec::origin(tspec.max_bytes) };
            let rspec = rspec_for(&tspec.into(), &path, wanted).ok_or_else(|| {
                let (wanted, fixed) = (wanted.as_micros(), terms.d_tot);
                Complaint::refused(format!("no rate keeps {wanted} microseconds: the path alone adds {fixed}"))
            })?;
            rspec.R.as_bps()
        }
    };
    Ok(service(tspec, Some(Rate::from_bps(rate))))
}

/// The largest flowspec: one reservation that the senders share must hold each of them.
fn largest(all: &[FlowSpecDoc]) -> Result<FlowSpecDoc, Complaint> {
    let mut all = all.iter().copied();
    let first = all.next().ok_or_else(|| Complaint::usage("there is no sender to reserve for"))?;
    Ok(all.fold(first, |a, b| match (a, b) {
        (
            FlowSpecDoc::Guaranteed { tspec, rate_bps, slack_us },
            FlowSpecDoc::Guaranteed { tspec: other, rate_bps: rate, .. },
        ) => FlowSpecDoc::Guaranteed { tspec: both(tspec, other), rate_bps: rate_bps.max(rate), slack_us },
        (FlowSpecDoc::ControlledLoad { tspec }, FlowSpecDoc::ControlledLoad { tspec: other }) => {
            FlowSpecDoc::ControlledLoad { tspec: both(tspec, other) }
        }
        (a, _) => a, // one command asks for one service
    }))
}

fn both(a: TspecDoc, b: TspecDoc) -> TspecDoc {
    TspecDoc {
        r_bps: a.r_bps.max(b.r_bps),
        b_bytes: a.b_bytes.max(b.b_bytes),
        p_bps: a.p_bps.zip(b.p_bps).map(|(a, b)| a.max(b)),
        m_bytes: a.m_bytes.min(b.m_bytes),
        max_bytes: a.max_bytes.max(b.max_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReceiveArgs,
    }

    /// As certain routers say it: M = 2^31 - 1, m = 0, and what the path carries in the Adspec alone.
    fn router(mtu: Option<u32>) -> Sender {
        let tspec = TspecDoc { r_bps: 128_000, b_bytes: 64_000, p_bps: None, m_bytes: 0, max_bytes: i32::MAX as u32 };
        Sender { tspec, mtu, terms: None }
    }

    #[test]
    fn the_same_is_asked_for_no_larger_packets_than_the_path_carries() {
        let there: BTreeMap<_, _> = [("10.0.0.1", Some(1_500)), ("10.0.0.2", Some(1_400))]
            .map(|(src, mtu)| ((src.parse().unwrap(), 0), router(mtu)))
            .into();
        let asked = |style: &str| {
            let line = ["sluice", "--session", "10.0.2.2:23", "--reserve", "same", "--style", style];
            let args = Line::try_parse_from(line).unwrap().args;
            let (senders, flowspecs) = lists(&args, Reserve::Same, &there).unwrap();
            let most = flowspecs.iter().map(|flowspec| match flowspec {
                FlowSpecDoc::ControlledLoad { tspec } | FlowSpecDoc::Guaranteed { tspec, .. } => tspec.max_bytes,
            });
            (senders.len(), most.collect::<Vec<_>>())
        };
        assert_eq!(asked("ff"), (2, vec![1_500, 1_400]), "each by its own path");
        assert_eq!(asked("se"), (2, vec![1_400]), "one that every path carries");
        assert_eq!(asked("wf"), (0, vec![1_400]));
    }
}
