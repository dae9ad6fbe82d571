//! Completion in a shell, of what only an agent or a broker knows as well: handles, resources, nodes. The script of
//! `sluice completions` runs this program again with the words so far. An agent or a broker has a second to answer, and
//! failures complete nothing: a shell is no place for complaints.

use crate::book::booking_client::BookingClient;
use crate::places::{AgentArgs, BookArgs, PapersArgs};
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use documents::book::{BookFilter, Instant, ReservationDoc, WindowDoc};
use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;
use terms::Span;

/// The longest wait for an agent or a broker.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most candidates.
const MOST: usize = 200;

/// The command with completers at the arguments that name a node, a reservation or a resource, in it and in all below it.
pub fn completed(command: Command) -> Command {
    let reserves = ["reserve", "enquire", "may"].contains(&command.get_name());
    let with = |one: Arg| match one.get_id().as_str() {
        "node" => one.add(ArgValueCompleter::new(nodes)),
        "handle" | "handles" => one.add(ArgValueCompleter::new(handles)),
        "resource" | "resources" => one.add(ArgValueCompleter::new(resources)),
        "parts" if reserves => one.add(ArgValueCompleter::new(amounts)),
        _ => one,
    };
    command.mut_args(with).mut_subcommands(completed)
}

/// Handles of reservations that are not over.
fn handles(current: &OsStr) -> Vec<CompletionCandidate> {
    let rows = ask(|desk| desk.list(BookFilter::default()).ok()).unwrap_or_default();
    let candidate = |doc: &ReservationDoc| {
        let parts: Vec<&str> = doc.parts.iter().map(|part| part.resource.as_str()).collect();
        let about = format!("{} {} {}", doc.state, parts.join(" "), doc.label);
        CompletionCandidate::new(&doc.handle).help(Some(about.trim_end().to_owned().into()))
    };
    let docs = rows.iter().map(|row| row.doc());
    beginning(current, docs.map(|doc| candidate(&doc)).collect())
}

/// Resources, by name.
fn resources(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, names().into_iter().map(CompletionCandidate::new).collect())
}

/// The same where an amount follows.
fn amounts(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = names().into_iter().map(|name| CompletionCandidate::new(format!("{name}=")));
    beginning(current, named.collect())
}

fn names() -> Vec<String> {
    let now = linux::clock::Clock::start().now();
    let window = WindowDoc { start: Instant(now), end: Instant(now.saturating_add(Span::from_secs(1))) };
    let rows = ask(move |desk| desk.resources(window).ok()).unwrap_or_default();
    rows.into_iter().map(|row| row.resource).collect()
}

/// Nodes of testbeds that are up; where several are, with their testbed.
fn nodes(current: &OsStr) -> Vec<CompletionCandidate> {
    let folders = |path: &std::path::Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).take(MOST).collect()
    };
    let testbeds = folders(rpc::places::TESTBEDS.as_ref());
    let mut found = Vec::new();
    for testbed in &testbeds {
        let nodes = folders(&std::path::Path::new(rpc::places::TESTBEDS).join(testbed));
        let there = nodes.into_iter().filter(|node| rpc::places::node_socket(testbed, node).exists());
        found.extend(there.map(|node| if testbeds.len() > 1 { format!("{testbed}/{node}") } else { node }));
    }
    beginning(current, found.into_iter().map(CompletionCandidate::new).collect())
}

fn beginning(current: &OsStr, mut all: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let current = current.as_encoded_bytes();
    all.retain(|one| one.get_value().as_encoded_bytes().starts_with(current));
    all.truncate(MOST);
    all
}

/// Asks the agent or the broker that the words name, or the usual one.
fn ask<T: Send + 'static>(question: impl FnOnce(&mut BookingClient) -> Option<T> + Send + 'static) -> Option<T> {
    let words: Vec<String> = std::env::args().collect();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let answer = BookingClient::open(&place(&words), false).ok().and_then(|mut desk| question(&mut desk));
        let _ = tell.send(answer);
    });
    told.recv_timeout(PATIENCE).ok().flatten()
}

/// The agent or broker that words of a command name.
fn place(words: &[String]) -> BookArgs {
    let said = |names: &[&str]| {
        names.iter().find_map(|name| {
            let joined = format!("{name}=");
            let beside =
                words.iter().zip(words.iter().skip(1)).find(|(word, _)| word == name).map(|(_, value)| value.clone());
            beside.or_else(|| words.iter().find_map(|word| word.strip_prefix(&joined).map(str::to_owned)))
        })
    };
    let file = |names: &[&str], variable: &str| {
        said(names).or_else(|| std::env::var(variable).ok()).filter(|text| !text.is_empty()).map(Into::into)
    };
    let papers = PapersArgs {
        ca: file(&["--ca"], "SLUICE_CA"),
        certificate: file(&["--certificate"], "SLUICE_CERTIFICATE"),
        certificate_key: file(&["--certificate-key"], "SLUICE_KEY"),
    };
    let agent = AgentArgs { socket: said(&["--socket", "--agent"]), node: said(&["--node", "-n"]), papers };
    BookArgs { agent, broker: said(&["--broker", "-b"]), token: file(&["--token"], "SLUICE_TOKEN") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_place_in_each_form() {
        let of = |text: &str| place(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("sluice list --node maui x").agent.node.as_deref(), Some("maui"));
        assert_eq!(of("sluice list -n maui").agent.node.as_deref(), Some("maui"));
        assert_eq!(of("sluice cancel --broker=unix:/b abc").broker.as_deref(), Some("unix:/b"));
        assert_eq!(of("sluice cancel --socket").agent.socket, None);
    }

    #[test]
    fn only_what_begins_like_the_word_is_offered() {
        let all = ["net/eth0=", "net/eth1=", "cpu="].map(CompletionCandidate::new).into();
        let found = beginning("net".as_ref(), all);
        assert_eq!(found.iter().map(|one| one.get_value()).collect::<Vec<_>>(), ["net/eth0=", "net/eth1="]);
    }
}
