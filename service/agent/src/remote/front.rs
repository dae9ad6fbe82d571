//! The front: a process without rights that speaks TLS and reads the JSON of callers from other machines.
//!
//! Its standard input is the channel to the agent that started it. The first message names the user to
//! become. Before the front reads a byte from a caller, it has given up user, groups and every capability,
//! and may use only the system calls for serving: it cannot open a file, make a socket or start a program.
//! The agent hands it certificates, listening sockets and a connection into the agent for each caller. The
//! front parses calls and passes them on written anew.

use super::frames::{self, Order, VERSION};
use super::proxy::Proxy;
use linux::channel::{Channel, ChannelMessage};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::{Poll, PollInterest, Token};
use linux::privilege::{User, give_up, only_serve};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use terms::Span;

/// The time that the agent has for its first message.
const PATIENCE: Span = Span::from_secs(10);

/// Serves until the agent closes the channel.
///
/// # Errors
/// Standard input is no channel of an agent, privileges cannot be given up, or the kernel failed.
pub fn run() -> Result<(), SystemError> {
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(SystemError::doing("use the inherited socket"))?;
    let channel = Channel::inherited(input)?;
    let _ = std::fs::write("/proc/self/comm", "sluice-front"); // for people who look at processes
    let _ = std::fs::write("/proc/self/oom_score_adj", "500"); // before the agent, whose unit says that it goes last
    let clock = Clock::start();
    let (user, files) = match first(&channel, clock)? {
        Order::Begin { version: VERSION, uid, gid, files } => (User { uid, gid }, files),
        other => return Err(wrong(&format!("{other:?} instead of the beginning"))),
    };
    give_up(user)?;
    let bridge = Proxy::new(channel, files, clock)?;
    let restricted = only_serve()?;
    bridge.run(restricted)
}

fn first(channel: &Channel, clock: Clock) -> Result<Order, SystemError> {
    let mut poll = Poll::new(clock)?;
    poll.add(channel, Token(0), PollInterest::Read)?;
    let until = clock.now().saturating_add(PATIENCE);
    while clock.now() < until {
        poll.wait(Some(until))?;
        match channel.receive(false) {
            Ok(Some(ChannelMessage { bytes, .. })) => return frames::read(&bytes).map_err(|what| wrong(&what)),
            Ok(None) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(SystemError::because("hear the agent", error)),
        }
    }
    Err(wrong("nothing came"))
}

fn wrong(what: &str) -> SystemError {
    SystemError::because("hear the agent", io::Error::other(what.to_owned()))
}
