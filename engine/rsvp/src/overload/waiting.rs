//! A message before and while it waits.

use super::class::IntakeClass;
use crate::arrival::Arrival;
use crate::integrity::proof::Proof;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::IfIndex;

/// A datagram of protocol 46 as the driver read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming<'a> {
    /// The incoming interface.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL.
    pub ttl: u8,
    /// The RSVP message.
    pub bytes: &'a [u8],
}

impl Incoming<'_> {
    pub(crate) fn arrival(&self) -> Arrival {
        let Incoming { iif, src, dst, ttl, .. } = *self;
        Arrival { iif, src, dst, ttl, direct: true, proof: None }
    }
}

/// A message that waited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingMessage {
    pub(super) iif: IfIndex,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) ttl: u8,
    pub(super) bytes: Vec<u8>,
    pub(super) class: IntakeClass,
    pub(super) buckets: [u8; 2],
    pub(super) refresh: u64,
    pub(super) proof: Option<Proof>,
}

impl WaitingMessage {
    /// The message as it came in.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { iif: self.iif, src: self.src, dst: self.dst, ttl: self.ttl, bytes: &self.bytes }
    }

    /// Its class.
    pub fn class(&self) -> IntakeClass {
        self.class
    }

    /// The proof that its digest is right, if it had to be signed.
    pub fn proof(&self) -> Option<Proof> {
        self.proof
    }
}
