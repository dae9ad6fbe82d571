//! `sluice boomerang ...`: reservations inside ICMP echo.

pub mod args;
mod decode;
mod show;
mod trace;

use crate::complain::Complaint;
use crate::watch::print_event;
use args::{BoomerangCommand, ReleaseArgs, ReserveArgs};
use documents::agent::{Answer, BoomerangAsk, BoomerangNews, BoomerangSession, EventDoc, Request};
use documents::boomerang::{ClassifierDoc, MaskDoc, RatesDoc, between};
use linux::poll::SignalFd;
use rpc::client::Client;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terms::{Rate, Span};

/// Runs one of them.
pub fn run(command: &BoomerangCommand) -> Result<ExitCode, Complaint> {
    match command {
        BoomerangCommand::Reserve(args) => reserve(args),
        BoomerangCommand::Release(args) => release(args),
        BoomerangCommand::Sessions(args) => show::run(args),
        BoomerangCommand::Trace(args) => trace::run(args),
        BoomerangCommand::Decode(args) => decode::run(args),
    }
}

fn reserve(args: &ReserveArgs) -> Result<ExitCode, Complaint> {
    let ask = ask(args)?;
    let group = ask.no_echo;
    let mut client = args.agent.connect()?;
    let mut signals = SignalFd::take(&ENDING).map_err(|failed| Complaint::world(failed.to_string()))?;
    let answer = client.call(Request::BoomerangReserve { ask, number: args.number })?;
    let Answer::Boomerang(doc) = answer else { return Err(Complaint::world("the agent answered something else")) };
    // Refused or without a way at once: the event that says so is on its way.
    let session = doc.sessions.first();
    if let (Some(session), false) = (session, args.json) {
        eprintln!("session {}", session.number);
    }
    // What its own node refuses is said at once; what others do is not.
    let patience = if group && !args.stay { Some(AT_ONCE) } else { patience(args) };
    let end = patience.map(|patience| Instant::now() + patience);
    // A change that is given up leaves what was there before.
    let number = session.map(|session| session.number).filter(|_| args.number.is_none());
    loop {
        if signals.take_next().is_some() {
            give_back(&mut client, number)?;
            return Err(Complaint::interrupted(if number.is_some() {
                "interrupted: given back"
            } else {
                "interrupted"
            }));
        }
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
        if left.is_zero() {
            return if group && !args.stay {
                group_is_told(args, session)
            } else {
                out_of_patience(args, &mut client, number)
            };
        }
        let Some((at_ns, event)) = client.event(left)? else { continue };
        let EventDoc::Boomerang { news, .. } = &event else { continue };
        print_event(at_ns, &event, args.json);
        match news {
            BoomerangNews::Reserved { .. } if !args.stay => return Ok(ExitCode::SUCCESS),
            BoomerangNews::Refused { .. } | BoomerangNews::NoRoute => return Ok(ExitCode::from(1)),
            // Also a change that nobody answered.
            BoomerangNews::Silent { over, .. } if *over || !args.stay => return Ok(ExitCode::from(1)),
            _ => {}
        }
    }
}

/// SIGHUP, SIGINT, SIGTERM.
const ENDING: [i32; 3] = [1, 2, 15];
/// The longest delay before a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// The time in which the agent's own refusal arrives.
const AT_ONCE: Duration = Duration::from_millis(200);

fn patience(args: &ReserveArgs) -> Option<Duration> {
    args.patience.map(|span| Duration::from_nanos(span.as_nanos()))
}

/// Releases a session without an answer, so that none is left that its requester does not know of.
fn give_back(client: &mut Client, number: Option<u64>) -> Result<(), Complaint> {
    match number.map(|number| client.call(Request::BoomerangRelease { number })) {
        // It was over already.
        None | Some(Ok(_) | Err(rpc::client::Error::Agent(_))) => Ok(()),
        Some(Err(error)) => Err(error.into()),
    }
}

fn out_of_patience(args: &ReserveArgs, client: &mut Client, number: Option<u64>) -> Result<ExitCode, Complaint> {
    give_back(client, number)?;
    if args.stay {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Complaint::refused(match number {
        Some(_) => "no answer in this time: given back",
        None => "no answer in this time: `sluice boomerang sessions` shows what it has",
    }))
}

