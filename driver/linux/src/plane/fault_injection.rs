//! A fault drill: the plane can be made to fail, or to stop as if killed, at its n-th write to the kernel.
//!
//! Recovery code runs only after real faults; the drill runs exactly that code in tests and on an operator's
//! test bed.

use terms::Fault;

/// The injected fault. Writes are counted from the moment of setting it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FaultInjection {
    /// No fault.
    #[default]
    None,
    /// The write after this many fails; later ones (the roll-back) succeed.
    FailAfter(u64),
    /// After this many writes all others fail, including the roll-back, as if the plane were killed.
    DieAfter(u64),
}

impl FaultInjection {
    /// Counts a write; call it before each write.
    ///
    /// # Errors
    /// This write must fail.
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
