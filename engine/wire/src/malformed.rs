//! Errors in a peer's bytes, and the answer that RFC 2205 requires.

/// The Error Code and Error Value of the ERROR_SPEC for a rejected message (RFC 2205 appendix B).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorReply {
    /// Error Code, see [`crate::iana::error`].
    pub code: u8,
    /// Error Value.
    pub value: u16,
}

/// Bytes that are not an acceptable message.
///
/// Without an [`ErrorReply`] the message is dropped in silence. With one, a PathErr (for a Path) or a ResvErr (for a
/// Resv) goes back; [`crate::Salvage`] finds its addressee. Only Path and Resv messages are ever answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MalformedMessage {
    /// The error.
    pub what: &'static str,
    /// The offset of the error, in bytes from the start of the input.
    pub offset: usize,
    /// The error to send back; `None`: none.
    pub answer: Option<ErrorReply>,
}

impl MalformedMessage {
    /// A fault that is not answered.
    pub(crate) const fn silent(what: &'static str, offset: usize) -> MalformedMessage {
        MalformedMessage { what, offset, answer: None }
    }

    /// A fault that is answered to the peer.
    pub(crate) const fn answered(what: &'static str, offset: usize, code: u8, value: u16) -> MalformedMessage {
        MalformedMessage { what, offset, answer: Some(ErrorReply { code, value }) }
    }
}

impl From<MalformedMessage> for terms::Malformed {
    fn from(m: MalformedMessage) -> terms::Malformed {
        terms::Malformed { what: m.what, offset: m.offset }
    }
}

impl core::fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl core::error::Error for MalformedMessage {}
