//! The guard between the library and the server: a thread that passes on one request and its answers, each message checked,
//! and has a limit on silence and on the whole operation.
//!
//! The library speaks plain LDAP to one end of a pair of sockets; to the server the guard speaks what the address says.

use crate::message::{self, Checked};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A connection to a server.
pub(crate) trait ServerStream: Read + Write + Send {}

impl<T: Read + Write + Send> ServerStream for T {}

/// Why the guard ended the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reason(Arc<Mutex<Option<String>>>);

impl Reason {
    /// The sentence, once there is one.
    pub(crate) fn said(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// Starts a guard for this server. Each answer must come within `patience`, all answers to a request within ten times that.
///
/// # Errors
/// No sockets or no thread.
pub(crate) fn start(mut server: Box<dyn ServerStream>, patience: Duration) -> io::Result<(UnixStream, Reason)> {
    let (outside, mut inside) = UnixStream::pair()?;
    // A library that stops reading must not hold the thread for ever.
    inside.set_write_timeout(Some(patience))?;
    let reason = Reason::default();
    let told = reason.clone();
    std::thread::Builder::new().name("directory".to_owned()).spawn(move || {
        if let Err(error) = pass(&mut inside, &mut server, patience) {
            told.say(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("the directory did not answer within {} s", patience.as_secs_f64())
                }
                io::ErrorKind::InvalidData => format!("the directory's answer makes no sense: {error}"),
                _ => format!("the directory went away: {error}"),
            });
        }
    })?;
    Ok((outside, reason))
}

/// Passes requests and their answers until one side ends.
fn pass(inside: &mut UnixStream, server: &mut Box<dyn ServerStream>, patience: Duration) -> io::Result<()> {
    while let Some(asking) = message::read(inside)? {
        let asked = message::operation(&asking).unwrap_or_default();
        server.write_all(&asking)?;
        server.flush()?;
        if asked == message::request::UNBIND {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            if begun.elapsed() > patience * 10 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let Some(answer) = message::read(server)? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            let wrong = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
            match message::check(&answer, asked).map_err(wrong)? {
                Checked::Ends(text) => {
                    let text: String = text.chars().filter(|one| !one.is_control()).take(200).collect();
                    return Err(io::Error::other(format!("it ends the connection ({text})")));
                }
                Checked::Part => inside.write_all(&answer)?,
                Checked::Result => {
                    inside.write_all(&answer)?;
                    break;
                }
            }
        }
    }
    Ok(())
}
