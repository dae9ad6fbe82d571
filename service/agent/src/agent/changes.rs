//! Changes by others in the kernel, carried out: links, addresses, routes, traffic control.

use super::Agent;
use crate::boomerang::turn::BoomerangTurn;
use crate::drive::Drive;
use crate::interfaces::{self, Interfaces};
use crate::log::Level;
use crate::mace::turn::MaceTurn;
use crate::news::name_of;
use crate::noticed::Changed;
use crate::planes::{PlaneNews, bound_exceeded};
use crate::statics::turn::StaticsTurn;
use linux::netlink::notice::NetlinkNotice;
use linux::plane::PlaneDrift;
use node::io::Input;
use std::collections::BTreeSet;
use terms::IfIndex;

impl Agent {
    /// Takes the kernel's notices of changes.
    pub(crate) fn notice(&mut self) {
        let notices = match self.notices.take() {
            Ok(notices) => notices,
            Err(error) => {
                self.drive.console.line(Level::Error, "netlink", &[("text", &error)]);
                vec![NetlinkNotice::Lost]
            }
        };
        self.noticed.take(notices, self.drive.clock.now());
        self.look_at_changes();
    }

    /// Handles the changes, if it is time.
    pub(crate) fn look_at_changes(&mut self) {
        let Some(changed) = self.noticed.due(self.drive.clock.now()) else { return };
        let Drive { node, netlink, console, config, plane, .. } = &mut self.drive;
        match changed {
            Changed::Anything => {
                if let Err(error) = node.route_mut().forget() {
                    console.line(Level::Error, "netlink", &[("text", &error)]);
                }
                match interfaces::read(netlink, config, plane) {
                    Ok(now) => self.compare(now),
                    Err(error) => console.line(Level::Error, "netlink", &[("text", &error)]),
                }
                self.drive.tell(Input::RouteChanged(None));
            }
            Changed::Routes(networks) => {
                networks.iter().for_each(|(network, bits)| node.route_mut().forget_within(*network, *bits));
                networks.into_iter().for_each(|within| self.drive.tell(Input::RouteChanged(Some(within))));
            }
        }
        StaticsTurn(&mut self.drive).tell_refused(); // an address of theirs may have come
        self.noticed.rests(self.drive.clock.now());
    }

    pub(crate) fn renew_multicast_routes(&mut self) {
        let known = &self.drive.interfaces;
        let index = |name: &str| known.values().find(|state| state.name == name).map(|state| state.index);
        for failed in self.mroutes.renew(&self.drive.config.multicast_routes, index) {
            self.drive.console.line(Level::Error, "multicast_route", &[("text", &failed)]);
        }
    }

    fn compare(&mut self, mut now: Interfaces) {
        for (index, state) in &mut now {
            // A driver forgets its rate while a cable is out; what was promised on the link is not over for that.
            let known = self.drive.interfaces.get(index).filter(|before| before.name == state.name && state.rsvp);
            state.link = state.link.or(known.and_then(|before| before.link));
        }
        let before = std::mem::replace(&mut self.drive.interfaces, now.clone());
        self.drive.names.extend(now.iter().map(|(&index, state)| (index, state.name.clone())));
        for (index, state) in before.iter().filter(|(index, _)| !now.contains_key(index)) {
            self.drive.console.announce(Level::Warn, "interface_gone", &state.name.clone());
            self.drive.tell(Input::InterfaceGone(*index));
        }
        for (index, state) in now {
            if before.get(&index) != Some(&state) {
                self.drive.console.announce(Level::Info, "interface", &format!("{} changed", state.name));
                self.drive.tell_interface(state);
            }
        }
        self.drive.tell_bookable();
        self.renew_multicast_routes();
        BoomerangTurn(&mut self.drive).renew();
        MaceTurn::of(&mut self.drive).renew();
    }

    /// Takes news of the plane in user space. What it exports for guaranteed service goes into every Path from now on: without
    /// terms, the break bit (RFC 2212).
    fn hear_plane(&mut self) {
        let mut anew = false;
        for news in self.drive.plane.hear() {
            let (level, name, text) = match news {
                PlaneNews::Answers => {
                    (Level::Warn, "plane_answers", "the plane in user space answers again".to_owned())
                }
                PlaneNews::Silent(fault) => (Level::Error, "plane_silent", fault.to_string()),
                PlaneNews::Terms { oif, beyond: 0 } => {
                    let name = name_of(oif, &self.drive.names);
                    let text = format!("{name}: the plane in user space declares another delay bound, or none");
                    (Level::Info, "delay_bound", text)
                }
                PlaneNews::Terms { oif, beyond } => {
                    let name = name_of(oif, &self.drive.names);
                    (Level::Error, "delay_bound_exceeded", bound_exceeded(&name, beyond))
                }
            };
            anew |= matches!(news, PlaneNews::Terms { .. });
            self.drive.console.announce(level, name, &text);
        }
        let Drive { netlink, console, config, plane, .. } = &mut self.drive;
        if anew {
            match interfaces::read(netlink, config, plane) {
                Ok(now) => self.compare(now),
                Err(error) => console.line(Level::Error, "netlink", &[("text", &error)]),
            }
        }
    }

    /// Compares the kernel's state with the plan, and repairs what others changed.
    pub(crate) fn look(&mut self) {
        self.noticed.looks(self.drive.clock.now());
        StaticsTurn(&mut self.drive).retry();
        let now = self.drive.clock.now();
        self.hear_plane();
        let drifts = match self.drive.plane.reconcile(now) {
            Ok(drifts) => drifts,
            Err(fault) => {
                return self.drive.console.announce(
                    Level::Error,
                    "plane_fault",
                    &format!("while looking again: {fault}"),
                );
            }
        };
        let foreign: BTreeSet<IfIndex> = drifts
            .iter()
            .filter_map(|drift| if let PlaneDrift::Foreign(oif) = drift { Some(*oif) } else { None })
            .collect();
        for drift in drifts {
            let name = |oif: &IfIndex| name_of(*oif, &self.drive.names);
            match drift {
                PlaneDrift::Mended(oif) => {
                    let text = format!("{}: classes that another program had changed are as they were", name(&oif));
                    self.drive.console.announce(Level::Warn, "plane_mended", &text);
                }
                PlaneDrift::Foreign(oif) if !self.foreign.contains(&oif) => {
                    let text = format!(
                        "{}: another program took its traffic control; nothing is guaranteed there",
                        name(&oif)
                    );
                    self.drive.console.announce(Level::Error, "plane_foreign", &text);
                }
                PlaneDrift::Foreign(_) | PlaneDrift::Gone(_) => {}
            }
        }
        self.foreign = foreign;
    }
}
