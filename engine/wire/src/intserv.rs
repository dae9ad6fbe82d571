//! Integrated-services data inside SENDER_TSPEC, FLOWSPEC and ADSPEC: RFC 2210 section 3.
//!
//! Three lengths nest: the message's, each service's, each parameter's, all in 32-bit words without their own header
//! word. They are checked against each other and against the object, so that none can point outside another.

use crate::iana::{error, parameter, service};
use crate::object::{MAX_OBJECTS, Object};
use crate::{MalformedMessage, float};
use terms::{Bytes, FlowSpec, Rate, Rspec, Span, Tspec};

/// One service's data: the header word and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceData<'a> {
    /// Service number, see [`crate::iana::service`].
    pub number: u8,
    /// The break bit: some hop could not take part.
    pub break_bit: bool,
    /// The parameters, headers included.
    pub body: &'a [u8],
    /// The offset of the service header in the object's body.
    pub at: usize,
}

/// One parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter<'a> {
    /// Parameter number, see [`crate::iana::parameter`].
    pub number: u8,
    /// Flags; bit 7 set: the value is not valid (RFC 2210 section 3.1).
    pub flags: u8,
    /// The value.
    pub value: &'a [u8],
}

/// The services of an object body, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Services<'a> {
    rest: &'a [u8],
    at: usize,
}

/// The parameters of one service, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters<'a> {
    rest: &'a [u8],
}

/// Splits an object body into its services, with every length checked against the others.
///
/// # Errors
/// A silent [`MalformedMessage`]: wrong lengths are damage, not a value that the peer could correct.
pub fn services<'a>(object: &Object<'a>) -> Result<Services<'a>, MalformedMessage> {
    let Some((&[version, _, hi, lo], rest)) = object.body.split_first_chunk::<4>() else {
        return Err(object.fault("no integrated-services header", 0));
    };
    if version >> 4 != 0 {
        return Err(object.fault("integrated-services version is not 0", 0));
    }
    if usize::from(u16::from_be_bytes([hi, lo])).saturating_mul(4) != rest.len() {
        return Err(object.fault("integrated-services length does not match the object", 2));
    }
    let all = Services { rest, at: 4 };
    let mut walk = all;
    for _ in 0..MAX_OBJECTS {
        let Some(found) = walk.step(object)? else { return Ok(all) };
        check_parameters(object, &found)?;
    }
    Err(object.fault("more than 256 services", 0))
}

fn check_parameters(object: &Object<'_>, service: &ServiceData<'_>) -> Result<(), MalformedMessage> {
    let mut walk = service.parameters();
    let mut left = MAX_OBJECTS;
    while !walk.rest.is_empty() {
        let before = walk.rest.len();
        if walk.next().is_none() || left == 0 {
            let end = service.at.saturating_add(4).saturating_add(service.body.len());
            return Err(object.fault("parameter passes the end of its service", end.saturating_sub(before)));
        }
        left = left.saturating_sub(1);
    }
    Ok(())
}

impl<'a> Services<'a> {
    fn step(&mut self, object: &Object<'a>) -> Result<Option<ServiceData<'a>>, MalformedMessage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        self.next().map(Some).ok_or_else(|| object.fault("service passes the end of its object", at))
    }
}

impl<'a> Iterator for Services<'a> {
    type Item = ServiceData<'a>;

    fn next(&mut self) -> Option<ServiceData<'a>> {
        let (&[number, flags, hi, lo], rest) = self.rest.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([hi, lo])).saturating_mul(4);
        let (body, rest) = rest.split_at_checked(length)?;
        let found = ServiceData { number, break_bit: flags & 0x80 != 0, body, at: self.at };
        self.rest = rest;
        self.at = self.at.saturating_add(4).saturating_add(length);
        Some(found)
    }
}

impl<'a> ServiceData<'a> {
    /// The parameters, in order.
    pub fn parameters(&self) -> Parameters<'a> {
        Parameters { rest: self.body }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        let (&[number, flags, hi, lo], rest) = self.rest.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([hi, lo])).saturating_mul(4);
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Parameter { number, flags, value })
    }
}

impl Parameter<'_> {
    /// The value as one 32-bit word, if it has that length.
    pub fn word(&self) -> Option<u32> {
        <[u8; 4]>::try_from(self.value).ok().map(u32::from_be_bytes)
    }
}

/// The role of a Tspec, which decides the rule for `M` = 0 and the Error Value of its faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
}

impl Role {
    fn bad(self, object: &Object<'_>, what: &'static str, at: usize) -> MalformedMessage {
        let value = if self == Role::Sender { error::TC_BAD_TSPEC } else { error::TC_BAD_FLOWSPEC };
        object.answered(what, at, error::TRAFFIC_CONTROL, value)
    }
}

/// Decodes the body of a SENDER_TSPEC (RFC 2210 section 3.1).
///
/// # Errors
/// Wrong lengths: silent. Another service than the general one: code 21, value 2. Bad values: code 21, value 4.
pub fn sender_tspec(object: &Object<'_>) -> Result<Tspec, MalformedMessage> {
    let service = only_service(object)?;
    if service.number != service::GENERAL {
        let (code, value) = (error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED);
        return Err(object.answered(unsupported(service.number), service.at, code, value));
    }
    let mut parameters = service.parameters();
    let found = tspec(object, &service, parameters.next(), Role::Sender)?;
    match parameters.next() {
        None => Ok(found),
        Some(_) => Err(Role::Sender.bad(object, "sender Tspec has more than the token bucket", service.at)),
    }
}

