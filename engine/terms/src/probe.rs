//! Probe points: the named steps of handling a signalling message, and the observer of them.
//!
//! Why: the cost of a step is known only by measuring it where it runs, and an engine has no clock. So it
//! tells a [`ProbeObserver`] when a step begins and ends, and a driver's observer reads a clock. [`Off`] is
//! the default of every engine: a type without a size whose calls are empty, not a flag that is asked.
//!
//! The steps of RSVP and of Boomerang are those of sections 4.1 and 4.2 of *Profiling resource reservation
//! protocols* (IFIP 2001), by their names there. A step may lie within another (a Path may set off the
//! refresh of a reservation); an observer that measures subtracts the inner step's time from the outer one's.

/// A step of handling a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ProbePoint {
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
    /// Resv: compare its style with the styles that are there.
    CheckStyles,
    /// Resv: flow descriptors are taken out, matched, put before traffic control and kept.
    ManageReservation,
    /// Resv, ResvTear: a Resv or ResvTear is merged, built and said.
    ResvRefresh,
    /// ResvTear: find the reservation state block.
    FindRsb,
    /// ResvTear: remove the reservation state block, and give its resources back.
    TearReservation,
    /// Soft state: alarms that are due, without the refreshes that they set off.
    Soften,
    /// Boomerang: find the session block.
    BoomerangFind,
    /// Boomerang: build a new session block.
    BoomerangCreate,
    /// Boomerang: compare the request with the free and booked amounts, and book it.
    BoomerangManage,
    /// Boomerang: remove a session block.
    BoomerangRemove,
    /// Boomerang: session blocks that have expired.
    BoomerangExpire,
}

impl ProbePoint {
    /// All steps, in the order of their numbers.
    pub const ALL: [ProbePoint; 18] = [
        ProbePoint::FindSession,
        ProbePoint::CreateSession,
        ProbePoint::FindPsb,
        ProbePoint::CreatePsb,
        ProbePoint::Route,
        ProbePoint::PathRefresh,
        ProbePoint::TearPsb,
        ProbePoint::CheckStyles,
        ProbePoint::ManageReservation,
        ProbePoint::ResvRefresh,
        ProbePoint::FindRsb,
        ProbePoint::TearReservation,
        ProbePoint::Soften,
        ProbePoint::BoomerangFind,
        ProbePoint::BoomerangCreate,
        ProbePoint::BoomerangManage,
        ProbePoint::BoomerangRemove,
        ProbePoint::BoomerangExpire,
    ];

    /// The step's name for people.
    pub fn name(self) -> &'static str {
        match self {
            ProbePoint::FindSession | ProbePoint::BoomerangFind => "find session block",
            ProbePoint::CreateSession | ProbePoint::BoomerangCreate => "create session block",
            ProbePoint::FindPsb => "search for PSB",
            ProbePoint::CreatePsb => "create PSB",
            ProbePoint::Route => "route computation",
            ProbePoint::PathRefresh => "path refresh",
            ProbePoint::TearPsb => "tear PSB",
            ProbePoint::CheckStyles => "check styles",
            ProbePoint::ManageReservation | ProbePoint::BoomerangManage => "reservation management",
            ProbePoint::ResvRefresh => "reservation refresh",
            ProbePoint::FindRsb => "find RSB",
            ProbePoint::TearReservation => "reservation tear",
            ProbePoint::Soften | ProbePoint::BoomerangExpire => "soft state",
            ProbePoint::BoomerangRemove => "tear session block",
        }
    }

    /// The step's place in [`ProbePoint::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// An observer of steps. Each `enter` is followed by one `leave` of the same step; steps nest.
pub trait ProbeObserver {
    /// A step begins.
    fn enter(&mut self, step: ProbePoint);
    /// The step ends.
    fn leave(&mut self, step: ProbePoint);
}

/// The observer that does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Off;

impl ProbeObserver for Off {
    #[inline(always)]
    fn enter(&mut self, _: ProbePoint) {}
    #[inline(always)]
    fn leave(&mut self, _: ProbePoint) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_by_their_place() {
        assert!(ProbePoint::ALL.iter().enumerate().all(|(place, step)| step.index() == place));
        assert_eq!(size_of::<Off>(), 0, "nothing is kept for nobody");
    }
}
