//! Findings made on purpose: a test of the checks.

use super::callers::{Applications, at};
use super::look::group_of;
use super::site::{INTERFACE, Site};
use crate::anomalies::http;
use bed::error::Error;
use bed::patience::Patience;
use documents::agent::{Answer, PrepareDoc, Request};
use documents::book::{AskDoc, BookAnswer, BookFilter, EpochDoc, PartDoc, PrepareAskDoc, ReservationDoc, WhenDoc};
use linux::error::SystemError;
use rpc::client::Client;
use serde_json::Value;
use std::collections::BTreeSet;

/// The kinds of findings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedFinding {
    /// A reservation is cancelled, and its application does not know.
    Lost,
    /// An agent's capacity becomes smaller than what it gave away.
    Overbooked,
    /// One member of a reservation is cancelled at its agent, behind the broker's back.
    Half,
    /// The licences that were granted are taken away.
    Diverged,
    /// An agent promises something to a broker that never comes.
    Stuck,
}

fn nothing(what: &str) -> Error {
    Error::Void(format!("nothing can be planted: {what}"))
}

impl PlantedFinding {
    /// Reads the name of a kind, as in the report.
    pub fn parse(name: &str) -> Option<PlantedFinding> {
        Some(match name {
            "lost" => PlantedFinding::Lost,
            "overbooked" => PlantedFinding::Overbooked,
            "half" => PlantedFinding::Half,
            "diverged" => PlantedFinding::Diverged,
            "stuck" => PlantedFinding::Stuck,
            _ => return None,
        })
    }

    /// Makes it.
    ///
    /// # Errors
    /// There is nothing that could be spoiled, or a process does not answer.
    pub fn make(self, site: &mut Site, applications: &mut Applications, patience: &Patience) -> Result<(), Error> {
        match self {
            PlantedFinding::Lost => {
                let id = wanted(applications).next().ok_or_else(|| nothing("no reservation is known"))?;
                let done = http::ask(&site.socket(), "DELETE", &at(id), "", &Value::Null);
                match done {
                    Ok((200..=299, _)) => Ok(()),
                    Ok((status, doc)) => Err(nothing(&format!("the broker answers {status} {doc}"))),
                    Err(error) => Err(nothing(&error.to_string())),
                }
            }
            PlantedFinding::Overbooked => {
                for agent in 0..site.len() {
                    site.configure(agent, 1)?;
                    site.process(agent + 1).kill();
                }
                site.start(patience)
            }
            PlantedFinding::Half => half(site, applications),
            PlantedFinding::Diverged => {
                // All of them: the agent writes that of a reservation again which is changed or cancelled meanwhile.
                let folders = (0..site.len()).map(|agent| std::fs::read_dir(site.home(agent).join("state/granted")));
                let files: Vec<_> = folders.flatten().flatten().flatten().collect();
                if files.is_empty() {
                    return Err(nothing("no licence is granted"));
                }
                for file in files {
                    std::fs::remove_file(file.path()).map_err(SystemError::doing("remove a licence"))?;
                }
                Ok(())
            }
            PlantedFinding::Stuck => {
                let part = PartDoc { resource: format!("net/{INTERFACE}"), rate: Some(1_000), ..PartDoc::default() };
                let ask = AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() };
                let doc = PrepareDoc {
                    transaction: "1".repeat(32),
                    member: 0,
                    coordinator: "nobody".to_owned(),
                    epoch: EpochDoc { number: 1, decisions: 0, nonce: 1 },
                    serial: 1,
                    floor: 1,
                    ask: PrepareAskDoc::Create(ask),
                };
                Client::connect(&site.agent_socket(0))?.call(Request::BookPrepare(Box::new(doc)))?;
                Ok(())
            }
        }
    }
}

/// The reservations that an application has and has not begun to cancel.
fn wanted(applications: &mut Applications) -> impl Iterator<Item = &String> {
    let known = applications.all().flat_map(|one| &one.known);
    known.filter(|(_, known)| known.cancelled.len() == 1 && !known.cancelled.contains(&true)).map(|(id, _)| id)
}

fn half(site: &Site, applications: &mut Applications) -> Result<(), Error> {
    // One that is being cancelled would be gone at all members soon.
    let wanted: BTreeSet<&str> = wanted(applications).map(String::as_str).collect();
    let is =
        |row: &ReservationDoc| row.members.len() > 1 && row.promise.is_none() && wanted.contains(group_of(&row.group));
    for agent in 0..site.len() {
        let mut client = Client::connect(&site.agent_socket(agent))?;
        let request = Request::BookShow { handle: None, filter: BookFilter::default() };
        let Answer::Book(BookAnswer::Reservations { rows, .. }) = client.call(request)? else { continue };
        if let Some(row) = rows.into_iter().find(is) {
            client.call(Request::BookCancel { handle: row.handle })?;
            return Ok(());
        }
    }
    Err(nothing("no reservation is at several agents"))
}
