//! Boomerang's messages, from the programs to the node and back, and its start and end.

use super::BoomerangHost;
use super::config::{self, BoomerangConfig};
use crate::drive::Drive;
use crate::log::Level;
use crate::news::Names;
use crate::start::{StartError, seed};
use boomerang::io::Gather;
use boomerang::{AppId, Output};
use documents::agent::Direction;
use linux::boomerang::rows_for;
use linux::poll::Token;
use node::io::{Input, Output as NodeOutput};
use std::collections::BTreeSet;
use terms::IfIndex;
use wire::boomerang::{Family, Selector};

/// The most messages that are taken before other work has its turn.
const MOST_TAKEN: usize = 256;
/// The most sessions of applications.
const MOST_SESSIONS: usize = 65_536;

/// Boomerang with the node that decides about its messages.
pub(crate) struct BoomerangTurn<'a>(pub(crate) &'a mut Drive);

impl BoomerangTurn<'_> {
    /// Loads and attaches Boomerang's programs, after everything in the plane is known.
    pub(crate) fn begin(&mut self, token: Token) -> Result<(), StartError> {
        let Some(config) = &self.0.config.boomerang else { return Ok(()) };
        let mut echo =
            BoomerangHost::open(config, &self.0.config.state, [seed()?, seed()?]).map_err(StartError::Plane)?;
        self.0.console.wake_for(&echo.ring(), token)?;
        echo.fast.found(echo.path.marked());
        let (rows, wanted) = (echo.path.rows(), rows_for(config.fast_sessions));
        self.0.echo = Some(echo);
        if rows != wanted {
            let says = format!(
                "the kernel's table keeps its {rows} rows for the sessions in it, not {wanted} as fast_sessions says"
            );
            self.0.console.announce(Level::Info, "boomerang_fast_path", &says);
        }
        self.renew();
        Ok(())
    }

    /// Attaches the programs to every interface of the configuration.
    pub(crate) fn renew(&mut self) {
        let Some(config) = self.0.config.boomerang.clone() else { return };
        self.0.node.configure_boomerang(engine(&config, &self.0.names));
        let there: BTreeSet<IfIndex> = self.0.interfaces.values().filter(|i| i.rsvp).map(|i| i.index).collect();
        let Some(echo) = &mut self.0.echo else { return };
        let gone: Vec<IfIndex> = echo.hanging.difference(&there).copied().collect();
        let mut faults = Vec::new();
        for (interface, on) in gone.into_iter().map(|i| (i, false)).chain(there.into_iter().map(|i| (i, true))) {
            if let Err(fault) = echo.hang(interface, on, config::against(&config).is_none()) {
                faults.push((interface, fault));
            }
        }
        for (interface, fault) in faults {
            let name = self.0.names.get(&interface).cloned().unwrap_or_default();
            self.0.console.announce(Level::Error, "boomerang_fault", &format!("{name}: {fault}"));
        }
        self.renew_fast();
    }

    /// Handles the messages that the programs have handed over.
    pub(crate) fn take(&mut self) {
        for _ in 0..MOST_TAKEN {
            let Some(told) = self.0.echo.as_mut().and_then(|echo| echo.path.next_told()) else { return };
            if !self.again(&told) {
                self.tell_packet(told.iif, told.packet);
            }
        }
    }

    fn tell_packet(&mut self, iif: IfIndex, mut packet: Vec<u8>) {
        let before = self.0.echo.as_ref().is_some_and(BoomerangHost::is_traced).then(|| packet.clone());
        let half = self.take_over(iif, &packet);
        self.0.node.handle(self.0.clock.now(), Input::Echo { iif: Some(iif), packet: &mut packet });
        if let Some(echo) = &mut self.0.echo {
            echo.told = packet;
        }
        let became = self.after_packet();
        if let Some(half) = half {
            self.keep_apart(half);
        }
        if let Some(before) = before {
            let Drive { echo, console, names, .. } = &mut *self.0;
            if let Some(echo) = echo {
                echo.trace(Direction::In, Some(iif), &before, became, console, names);
            }
        }
        self.0.settle();
        // What the engine has just given back the program must not refuse.
        self.tell_room();
    }

    /// Carries out the node's outputs, and returns the fate of the packet that the node was just told.
    fn after_packet(&mut self) -> Option<String> {
        let mut became = None;
        while let Some(output) = self.0.node.poll() {
            if let NodeOutput::Boomerang(said) = &output {
                became = became.or(match said {
                    Output::Pass { .. } => Some("passed".to_owned()),
                    Output::Deliver => Some("not ours".to_owned()),
                    Output::Dropped(why) => Some(words(*why).to_owned()),
                    _ => None,
                });
            }
            self.0.output(output);
        }
        became
    }

    /// Gives back the sessions that end with a connection.
    pub(crate) fn client_gone(&mut self, client: u64) {
        let over = self.0.echo.as_mut().map(|echo| echo.client_gone(client)).unwrap_or_default();
        for app in over {
            self.0.tell(Input::Boomerang(boomerang::ApplicationCall::Release { app }));
        }
    }

    /// Gives back the sessions of this node's applications, and detaches the programs from all interfaces.
    pub(crate) fn end(&mut self) {
        self.end_fast();
        let apps: Vec<AppId> = self.0.node.boomerang().sessions().map(|session| session.app).collect();
        for app in apps {
            self.0.tell(Input::Boomerang(boomerang::ApplicationCall::Release { app }));
        }
        self.0.messages.flush(&mut self.0.console);
        let Some(echo) = &mut self.0.echo else { return };
        for interface in echo.hanging.clone() {
            // What cannot be taken away now stays pinned, and the next agent finds it.
            let _left = echo.hang(interface, false, false);
        }
        self.0.echo = None;
    }
}

