//! `sluice boomerang ...`: reservations inside ICMP echo.

pub mod args;
mod decode;
mod show;
mod trace;

use crate::complain::Complaint;
use crate::watch::print_event;
use api::agent::{Answer, BoomerangAsk, BoomerangNews, EventDoc, Request};
use api::boomerang::{ClassifierDoc, MaskDoc, RatesDoc};
use args::{BoomerangCommand, ReleaseArgs, ReserveArgs};
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
    let answer = client.call(Request::BoomerangReserve { ask, number: args.number })?;
    let Answer::Boomerang(doc) = answer else { return Err(Complaint::world("the agent answered something else")) };
    // Refused or without a way at once: the event that says so is on its way.
    let number = doc.sessions.first().map(|session| session.number);
    if let (Some(number), false) = (number, args.json) {
        eprintln!("session {number}");
    }
    if group && !args.stay {
        return Ok(ExitCode::SUCCESS);
    }
    let end = args.patience.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    loop {
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        if end.is_some() && left.is_zero() {
            let held = args.stay;
            return Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(1) });
        }
        let Some((at_ns, event)) = client.event(left)? else { continue };
        let EventDoc::Boomerang { news, .. } = &event else { continue };
        print_event(at_ns, &event, args.json);
        match news {
            BoomerangNews::Reserved { .. } if !args.stay => return Ok(ExitCode::SUCCESS),
            BoomerangNews::Refused { .. } | BoomerangNews::NoRoute => return Ok(ExitCode::from(1)),
            BoomerangNews::Silent { over: true, .. } => return Ok(ExitCode::from(1)),
            _ => {}
        }
    }
}

fn ask(args: &ReserveArgs) -> Result<BoomerangAsk, Complaint> {
    let refresh = args.refresh.as_nanos() / Span::NANOS_PER_SEC;
    let refresh_s = match u8::try_from(refresh) {
        Ok(seconds) if seconds > 0 && args.refresh.as_nanos().is_multiple_of(Span::NANOS_PER_SEC) => seconds,
        _ => return Err(Complaint::usage("--refresh is 1s to 255s, whole seconds")),
    };
    let far_end = args.far_end.unwrap_or(args.to.addr);
    let port = args.to.port.unwrap_or(0);
    let first = RatesDoc { forward_bps: args.forward, reverse_bps: args.reverse };
    let pair = |(forward, reverse): (u32, Option<u32>), otherwise: u32| RatesDoc {
        forward_bps: forward,
        reverse_bps: reverse.unwrap_or(otherwise),
    };
    let mut rates = vec![first];
    rates.extend(args.or.iter().map(|or| pair(*or, args.reverse)));
    let no_ports = args.any_port || (args.to.port.is_none() && args.from.is_none_or(|from| from.port.is_none()));
    Ok(BoomerangAsk {
        far_end,
        flow: ClassifierDoc {
            src: args.from.map(|from| from.addr),
            dst: Some(args.to.addr),
            protocol: args.protocol,
            src_port: args.from.map_or(port, |from| from.port.unwrap_or(port)),
            dst_port: port,
        },
        mask: no_ports.then(|| without_ports(far_end)),
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

/// News in words.
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
