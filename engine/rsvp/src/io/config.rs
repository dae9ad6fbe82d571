//! Timing and limits.

use crate::integrity::key::AuthMode;
use alloc::string::String;
use terms::Span;

/// Timing and limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The name of this node in a refusal.
    pub node_name: String,
    /// R, the refresh period that we send in TIME_VALUES (RFC 2205 section 3.7; default 30 s).
    pub refresh: Span,
    /// The upper bound on a neighbour's R (default 1 h); TIME_VALUES has room for 49 days.
    pub longest_refresh: Span,
    /// K, the number of refreshes in a row that may be lost (default 3).
    pub keep: u32,
    /// Kb: the number of periods R in which a request that failed upstream is not merged with smaller ones
    /// (RFC 2205 section 3.5; default 3).
    pub blockade: u32,
    /// W, the time in which a changed route settles before the Path follows it (RFC 2205 section 3.6; default
    /// 2 s).
    pub repair_wait: Span,
    /// True if refresh reduction is used with neighbours that support it (RFC 2961; default false).
    pub refresh_reduction: bool,
    /// The number of refreshes by name after which one is in full (RFC 2961 section 5.5; default 16).
    pub names_per_full: u8,
    /// The longest wait before a message to a group is acknowledged (RFC 2961 section 4.7; default a quarter
    /// of a second, half of the time until the message is repeated).
    pub group_ack_wait: Span,
    /// The interval of Hello requests to neighbours (RFC 3209 section 5); `None`: neighbours are answered,
    /// and asked once when they are first heard.
    pub hello: Option<Span>,
    /// The authentication on interfaces without an [`Input::Auth`] of their own.
    pub auth: AuthMode,
    /// Most sessions.
    pub max_sessions: usize,
    /// Most path states.
    pub max_paths: usize,
    /// Most senders of one session.
    pub max_senders: usize,
    /// Most reservation states.
    pub max_resvs: usize,
    /// Most path states above the number of reservation states: senders without a reservation, whose
    /// refreshes go out all the same. A new sender beyond it is dropped, unless its session has a
    /// reservation; it tries again with its refresh.
    pub max_unreserved: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            node_name: String::new(),
            refresh: Span::from_secs(30),
            longest_refresh: Span::from_secs(3_600),
            keep: 3,
            blockade: 3,
            repair_wait: Span::from_secs(2),
            refresh_reduction: false,
            names_per_full: 16,
            group_ack_wait: Span::from_millis(250),
            hello: None,
            auth: AuthMode::None,
            max_sessions: 1 << 20,
            max_paths: 1 << 20,
            max_senders: 4_096,
            max_resvs: 1 << 20,
            max_unreserved: usize::MAX,
        }
    }
}
