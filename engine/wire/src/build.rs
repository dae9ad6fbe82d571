//! Writing messages: the builder sets length and checksum, the caller chooses the order of objects.
//!
//! A message that does not fit is an error ([`TooLong`]), never cut or wrapped (`FAULTS` P55). The output is
//! canonical: reserved fields are zero, so that decoding and writing again gives the same bytes.

mod extensions;

use crate::iana::{MessageType, class, ctype, parameter, service};
use crate::message::{COMMON_HEADER, MAX_MESSAGE};
use crate::object::{HEADER, Object};
use crate::objects::{AdspecObject, ErrorSpec, FF, FilterObject, RsvpHop, SE, UserError, WF};
use crate::{checksum, float};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Adspec, Bytes, FlowSpec, Rate, SenderTemplate, Session, Span, Style, Tspec};

/// A message that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// The room, in bytes.
    pub limit: usize,
}

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the message does not fit into {} bytes", self.limit)
    }
}

impl core::error::Error for TooLong {}

/// The destination of a message: a growing vector, or a caller's buffer.
pub trait Space {
    /// The result of the writing.
    type Done;
    /// Appends bytes.
    ///
    /// # Errors
    /// [`TooLong`], with the total room in bytes.
    fn put(&mut self, bytes: &[u8]) -> Result<(), TooLong>;
    /// The bytes written so far.
    fn written(&mut self) -> &mut [u8];
    /// Ends the writing.
    fn done(self) -> Self::Done;
}

impl Space for Vec<u8> {
    type Done = Vec<u8>;

    fn put(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.len().saturating_add(bytes.len()) > MAX_MESSAGE {
            return Err(TooLong { limit: MAX_MESSAGE });
        }
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn written(&mut self) -> &mut [u8] {
        self
    }

    fn done(self) -> Vec<u8> {
        self
    }
}

/// A caller's buffer.
#[derive(Debug)]
pub struct Lent<'b> {
    buffer: &'b mut [u8],
    used: usize,
}

impl Space for Lent<'_> {
    type Done = usize;

    fn put(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let limit = self.buffer.len().min(MAX_MESSAGE);
        let end = self.used.saturating_add(bytes.len());
        let Some(room) = self.buffer.get_mut(self.used..end).filter(|_| end <= limit) else {
            return Err(TooLong { limit });
        };
        room.copy_from_slice(bytes);
        self.used = end;
        Ok(())
    }

    fn written(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.used).unwrap_or_default()
    }

    fn done(self) -> usize {
        self.used
    }
}

/// A message under construction. Objects are written in the order of the calls; STYLE and flow descriptors come last.
#[derive(Debug)]
#[must_use]
pub struct Builder<S = Vec<u8>> {
    space: S,
    sealed: bool,
    /// True if the session has generalised port identifiers (RFC 2207).
    gpi: bool,
    fault: Option<TooLong>,
}

impl Builder<Vec<u8>> {
    /// Writes into a vector of its own. `send_ttl` is the IP TTL that the message will be sent with.
    pub fn new(kind: MessageType, send_ttl: u8) -> Builder<Vec<u8>> {
        Builder::start(Vec::with_capacity(256), kind, send_ttl)
    }
}

impl<'b> Builder<Lent<'b>> {
    /// Writes into a buffer; [`Builder::finish`] gives the length. Only [`Builder::adspec_onward`] allocates.
    pub fn within(buffer: &'b mut [u8], kind: MessageType, send_ttl: u8) -> Builder<Lent<'b>> {
        Builder::start(Lent { buffer, used: 0 }, kind, send_ttl)
    }
}

impl<S: Space> Builder<S> {
    fn start(space: S, kind: MessageType, send_ttl: u8) -> Builder<S> {
        let mut builder = Builder { space, sealed: false, gpi: false, fault: None };
        builder.put(&[0x10, kind.number(), 0, 0, send_ttl, 0, 0, 0]);
        builder
    }

    /// Sets length and checksum, and returns the message.
    ///
    /// # Errors
    /// [`TooLong`] if anything did not fit.
    pub fn finish(mut self) -> Result<S::Done, TooLong> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let sealed = self.sealed;
        let bytes = self.space.written();
        let [hi, lo] = u16::try_from(bytes.len()).map_err(|_| TooLong { limit: MAX_MESSAGE })?.to_be_bytes();
        if let Some(field) = bytes.get_mut(6..COMMON_HEADER) {
            field.copy_from_slice(&[hi, lo]);
        }
        if !sealed {
            // Zero would mean "no checksum"; its other form means the same sum (RFC 1071).
            let sum = match checksum::internet(bytes) {
                0 => 0xffff,
                sum => sum,
            };
            if let Some(field) = bytes.get_mut(2..4) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        Ok(self.space.done())
    }

