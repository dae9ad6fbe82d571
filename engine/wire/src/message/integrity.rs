//! Integrity Challenge and Integrity Response: RFC 2747 section 4.3, message types of RFC 3097.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::objects::{Challenge, Integrity};

/// A receiver's request that a sender prove a fresh sequence number. It carries no INTEGRITY.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IntegrityChallenge<'a> {
    /// Header, all objects.
    pub envelope: Envelope<'a>,
    /// CHALLENGE.
    pub challenge: Challenge<'a>,
}

/// The sender's answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IntegrityResponse<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// INTEGRITY, with the requested sequence number. Its digest has **not** been checked.
    pub integrity: Integrity<'a>,
    /// CHALLENGE, as in the request.
    pub challenge: Challenge<'a>,
}

impl<'a> IntegrityChallenge<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<IntegrityChallenge<'a>, MalformedMessage> {
        let challenge = found.need(found.challenge, "no CHALLENGE")?;
        Ok(IntegrityChallenge { envelope: found.envelope(), challenge })
    }
}

impl<'a> IntegrityResponse<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<IntegrityResponse<'a>, MalformedMessage> {
        let envelope = found.envelope();
        let integrity = found.need(envelope.integrity, "no INTEGRITY in an Integrity Response")?;
        Ok(IntegrityResponse { envelope, integrity, challenge: found.need(found.challenge, "no CHALLENGE")? })
    }
}
