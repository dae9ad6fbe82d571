//! The process that sends mail: it runs the site's `sendmail`, which the broker itself, shut in as it is, may not.
//!
//! The broker starts it before it gives up its rights, and hands it mails, one line of JSON each; it answers each with a
//! line. It runs that one program with fixed options and a checked address, and gives it
//! half a minute.

use crate::webhook::mail::MailAddress;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The command by which this program sends.
pub const COMMAND: &str = "send-mail";
/// The longest line between the two, bytes.
const MOST: u64 = 64 << 10;
/// The longest time of the site's program for one mail.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of its complaint that are kept.
const COMPLAINT: usize = 300;

/// A mail.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Letter {
    from: String,
    to: String,
    text: String,
}

/// How it went.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// Why it was not sent.
    failed: Option<String>,
}

/// The broker's end of that process. A mail that waits for its turn holds no thread.
#[derive(Clone, Debug)]
pub struct Mailer(Arc<Mutex<MailerEnds>>);

#[derive(Debug)]
struct MailerEnds {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for MailerEnds {
    fn drop(&mut self) {
        // It would end with its input; in the middle of a mail that may take half a minute.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Mailer {
    /// Starts it, for this program of the site. Call it while there are rights.
    ///
    /// # Errors
    /// A sentence.
    pub fn start(sendmail: &Path) -> Result<Mailer, String> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(COMMAND).arg(sendmail).stdin(Stdio::piped()).stdout(Stdio::piped());
        let wrong = |error: io::Error| format!("the process that sends mail does not start: {error}");
        let mut child = command.spawn().map_err(wrong)?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else {
            return Err("no pipe to the process that sends mail".to_owned());
        };
        Ok(Mailer(Arc::new(Mutex::new(MailerEnds { child, to, from: BufReader::new(from) }))))
    }

    /// Sends a mail; one at a time.
    ///
    /// # Errors
    /// Why it was not sent.
    pub async fn send(&self, from: &MailAddress, to: &MailAddress, text: String) -> Result<(), String> {
        let letter = Letter { from: from.text().to_owned(), to: to.text().to_owned(), text };
        let mut ends = self.0.clone().lock_owned().await;
        let sent = tokio::task::spawn_blocking(move || ends.exchange(&letter));
        sent.await.map_err(|error| error.to_string())?
    }
}

impl MailerEnds {
    fn exchange(&mut self, letter: &Letter) -> Result<(), String> {
        let gone = |_| "the process that sends mail has ended: start the broker again".to_owned();
        let mut line = serde_json::to_string(letter).map_err(|error| error.to_string())?;
        line.push('\n');
        if line.len() as u64 > MOST {
            return Err("the mail is too long".to_owned());
        }
        self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush()).map_err(gone)?;
        let mut answer = String::new();
        (&mut self.from).take(MOST).read_line(&mut answer).map_err(gone)?;
        let sent: Sent = serde_json::from_str(&answer).map_err(|_| gone(io::ErrorKind::UnexpectedEof.into()))?;
        sent.failed.map_or(Ok(()), Err)
    }
}

/// The process itself: sends what comes on standard input until that ends.
///
/// # Errors
/// Its ends are no pipes to a broker.
pub fn run(sendmail: &Path) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut line = String::new();
        if (&mut input).take(MOST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let letter: Letter = serde_json::from_str(&line).map_err(io::Error::other)?;
        let failed = send(sendmail, &letter).err();
        let answer = serde_json::to_string(&Sent { failed }).map_err(io::Error::other)?;
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

/// Runs the site's program: dots alone in a line end nothing (-oi), and what comes behind the two dashes is no option.
fn send(sendmail: &Path, letter: &Letter) -> Result<(), String> {
    let (from, to) = (MailAddress::parse(&letter.from)?, MailAddress::parse(&letter.to)?);
    let mut command = Command::new(sendmail);
    command.args(["-oi", "-f", from.text(), "--", to.text()]).current_dir("/").env_clear();
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let wrong = |error: io::Error| format!("{}: {error}", sendmail.display());
    let mut child = command.spawn().map_err(wrong)?;
    let (input, complaint) = (child.stdin.take(), child.stderr.take());
    let text = letter.text.clone();
    // One that reads nothing must not hold us: the pipe is another thread's, and so is what it complains about.
    // Neither is joined: a child that the program leaves behind may keep both pipes open.
    std::thread::spawn(move || input.map(|mut input| input.write_all(text.as_bytes())));
    let (told, reading) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = complaint.map(|pipe| pipe.take(MOST).read_to_end(&mut said));
        let _ = told.send(said);
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(wrong)? {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{} did not end within {} s", sendmail.display(), PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = reading.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let said: String = String::from_utf8_lossy(&said).chars().filter(|c| !c.is_control()).take(COMPLAINT).collect();
    Err(format!("{} ended with {status}: {said}", sendmail.display()))
}