/// The configuration of the node's engine.
fn engine(config: &BoomerangConfig, names: &Names) -> boomerang::Config {
    let gather = config.gather.iter().filter_map(|gather| {
        let oif = names.iter().find(|(_, name)| **name == gather.interface).map(|(index, _)| *index)?;
        let family = Family::of(gather.to);
        let exact = Selector::exact(family);
        let mask = Selector { src: exact.src, dst: exact.dst, src_port: 0, dst_port: 0, ..exact };
        let any = boomerang_any(gather.to);
        let mask = Selector { src: any, protocol: u8::MAX, ..mask };
        let classifier =
            Selector { src: any, dst: gather.to, src_port: 0, dst_port: 0, protocol: 17, tos: 0, flags: 0 };
        Some(Gather { classifier, mask, rate: gather.rate, oif })
    });
    boomerang::Config {
        replies: config.replies,
        keys: config.keys.clone(),
        require_auth: config.require_auth,
        lock: config.lock,
        most_refresh: config.most_refresh,
        most_sessions: config.max_sessions,
        most_masks: config.max_masks,
        most_asked: MOST_SESSIONS,
        per_source: config.per_source,
        burst: config.burst,
        least_burst: config.least_burst,
        gather: gather.collect(),
        ..boomerang::Config::default()
    }
}

/// The wildcard address of the same family.
fn boomerang_any(like: std::net::IpAddr) -> std::net::IpAddr {
    if like.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}

/// The reason for which a message was dropped, in words.
fn words(why: boomerang::FailureReason) -> &'static str {
    use boomerang::FailureReason as W;
    match why {
        W::Ttl => "its time to live is over",
        W::NoRoute => "no way to its destination",
        W::Address => "an address that is nobody's",
        W::TooMany => "its source says too much",
        W::NoEcho => "nobody must answer",
        W::GroupReverse => "a group reserves nothing in reverse",
        W::WrongWay => "not from where its sender is",
        W::Heard => "heard",
        W::Unanswered => "heard, and not answered",
    }
}
