//! Tokens of virtual organisations.
//!
//! An organisation that spans several domains gives its people rights that each domain granted to it (GARA,
//! section 6). A token is a Biscuit (<https://www.biscuitsec.org>): the organisation's key signs the first block,
//! its holder may append blocks that only take away, and a third party may append one that says that it
//! approves. That needs no connection, and the organisation's public key is all that a check needs.
//!
//! A token is bound to the name in its holder's certificate. So who steals a token has nothing: it is no
//! credential, it adds to one.
//!
//! Its checks are a program of strangers. The library's own limits do not bound the cost of one query over
//! many facts, so [`shape`] refuses tokens that could make one, before anything of them is evaluated.

mod gate;
mod key;
mod limits;
mod make;
mod shape;

pub use gate::{Organisation, TokenGate};
pub use key::{TokenKey, TokenPublicKey};
pub use limits::TokenLimits;
pub use make::{Approval, ApprovalRequest, BlockText, HeldToken, TokenGrant};

use crate::error::Error;

/// The longest token, bytes.
pub const MAX_TOKEN: usize = 8 << 10;
/// The longest text of a token: base64 of [`MAX_TOKEN`] bytes.
pub const MAX_TOKEN_TEXT: usize = MAX_TOKEN.div_ceil(3) * 4;

/// An error of the library, in our words.
fn refused(what: &str) -> impl Fn(biscuit_auth::error::Token) -> Error + '_ {
    move |error| Error::Refused(format!("{what}: {error}"))
}
