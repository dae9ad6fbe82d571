//! The keys that neighbours share: read from their files, told to the node, dated by the calendar.

use crate::calls::problem;
use crate::config::AgentConfig;
use crate::document::Mistake;
use crate::drive::Drive;
use crate::keys;
use crate::log::Level;
use crate::signatures::{AuthConfig, Handshake};
use documents::agent::Problem;
use node::io::{Input, InterfaceState};
use rsvp::integrity::AuthMode;
use std::collections::BTreeMap;
use terms::IfIndex;

/// The authentication of the configured interfaces, by name. Reads each file of keys.
///
/// # Errors
/// The first mistake in a file of keys.
pub fn load(config: &AgentConfig) -> Result<BTreeMap<String, AuthMode>, Mistake> {
    config.interfaces.iter().map(|interface| Ok((interface.name.clone(), read(&interface.auth)?))).collect()
}

fn read(auth: &AuthConfig) -> Result<AuthMode, Mistake> {
    match auth {
        AuthConfig::None => Ok(AuthMode::None),
        AuthConfig::Keys { file, handshake, reordering } => {
            let mut table = keys::load(file)?;
            table.handshake = *handshake != Handshake::None;
            table.window = *reordering;
            table.unwilling = *handshake == Handshake::Willing;
            Ok(AuthMode::Keys(table))
        }
    }
}

/// The authentication for people: `none`, one key's algorithm and number, or the number of keys.
pub(crate) fn words(auth: Option<&AuthMode>) -> String {
    match auth {
        Some(AuthMode::Keys(table)) => match table.keys() {
            [one] => format!("{} key {}", keys::name(one.algorithm), one.id),
            all => format!("{} keys", all.len()),
        },
        _ => "none".to_owned(),
    }
}

impl Drive {
    /// Tells the node the authentication of an interface, before anything else about the interface.
    pub(crate) fn tell_auth(&mut self, interface: IfIndex, name: &str) {
        if let Some(auth) = self.auth.get(name) {
            let auth = auth.by_clock(self.book.clock.ahead_ns);
            self.messages.keep_signed(interface, &auth);
            self.tell(Input::Auth { interface, auth });
        }
    }

    /// Tells the node an interface that has come or changed.
    pub(crate) fn tell_interface(&mut self, state: InterfaceState) {
        self.tell_auth(state.index, &state.name);
        self.tell(Input::Interface(state));
    }

    /// Dates the keys anew after a step of the calendar. The state of the neighbours stays.
    pub(crate) fn date_keys(&mut self) {
        let there: Vec<(IfIndex, String)> =
            self.interfaces.iter().map(|(&index, state)| (index, state.name.clone())).collect();
        for (index, name) in there {
            self.tell_auth(index, &name);
        }
    }

    /// Reads the files of keys again. With a mistake in any of them all stay as they were.
    pub(crate) fn reload_keys(&mut self) -> Result<(), Problem> {
        let fresh = load(&self.config).map_err(|mistake| {
            self.console.announce(Level::Error, "keys_not_reloaded", &format!("{mistake}; the keys are as they were"));
            problem("refused", format!("{mistake}; the keys are as they were"))
        })?;
        self.auth = fresh;
        self.date_keys();
        self.console.announce(Level::Info, "keys_reloaded", "each file of keys was read again");
        Ok(())
    }
}