    /// INTEGRITY with a digest of zeros of `digest` bytes; to be called first. The checksum then stays zero, and the
    /// caller writes the digest at [`Builder::DIGEST_AT`] once the message is finished (RFC 2747 section 3.1).
    pub fn integrity(mut self, flags: u8, key_id: u64, sequence: u64, digest: usize) -> Self {
        self.sealed = true;
        let [_, _, key @ ..] = key_id.to_be_bytes();
        let zeros = [0; 64];
        let digest = zeros.get(..digest.next_multiple_of(4)).unwrap_or(&zeros);
        self.write(class::INTEGRITY, 1, &[&[flags, 0], &key, &sequence.to_be_bytes(), digest])
    }

    /// The offset of the digest in a finished message.
    pub const DIGEST_AT: usize = COMMON_HEADER + HEADER + 16;

    /// SESSION without flags.
    pub fn session(self, session: &Session) -> Self {
        self.session_flags(session, 0)
    }

    /// SESSION with flags (0x01: E_Police).
    pub fn session_flags(mut self, session: &Session, flags: u8) -> Self {
        let (form, dst) = octets(session.dst);
        self.gpi = session.is_gpi();
        let form = match (self.gpi, form) {
            (false, form) => form,
            (true, ctype::IPV4) => ctype::SESSION_GPI_IPV4,
            (true, _) => ctype::SESSION_GPI_IPV6,
        };
        let [hi, lo] = session.dst_port.to_be_bytes();
        self.write(class::SESSION, form, &[dst.as_ref(), &[session.protocol, flags, hi, lo]])
    }

    /// RSVP_HOP.
    pub fn hop(self, hop: &RsvpHop) -> Self {
        let (form, addr) = octets(hop.addr);
        self.write(class::RSVP_HOP, form, &[addr.as_ref(), &hop.lih.to_be_bytes()])
    }

    /// TIME_VALUES: whole milliseconds, rounded up; more than 2^32 - 1 is written as that.
    pub fn time_values(self, refresh: Span) -> Self {
        let ms = refresh.as_nanos().div_ceil(1_000_000);
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        self.write(class::TIME_VALUES, 1, &[&ms.to_be_bytes()])
    }

    /// ERROR_SPEC.
    pub fn error_spec(self, error: &ErrorSpec) -> Self {
        let (form, node) = octets(error.node);
        let [hi, lo] = error.value.to_be_bytes();
        self.write(class::ERROR_SPEC, form, &[node.as_ref(), &[error.flags, error.code, hi, lo]])
    }

    /// USER_ERROR_SPEC (RFC 5284). Text over [`UserError::MAX_TEXT`] bytes is cut by [`UserError::fitting`].
    pub fn user_error(self, error: &UserError<'_>) -> Self {
        let text = UserError::fitting(error.text).as_bytes();
        let [hi, lo] = error.value.to_be_bytes();
        let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
        let head = [error.sub_org, length, hi, lo];
        self.write(class::USER_ERROR_SPEC, 1, &[&error.enterprise.to_be_bytes(), &head, text])
    }

    /// SCOPE, of the family of the first address; addresses of the other family are left out (none can be a sender of
    /// the same session).
    pub fn scope(mut self, senders: &[IpAddr]) -> Self {
        let v4 = senders.first().is_none_or(IpAddr::is_ipv4);
        let ours = || senders.iter().filter(|a| a.is_ipv4() == v4);
        let (form, size) = if v4 { (ctype::IPV4, 4) } else { (ctype::IPV6, 16) };
        if !self.head(class::SCOPE, form, ours().count().saturating_mul(size)) {
            return self;
        }
        ours().for_each(|a| self.put(octets(*a).1.as_ref()));
        self
    }

    /// STYLE.
    pub fn style(self, style: Style) -> Self {
        let options = match style {
            Style::Ff => FF,
            Style::Se => SE,
            Style::Wf => WF,
        };
        self.write(class::STYLE, 1, &[&[0, 0, 0, options]])
    }

    /// FLOWSPEC (RFC 2210 section 3.2). Rates and sizes that a float cannot hold are rounded up.
    pub fn flowspec(self, spec: &FlowSpec) -> Self {
        let bucket = token_bucket(spec.tspec());
        match spec {
            FlowSpec::ControlledLoad(_) => {
                let head = [0, 0, 0, 7, service::CONTROLLED_LOAD, 0, 0, 6];
                self.write(class::FLOWSPEC, ctype::INTSERV, &[&head, &bucket])
            }
            FlowSpec::Guaranteed(_, rspec) => {
                let head = [0, 0, 0, 10, service::GUARANTEED, 0, 0, 9];
                let rate = finite(rspec.R).to_be_bytes();
                let slack = u32::try_from(rspec.S.as_micros()).unwrap_or(u32::MAX).to_be_bytes();
                let parts: [&[u8]; 5] = [&head, &bucket, &[parameter::RSPEC, 0, 0, 2], &rate, &slack];
                self.write(class::FLOWSPEC, ctype::INTSERV, &parts)
            }
        }
    }

