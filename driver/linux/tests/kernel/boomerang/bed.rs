//! A router for Boomerang's messages: initiating nodes in the west, far ends in the east, each behind a neighbour that is
//! known; the programs loaded, a grant at each interface.

use super::router::router;
use crate::scratch::StateDir;
use linux::boomerang::{FastPath, Hanging, ProgramRules, REDIRECT};
use linux::bpf::arriving::Ran;
use linux::bpf::entry::MAJOR;
use std::net::IpAddr;
use terms::{Bytes, FlowKey, IfIndex, Rate, Span};
use wire::boomerang::{BoomerangRequest, Opt, Rates, Selector, TravelDirection};
use wire::ip::Header;

pub const CLASS: u32 = (MAJOR as u32) << 16 | 4;
pub const RULES: ProgramRules = ProgramRules {
    most_refresh: 60,
    burst: Span::from_millis(100),
    burst_least: Bytes::new(8192),
    min_unit: 128,
    per_source: u32::MAX,
    offset: Span::ZERO,
};

pub struct Bed {
    pub path: FastPath,
    pub west: IfIndex,
    pub east: IfIndex,
    state: StateDir,
}

pub fn bed(rows: u32, grant: Rate) -> Bed {
    let (west, east) = router();
    let state = StateDir::new();
    let path = open_in(state.path(), rows);
    for index in [west, east] {
        path.attach(index, Hanging::Native).expect("veth has XDP");
        path.listen(index, true).expect("a small number");
        path.redirect(index, true).expect("a small number");
        path.grow(index, grant, CLASS).expect("a small number");
    }
    Bed { path, west, east, state }
}

pub fn open_in(dir: &std::path::Path, rows: u32) -> FastPath {
    let path = FastPath::open(dir, rows, [0x5eed, 0xfeed]).expect("the programs load");
    path.set_rules(&RULES);
    path
}

/// A message that the tests vary.
#[derive(Clone, Debug)]
pub struct Say {
    pub flow: FlowKey,
    pub leg: TravelDirection,
    pub transaction: u32,
    pub flags: u16,
    pub refresh: u8,
    pub key: u64,
    pub rates: Vec<Rates>,
    pub mask: Option<Selector>,
    pub options: Vec<Opt<'static>>,
    pub router_alert: bool,
    pub ttl: u8,
}

impl Say {
    /// Flow `n` asks for so much, bit/s.
    pub fn flow(n: u32, forward: u32, reverse: u32) -> Say {
        let [_, b, c, d] = n.to_be_bytes();
        let (src, dst) = ([10, 10, c, d].into(), [10, 20, b, 1].into());
        let flow = FlowKey { src, dst, protocol: 17, src_port: 4000, dst_port: 5004, wild: terms::Wild::NONE };
        let rates = vec![Rates { forward, reverse }];
        Say {
            flow,
            leg: TravelDirection::Request,
            transaction: 1,
            flags: 0,
            refresh: 30,
            key: 1,
            rates,
            mask: None,
            options: vec![],
            router_alert: true,
            ttl: 64,
        }
    }

    /// The same of IPv6.
    pub fn v6(mut self) -> Say {
        let wide = |address: IpAddr, net: u16| match address {
            IpAddr::V4(a) => {
                let [_, _, c, d] = a.octets();
                IpAddr::from([0xfd02, net, 0, 0, 0, 0, c.into(), d.into()])
            }
            address => address,
        };
        self.flow.src = wide(self.flow.src, 1);
        self.flow.dst = wide(self.flow.dst, 2);
        self
    }

    pub fn reply(mut self) -> Say {
        self.leg = TravelDirection::Reply;
        self
    }

    pub fn transaction(mut self, n: u32) -> Say {
        self.transaction = n;
        self
    }

    pub fn nack(mut self) -> Say {
        self.flags |= 1;
        self.key = 0;
        self
    }

    pub fn options(mut self, options: &[Opt<'static>]) -> Say {
        self.options = options.to_vec();
        self
    }

    /// The IP packet: from the flow's source to its destination, a reply the other way.
    pub fn packet(&self) -> Vec<u8> {
        let family = wire::boomerang::Family::of(self.flow.dst);
        let request = BoomerangRequest {
            leg: self.leg,
            id: 7,
            sequence: 1,
            transaction: self.transaction,
            flags: self.flags,
            refresh: self.refresh,
            key: self.key,
            classifier: Selector::of(&self.flow),
            mask: self.mask.unwrap_or(Selector::exact(family)),
            rates: &self.rates,
            policy: 0,
            options: &self.options,
        };
        let (src, dst) = match self.leg {
            TravelDirection::Request => (self.flow.src, self.flow.dst),
            TravelDirection::Reply => (self.flow.dst, self.flow.src),
        };
        let header =
            Header { src, dst, protocol: family.protocol(), ttl: self.ttl, tos: 0, router_alert: self.router_alert };
        let mut packet = Vec::new();
        request.write(&header, &mut packet).expect("fits");
        packet
    }

    pub fn frame(&self) -> Vec<u8> {
        frame(&self.packet())
    }
}

/// An Ethernet frame of an IP packet.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let kind: u16 = if packet.first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 };
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame
}

impl Bed {
    /// What the program makes of it: a request comes in from the west, a reply from the east.
    pub fn hear(&self, say: &Say) -> Ran {
        let iif = match say.leg {
            TravelDirection::Request => self.west,
            TravelDirection::Reply => self.east,
        };
        self.path.run(&say.frame(), iif).expect("test run")
    }

    /// The same of what goes on, read again; its checksums are right.
    pub fn heard(&self, say: &Say) -> Heard {
        let ran = self.hear(say);
        assert_eq!(ran.verdict, REDIRECT, "{say:?}");
        let packet = &ran.packet[14..];
        let probe = wire::boomerang::ProbePacket::parse(packet).expect("still a message");
        assert_eq!(probe.ttl, say.ttl - 1);
        let message = &probe.message;
        Heard { rates: message.qos.asked(), nack: message.is_nack(), key: message.key, refresh: message.refresh }
    }

    pub fn tick(&self) -> u64 {
        self.path.now()
    }

    pub fn dir(&self) -> &std::path::Path {
        self.state.path()
    }

    pub fn sessions(&self) -> Vec<linux::boomerang::KernelSession> {
        self.path.sessions(self.tick(), 0, usize::MAX)
    }
}

/// What matters of a message that went on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    pub rates: Rates,
    pub nack: bool,
    pub key: u64,
    pub refresh: u8,
}

/// A message that went on as it was asked.
pub fn granted(forward: u32, reverse: u32) -> Heard {
    Heard { rates: Rates { forward, reverse }, nack: false, key: 1, refresh: 30 }
}

/// One that failed, with what there is.
pub fn refused(forward: u32, reverse: u32) -> Heard {
    Heard { nack: true, key: 0, ..granted(forward, reverse) }
}
