//! A fault drill: the plane can be told to fail, or to stop as if killed, at its n-th write to the kernel.
//!
//! Recovery is code that runs on bad days only; this is how it is run on good ones, in the tests and on an operator's
//! test bed, with the very code of the bad day.

use terms::Fault;

/// What goes wrong, and when. Writes are counted from the moment of setting it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FaultInjection {
    /// Nothing.
    #[default]
    None,
    /// The write after so many fails; later ones (the roll-back) succeed.
    FailAfter(u64),
    /// After so many writes none is made any more, not even to roll back: the plane is as good as killed.
    DieAfter(u64),
}

impl FaultInjection {
    /// To be called before each write.
    ///
    /// # Errors
    /// It is the one.
    pub(super) fn spend(&mut self) -> Result<(), Fault> {
        match self {
            FaultInjection::None => Ok(()),
            FaultInjection::FailAfter(0) => {
                *self = FaultInjection::None;
                Err(Fault { what: "a fault drill failed this write", code: libc::EIO })
            }
            FaultInjection::DieAfter(0) => Err(Fault { what: "a fault drill stopped the plane", code: libc::EIO }),
            FaultInjection::FailAfter(left) | FaultInjection::DieAfter(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}
