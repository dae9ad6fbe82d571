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
    iif: IfIndex,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    bytes: Vec<u8>,
    class: IntakeClass,
    /// The buckets of its neighbour and of its source, in which the quotas count it.
    buckets: [u8; 2],
    /// The number of the state that it refreshes; a second one does not wait.
    refresh: u64,
    proof: Option<Proof>,
}

impl WaitingMessage {
    /// A message of a class that begins to wait; `buffer` is empty, and takes its bytes.
    #[inline]
    pub(super) fn new(
        message: &Incoming<'_>,
        mut buffer: Vec<u8>,
        class: IntakeClass,
        buckets: [u8; 2],
        refresh: u64,
        proof: Option<Proof>,
    ) -> WaitingMessage {
        buffer.extend_from_slice(message.bytes);
        let Incoming { iif, src, dst, ttl, .. } = *message;
        WaitingMessage { iif, src, dst, ttl, bytes: buffer, class, buckets, refresh, proof }
    }
    /// The message as it came in.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { iif: self.iif, src: self.src, dst: self.dst, ttl: self.ttl, bytes: &self.bytes }
    }

    /// The buckets in which the quotas count it.
    #[inline]
    pub(super) fn buckets(&self) -> [u8; 2] {
        self.buckets
    }

    /// The number of the state that it refreshes.
    #[inline]
    pub(super) fn refresh(&self) -> u64 {
        self.refresh
    }

    /// Its length, bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The memory of its bytes, to be used again.
    #[inline]
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
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
