//! Documents of transactions over several agents: the calls of a coordinator, which is a broker, and its answers.

use super::{AskDoc, BindingDoc, ChangeDoc};
use serde::{Deserialize, Serialize};

/// A start of a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EpochDoc {
    /// Its number, from 1; later starts have higher ones.
    pub number: u64,
    /// The number of decisions to commit that its journal had seen at this start.
    pub decisions: u64,
    /// Drawn by chance at this start.
    pub nonce: u64,
}

/// A request for a promise. The answer `reservation`, whatever its state, means Yes; an error means No.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareDoc {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
    /// The number of this member in the transaction, from 0.
    pub member: u32,
    /// The name of the broker that coordinates. It must be the one that speaks.
    pub coordinator: String,
    /// The broker's present start.
    pub epoch: EpochDoc,
    /// The number of the transaction in this start, from 1.
    pub serial: u64,
    /// Every transaction of this start with a lower number has ended.
    pub floor: u64,
    /// The change that is to be promised.
    #[serde(rename = "change")]
    pub ask: PrepareAskDoc,
}

/// A change that can be promised.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareAskDoc {
    /// Reserve.
    Create(AskDoc),
    /// Book a held reservation.
    Hold {
        /// The handle.
        handle: String,
    },
    /// Change a booking.
    Modify {
        /// The handle.
        handle: String,
        /// The change.
        change: ChangeDoc,
    },
    /// Bind a part to a flow, process or control group.
    Bind {
        /// The handle.
        handle: String,
        /// The part, from 0.
        #[serde(default)]
        part: usize,
        /// The binding; null: none.
        #[serde(default)]
        binding: Option<BindingDoc>,
    },
}

/// A coordinator's decision. The answer, `reservation` or `nothing`, means that it is carried out and on the disk.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideDoc {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
    /// The number of this member in the transaction, from 0.
    pub member: u32,
    /// The name of the broker that coordinates.
    pub coordinator: String,
    /// The broker's present start.
    pub epoch: EpochDoc,
    /// The number of the decision to commit, from 1; null: abort.
    #[serde(default)]
    pub commit: Option<u64>,
}

/// A question for the open promises to a coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromisesDoc {
    /// The name of the broker that coordinates.
    pub coordinator: String,
    /// The broker's present start.
    pub epoch: EpochDoc,
    /// The last promise of the previous page: transaction and member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<(String, u32)>,
}

/// A page of the open promises to a coordinator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromiseRows {
    /// The promises, in order.
    pub rows: Vec<PromiseRow>,
    /// True if there are more: ask again `after` the last.
    pub more: bool,
    /// The agent's time of day, nanoseconds since 1970, UTC.
    pub clock_ns: u64,
}

/// An open promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromiseRow {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
    /// The number of the member in the transaction, from 0.
    pub member: u32,
    /// The number of the broker's start in which it was promised.
    pub epoch: u64,
}

/// The promise of a reservation that is not decided yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromiseDoc {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
    /// The number of the member in the transaction, from 0.
    pub member: u32,
    /// The name of the broker that coordinates.
    pub coordinator: String,
    /// The promised change: `create`, `hold`, `modify` or `bind`.
    pub change: String,
    /// The agent's time of day at this answer, nanoseconds since 1970, UTC.
    pub clock_ns: u64,
}
