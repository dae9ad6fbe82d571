//! The running stream: the sending ffmpeg, the receiving ffmpeg, and the captures beside them.

use super::rtp::RtpPacket;
use super::show::Shown;
use super::source::{ENCODED_KBPS, Picture, VideoSource, ffmpeg};
use super::tap::{Tap, TapDirection};
use bed::error::Error;
use bed::host::Host;
use bed::patience::Patience;
use bed::program::{self, RunningProgram};
use linux::clock::Clock;
use linux::error::SystemError;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Port of the RTP packets, both ends; the few RTCP packets use it, too (RFC 5761).
pub const PORT: u16 = 5004;
/// The longest run, seconds. If this process is killed, the programs end by themselves after it.
const LONGEST: &str = "900";
/// The most bytes of RTP header and payload in a packet; the IP packet has 28 bytes more.
const PACKET: u32 = 1_400;
/// The rate at which the sender spreads each picture's packets, bit/s of UDP payload: a fifth above the
/// video's own rate, like the video tool of the seed and real senders.
const PACE: u32 = ENCODED_KBPS * 1_000 / 5 * 6;
/// The largest burst after a pause, bits: two packets.
const PACE_BURST: u32 = 2 * 8 * PACKET;
/// The receiver's socket buffer, bytes: seconds of video, as far as the system allows.
const RECEIVE_BUFFER: &str = "4000000";
/// The longest wait of the receiver for an overtaken packet, microseconds. The kernel may deliver on either
/// processor of a testbed in one machine, so packets do overtake one another, which is no loss.
const REORDERING: &str = "100000";
/// The time limit for a program to begin.
const START: Duration = Duration::from_secs(20);

/// A running video. It ends when this is dropped.
#[derive(Debug)]
pub struct Stream {
    sender: RunningProgram,
    receiver: RunningProgram,
    sent: Tap,
    came: Tap,
    shown: Arc<Mutex<Vec<Shown>>>,
    reader: Option<JoinHandle<()>>,
    dir: PathBuf,
}

impl Stream {
    /// Starts to send `source`, and returns when the receiver shows it. The session description goes into
    /// `dir`.
    ///
    /// # Errors
    /// ffmpeg fails, the video does not arrive, or the user stops the run.
    pub fn start(
        source: &VideoSource,
        from: &Host,
        to: &Host,
        dir: &Path,
        clock: Clock,
        patience: &Patience,
    ) -> Result<Stream, Error> {
        let sent = Tap::start(from, PORT, TapDirection::Out, clock)?;
        let came = Tap::start(to, PORT, TapDirection::In, clock)?;
        let mut sender = send(source, from, to, dir)?;
        let written = || fs::read_to_string(dir.join("sent.sdp")).ok().filter(|text| text.contains("sprop-parameter"));
        if !patience.wait_for(START, || written().is_some() || !sender.is_running())? || !sender.is_running() {
            return Err(ended("sending", dir));
        }
        let description = dir.join("video.sdp");
        let text = describe(&written().unwrap_or_default());
        fs::write(&description, text).map_err(SystemError::doing(format!("write {}", description.display())))?;
        let mut receiver = receive(to, dir)?;
        let pipe = receiver.take_stdout().ok_or_else(|| Error::Program("ffmpeg has no standard output".into()))?;
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (list, known) = (shown.clone(), source.clone());
        let thread = std::thread::Builder::new().name("frames".into());
        let reader =
            thread.spawn(move || watch(pipe, &known, &list, clock)).map_err(SystemError::doing("start a thread"))?;
        let mut stream = Stream { sender, receiver, sent, came, shown, reader: Some(reader), dir: dir.into() };
        if !patience.wait_for(START, || stream.shows() || !stream.is_running())? {
            return Err(Error::Program(format!("the receiving ffmpeg shows nothing{}", last_words("receiving", dir))));
        }
        stream.check()?;
        Ok(stream)
    }

