//! RAPI's objects as bytes: what C programs give, and the lists that upcalls get. The layouts are those of `rapi.h`.

use documents::agent::{AdspecDoc, FlowSpecDoc, GuaranteedDoc, SenderId, TspecDoc};
use rsvp_client::{Code, Failure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Formats of objects.
pub mod form {
    #![allow(missing_docs)]
    pub const EMPTY: u32 = 0;
    pub const FLOWSPEC_INTSERV: u32 = 2;
    pub const FLOWSPEC_SIMPLIFIED: u32 = 3;
    pub const TSPEC_INTSERV: u32 = 17;
    pub const TSPEC_SIMPLIFIED: u32 = 18;
    pub const ADSPEC_INTSERV: u32 = 33;
    pub const ADSPEC_SIMPLIFIED: u32 = 34;
    pub const FILTER_BASE: u32 = 258;
    pub const FILTER_GPI: u32 = 259;
    pub const FILTER_BASE6: u32 = 260;
    pub const FILTER_GPI6: u32 = 261;
}

/// Services of the simplified formats.
pub mod service {
    #![allow(missing_docs)]
    pub const TSPEC: u32 = 1;
    pub const CONTROLLED_LOAD: u32 = 2;
    pub const GUARANTEED: u32 = 3;
}

/// Flags of a simplified ADSPEC.
pub mod adspec_flag {
    #![allow(missing_docs)]
    pub const BREAK: u8 = 1;
    pub const IGNORE: u8 = 2;
    pub const PARAMETERS: u8 = 4;
}

/// The length of an object's header: total length and format, 4 bytes each.
pub const HEADER: usize = 8;
/// Lengths of the simplified bodies, bytes.
const TSPEC_BODY: usize = 24;
const FLOWSPEC_BODY: usize = 32;
const ADSPEC_BODY: usize = 68;
/// A rate above this is a mistake, bytes/s.
const MOST_RATE: f32 = 1e15;

/// An object: its format, and its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RapiObject<'a> {
    /// The format.
    pub form: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl<'a> RapiObject<'a> {
    /// The `N` bytes at `at`.
    fn at<const N: usize>(&self, at: usize) -> Result<[u8; N], Failure> {
        let bytes = self.body.get(at..).and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().ok_or_else(|| Failure::of(Code::ObjLen, "an object is shorter than its format"))
    }

    fn word(&self, at: usize) -> Result<u32, Failure> {
        Ok(u32::from_ne_bytes(self.at(at)?))
    }

    fn float(&self, at: usize) -> Result<f32, Failure> {
        Ok(f32::from_ne_bytes(self.at(at)?))
    }

    /// The sender in a filter; true if its port is a security parameter index.
    pub fn filter(&self) -> Result<(SenderId, bool), Failure> {
        let family = || self.at(0).map(u16::from_ne_bytes);
        let is = |family: Result<u16, Failure>, wanted: i32| match family? {
            family if i32::from(family) == wanted => Ok(()),
            _ => Err(Failure::of(Code::Inval, "a filter's address family is not that of its format")),
        };
        Ok(match self.form {
            form::FILTER_BASE => {
                is(family(), libc::AF_INET)?;
                let src = IpAddr::V4(Ipv4Addr::from(self.at::<4>(4)?));
                (SenderId { src, src_port: u16::from_be_bytes(self.at(2)?).into() }, false)
            }
            form::FILTER_BASE6 => {
                is(family(), libc::AF_INET6)?;
                let src = IpAddr::V6(Ipv6Addr::from(self.at::<16>(8)?));
                (SenderId { src, src_port: u16::from_be_bytes(self.at(2)?).into() }, false)
            }
            form::FILTER_GPI => {
                let src = IpAddr::V4(Ipv4Addr::from(self.at::<4>(0)?));
                (SenderId { src, src_port: u32::from_be_bytes(self.at(4)?) }, true)
            }
            form::FILTER_GPI6 => {
                let src = IpAddr::V6(Ipv6Addr::from(self.at::<16>(0)?));
                (SenderId { src, src_port: u32::from_be_bytes(self.at(16)?) }, true)
            }
            _ => return Err(Failure::of(Code::ObjType, "this is no filter")),
        })
    }

    /// A sender's Tspec.
    pub fn tspec(&self) -> Result<TspecDoc, Failure> {
        match self.form {
            form::TSPEC_SIMPLIFIED if self.word(0)? == service::TSPEC => self.simple_tspec(),
            form::TSPEC_INTSERV => crate::intserv::tspec(self.body),
            form::EMPTY => Err(Failure::of(Code::NoTspec, "a sender needs a Tspec")),
            _ => Err(Failure::of(Code::ObjType, "this is no Tspec")),
        }
    }

    /// A flowspec.
    pub fn flowspec(&self) -> Result<FlowSpecDoc, Failure> {
        match self.form {
            form::FLOWSPEC_SIMPLIFIED => match self.word(0)? {
                service::CONTROLLED_LOAD => Ok(FlowSpecDoc::ControlledLoad { tspec: self.simple_tspec()? }),
                service::GUARANTEED => Ok(FlowSpecDoc::Guaranteed {
                    tspec: self.simple_tspec()?,
                    rate_bps: bits(self.float(24)?)?,
                    slack_us: self.word(28)?.into(),
                }),
                _ => Err(Failure::of(Code::ObjType, "a flowspec is of controlled load or guaranteed service")),
            },
            form::FLOWSPEC_INTSERV => crate::intserv::flowspec(self.body),
            _ => Err(Failure::of(Code::ObjType, "this is no flowspec")),
        }
    }

    /// The ADSPEC of an upcall, for its words.
    pub fn adspec(&self) -> Result<AdspecDoc, Failure> {
        if self.form != form::ADSPEC_SIMPLIFIED {
            return Err(Failure::of(Code::ObjType, "this is no simplified ADSPEC"));
        }
        let [flags, ..] = self.at::<1>(0)?;
        let ([cl], [gs]) = (self.at::<1>(16)?, self.at::<1>(32)?);
        let bandwidth = self.float(4)?;
        let guaranteed = GuaranteedDoc {
            break_bit: gs & adspec_flag::BREAK != 0,
            c_tot_bytes: self.word(36)?,
            d_tot_us: self.word(40)?,
            c_sum_bytes: self.word(44)?,
            d_sum_us: self.word(48)?,
        };
        Ok(AdspecDoc {
            break_bit: flags & adspec_flag::BREAK != 0,
            hops: u16::from_ne_bytes(self.at(2)?).into(),
            bandwidth_bps: bandwidth.is_finite().then(|| bits(bandwidth)).transpose()?,
            latency_us: Some(self.word(8)?).filter(|latency| *latency != u32::MAX).map(u64::from),
            mtu: self.word(12)?,
            controlled_load_break: (cl & adspec_flag::IGNORE == 0).then_some(cl & adspec_flag::BREAK != 0),
            guaranteed: (gs & adspec_flag::IGNORE == 0).then_some(guaranteed),
        })
    }

    /// Service, then b, r, p, m and M, as both simplified formats begin.
    fn simple_tspec(&self) -> Result<TspecDoc, Failure> {
        let peak = self.float(12)?;
        Ok(TspecDoc {
            b_bytes: whole(self.float(4)?)?,
            r_bps: bits(self.float(8)?)?,
            p_bps: if peak == f32::INFINITY { None } else { Some(bits(peak)?) },
            m_bytes: self.word(16)?,
            max_bytes: self.word(20)?,
        })
    }
}

/// Bytes per second as bits per second.
fn bits(rate: f32) -> Result<u64, Failure> {
    Ok((f64::from(checked(rate)?) * 8.0).round() as u64)
}

fn whole(size: f32) -> Result<u64, Failure> {
    Ok(f64::from(checked(size)?).round() as u64)
}

fn checked(value: f32) -> Result<f32, Failure> {
    let good = value.is_finite() && (0.0..=MOST_RATE).contains(&value);
    good.then_some(value).ok_or_else(|| Failure::of(Code::Inval, format!("{value} is no rate or size")))
}

/// Bits per second as bytes per second; `None` is not bounded.
fn bytes(rate: Option<u64>) -> f32 {
    rate.map_or(f32::INFINITY, |bps| (bps as f64 / 8.0) as f32)
}

/// A list of objects back to back, aligned as C expects them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectList {
    words: Vec<u32>,
    count: i32,
}

