//! Failures for the person at the terminal: the fault, its place and the remedy; and the exit status.

use std::fmt;

/// The exit status of a program that the user interrupted.
pub const INTERRUPTED: u8 = 130;

/// A failure, for the person at the terminal.
#[derive(Debug)]
pub struct Complaint {
    text: String,
    code: u8,
}

impl Complaint {
    /// The request was refused: exit status 1.
    pub fn refused(text: impl Into<String>) -> Complaint {
        Complaint { text: text.into(), code: 1 }
    }

    /// The arguments make no sense: exit status 2.
    pub fn usage(text: impl Into<String>) -> Complaint {
        Complaint { text: text.into(), code: 2 }
    }

    /// The world is not as needed (no agent, no right, no file): exit status 3.
    pub fn world(text: impl Into<String>) -> Complaint {
        Complaint { text: text.into(), code: 3 }
    }

    /// The user stopped it: exit status 130.
    pub fn interrupted(text: impl Into<String>) -> Complaint {
        Complaint { text: text.into(), code: INTERRUPTED }
    }

    /// The exit status.
    pub fn exit_code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<rpc::client::Error> for Complaint {
    fn from(error: rpc::client::Error) -> Complaint {
        match error {
            rpc::client::Error::Agent(problem) if problem.kind == "refused" => Complaint::refused(problem.message),
            rpc::client::Error::Agent(problem) if problem.kind == "misuse" => Complaint::usage(problem.message),
            other => Complaint::world(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Complaint {
    fn from(error: std::io::Error) -> Complaint {
        Complaint::world(error.to_string())
    }
}
