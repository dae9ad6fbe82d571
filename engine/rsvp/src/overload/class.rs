//! The classes of messages that wait.

/// The class of a message that waits, in the order of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IntakeClass {
    /// A neighbour's signs of life and acknowledgements: Hello, Ack, the answer to a challenge.
    Liveness,
    /// Tears, which give a reservation back: PathTear, ResvTear.
    Tear,
    /// A refresh: the last message of a state once more.
    Refresh,
    /// Other messages about a session with a reservation: changes, errors, confirmations.
    Known,
    /// Messages that name states instead of sessions: summaries, bundles.
    Summary,
    /// An Integrity Challenge by a node that does not know us yet; it cannot be signed.
    Challenge,
    /// A reservation for a sender that has none.
    NewResv,
    /// All other messages: about a session without a reservation, or about no session that can be read.
    NewPath,
}

impl IntakeClass {
    /// All classes, in the order of service.
    pub const ALL: [IntakeClass; 8] = [
        IntakeClass::Liveness,
        IntakeClass::Tear,
        IntakeClass::Refresh,
        IntakeClass::Known,
        IntakeClass::Summary,
        IntakeClass::Challenge,
        IntakeClass::NewResv,
        IntakeClass::NewPath,
    ];

    /// The name of the class, for people.
    pub fn name(self) -> &'static str {
        match self {
            IntakeClass::Liveness => "liveness",
            IntakeClass::Tear => "tears",
            IntakeClass::Refresh => "refreshes",
            IntakeClass::Known => "of what is there",
            IntakeClass::Summary => "summaries",
            IntakeClass::Challenge => "challenges",
            IntakeClass::NewResv => "new reservations",
            IntakeClass::NewPath => "new senders",
        }
    }

    pub(super) fn is_new(self) -> bool {
        self >= IntakeClass::Challenge
    }
}