    fn shows(&self) -> bool {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|picture| picture.whole)
    }

    fn is_running(&mut self) -> bool {
        self.sender.is_running() && self.receiver.is_running()
    }

    /// Checks that both programs run and the captures missed no packet.
    ///
    /// # Errors
    /// [`Error::Program`] or [`Error::Void`].
    pub fn check(&mut self) -> Result<(), Error> {
        if !self.sender.is_running() {
            return Err(ended("sending", &self.dir));
        }
        if !self.receiver.is_running() {
            return Err(ended("receiving", &self.dir));
        }
        match self.sent.missed() + self.came.missed() {
            0 => Ok(()),
            missed => Err(Error::Void(format!("the captures missed {missed} packets: this machine is too busy"))),
        }
    }

    /// Returns the RTP packets that left the sender.
    pub fn sent(&self) -> Vec<RtpPacket> {
        self.sent.packets()
    }

    /// Returns the RTP packets that reached the receiver's interface.
    pub fn came(&self) -> Vec<RtpPacket> {
        self.came.packets()
    }

    /// Returns the pictures that the receiver showed.
    pub fn shown(&self) -> Vec<Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The reader ends at the end of the receiver's output.
        self.receiver.stop();
        if let Some(reader) = self.reader.take() {
            // A panic there has already been reported by the panic hook.
            let _ = reader.join();
        }
    }
}

fn send(source: &VideoSource, from: &Host, to: &Host, dir: &Path) -> Result<RunningProgram, Error> {
    let description = dir.join("sent.sdp");
    // What an earlier stream left; that there is none is no error.
    let _ = fs::remove_file(&description);
    let mut command = ffmpeg();
    let pace = format!("bitrate={PACE}&burst_bits={PACE_BURST}&fifo_size=20000");
    let url = format!("udp://{}:{PORT}?localport={PORT}&pkt_size={PACKET}&{pace}", to.address);
    command.args(["-re", "-stream_loop", "-1", "-i"]).arg(&source.file);
    command.args(["-c", "copy", "-an", "-t", LONGEST, "-f", "rtp", "-sdp_file"]).arg(description).arg(url);
    command.stdout(Stdio::null()).stderr(log("sending", dir)?);
    from.namespace.enter_at_exec(&mut command);
    program::start(&mut command)
}

/// Returns the session description for the receiver. ffmpeg knows the port of `rtp:` addresses only, whose
/// packets it cannot pace, and writes 0 for others.
fn describe(written: &str) -> String {
    written.replace("m=video 0 ", &format!("m=video {PORT} "))
}

fn receive(to: &Host, dir: &Path) -> Result<RunningProgram, Error> {
    let mut command = ffmpeg();
    command.args(["-protocol_whitelist", "file,udp,rtp", "-max_delay", REORDERING, "-fflags", "nobuffer"]);
    command
        .args(["-buffer_size", RECEIVE_BUFFER, "-analyzeduration", "0", "-threads", "1", "-i"])
        .arg(dir.join("video.sdp"));
    command.args(["-fps_mode", "passthrough", "-t", LONGEST, "-flush_packets", "1"]);
    command.args(["-f", "framehash", "-hash", "murmur3", "-"]);
    command.stdout(Stdio::piped()).stderr(log("receiving", dir)?);
    to.namespace.enter_at_exec(&mut command);
    program::start(&mut command)
}

/// Creates the log of one side's ffmpeg.
fn log(side: &str, dir: &Path) -> Result<fs::File, SystemError> {
    let path = dir.join(format!("{side}.log"));
    fs::File::create(&path).map_err(SystemError::doing(format!("write {}", path.display())))
}

fn last_words(side: &str, dir: &Path) -> String {
    let text = fs::read_to_string(dir.join(format!("{side}.log"))).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).map_or(String::new(), |line| format!(": {line}"))
}

fn ended(side: &str, dir: &Path) -> Error {
    Error::Program(format!("the {side} ffmpeg ended{}", last_words(side, dir)))
}

fn watch(pipe: ChildStdout, source: &VideoSource, shown: &Mutex<Vec<Shown>>, clock: Clock) {
    for line in BufReader::new(pipe).lines() {
        let Ok(line) = line else { return };
        if let Some(picture) = Picture::parse(&line) {
            let whole = source.pictures.contains(&picture.print);
            shown.lock().unwrap_or_else(PoisonError::into_inner).push(Shown { at: clock.now(), whole });
        }
    }
}
