//! Atomic commitment: a change at several agents is made at all of them or at none, through every crash.
//!
//! The protocol is two-phase commit with presumed abort (Mohan, Lindsay, Obermarck, "Transaction Management
//! in the R* Distributed Database Management System", ACM TODS 11(4), 1986), without a timer after the vote.
//! A broker is the [`Coordinator`], and each agent is a [`Participant`].
//!
//! ```text
//!  coordinator                                participant
//!    log transaction, members, epoch
//!    Prepare ------------------------------->   decide everything that can be refused
//!                                               promise on the disk
//!            <------------------------- Yes     (no timer from here on)
//!    decision on the disk
//!    Decide Commit ------------------------->   book, forget the promise, on the disk
//!            <------------------- Acknowledge
//!    forget the transaction
//! ```
//!
//! - A participant says Yes only when its promise is on the disk. From then on it waits for the decision. It
//!   asks for it when it does not hear, and a coordinator that connects asks for its promises.
//! - A coordinator sends the first Commit only when the decision is on the disk. What it does not know was
//!   not decided, and so is aborted.
//! - Each start of a coordinator has a higher epoch than all before. A participant keeps the highest epoch
//!   of each coordinator and refuses older ones.
//! - A promise is moot when its last window has passed without a decision.
//!
//! A [`Subordinate`] is both: it says Yes to the coordinator above when all its own members have.
//!
//! All engines are told and say: one input, then drain [`Coordinator::poll`] or [`Participant::poll`]; come
//! back at `wake_at` with `Wake`. Before the first other input: every record of the journal as `Recovering`,
//! then `Recovered`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod coordinator;
mod message;
pub mod participant;
pub mod record;
pub mod subordinate;

pub use coordinator::Coordinator;
pub use message::{Branch, CoordinatorName, Decision, Epoch, TransactionId, Vote};
pub use participant::Participant;
pub use subordinate::Subordinate;
