//! Programs that never signal, against a flood: ffmpeg's RTP and the packets of a game, first on a plain router, then on one
//! that recognises them; and then, beside them, calls of which each asks by itself, thousands in a minute.
//!
//! The game's packets are a session that is drawn once and played by real sockets in each run, at the same times: lengths and
//! intervals have the distributions that Färber fitted to recorded sessions of Counter-Strike.

use super::site::mace_of;
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::Bed;
use bed::error::Error;
use bed::host::Host;
use bed::program::{self, RunningProgram};
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use documents::mace::MaceDoc;
use linux::error::SystemError;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use terms::Rng;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-applications",
    about: "ffmpeg's RTP and a game against a flood, not signalled, on a plain router and on one that recognises them; 2,000 flows that ask in a minute",
    source: "ours; the game as in Färber: Network Game Traffic Modelling (NetGames 2002), table 1",
    takes: "root, 2 minutes",
    run,
};

const TOPOLOGY: &str = "\
name = \"apps\"
auth = \"none\"
[[node]]
name = \"sender\"
kind = \"host\"
[[node]]
name = \"crowd\"
kind = \"host\"
[[node]]
name = \"destination\"
kind = \"host\"
[[link]]
between = [\"sender\", \"router\"]
rate = \"100mbit\"
[[link]]
between = [\"crowd\", \"router\"]
rate = \"100mbit\"
[[link]]
between = [\"router\", \"destination\"]
rate = \"10mbit\"
[[node]]
name = \"router\"
kind = \"router\"
";
const SETTINGS: &str = "[mace]\ninterface = \"to-destination\"\nallocated = \"50%\"\nperiod = \"1s\"\nwindow = 5\n\
                        refused_for = \"5s\"\nshadow = [\"simple-sum\"]\n";
const LIST: &str = "\
video udp 5004        1500kbit 60kb 20 10s
game  udp 27015       64kbit   8kb  20 10s 64b
call  udp 40000-49999 80kbit   4kb  10 5s  160b
";
const VIDEO: u16 = 5_004;
/// The source ports of the game's server: one that is listed, and one that is not.
const SERVERS: [u16; 2] = [27_015, 27_500];
/// The first destination ports of their players.
const PLAYERS_AT: [u16; 2] = [30_000, 31_000];
const PLAYERS: u16 = 8;
const CALLS_AT: u16 = 40_000;
/// A call has so many packets of so many octets, 20 ms apart.
const CALL: (u32, usize) = (25, 172);
const TICK: Duration = Duration::from_millis(20);
/// The flood: octets of data, and packets a second; 13 Mb/s on the wire.
const FLOOD: (usize, u32) = (972, 1_603);
const SEED: u64 = 2_002;
/// The beginning of each run that does not count: a flow is recognised in it.
const LEAD: Duration = Duration::from_secs(3);
/// The first octets of packets that count, and of the others.
const COUNTS: [u8; 2] = [1, 0];
/// The highest loss of what is recognised, and the lowest of what is not.
const LOST: (f64, f64) = (0.01, 0.10);

/// A packet to be sent.
#[derive(Clone, Copy, PartialEq, Debug)]
struct PlannedPacket {
    at: Duration,
    to: u16,
    len: usize,
}

/// A value of the extreme value distribution of location `a` and scale `b`.
fn extreme(rng: &mut Rng, a: f64, b: f64) -> f64 {
    let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    a - b * (-uniform.clamp(1e-12, 1.0 - 1e-12).ln()).ln()
}

/// A session of the game: the server's packets to each of its players.
fn session(length: Duration, players: u16) -> Vec<PlannedPacket> {
    let mut rng = Rng::seeded(SEED);
    let (mut packets, mut at) = (Vec::new(), Duration::ZERO);
    while at < length {
        for to in 0..players {
            let len = extreme(&mut rng, 120.0, 36.0).clamp(20.0, 1_400.0) as usize;
            packets.push(PlannedPacket { at, to, len });
        }
        at += Duration::from_secs_f64(extreme(&mut rng, 55.0, 6.0).clamp(5.0, 200.0) / 1e3);
    }
    packets
}

/// The packets of calls that begin evenly within `length`, each to a port of its own.
fn calls(count: u16, length: Duration) -> Vec<PlannedPacket> {
    let begins = (0..count).map(|n| (n, length * u32::from(n) / u32::from(count.max(1))));
    let one = |(to, begin): (u16, Duration)| {
        (0..CALL.0).map(move |n| PlannedPacket { at: begin + TICK * n, to, len: CALL.1 })
    };
    let mut packets: Vec<PlannedPacket> = begins.flat_map(one).collect();
    packets.sort_by_key(|packet| packet.at);
    packets
}

/// A thread that sends packets at their times. It ends when this is dropped.
struct Player {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Player {
    fn start(from: &Host, port: u16, to: SocketAddr, packets: Vec<PlannedPacket>) -> Result<Player, SystemError> {
        let socket = from.udp(port, TICK)?;
        let (stop, begin) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let told = stop.clone();
        let deed = move || {
            let _ = linux::process::keep_time();
            let (mut data, mut sent) = ([0x55; 1_500], 0);
            for packet in packets {
                std::thread::sleep((begin + packet.at).saturating_duration_since(Instant::now()));
                if told.load(Relaxed) {
                    break;
                }
                let to = SocketAddr::new(to.ip(), to.port() + packet.to);
                let counts = packet.at >= LEAD;
                data[0] = COUNTS[usize::from(!counts)];
                // What the host's queue does not take was never sent.
                sent += u64::from(socket.send_to(&data[..packet.len], to).is_ok() && counts);
            }
            sent
        };
        let thread = std::thread::Builder::new().name("player".into()).spawn(deed);
        Ok(Player { stop, thread: Some(thread.map_err(SystemError::doing("start a thread"))?) })
    }

    fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The packets that it has sent and that count.
    fn end(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        // A panic there has already been reported by the panic hook.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// The sockets at the destination.
struct Sinks {
    video: UdpSocket,
    players: [Vec<UdpSocket>; 2],
}

/// The packets that came.
#[derive(Clone, Copy, Default, Debug)]
struct Came {
    players: [u64; 2],
    video: u64,
    /// The first and the last sequence number of the video's packets, the latter without its wrap.
    sequence: Option<(u64, u64)>,
}

impl Came {
    /// Counts a packet of RTP (RFC 3550 section 5.1).
    fn rtp(&mut self, packet: &[u8]) {
        let [_, _, high, low, ..] = *packet else { return };
        let number = u16::from_be_bytes([high, low]);
        self.video += 1;
        let (first, last) = self.sequence.unwrap_or((u64::from(number), u64::from(number)));
        let ahead = number.wrapping_sub(last as u16) as i16;
        self.sequence = Some((first, last.max(last.saturating_add_signed(ahead.into()))));
    }

    /// The packets of the video between the first and the last that came.
    fn video_sent(&self) -> u64 {
        self.sequence.map_or(0, |(first, last)| last - first + 1)
    }
}

impl Sinks {
    fn open(host: &Host) -> Result<Sinks, SystemError> {
        let open = |port| {
            let socket = host.udp(port, TICK)?;
            socket.set_nonblocking(true).map_err(SystemError::doing("open UDP"))?;
            Ok(socket)
        };
        let players = |first: u16| (first..first + PLAYERS).map(open).collect::<Result<Vec<_>, SystemError>>();
        Ok(Sinks { video: open(VIDEO)?, players: [players(PLAYERS_AT[0])?, players(PLAYERS_AT[1])?] })
    }

    fn take(&self, came: &mut Came) {
        let mut data = [0; 2_048];
        while let Ok(len) = self.video.recv(&mut data) {
            came.rtp(&data[..len]);
        }
        for (count, sockets) in came.players.iter_mut().zip(&self.players) {
            for socket in sockets {
                while let Ok(len) = socket.recv(&mut data) {
                    *count += u64::from(len > 0 && data[0] == COUNTS[0]);
                }
            }
        }
    }
}

/// The share of packets that were lost: of the video, of the listed game and of the other one.
#[derive(Clone, Copy, Debug)]
struct AppLosses([f64; 3]);

fn lost(sent: u64, came: u64) -> f64 {
    1.0 - came.min(sent) as f64 / sent.max(1) as f64
}

/// A testbed, with recognition or without.
struct AppSite {
    bed: Bed,
    _scratch: Scratch,
}

impl AppSite {
    fn up(recognises: bool, options: &UpOptions) -> Result<AppSite, Error> {
        let (scratch, mut text) = (Scratch::create()?, TOPOLOGY.to_owned());
        if recognises {
            let list = scratch.path().join("applications");
            std::fs::write(&list, LIST).map_err(SystemError::doing(format!("write {}", list.display())))?;
            text += &format!("settings = '''\n{SETTINGS}applications = {list:?}\n'''\n");
        }
        let bed = Bed::of("the testbed of the applications", &text, scratch.name(), None, options)?;
        Ok(AppSite { bed, _scratch: scratch })
    }

    fn mace(&self) -> Result<Option<MaceDoc>, Error> {
        mace_of(&self.bed, "router")
    }

    /// Sends for a while; with so many calls beside, if any.
    fn play(&self, seconds: u64, callers: u16, options: &RunOptions) -> Result<AppLosses, Error> {
        let [sender, crowd, destination] = ["sender", "crowd", "destination"].map(|name| self.bed.host(name));
        let (sender, crowd, destination) = (sender?, crowd?, destination?);
        let sinks = Sinks::open(&destination)?;
        let (length, to) = (Duration::from_secs(seconds), |port| SocketAddr::from((destination.address, port)));
        let _video = video(&sender, &destination, seconds)?;
        let flood = (0..FLOOD.1 * seconds as u32).map(|n| PlannedPacket {
            at: Duration::from_secs(1) * n / FLOOD.1,
            to: 0,
            len: FLOOD.0,
        });
        let flood = Player::start(&crowd, 9, to(9), flood.collect())?;
        let mut games = Vec::new();
        for (server, at) in SERVERS.into_iter().zip(PLAYERS_AT) {
            games.push(Player::start(&sender, server, to(at), session(length, PLAYERS))?);
        }
        let _calls = (callers > 0).then(|| Player::start(&crowd, 7_078, to(CALLS_AT), calls(callers, length)));
        let (mut came, counted) = (Came::default(), Instant::now() + LEAD);
        while !games.iter().all(Player::is_done) {
            options.patience.wait(Duration::from_millis(5))?;
            sinks.take(&mut came);
            if Instant::now() < counted {
                came = Came::default();
            }
        }
        drop(flood);
        options.patience.wait(Duration::from_millis(500))?;
        sinks.take(&mut came);
        let sent: Vec<u64> = games.into_iter().map(Player::end).collect();
        if came.video == 0 {
            return Err(Error::Void("no packet of ffmpeg came".into()));
        }
        Ok(AppLosses([
            lost(came.video_sent(), came.video),
            lost(sent[0], came.players[0]),
            lost(sent[1], came.players[1]),
        ]))
    }
}

/// Starts ffmpeg, as anyone would, with RTP of about one megabit.
fn video(from: &Host, to: &Host, seconds: u64) -> Result<RunningProgram, Error> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25"]);
    command.args(["-t", &seconds.to_string(), "-c:v", "mpeg2video", "-b:v", "900k", "-maxrate", "900k"]);
    command.args(["-bufsize", "200k", "-f", "rtp", &format!("rtp://{}:{VIDEO}?pkt_size=1200", to.address)]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    from.namespace.enter_at_exec(&mut command);
    program::start(&mut command)
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let up = UpOptions::usual()?;
    Bed::possible()?;
    let _ = linux::process::go_first();
    scratch::sweep(&up.testbeds);
    let (seconds, minute, callers) = if options.quick { (8, 9, 300) } else { (30, 60, 2_000) };
    let said = |what: &str| {
        if options.progress {
            eprintln!("{what}");
        }
    };
    said("a plain router");
    let plain = AppSite::up(false, &up)?.play(seconds, 0, options)?;
    let site = AppSite::up(true, &up)?;
    said("a router that recognises");
    let known = site.play(seconds, 0, options)?;
    let before = site.mace()?.map_or(0, |doc| doc.counts.asked);
    said("the same, and calls that ask");
    let beside = site.play(minute, callers, options)?;
    let Some(doc) = site.mace()? else { return Err(Error::Void("the router recognises no flows".into())) };
    let mut finding = Finding::default();
    report(&mut finding, [plain, known, beside], (u64::from(callers), minute), &doc, before);
    Ok(finding)
}

fn report(finding: &mut Finding, losses: [AppLosses; 3], (callers, seconds): (u64, u64), doc: &MaceDoc, before: u64) {
    finding.title("1", "lost of the packets of each program under a flood of 13 Mb/s on 10, %");
    let columns = ["plain", "recognised", "beside_calls"];
    for (row, name) in ["ffmpeg (RTP)", "game", "game, not listed"].into_iter().enumerate() {
        for (column, found) in columns.into_iter().zip(losses) {
            finding.cell("1", name, column, None, &[100.0 * found.0[row]]);
        }
    }
    let asked = doc.counts.asked - before;
    finding.title("2", format!("flows that asked in {seconds} s"));
    for (column, value) in [("asked", asked), ("admitted", doc.counts.admitted), ("refused", doc.counts.refused)] {
        finding.cell("2", "calls", column, None, &[value as f64]);
    }
    let worst = |n: usize| losses[n].0[0].max(losses[n].0[1]);
    finding.value("lost_plain", losses[0].0[0].min(losses[0].0[1]));
    finding.value("lost_recognised", worst(1));
    finding.value("lost_beside_calls", worst(2));
    finding.value("asked_per_minute", asked as f64 * 60.0 / seconds.max(1) as f64);
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    for (what, share) in [("recognised", worst(1)), ("beside calls", worst(2))] {
        if share > LOST.0 {
            finding.shortfalls.push(format!("{what}: {} of the packets were lost", percent(share)));
        }
    }
    for (run, found) in columns.into_iter().zip(losses) {
        if found.0[2] < LOST.1 {
            finding.shortfalls.push(format!("{run}: the flood is not felt: {} were lost", percent(found.0[2])));
        }
    }
    // A call whose first packets were lost in the queue before the router may not reach its threshold.
    if asked * 100 < callers * 95 {
        finding.shortfalls.push(format!("{asked} of {callers} calls asked"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_the_same_each_time_and_has_the_published_means() {
        let length = Duration::from_secs(600);
        let packets = session(length, PLAYERS);
        assert_eq!(packets, session(length, PLAYERS));
        let turns = packets.len() as f64 / f64::from(PLAYERS);
        // The mean of an extreme value distribution is a + 0.5772 b: 58.5 ms, and 140.8 octets.
        assert!((600_000.0 / turns - 58.5).abs() < 0.5, "{turns}");
        let mean = packets.iter().map(|packet| packet.len as f64).sum::<f64>() / packets.len() as f64;
        assert!((mean - 140.8).abs() < 1.0, "{mean}");
        let calls = calls(10, Duration::from_secs(1));
        assert!(calls.len() == 250 && calls.is_sorted_by_key(|packet| packet.at));
    }

    #[test]
    fn the_video_is_counted_by_its_sequence_numbers() {
        let mut came = Came::default();
        for number in [65_534u16, 65_535, 1, 2, 0, 7] {
            let [high, low] = number.to_be_bytes();
            came.rtp(&[0x80, 33, high, low, 0]);
        }
        came.rtp(&[0x80]);
        assert_eq!((came.video, came.video_sent()), (6, 10));
    }
}