impl ObjectList {
    /// The number of objects.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The first byte; null where there is no object.
    pub fn as_mut_ptr(&mut self) -> *mut u32 {
        if self.count == 0 { std::ptr::null_mut() } else { self.words.as_mut_ptr() }
    }

    /// The bytes of all objects, for words and tests.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Adds an object; its body is padded to whole words.
    pub fn add(&mut self, form: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        self.words.extend([(HEADER + padded) as u32, form]);
        for chunk in body.chunks(4) {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u32::from_ne_bytes(word));
        }
        self.count = self.count.saturating_add(1);
    }

    /// Adds a filter.
    pub fn add_filter(&mut self, sender: &SenderId, gpi: bool) {
        let mut body = Vec::with_capacity(28);
        match (sender.src, gpi) {
            (IpAddr::V4(src), true) => {
                body.extend(src.octets());
                body.extend(sender.src_port.to_be_bytes());
                self.add(form::FILTER_GPI, &body);
            }
            (IpAddr::V6(src), true) => {
                body.extend(src.octets());
                body.extend(sender.src_port.to_be_bytes());
                self.add(form::FILTER_GPI6, &body);
            }
            (IpAddr::V4(_), false) => {
                self.add(form::FILTER_BASE, &socket_address(sender.src, sender.src_port as u16));
            }
            (IpAddr::V6(_), false) => {
                self.add(form::FILTER_BASE6, &socket_address(sender.src, sender.src_port as u16));
            }
        }
    }

    /// Adds a simplified Tspec.
    pub fn add_tspec(&mut self, tspec: &TspecDoc) {
        let mut body = Vec::with_capacity(TSPEC_BODY);
        put_tspec(&mut body, service::TSPEC, tspec);
        self.add(form::TSPEC_SIMPLIFIED, &body);
    }

    /// Adds a simplified flowspec.
    pub fn add_flowspec(&mut self, flowspec: &FlowSpecDoc) {
        let mut body = Vec::with_capacity(FLOWSPEC_BODY);
        match flowspec {
            FlowSpecDoc::ControlledLoad { tspec } => {
                put_tspec(&mut body, service::CONTROLLED_LOAD, tspec);
                body.extend([0; 8]);
            }
            FlowSpecDoc::Guaranteed { tspec, rate_bps, slack_us } => {
                put_tspec(&mut body, service::GUARANTEED, tspec);
                body.extend(bytes(Some(*rate_bps)).to_ne_bytes());
                body.extend(u32::try_from(*slack_us).unwrap_or(u32::MAX).to_ne_bytes());
            }
        }
        self.add(form::FLOWSPEC_SIMPLIFIED, &body);
    }

    /// Adds a simplified ADSPEC.
    pub fn add_adspec(&mut self, adspec: &AdspecDoc) {
        let latency = adspec.latency_us.map_or(u32::MAX, |us| u32::try_from(us).unwrap_or(u32::MAX));
        let hops = u16::try_from(adspec.hops).unwrap_or(u16::MAX);
        let mut body = Vec::with_capacity(ADSPEC_BODY);
        let general = |body: &mut Vec<u8>| {
            body.extend(hops.to_ne_bytes());
            body.extend(bytes(adspec.bandwidth_bps).to_ne_bytes());
            body.extend(latency.to_ne_bytes());
            body.extend(adspec.mtu.to_ne_bytes());
        };
        body.extend([adspec_flag::PARAMETERS | u8::from(adspec.break_bit), 0]);
        general(&mut body);
        let controlled = adspec.controlled_load_break.map_or(adspec_flag::IGNORE, u8::from);
        body.extend([controlled, 0]);
        general(&mut body);
        let offered = adspec.guaranteed;
        let flags = offered.map_or(adspec_flag::IGNORE, |g| adspec_flag::PARAMETERS | u8::from(g.break_bit));
        body.extend([flags, 0, 0, 0]);
        let terms = offered.map_or([0; 4], |g| [g.c_tot_bytes, g.d_tot_us, g.c_sum_bytes, g.d_sum_us]);
        for term in terms {
            body.extend(term.to_ne_bytes());
        }
        body.extend([0, 0]);
        general(&mut body);
        self.add(form::ADSPEC_SIMPLIFIED, &body);
    }
}

