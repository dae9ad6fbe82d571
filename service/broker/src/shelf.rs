//! Small documents that outlive a broker: files of its state folder; or rows of the journal, where several brokers
//! share one, so that the next that leads has them.

use crate::state_file;
use crate::transactions::Transactions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A place of small documents.
#[derive(Clone, Debug)]
pub enum Shelf {
    /// Files of this folder.
    Folder(PathBuf),
    /// Rows of the journal of transactions.
    Journal(Arc<Transactions>),
}

/// A document that is being written.
#[derive(Debug)]
pub enum Writing {
    /// It is written, or could not be.
    Done(io::Result<()>),
    /// The journal answers when it is on the disk.
    Begun(oneshot::Receiver<Result<(), String>>),
}

impl Shelf {
    /// Reads a document; an empty one if there is none. A spoilt one keeps no broker from starting: it is set aside, and
    /// said.
    ///
    /// # Errors
    /// A sentence: it cannot be read.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, String> {
        match self {
            Shelf::Folder(folder) => {
                let file = folder.join(format!("{name}.json"));
                let wrong = |what: String| format!("{}: {what}", file.display());
                let Some(text) = state_file::read(&file).map_err(|error| wrong(error.to_string()))? else {
                    return Ok(T::default());
                };
                serde_json::from_slice(&text).or_else(|error| {
                    let aside = state_file::set_aside(&file)
                        .map_err(|why| wrong(format!("{error}; to set it aside: {why}")))?;
                    eprintln!("sluice: {}: {error}; it is kept as {}", file.display(), aside.display());
                    Ok(T::default())
                })
            }
            Shelf::Journal(journal) => {
                let Some(text) = journal.document(name) else { return Ok(T::default()) };
                Ok(serde_json::from_slice(text).unwrap_or_else(|error| {
                    // The next writing of this broker replaces it.
                    eprintln!("sluice: the document {name} of the journal: {error}; it is not used");
                    T::default()
                }))
            }
        }
    }

    /// Begins to write a document. Those of one name end in the order in which they begin.
    pub(crate) fn write(&self, name: &str, document: &impl Serialize) -> Writing {
        let text = match serde_json::to_vec_pretty(document) {
            Ok(text) => text,
            Err(error) => return Writing::Done(Err(error.into())),
        };
        match self {
            Shelf::Folder(folder) => Writing::Done(state_file::write(&folder.join(format!("{name}.json")), &text)),
            Shelf::Journal(journal) => Writing::Begun(journal.keep(name, &text)),
        }
    }
}

impl Writing {
    /// Waits until it is on the disk.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) async fn done(self) -> io::Result<()> {
        match self {
            Writing::Done(done) => done,
            Writing::Begun(told) => heard(told.await),
        }
    }

    /// The same from a thread that may wait.
    ///
    /// # Errors
    /// As [`Writing::done`].
    pub(crate) fn wait(self) -> io::Result<()> {
        match self {
            Writing::Done(done) => done,
            Writing::Begun(told) => heard(told.blocking_recv()),
        }
    }
}

fn heard(told: Result<Result<(), String>, oneshot::error::RecvError>) -> io::Result<()> {
    match told {
        Ok(done) => done.map_err(io::Error::other),
        Err(_) => Err(io::Error::other("the broker is ending")),
    }
}