    /// FILTER_SPEC.
    pub fn filter_spec(self, filter: &FilterObject) -> Self {
        self.filter(class::FILTER_SPEC, filter)
    }

    /// SENDER_TEMPLATE.
    pub fn sender_template(self, sender: &FilterObject) -> Self {
        self.filter(class::SENDER_TEMPLATE, sender)
    }

    fn filter(self, class: u8, filter: &FilterObject) -> Self {
        match filter {
            // A template is written in the form of its session.
            FilterObject::Gpi(sender) => self.gpi(class, sender),
            FilterObject::Ports(sender) if self.gpi => self.gpi(class, sender),
            FilterObject::Ports(sender) => {
                let (form, src) = octets(sender.src);
                let [_, _, hi, lo] = sender.src_port.to_be_bytes();
                self.write(class, form, &[src.as_ref(), &[0, 0, hi, lo]])
            }
            FilterObject::FlowLabel { src, label } => {
                let label = (label & 0x000f_ffff).to_be_bytes();
                self.write(class, ctype::IPV6_FLOW_LABEL, &[&src.octets(), &label])
            }
        }
    }

    fn gpi(self, class: u8, sender: &SenderTemplate) -> Self {
        let (form, src) = octets(sender.src);
        let form = if form == ctype::IPV4 { ctype::FILTER_GPI_IPV4 } else { ctype::FILTER_GPI_IPV6 };
        self.write(class, form, &[src.as_ref(), &sender.src_port.to_be_bytes()])
    }

    /// SENDER_TSPEC (RFC 2210 section 3.1). Rates and sizes that a float cannot hold are rounded up.
    pub fn sender_tspec(self, tspec: &Tspec) -> Self {
        let head = [0, 0, 0, 7, service::GENERAL, 0, 0, 6];
        self.write(class::SENDER_TSPEC, ctype::INTSERV, &[&head, &token_bucket(tspec)])
    }

    /// ADSPEC (RFC 2210 section 3.3): general parameters, and the fragments of the services that are offered.
    pub fn adspec(self, adspec: &Adspec) -> Self {
        self.adspec_and(adspec, &[])
    }

    /// ADSPEC in transit: as [`Builder::adspec`], then the fragments of unknown services as they arrived, except for
    /// the break bit: it is set because this node does not implement them (RFC 2210 section 3.3.4).
    pub fn adspec_onward(self, adspec: &Adspec, arrived: &AdspecObject<'_>) -> Self {
        self.adspec_and(adspec, &arrived.unknown_onward())
    }

    /// ADSPEC, then fragments of unknown services, from [`AdspecObject::unknown_onward`].
    pub fn adspec_and(self, adspec: &Adspec, rest: &[u8]) -> Self {
        let general = general_fragment(adspec);
        let guaranteed = adspec.guaranteed.map(|g| guaranteed_fragment(&g));
        let guaranteed: &[u8] = guaranteed.as_ref().map_or(&[], |g| g);
        let controlled = adspec.controlled_load.map(|b| [service::CONTROLLED_LOAD, broken(b), 0, 0]);
        let controlled: &[u8] = controlled.as_ref().map_or(&[], |c| c);
        let bytes = [general.len(), guaranteed.len(), controlled.len(), rest.len()];
        let [hi, lo] = words(bytes.iter().fold(0, |sum, n| sum.saturating_add(*n)));
        let parts: [&[u8]; 5] = [&[0, 0, hi, lo], &general, guaranteed, controlled, rest];
        self.write(class::ADSPEC, ctype::INTSERV, &parts)
    }

    /// RESV_CONFIRM.
    pub fn confirm(self, receiver: IpAddr) -> Self {
        let (form, addr) = octets(receiver);
        self.write(class::RESV_CONFIRM, form, &[addr.as_ref()])
    }

    /// Another message's object, unchanged: one that RFC 2205 section 3.10 forwards, or that an error quotes.
    pub fn object(self, object: &Object<'_>) -> Self {
        self.write(object.class, object.ctype, &[object.body])
    }

    /// Any object; `body` is padded with zeros to whole words.
    pub fn raw(self, class: u8, ctype: u8, body: &[u8]) -> Self {
        self.write(class, ctype, &[body])
    }

