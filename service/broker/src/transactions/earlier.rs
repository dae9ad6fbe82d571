//! Changes that a broker before transactions left open: files of the folder `intents`. Each is taken over
//! once, as an order, and its file goes when the order is written down.
//!
//! A cancellation is finished. Everything else is undone: its caller was told that it is made everywhere or
//! nowhere.

use super::{ChangeKind, MemberAction, MemberOrder, Note, Transactions};
use crate::agents::own_voice;
use documents::agent::Request;
use documents::links::CallerDoc;
use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in the state folder.
const FOLDER: &str = "intents";
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 1 << 20;
/// The name by which earlier brokers wrote their own voice.
const OWN_NAME: &str = "broker";

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EarlierAction {
    Ask(Box<Request>),
    GiveBack(String),
}

#[derive(Deserialize)]
struct EarlierStep {
    agent: String,
    forward: EarlierAction,
    #[serde(default)]
    back: Option<EarlierAction>,
}

#[derive(Deserialize)]
struct EarlierChange {
    id: String,
    what: String,
    caller: CallerDoc,
    steps: Vec<EarlierStep>,
}

/// Takes over what an earlier broker left in the state folder. Returns the number of changes.
///
/// # Errors
/// A file cannot be read: its name and the reason.
pub async fn take_over(transactions: &Arc<Transactions>, state: &Path) -> Result<usize, String> {
    let changes = read(&state.join(FOLDER))?;
    let count = changes.len();
    for (file, change) in changes {
        let wrong = |why: &str| format!("{}: {why}", file.display());
        let (id, kind, orders) = orders(change);
        if !orders.is_empty()
            && let Err(problem) = transactions.order(Note { id, kind, leg: None }, orders).await
        {
            return Err(wrong(&problem.detail));
        }
        fs::remove_file(&file).map_err(|error| wrong(&error.to_string()))?;
    }
    Ok(count)
}

/// A change as orders.
fn orders(change: EarlierChange) -> (String, ChangeKind, Vec<(String, MemberOrder)>) {
    let EarlierChange { id, what, mut caller, steps } = change;
    let own = own_voice();
    if caller.name == OWN_NAME && caller.role == own.role && caller.groups.is_empty() {
        caller = own;
    }
    let kind = if what == "cancel" { ChangeKind::Cancel } else { ChangeKind::Undo };
    let order = |step: EarlierStep| {
        let action = match step.back {
            Some(back) => back,
            // It cannot be refused.
            None => step.forward,
        };
        let action = match action {
            EarlierAction::Ask(request) => MemberAction::Undo(request),
            EarlierAction::GiveBack(group) => MemberAction::GiveBack(group),
        };
        (step.agent, MemberOrder { caller: caller.clone(), action })
    };
    (id, kind, steps.into_iter().map(order).collect())
}

fn read(folder: &Path) -> Result<Vec<(PathBuf, EarlierChange)>, String> {
    let wrong = |path: &Path, why: String| format!("{}: {why}", path.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(folder, error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(folder, error.to_string())),
    };
    // A file that was not fully written belongs to a change that never began.
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort_unstable();
    let one = |path: PathBuf| {
        let size = fs::metadata(&path).map_err(|error| wrong(&path, error.to_string()))?.len();
        if size > MAX_FILE {
            return Err(wrong(&path, format!("{size} bytes: no broker wrote that")));
        }
        let text = fs::read(&path).map_err(|error| wrong(&path, error.to_string()))?;
        let change = serde_json::from_slice(&text).map_err(|error| wrong(&path, error.to_string()))?;
        Ok((path, change))
    };
    files.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> (String, ChangeKind, Vec<(String, MemberOrder)>) {
        orders(serde_json::from_str(text).unwrap())
    }

    /// Work that an earlier broker left open in its own name is done in ours; a person's work stays theirs.
    #[test]
    fn an_earlier_brokers_own_voice_is_ours() {
        for (name, role, own) in [("broker", "operator", true), ("broker", "owner", false), ("alice", "owner", false)] {
            let text = format!(
                r#"{{"id":"a","what":"cancel","caller":{{"name":"{name}","groups":[],"role":"{role}"}},
                   "steps":[{{"agent":"e","forward":{{"give_back":"g.a"}}}}]}}"#
            );
            let (_, kind, orders) = change(&text);
            assert_eq!((kind, orders[0].1.caller == own_voice()), (ChangeKind::Cancel, own), "{name} {role}");
            assert_eq!(orders[0].1.action, MemberAction::GiveBack("g.a".to_owned()));
        }
    }

    #[test]
    fn what_is_no_cancellation_is_undone() {
        let (_, kind, orders) = change(
            r#"{"id":"a","what":"commit","caller":{"name":"","groups":[],"role":"operator"},"steps":[
               {"agent":"e","forward":{"ask":{"call":"book_commit","handle":"h","decided":true}},"back":{"give_back":"g.a"}}]}"#,
        );
        assert_eq!((kind, &orders[0].1.action), (ChangeKind::Undo, &MemberAction::GiveBack("g.a".to_owned())));
    }
}
