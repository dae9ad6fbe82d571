//! `sluice agent --check`: the mistakes in all files that the agent's file names, and what of them this machine has not,
//! found before an agent starts. Nothing is changed.

use crate::book::LocalPolicy;
use crate::{AgentConfig, auth, start};
use linux::clock::Clock;
use std::sync::Arc;
use trust::Speaks;

/// Every mistake in keys, policy, certificates, interfaces and the state's place that would stop a start, each as a sentence.
pub fn mistakes(config: &AgentConfig) -> Vec<String> {
    let keys = auth::load(config).err().map(|mistake| mistake.to_string());
    let policy = LocalPolicy::load(config).err();
    let certificates = config.listen.as_ref().and_then(|listen| {
        let clock = Clock::start();
        trust::server(&listen.files, Arc::new(move || clock.today()), Speaks::Agent).err()
    });
    let certificates = certificates.map(|error| format!("[listen]: {error}"));
    let files = [keys, policy.map(|mistake| mistake.to_string()), certificates].into_iter().flatten();
    // Who may not ask the kernel has the other answers all the same.
    let machine = start::wrong_interfaces(config).unwrap_or_default();
    files.chain(machine).chain(wrong_place(config)).collect()
}

/// The state's file system, if it is none for a journal. The folder itself may be made later, by the start.
fn wrong_place(config: &AgentConfig) -> Option<String> {
    let there = config.state.ancestors().find(|folder| folder.exists())?;
    let found = store::filesystem(there).filter(|found| !found.is_trusted() && !config.store.any_filesystem)?;
    Some(store::Error::Place { path: config.state.clone(), filesystem: found.name }.to_string())
}

/// Findings that are no mistakes and yet worth a word: a start goes on without them.
pub fn notes(config: &AgentConfig) -> Vec<String> {
    let away = config.disks.iter().filter(|disk| !std::path::Path::new(&disk.device).exists());
    away.map(|disk| {
        format!("[[disk]] {}: {} is not there; nothing of it can be reserved until it is", disk.name, disk.device)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AuthConfig;
    use std::fs;

    /// All of them at once, with their files and lines; and afterwards everything is as it was.
    #[test]
    fn every_mistake_is_named_and_nothing_is_changed() {
        let dir = std::env::temp_dir().join(format!("sluice-check-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("agent.toml");
        fs::write(
            &file,
            "socket = \"agent.sock\"\nstate = \"state\"\npolicy = \"policy.toml\"\n[[interface]]\nname = \"eth1\"\nkeys = \"eth1.keys\"\nrate = \"10mbit\"\n\
             [listen]\naddress = \"127.0.0.1:0\"\nca = \"ca.pem\"\ncertificate = \"agent.pem\"\nkey = \"agent.key\"\n",
        )
        .unwrap();
        fs::write(dir.join("policy.toml"), "[[rule]]\nname = \"r\"\nwho = [\"*\"]\ncolour = \"red\"\n").unwrap();
        let config = AgentConfig::load(&file).unwrap();
        assert!(matches!(config.interfaces[0].auth, AuthConfig::Keys { .. }));
        let before = names(&dir);
        let told = mistakes(&config);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("eth1.keys"), "{told:?}");
        assert!(told[1].contains("policy.toml:4: unknown field `colour`"), "{told:?}");
        assert!(told[2].contains("[listen]") && told[2].contains(".pem"), "{told:?}");
        assert!(told[3].contains("there is no interface eth1"), "{told:?}");
        assert_eq!(names(&dir), before);
        fs::remove_dir_all(&dir).unwrap();
    }

    fn names(dir: &std::path::Path) -> Vec<std::ffi::OsString> {
        let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        all.sort();
        all
    }
}