/// The text of the refusal of a service that we do not have.
pub fn unsupported(number: u8) -> &'static str {
    match number {
        service::NULL => "the null service (RFC 2997) is not offered: say what the traffic needs",
        _ => "a service that we do not know: there are controlled load and guaranteed service",
    }
}

/// Decodes the body of a FLOWSPEC (RFC 2210 section 3.2): the service number, and the request if we know the service.
///
/// # Errors
/// Wrong lengths: silent. Bad values, and the general service number (some daemons send it): code 21, value 3.
pub fn flowspec(object: &Object<'_>) -> Result<(u8, Option<FlowSpec>), MalformedMessage> {
    let service = only_service(object)?;
    let bad = |what| Role::Receiver.bad(object, what, service.at);
    let mut parameters = service.parameters();
    let spec = match service.number {
        service::CONTROLLED_LOAD => {
            FlowSpec::ControlledLoad(tspec(object, &service, parameters.next(), Role::Receiver)?)
        }
        service::GUARANTEED => {
            let traffic = tspec(object, &service, parameters.next(), Role::Receiver)?;
            FlowSpec::Guaranteed(traffic, rspec(object, &service, parameters.next(), &traffic)?)
        }
        service::GENERAL => return Err(bad("flowspec carries the general service number")),
        other => return Ok((other, None)),
    };
    if parameters.next().is_some() {
        return Err(bad("flowspec has parameters that its service does not define"));
    }
    Ok((service.number, Some(spec)))
}

fn only_service<'a>(object: &Object<'a>) -> Result<ServiceData<'a>, MalformedMessage> {
    let mut all = services(object)?;
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(object.fault("no service in it", 4)),
        (_, Some(second)) => Err(object.fault("more than one service in it", second.at)),
    }
}

fn tspec(
    object: &Object<'_>,
    service: &ServiceData<'_>,
    parameter: Option<Parameter<'_>>,
    role: Role,
) -> Result<Tspec, MalformedMessage> {
    let at = service.at.saturating_add(4);
    let Some(parameter) = parameter.filter(|p| p.number == parameter::TOKEN_BUCKET_TSPEC) else {
        return Err(object.fault("no token bucket where it belongs", at));
    };
    let &[r0, r1, r2, r3, b0, b1, b2, b3, p0, p1, p2, p3, m0, m1, m2, m3, x0, x1, x2, x3] = parameter.value else {
        return Err(object.fault("token bucket is not 5 words", at));
    };
    let bad = |what, word: usize| role.bad(object, what, at.saturating_add(4).saturating_add(word.saturating_mul(4)));
    let r_bits = u32::from_be_bytes([r0, r1, r2, r3]);
    let p_bits = u32::from_be_bytes([p0, p1, p2, p3]);
    let r = float::demanded_rate(r_bits).map_err(|_| bad("token rate r is no rate", 0))?;
    let b: Bytes =
        float::demanded_bytes(u32::from_be_bytes([b0, b1, b2, b3])).map_err(|_| bad("bucket depth b is no size", 1))?;
    let p: Rate = float::peak_rate(p_bits).map_err(|_| bad("peak rate p is no rate", 2))?;
    let m = u32::from_be_bytes([m0, m1, m2, m3]);
    let max = u32::from_be_bytes([x0, x1, x2, x3]);
    if p < r {
        return Err(bad("peak rate p is below the token rate r", 2));
    }
    if max == 0 && role == Role::Sender {
        return Err(bad("maximum packet size M is 0", 4));
    }
    if max != 0 && m > max {
        return Err(bad("minimum policed unit m is above the maximum packet size M", 3));
    }
    Ok(Tspec { r, b, p, m, M: max })
}

fn rspec(
    object: &Object<'_>,
    service: &ServiceData<'_>,
    parameter: Option<Parameter<'_>>,
    traffic: &Tspec,
) -> Result<Rspec, MalformedMessage> {
    // Service header, token bucket with its header, then the Rspec's header.
    let at = service.at.saturating_add(4).saturating_add(24);
    let Some(parameter) = parameter.filter(|p| p.number == parameter::RSPEC) else {
        return Err(object.fault("no Rspec where it belongs", at));
    };
    let &[r0, r1, r2, r3, s0, s1, s2, s3] = parameter.value else {
        return Err(object.fault("Rspec is not 2 words", at));
    };
    let at = at.saturating_add(4);
    let bad = |what| Role::Receiver.bad(object, what, at);
    let rate =
        float::demanded_rate(u32::from_be_bytes([r0, r1, r2, r3])).map_err(|_| bad("service rate R is no rate"))?;
    if rate < traffic.r {
        return Err(bad("service rate R is below the token rate r"));
    }
    // S is an unsigned count of microseconds: every value means something (RFC 2212 section 4).
    let slack = Span::from_micros(u64::from(u32::from_be_bytes([s0, s1, s2, s3])));
    Ok(Rspec { R: rate, S: slack })
}
