//! Hello: RFC 3209 section 5.1.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::objects::HelloObject;

/// A neighbour's sign of life, with its instance number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hello<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// HELLO.
    pub hello: HelloObject,
}

impl<'a> Hello<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<Hello<'a>, MalformedMessage> {
        Ok(Hello { envelope: found.envelope(), hello: found.need(found.hello, "no HELLO")? })
    }
}
