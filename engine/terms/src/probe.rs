//! Checkpoints: the named steps of handling a signalling message, and who looks on.
//!
//! Why: what a step costs is known only by measuring it where it runs, and an engine has no clock. So it tells a
//! [`Probe`] when a step begins and ends; a driver's probe reads a clock, and [`Off`], which every engine has unless it
//! is made with another, is nothing at all: a type without a size whose calls are empty, not a flag that is asked.
//!
//! The steps of RSVP and of Boomerang are those of sections 4.1 and 4.2 of *Profiling resource reservation protocols*
//! (IFIP 2001), by their names there. A step may lie within another (a Path may set off the refresh of a reservation);
//! whoever measures takes the inner one's time from the outer one's.

/// A step of handling a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Step {
    /// Path, PathTear, Resv, ResvTear: find the session block.
    FindSession,
    /// Path: build a new session block.
    CreateSession,
    /// Path, PathTear: search for the path state block of the sender.
    FindPsb,
    /// Path: create a path state block.
    CreatePsb,
    /// Path: route computation.
    Route,
    /// Path refresh: a Path is built and said.
    PathRefresh,
    /// PathTear: the path state block goes, and all that hung on it.
    TearPsb,
    /// Resv: is its style compatible with what is there?
    CheckStyles,
    /// Resv: flow descriptors are taken out, matched, put before traffic control and kept.
    ManageReservation,
    /// Resv, ResvTear: a Resv or ResvTear is merged, built and said.
    ResvRefresh,
    /// ResvTear: find the reservation state block.
    FindRsb,
    /// ResvTear: the reservation state block goes, and what it held is given back.
    TearReservation,
    /// Soft state: alarms that are due, without the refreshes that they set off.
    Soften,
    /// Boomerang: find the session block.
    BoomerangFind,
    /// Boomerang: build a new session block.
    BoomerangCreate,
    /// Boomerang: compare what is asked with what is free and what is booked, and book it.
    BoomerangManage,
    /// Boomerang: remove a session block.
    BoomerangRemove,
    /// Boomerang: session blocks that have expired.
    BoomerangExpire,
}

impl Step {
    /// All, in the order of their numbers.
    pub const ALL: [Step; 18] = [
        Step::FindSession,
        Step::CreateSession,
        Step::FindPsb,
        Step::CreatePsb,
        Step::Route,
        Step::PathRefresh,
        Step::TearPsb,
        Step::CheckStyles,
        Step::ManageReservation,
        Step::ResvRefresh,
        Step::FindRsb,
        Step::TearReservation,
        Step::Soften,
        Step::BoomerangFind,
        Step::BoomerangCreate,
        Step::BoomerangManage,
        Step::BoomerangRemove,
        Step::BoomerangExpire,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Step::FindSession | Step::BoomerangFind => "find session block",
            Step::CreateSession | Step::BoomerangCreate => "create session block",
            Step::FindPsb => "search for PSB",
            Step::CreatePsb => "create PSB",
            Step::Route => "route computation",
            Step::PathRefresh => "path refresh",
            Step::TearPsb => "tear PSB",
            Step::CheckStyles => "check styles",
            Step::ManageReservation | Step::BoomerangManage => "reservation management",
            Step::ResvRefresh => "reservation refresh",
            Step::FindRsb => "find RSB",
            Step::TearReservation => "reservation tear",
            Step::Soften | Step::BoomerangExpire => "soft state",
            Step::BoomerangRemove => "tear session block",
        }
    }

    /// Its place in [`Step::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Who is told of checkpoints. Each `enter` is followed by one `leave` of the same step; steps nest.
pub trait Probe {
    /// A step begins.
    fn enter(&mut self, step: Step);
    /// It is done.
    fn leave(&mut self, step: Step);
}

/// Nobody looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Off;

impl Probe for Off {
    #[inline(always)]
    fn enter(&mut self, _: Step) {}
    #[inline(always)]
    fn leave(&mut self, _: Step) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_by_their_place() {
        assert!(Step::ALL.iter().enumerate().all(|(place, step)| step.index() == place));
        assert_eq!(size_of::<Off>(), 0, "nothing is kept for nobody");
    }
}
