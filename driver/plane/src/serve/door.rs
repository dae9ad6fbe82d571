//! The plane's socket: who may come in, and a thread for each who did.
//!
//! Root, this process's own user and the agent's user may drive a plane; everyone else is closed at once. The kernel says who
//! it is (SO_PEERCRED); nothing that a peer sends is believed for that.

use super::{Caller, PlaneServer};
use crate::protocol::{PlaneAnswer, PlaneRequest, VERSION, receive_request, send_answer};
use linux::error::SystemError;
use linux::process;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use terms::Fault;

/// The most connections at once.
const MOST: usize = 16;
/// How long a peer may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The socket; dropped, its file is removed.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
}

impl Door {
    /// Listens for the agent of `user` (beside root and our own user), and hands its requests to the server's packet thread.
    ///
    /// # Errors
    /// The socket cannot be made there, or another process listens on it.
    pub fn open(path: &Path, user: Option<u32>, server: &PlaneServer) -> Result<Door, SystemError> {
        let what = || format!("listen on {}", path.display());
        let listener = linux::files::listen(path, None).map_err(SystemError::doing(what()))?;
        if user.is_some() {
            std::os::unix::fs::chown(path, user, None).map_err(SystemError::doing(what()))?;
        }
        let (caller, own) = (server.caller(), own_user());
        let may = move |uid: u32| uid == 0 || Some(uid) == user || Some(uid) == own;
        let thread = std::thread::Builder::new().name("door".into());
        thread.spawn(move || accept(&listener, &may, &caller)).map_err(SystemError::doing("start a thread"))?;
        Ok(Door { path: path.to_owned() })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// The user of this process.
fn own_user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|found| found.uid())
}

fn accept(listener: &UnixListener, may: &impl Fn(u32) -> bool, caller: &Caller) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors: those who are here go some time.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let known = process::peer(&stream).is_ok_and(|peer| may(peer.uid));
        if !known || open.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (caller, count) = (caller.clone(), open.clone());
        let spawned = std::thread::Builder::new().name("peer".into()).spawn(move || {
            let _ = serve(stream, &caller);
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one peer until it goes, or says what makes no sense.
fn serve(mut stream: UnixStream, caller: &Caller) -> std::io::Result<()> {
    const UNKNOWN: Fault = Fault { what: "the plane in user space does not know this message", code: 71 };
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut greeted = false;
    loop {
        let answer = match receive_request(&mut stream) {
            Ok(None) => return Ok(()),
            Ok(Some(PlaneRequest::Hello { version })) if version != VERSION => PlaneAnswer::Fault(UNKNOWN),
            Ok(Some(request)) => {
                greeted |= matches!(request, PlaneRequest::Hello { .. });
                if greeted { caller.ask(request) } else { PlaneAnswer::Fault(UNKNOWN) }
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                send_answer(&mut stream, &PlaneAnswer::Fault(UNKNOWN))?;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        send_answer(&mut stream, &answer)?;
        if !greeted {
            return Ok(());
        }
    }
}
