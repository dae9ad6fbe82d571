//! The way of a command's packets: signalled by RSVP or Boomerang, or the command's own share of the link by which they
//! leave, booked.
//!
//! The agent gives a signalled way back when the connection to it ends, however `sluice run` ends. A booking is a lease.

use super::RunArgs;
use super::brokered::Brokered;
use crate::complain::Complaint;
use clap::{Args, ValueEnum};
use documents::agent::{
    Answer, BoomerangAsk, BoomerangNews, EventDoc, FlowSpecDoc, Request, SenderId, SessionId, TspecDoc,
};
use documents::boomerang::{RatesDoc, SitePrefix, between};
use linux::netlink::Socket;
use linux::route::KernelRoutes;
use rpc::client::{Client, Error};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use terms::ports::{Route, RouteDecision};
use terms::{Rate, Span};

/// Who reserves the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WayMeans {
    /// RSVP if the far end answers it, else Boomerang, else a booking
    Auto,
    /// RSVP: the far end must reserve
    Rsvp,
    /// Boomerang: the far end need only answer a ping
    Boomerang,
    /// A booking of the link by which the packets leave, for this command alone
    Booking,
}

/// The options about the network.
#[derive(Args, Clone, Copy, Debug)]
pub struct WayArgs {
    /// The host that the command speaks with
    #[arg(long, value_name = "ADDR", requires = "forward")]
    pub to: Option<IpAddr>,
    /// Our address on the way to it [default: the route's]
    #[arg(long, value_name = "ADDR", requires = "to")]
    pub from: Option<IpAddr>,
    /// The rate of what the command sends
    #[arg(long, value_name = "RATE", requires = "to", value_parser = documents::units::parse_rate)]
    pub forward: Option<Rate>,
    /// The rate of what it receives; Boomerang reserves both
    #[arg(long, value_name = "RATE", requires = "to", value_parser = documents::units::parse_rate)]
    pub reverse: Option<Rate>,
    /// Who reserves the way
    #[arg(long, value_name = "MEANS", value_enum, default_value = "auto")]
    pub with: WayMeans,
    /// RSVP: the IP protocol of the packets: tcp, udp or a number
    #[arg(long, value_parser = documents::units::parse_protocol, default_value = "tcp")]
    pub protocol: u8,
    /// How long an answer may take, for each means
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "2s")]
    pub patience: Span,
}

/// A way that is reserved.
pub enum Way {
    Rsvp {
        session: SessionId,
        sender: SenderId,
        asked: Rate,
        got: u64,
    },
    Boomerang {
        number: u64,
        asked: RatesDoc,
        got: RatesDoc,
    },
    /// This resource is to be booked, at this rate.
    Booking {
        resource: String,
        rate: Rate,
    },
    /// A broker has reserved it at every agent on the way.
    Brokered(Box<Brokered>),
}

impl Way {
    /// Reserves the way, if one is asked for. `told`: says what is tried.
    pub fn reserve(run: &RunArgs, client: &mut Client, told: &dyn Fn(&str)) -> Result<Option<Way>, Complaint> {
        let args = &run.way();
        let (Some(to), Some(forward)) = (args.to, args.forward) else { return Ok(None) };
        if let Some(broker) = &run.broker {
            return Brokered::reserve(run, broker, to, forward).map(|made| Some(Way::Brokered(Box::new(made))));
        }
        let asked = (args.with, args.reverse);
        let means: &[WayMeans] = match asked {
            (WayMeans::Auto, Some(_)) => &[WayMeans::Boomerang],
            (WayMeans::Auto, None) => &[WayMeans::Rsvp, WayMeans::Boomerang, WayMeans::Booking],
            (WayMeans::Rsvp, Some(_)) => {
                return Err(Complaint::usage("--reverse by RSVP is the far end's to announce: use --with boomerang"));
            }
            (WayMeans::Booking, Some(_)) => {
                return Err(Complaint::usage(
                    "--reverse leaves another host's interface, whose agent books it: use --with boomerang",
                ));
            }
            _ => std::slice::from_ref(&args.with),
        };
        let mut last = Complaint::refused("nothing was tried");
        for one in means {
            let tried = match one {
                WayMeans::Rsvp => rsvp(args, client, to, forward),
                WayMeans::Boomerang => boomerang(args, client, to, forward),
                _ => booking(to, forward),
            };
            match tried {
                Ok(way) => return Ok(Some(way)),
                // A node that says no has spoken for every means.
                Err(Tried::Refused(complaint)) => return Err(complaint),
                Err(Tried::Unspoken(complaint)) => {
                    told(&format!("{complaint}"));
                    last = complaint;
                }
            }
        }
        Err(last)
    }

