//! ADSPEC: RFC 2205 section A.12, RFC 2210 section 3.3.

use super::unknown_ctype;
use crate::iana::{ctype, error, parameter, service};
use crate::intserv::{self, Parameter, ServiceData, Services};
use crate::object::Object;
use crate::{MalformedMessage, float};
use alloc::vec::Vec;
use terms::{Adspec, GuaranteedTerms, Span};

/// An ADSPEC: the fragments of known services as terms, and all fragments as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdspecObject<'a> {
    /// General parameters, guaranteed service, controlled load. If a service's fragment narrows the path's bandwidth
    /// or MTU for itself, the narrower value counts for all (safe, and one number instead of three).
    pub terms: Adspec,
    /// Every fragment, in order.
    pub fragments: Services<'a>,
}

/// The value of a MINIMUM_PATH_LATENCY that could not be determined (RFC 2215 section 3.3).
pub(crate) const INDETERMINATE: u32 = u32::MAX;

impl<'a> AdspecObject<'a> {
    pub(super) fn decode(object: &Object<'a>) -> Result<AdspecObject<'a>, MalformedMessage> {
        if object.ctype != ctype::INTSERV {
            return Err(unknown_ctype(object));
        }
        let fragments = intserv::services(object)?;
        let mut walk = fragments;
        let Some(general) = walk.next().filter(|f| f.number == service::GENERAL) else {
            return Err(bad(object, "ADSPEC does not begin with the general parameters", 4));
        };
        let mut found = general_terms(object, &general)?;
        for fragment in walk {
            match fragment.number {
                service::GENERAL => return Err(bad(object, "general parameters twice", fragment.at)),
                service::GUARANTEED => {
                    if found.guaranteed.is_some() {
                        return Err(bad(object, "guaranteed service twice", fragment.at));
                    }
                    found.guaranteed = Some(guaranteed_terms(object, &fragment)?);
                    narrow(object, &fragment, &mut found)?;
                }
                service::CONTROLLED_LOAD => {
                    if found.controlled_load.is_some() {
                        return Err(bad(object, "controlled load twice", fragment.at));
                    }
                    found.controlled_load = Some(fragment.break_bit);
                    narrow(object, &fragment, &mut found)?;
                }
                _ => {}
            }
        }
        Ok(AdspecObject { terms: found, fragments })
    }

    /// The fragments of unknown services, to be forwarded as they came, except for the break bit: it is set
    /// because this node does not implement them (RFC 2210 section 3.3.4).
    pub fn unknown_onward(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        for f in self.fragments {
            if matches!(f.number, service::GENERAL | service::GUARANTEED | service::CONTROLLED_LOAD) {
                continue;
            }
            rest.extend_from_slice(&[f.number, 0x80]);
            rest.extend_from_slice(&crate::build::words(f.body.len()));
            rest.extend_from_slice(f.body);
        }
        rest
    }
}

fn bad(object: &Object<'_>, what: &'static str, at: usize) -> MalformedMessage {
    object.answered(what, at, error::TRAFFIC_CONTROL, error::TC_BAD_ADSPEC)
}

fn word(object: &Object<'_>, fragment: &ServiceData<'_>, parameter: &Parameter<'_>) -> Result<u32, MalformedMessage> {
    parameter.word().ok_or_else(|| object.fault("ADSPEC parameter is not one word", fragment.at))
}

/// RFC 2210 section 3.3.2: all four parameters, each once, in any order; other parameters are ignored.
fn general_terms(object: &Object<'_>, fragment: &ServiceData<'_>) -> Result<Adspec, MalformedMessage> {
    let (mut hops, mut bandwidth, mut latency, mut mtu) = (None, None, None, None);
    for found in fragment.parameters() {
        let slot = match found.number {
            parameter::IS_HOPS => &mut hops,
            parameter::PATH_BANDWIDTH => &mut bandwidth,
            parameter::MIN_LATENCY => &mut latency,
            parameter::PATH_MTU => &mut mtu,
            _ => continue,
        };
        if slot.replace(word(object, fragment, &found)?).is_some() {
            return Err(bad(object, "general parameter twice", fragment.at));
        }
    }
    let (Some(is_hops), Some(bandwidth), Some(latency), Some(path_mtu)) = (hops, bandwidth, latency, mtu) else {
        return Err(bad(object, "general parameters are not complete", fragment.at));
    };
    let Ok(bandwidth) = float::supplied_rate(bandwidth) else {
        return Err(bad(object, "path bandwidth is no rate", fragment.at));
    };
    let min_latency = (latency != INDETERMINATE).then(|| Span::from_micros(u64::from(latency)));
    let break_bit = fragment.break_bit;
    Ok(Adspec { break_bit, is_hops, bandwidth, min_latency, path_mtu, guaranteed: None, controlled_load: None })
}

/// RFC 2210 section 3.3.3. A fragment with the break bit may lack its terms, because they are useless.
fn guaranteed_terms(object: &Object<'_>, fragment: &ServiceData<'_>) -> Result<GuaranteedTerms, MalformedMessage> {
    let (mut c_tot, mut d_tot, mut c_sum, mut d_sum) = (None, None, None, None);
    for found in fragment.parameters() {
        let slot = match found.number {
            parameter::C_TOT => &mut c_tot,
            parameter::D_TOT => &mut d_tot,
            parameter::C_SUM => &mut c_sum,
            parameter::D_SUM => &mut d_sum,
            _ => continue,
        };
        if slot.replace(word(object, fragment, &found)?).is_some() {
            return Err(bad(object, "guaranteed service parameter twice", fragment.at));
        }
    }
    let break_bit = fragment.break_bit;
    match (c_tot, d_tot, c_sum, d_sum) {
        (Some(c_tot), Some(d_tot), Some(c_sum), Some(d_sum)) => {
            Ok(GuaranteedTerms { break_bit, c_tot, d_tot, c_sum, d_sum })
        }
        _ if break_bit => Ok(GuaranteedTerms { break_bit, ..GuaranteedTerms::default() }),
        _ => Err(bad(object, "guaranteed service terms are not complete", fragment.at)),
    }
}

/// Service-specific values of general parameters (RFC 2210 section 3.3.3): the narrower value counts.
fn narrow(object: &Object<'_>, fragment: &ServiceData<'_>, terms: &mut Adspec) -> Result<(), MalformedMessage> {
    for found in fragment.parameters() {
        match found.number {
            parameter::PATH_BANDWIDTH => match float::supplied_rate(word(object, fragment, &found)?) {
                Ok(rate) => terms.bandwidth = terms.bandwidth.min(rate),
                Err(_) => return Err(bad(object, "path bandwidth is no rate", fragment.at)),
            },
            parameter::PATH_MTU => terms.path_mtu = terms.path_mtu.min(word(object, fragment, &found)?),
            _ => {}
        }
    }
    Ok(())
}