fn put_tspec(body: &mut Vec<u8>, service: u32, tspec: &TspecDoc) {
    body.extend(service.to_ne_bytes());
    body.extend((tspec.b_bytes as f32).to_ne_bytes());
    body.extend(bytes(Some(tspec.r_bps)).to_ne_bytes());
    body.extend(bytes(tspec.p_bps).to_ne_bytes());
    body.extend(tspec.m_bytes.to_ne_bytes());
    body.extend(tspec.max_bytes.to_ne_bytes());
}

/// A `sockaddr_in` or `sockaddr_in6`, as bytes.
pub fn socket_address(address: IpAddr, port: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match address {
        IpAddr::V4(v4) => {
            bytes.extend((libc::AF_INET as u16).to_ne_bytes());
            bytes.extend(port.to_be_bytes());
            bytes.extend(v4.octets());
            bytes.extend([0; 8]);
        }
        IpAddr::V6(v6) => {
            bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
            bytes.extend(port.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(v6.octets());
            bytes.extend([0; 4]);
        }
    }
    bytes
}

/// Address and port in a `sockaddr`, as far as it goes.
pub fn read_socket_address(bytes: &[u8]) -> Result<(IpAddr, u16), Failure> {
    let object = RapiObject { form: form::EMPTY, body: bytes };
    let port = u16::from_be_bytes(object.at(2)?);
    match i32::from(u16::from_ne_bytes(object.at(0)?)) {
        libc::AF_INET => Ok((IpAddr::V4(Ipv4Addr::from(object.at::<4>(4)?)), port)),
        libc::AF_INET6 => Ok((IpAddr::V6(Ipv6Addr::from(object.at::<16>(8)?)), port)),
        other => Err(Failure::of(Code::Inval, format!("{other} is no address family of IP"))),
    }
}