    /// Gives it back.
    pub fn release(&self, client: &mut Client) {
        // It may be over, and it ends with the connection.
        let _ = match self {
            Way::Rsvp { session, sender, .. } => {
                client.call(Request::SenderGone { session: *session, sender: *sender })
            }
            Way::Boomerang { number, .. } => client.call(Request::BoomerangRelease { number: *number }),
            Way::Brokered(made) => return made.release(),
            Way::Booking { .. } => return,
        };
    }

    /// Makes it longer, if it is a lease.
    pub fn renew(&self) -> Result<(), Complaint> {
        match self {
            Way::Brokered(made) => made.renew(),
            _ => Ok(()),
        }
    }

    /// Looks at an event: a sentence if the way has been lost.
    pub fn lost(&self, event: &EventDoc) -> Option<String> {
        match (self, event) {
            (Way::Rsvp { session, .. }, EventDoc::ResvGone { session: of, .. }) if session == of => {
                Some("the far end has given the reservation back".to_owned())
            }
            (Way::Boomerang { number, .. }, EventDoc::Boomerang { number: of, news }) if number == of => match news {
                BoomerangNews::Silent { over: true, .. } | BoomerangNews::NoRoute => {
                    Some("nobody answers for the reservation any more".to_owned())
                }
                BoomerangNews::Refused { kept, .. } => {
                    Some(format!("a node has taken some of the reservation back: {} bit/s are left", kept.forward_bps))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            Way::Rsvp { got, .. } => format!("RSVP reserved {} all the way", Rate::from_bps(*got)),
            Way::Boomerang { got, .. } => format!("Boomerang reserved {}", crate::boomerang::rates(got)),
            Way::Booking { resource, rate } => format!("{resource} is booked at {rate}"),
            Way::Brokered(made) => made.words(),
        }
    }

    /// As JSON, for the report.
    pub fn report(&self) -> Value {
        match self {
            Way::Rsvp { asked, got, .. } => {
                json!({"with": "rsvp", "asked": {"forward_bps": asked.as_bps()}, "admitted": {"forward_bps": got}})
            }
            Way::Boomerang { asked, got, .. } => json!({"with": "boomerang", "asked": asked, "admitted": got}),
            Way::Booking { resource, rate } => {
                json!({"with": "booking", "resource": resource, "asked": {"forward_bps": rate.as_bps()}})
            }
            Way::Brokered(made) => made.report(),
        }
    }
}

/// Why a means did not reserve.
enum Tried {
    /// A node says no.
    Refused(Complaint),
    /// There is no answer to this means.
    Unspoken(Complaint),
}

impl From<Error> for Tried {
    fn from(error: Error) -> Tried {
        match Complaint::from(error) {
            complaint if complaint.exit_code() == 1 => Tried::Refused(complaint),
            complaint => Tried::Unspoken(complaint),
        }
    }
}

/// Waits for an event that decides.
fn wait<T>(
    client: &mut Client,
    patience: Span,
    mut decides: impl FnMut(&EventDoc) -> Option<Result<T, Tried>>,
) -> Result<Option<T>, Tried> {
    let until = Instant::now() + Duration::from_nanos(patience.as_nanos());
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let Some((_, event)) = client.event(left)? else { continue };
        if let Some(decided) = decides(&event) {
            return decided.map(Some);
        }
    }
}

fn rsvp(args: &WayArgs, client: &mut Client, to: IpAddr, forward: Rate) -> Result<Way, Tried> {
    let src = match args.from {
        Some(from) => from,
        None => way_out(to).map_err(Tried::Unspoken)?.1,
    };
    let session = SessionId { dst: to, protocol: args.protocol, dst_port: 0 };
    let sender = SenderId { src, src_port: 0 };
    let tspec = TspecDoc {
        r_bps: forward.as_bps(),
        b_bytes: documents::units::usual_burst(forward).get(),
        p_bps: None,
        m_bytes: 64,
        max_bytes: 1_500,
    };
    client.call(Request::Sender { session, sender, tspec, ttl: 64 })?;
    let found = wait(client, args.patience, |event| match event {
        EventDoc::Resv { session: of, flowspec, .. } if *of == session => {
            let (FlowSpecDoc::ControlledLoad { tspec } | FlowSpecDoc::Guaranteed { tspec, .. }) = flowspec;
            (tspec.r_bps >= forward.as_bps()).then_some(Ok(tspec.r_bps))
        }
        EventDoc::Error { session: of, meaning, text, node, .. } if *of == session => {
            let words = text.as_ref().map_or(String::new(), |text| format!(": {text}"));
            Some(Err(Tried::Refused(Complaint::refused(format!("{node} refuses by RSVP: {meaning}{words}")))))
        }
        _ => None,
    });
    match found {
        Ok(Some(got)) => Ok(Way::Rsvp { session, sender, asked: forward, got }),
        Ok(None) => {
            client.call(Request::SenderGone { session, sender })?;
            Err(Tried::Unspoken(Complaint::refused(format!(
                "{to} reserved nothing by RSVP in {} ms",
                args.patience.as_nanos() / 1_000_000
            ))))
        }
        Err(tried) => {
            client.call(Request::SenderGone { session, sender })?;
            Err(tried)
        }
    }
}

fn boomerang(args: &WayArgs, client: &mut Client, to: IpAddr, forward: Rate) -> Result<Way, Tried> {
    let bps = |rate: Rate| {
        let wide = || Tried::Refused(Complaint::usage("Boomerang reserves at most 4294967295 bit/s"));
        u32::try_from(rate.as_bps()).map_err(|_| wide())
    };
    let asked = RatesDoc { forward_bps: bps(forward)?, reverse_bps: bps(args.reverse.unwrap_or(Rate::ZERO))? };
    let (flow, mask) = between(args.from.map(SitePrefix::host), SitePrefix::host(to), None, (None, None));
    let ask = BoomerangAsk {
        far_end: to,
        flow,
        mask: Some(mask),
        rates: vec![asked],
        at_least: RatesDoc::default(),
        refresh_s: 3,
        no_echo: false,
        uid: None,
        auth: None,
        ttl: 64,
        router_alert: false,
        bound: true,
    };
    let Answer::Boomerang(doc) = client.call(Request::BoomerangReserve { ask, number: None })? else {
        return Err(Tried::Unspoken(Complaint::world("the agent answered something else")));
    };
    let number = doc.sessions.first().map(|session| session.number);
    let found = wait(client, args.patience, |event| {
        let EventDoc::Boomerang { news, number: of } = event else { return None };
        if number.is_some_and(|number| number != *of) {
            return None;
        }
        match news {
            BoomerangNews::Reserved { rates, .. } => Some(Ok((*of, *rates))),
            BoomerangNews::Refused { available, .. } => Some(Err(Tried::Refused(Complaint::refused(format!(
                "refused by Boomerang: there is {}",
                crate::boomerang::rates(available)
            ))))),
            BoomerangNews::NoRoute => Some(Err(Tried::Unspoken(Complaint::refused(format!("no route to {to}"))))),
            _ => None,
        }
    })?;
    match found {
        Some((number, got)) => Ok(Way::Boomerang { number, asked, got }),
        None => {
            if let Some(number) = number {
                client.call(Request::BoomerangRelease { number })?;
            }
            let text = format!("{to} answered no ping of Boomerang in {} ms", args.patience.as_nanos() / 1_000_000);
            Err(Tried::Unspoken(Complaint::refused(text)))
        }
    }
}

fn booking(to: IpAddr, forward: Rate) -> Result<Way, Tried> {
    let (name, _) = way_out(to).map_err(Tried::Unspoken)?;
    Ok(Way::Booking { resource: format!("net/{name}"), rate: forward })
}

/// The interface by which packets to a host leave, and our address there.
pub(super) fn way_out(to: IpAddr) -> Result<(String, IpAddr), Complaint> {
    let world = |error: &dyn std::fmt::Display| Complaint::world(format!("the route to {to}: {error}"));
    let mut routes = KernelRoutes::open().map_err(|error| world(&error))?;
    match routes.route(to, None, None) {
        RouteDecision::Out { oif, source, .. } => {
            let mut socket = Socket::open().map_err(|error| world(&error))?;
            let link = socket.link_by_index(oif).map_err(|error| world(&error))?;
            Ok((link.name, source))
        }
        RouteDecision::Local => Err(Complaint::usage(format!("{to} is this host itself"))),
        _ => Err(Complaint::world(format!("there is no route to {to}"))),
    }
}