/// A group sends no answers: the result says only that it was told.
fn group_is_told(args: &ReserveArgs, session: Option<&BoomerangSession>) -> Result<ExitCode, Complaint> {
    let Some(session) = session else { return Ok(ExitCode::from(1)) };
    if args.json {
        println!("{}", serde_json::to_string(session).map_err(|e| Complaint::world(e.to_string()))?);
    } else {
        println!("told {} every {}s; nobody answers for a group", session.far_end, session.refresh_s);
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &ReserveArgs) -> Result<BoomerangAsk, Complaint> {
    let refresh = args.refresh.as_nanos() / Span::NANOS_PER_SEC;
    let refresh_s = match u8::try_from(refresh) {
        Ok(seconds) if seconds > 0 && args.refresh.as_nanos().is_multiple_of(Span::NANOS_PER_SEC) => seconds,
        _ => return Err(Complaint::usage("--refresh is 1s to 255s, whole seconds")),
    };
    if args.far_end.is_none() && !args.to.at.is_host() {
        return Err(Complaint::usage("--to is a prefix: say with --far-end which host there answers the ping"));
    }
    let far_end = args.far_end.unwrap_or(args.to.at.addr);
    let first = RatesDoc { forward_bps: args.forward, reverse_bps: args.reverse };
    let pair = |(forward, reverse): (u32, Option<u32>), otherwise: u32| RatesDoc {
        forward_bps: forward,
        reverse_bps: reverse.unwrap_or(otherwise),
    };
    let mut rates = vec![first];
    rates.extend(args.or.iter().map(|or| pair(*or, args.reverse)));
    let (flow, mask) = whose(args);
    Ok(BoomerangAsk {
        far_end,
        flow,
        mask,
        rates,
        at_least: args.at_least.map_or(RatesDoc::default(), |least| pair(least, args.reverse)),
        refresh_s,
        no_echo: far_end.is_multicast(),
        uid: args.uid,
        auth: args.auth,
        ttl: 64,
        router_alert: args.router_alert,
        bound: args.stay,
    })
}

/// The packets, and the mask of the bits that count.
fn whose(args: &ReserveArgs) -> (ClassifierDoc, Option<MaskDoc>) {
    let to = args.to;
    if !to.at.is_host() || args.from.is_some_and(|from| !from.at.is_host()) {
        let ports = (args.from.and_then(|from| from.port), to.port);
        let ports = if args.any_port { (None, None) } else { ports };
        let (flow, mask) = between(args.from.map(|from| from.at), to.at, args.protocol, ports);
        return (flow, Some(mask));
    }
    let port = to.port.unwrap_or(0);
    let no_ports = args.any_port || (to.port.is_none() && args.from.is_none_or(|from| from.port.is_none()));
    let flow = ClassifierDoc {
        src: args.from.map(|from| from.at.addr),
        dst: Some(to.at.addr),
        protocol: args.protocol.unwrap_or(17),
        src_port: args.from.map_or(port, |from| from.port.unwrap_or(port)),
        dst_port: port,
    };
    (flow, no_ports.then(|| without_ports(to.at.addr)))
}

/// All bits but those of the ports.
fn without_ports(like: IpAddr) -> MaskDoc {
    let all = match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::BROADCAST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
    };
    MaskDoc { src: all, dst: all, protocol: u8::MAX, src_port: 0, dst_port: 0 }
}

fn release(args: &ReleaseArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    client.call(Request::BoomerangRelease { number: args.number })?;
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        let Some((_, event)) = client.event(end.saturating_duration_since(Instant::now()))? else { continue };
        if matches!(event, EventDoc::Boomerang { news: BoomerangNews::Released, number } if number == args.number) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(Complaint::world("nobody answered; every node forgets it after 3.5 refresh intervals"))
}

/// Two rates in words.
pub fn rates(rates: &RatesDoc) -> String {
    let rate = |bps: u32| Rate::from_bps(bps.into());
    format!("{} forward, {} reverse", rate(rates.forward_bps), rate(rates.reverse_bps))
}

/// An event in words.
pub fn words(news: &BoomerangNews) -> String {
    match news {
        BoomerangNews::Reserved { rates: got, refresh_s, hops_forward, hops_reverse } => {
            let hops = match (hops_forward, hops_reverse) {
                (Some(0), Some(0)) => "; no aware node between: nothing is guaranteed on the way".to_owned(),
                (Some(forward), Some(reverse)) => format!("; {forward} aware nodes out, {reverse} back"),
                _ => String::new(),
            };
            format!("reserved {}, refreshed every {refresh_s}s{hops}", rates(got))
        }
        BoomerangNews::Refused { available, kept } if *kept == RatesDoc::default() => {
            format!("refused: there is {}", rates(available))
        }
        BoomerangNews::Refused { available, kept } => {
            format!("refused: there is {}; it keeps {}", rates(available), rates(kept))
        }
        BoomerangNews::Silent { messages, over: true } => format!("given up: no answer to {messages} messages"),
        BoomerangNews::Silent { messages, .. } => format!("no answer to {messages} messages"),
        BoomerangNews::HopMismatch { forward, reverse } => {
            format!("the way out met {forward} aware nodes and the way back {reverse}: one direction may have a gap")
        }
        BoomerangNews::NoRoute => "there is no way to the far end".to_owned(),
        BoomerangNews::Released => "released".to_owned(),
    }
}