    fn write(mut self, class: u8, ctype: u8, parts: &[&[u8]]) -> Self {
        let body = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if !self.head(class, ctype, body) {
            return self;
        }
        for part in parts {
            self.put(part);
        }
        let padding = body.next_multiple_of(4).saturating_sub(body);
        self.put([0; 3].get(..padding).unwrap_or_default());
        self
    }

    /// The header of an object with a body of this many bytes; false if no object is that long.
    fn head(&mut self, class: u8, ctype: u8, body: usize) -> bool {
        let length = body.saturating_add(HEADER).saturating_add(3) & !3;
        let Ok(field) = u16::try_from(length) else {
            self.fault = self.fault.or(Some(TooLong { limit: MAX_MESSAGE }));
            return false;
        };
        let [hi, lo] = field.to_be_bytes();
        self.put(&[hi, lo, class, ctype]);
        true
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.space.put(bytes).err();
        }
    }
}

/// An address on the wire, and the C-Type of its family.
fn octets(addr: IpAddr) -> (u8, Octets) {
    match addr {
        IpAddr::V4(v4) => (ctype::IPV4, Octets::V4(v4.octets())),
        IpAddr::V6(v6) => (ctype::IPV6, Octets::V6(v6.octets())),
    }
}

enum Octets {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl AsRef<[u8]> for Octets {
    fn as_ref(&self) -> &[u8] {
        match self {
            Octets::V4(bytes) => bytes,
            Octets::V6(bytes) => bytes,
        }
    }
}

/// A length in 32-bit words. A length past 16 bits comes with a body that does not fit into any object.
pub(crate) fn words(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes >> 2).unwrap_or(u16::MAX).to_be_bytes()
}

const fn broken(bit: bool) -> u8 {
    if bit { 0x80 } else { 0 }
}

/// A finite rate: only a peak may be infinite, so elsewhere the largest readable rate stands for larger ones.
fn finite(rate: Rate) -> u32 {
    float::from_demanded_rate(rate.min(Rate::from_bps(float::LARGEST)))
}

fn token_bucket(t: &Tspec) -> [u8; 24] {
    let [r0, r1, r2, r3] = finite(t.r).to_be_bytes();
    let [b0, b1, b2, b3] = float::from_demanded_bytes(t.b.min(Bytes::new(float::LARGEST))).to_be_bytes();
    let [p0, p1, p2, p3] = float::from_demanded_rate(t.p).to_be_bytes();
    let [m0, m1, m2, m3] = t.m.to_be_bytes();
    let [x0, x1, x2, x3] = t.M.to_be_bytes();
    let kind = parameter::TOKEN_BUCKET_TSPEC;
    [kind, 0, 0, 5, r0, r1, r2, r3, b0, b1, b2, b3, p0, p1, p2, p3, m0, m1, m2, m3, x0, x1, x2, x3]
}

fn general_fragment(a: &Adspec) -> [u8; 36] {
    let [h0, h1, h2, h3] = a.is_hops.to_be_bytes();
    let [b0, b1, b2, b3] = float::from_supplied_rate(a.bandwidth).to_be_bytes();
    let latency = a.min_latency.and_then(|l| u32::try_from(l.as_micros()).ok()).unwrap_or(u32::MAX);
    let [l0, l1, l2, l3] = latency.to_be_bytes();
    let [m0, m1, m2, m3] = a.path_mtu.to_be_bytes();
    let (hops, band) = (parameter::IS_HOPS, parameter::PATH_BANDWIDTH);
    let (late, mtu) = (parameter::MIN_LATENCY, parameter::PATH_MTU);
    #[rustfmt::skip]
    let bytes = [
        service::GENERAL, broken(a.break_bit), 0, 8,
        hops, 0, 0, 1, h0, h1, h2, h3,
        band, 0, 0, 1, b0, b1, b2, b3,
        late, 0, 0, 1, l0, l1, l2, l3,
        mtu, 0, 0, 1, m0, m1, m2, m3,
    ];
    bytes
}

fn guaranteed_fragment(g: &terms::GuaranteedTerms) -> [u8; 36] {
    let [a0, a1, a2, a3] = g.c_tot.to_be_bytes();
    let [b0, b1, b2, b3] = g.d_tot.to_be_bytes();
    let [c0, c1, c2, c3] = g.c_sum.to_be_bytes();
    let [d0, d1, d2, d3] = g.d_sum.to_be_bytes();
    #[rustfmt::skip]
    let bytes = [
        service::GUARANTEED, broken(g.break_bit), 0, 8,
        parameter::C_TOT, 0, 0, 1, a0, a1, a2, a3,
        parameter::D_TOT, 0, 0, 1, b0, b1, b2, b3,
        parameter::C_SUM, 0, 0, 1, c0, c1, c2, c3,
        parameter::D_SUM, 0, 0, 1, d0, d1, d2, d3,
    ];
    bytes
}
