//! The testbed of Figure 9, with the program on three of its nodes.

use bed::Bed;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::patience::Patience;
use bed::program;
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use documents::agent::{Answer, FlowSpecDoc, Request, SenderId, SessionId, StaticDoc, StyleDoc, TspecDoc};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::process::ProcessId;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::Rate;

const TOPOLOGY: &str = include_str!("../../../../examples/fft.toml");
const SOURCE: &str = include_str!("../../../../examples/c/fft.c");
/// The nodes that compute; the first of them is behind the link that cross traffic shares.
const NODES: [&str; 3] = ["m3", "m4", "m6"];
/// The routers at both ends of that link: they reserve on behalf of the nodes.
const NEAR: &str = "yosemite";
const FAR: &str = "timberline";
const FLOOD_PORT: u16 = 9_000;
const TCP: u8 = 6;
const PACKET: u32 = 1_500;
/// N, and the time that a node computes in a round, ms.
const SIZE: u32 = 1_024;
const COMPUTE_MS: u32 = 2_000;
/// Debian's packages of what is needed.
const PACKAGES: &str = "openmpi-bin libopenmpi-dev libfftw3-dev libfftw3-mpi-dev";
/// The time limit for a reservation.
const LIMIT: Duration = Duration::from_secs(10);
const SIGTERM: i32 = 15;
const LOOK: Duration = Duration::from_millis(20);

/// The program's word about a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FftRun {
    seconds: f64,
    communication: f64,
    whole: bool,
}

impl FftRun {
    /// Returns its time, s.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Returns the time of transforms, messages and barriers, s.
    pub(super) fn communication(&self) -> f64 {
        self.communication
    }

    /// True unless it was ended by the time limit.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }
}

/// The testbed.
pub(super) struct FftNodes {
    bed: Bed,
    scratch: Scratch,
    addresses: [Ipv4Addr; 3],
}

impl FftNodes {
    /// Brings it up, and compiles the program.
    pub(super) fn up(patience: &Patience) -> Result<FftNodes, Error> {
        Bed::possible()?;
        let missing =
            |_| Error::Program(format!("OpenMPI or FFTW is not installed: `apt install {PACKAGES}` brings them"));
        program::output(Command::new("mpirun").arg("--version"), patience).map_err(missing)?;
        let options = UpOptions::usual()?;
        // The cross traffic must keep its times.
        let _ = linux::process::go_first();
        scratch::sweep(&options.testbeds);
        let scratch = Scratch::create()?;
        let source = scratch.path().join("fft.c");
        fs::write(&source, SOURCE).map_err(SystemError::doing(format!("write {}", source.display())))?;
        let mut compiler = Command::new("mpicc");
        compiler.args(["-O2", "-o"]).arg(scratch.path().join("fft")).arg(&source);
        compiler.args(["-lfftw3f_mpi", "-lfftw3f", "-lm"]);
        program::output(&mut compiler, patience).map_err(missing)?;
        let bed = Bed::of("examples/fft.toml", TOPOLOGY, scratch.name(), None, &options)?;
        let mut addresses = [Ipv4Addr::UNSPECIFIED; 3];
        for (address, name) in addresses.iter_mut().zip(NODES) {
            let host = bed.host(name)?;
            *address = host.address;
            // The machine's default may be any other, and the seed's was of its time.
            let reno = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
            host.namespace.run(reno)?.map_err(SystemError::doing("choose the congestion control"))?;
        }
        let nodes = FftNodes { bed, scratch, addresses };
        nodes.write_launcher()?;
        Ok(nodes)
    }

    /// The command by which OpenMPI reaches a node: into its namespaces, by its address.
    fn write_launcher(&self) -> Result<(), Error> {
        let mut text = String::from("#!/bin/sh\nnode=$1\nshift\ncase $node in\n");
        for (address, name) in self.addresses.iter().zip(NODES) {
            let namespace = &self.bed.node(name)?.namespace;
            let _ = writeln!(text, "{address}) name={name} net={namespace} ;;");
        }
        // A name of its own: otherwise the nodes would take each other for one machine.
        text += "*) exit 1 ;;\nesac\nexec nsenter --net=/run/netns/$net unshare --uts sh -c \"hostname $name; $*\"\n";
        let path = self.scratch.path().join("enter");
        let what = || format!("write {}", path.display());
        fs::write(&path, text).map_err(SystemError::doing(what()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(SystemError::doing(what()))?;
        Ok(())
    }

    /// Prepares the cross traffic. It sends nothing yet.
    pub(super) fn flood(&self) -> Result<Cbr, Error> {
        let (from, to) = (self.bed.host("swiss")?, self.bed.host("glen")?);
        Ok(Cbr::start(&from, &to, FLOOD_PORT, Clock::start())?)
    }

    /// Reserves so much, at its peak, on the shared link for what each of the other nodes sends to the first: r = p/2,
    /// b = p x 1 s, by the routers; zero reserves nothing.
    pub(super) fn reserve(&self, peak: Rate, patience: &Patience) -> Result<(), Error> {
        if peak == Rate::ZERO {
            return Ok(());
        }
        let tspec = TspecDoc {
            r_bps: peak.as_bps() / 2,
            b_bytes: peak.as_bps() / 8,
            p_bps: Some(peak.as_bps()),
            m_bytes: 64,
            max_bytes: PACKET,
        };
        let session = SessionId { dst: self.addresses[0].into(), protocol: TCP, dst_port: 0 };
        let senders: Vec<SenderId> =
            self.addresses[1..].iter().map(|address| SenderId { src: (*address).into(), src_port: 0 }).collect();
        for sender in &senders {
            let what = StaticDoc::Sender { session, sender: *sender, tspec, ttl: 63 };
            self.bed.client(NEAR)?.call(Request::AddStatic { what })?;
        }
        let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec }; senders.len()];
        let flows = senders.len();
        let what = StaticDoc::Reservation { session, style: StyleDoc::Ff, senders, flowspecs };
        let answer = self.bed.client(FAR)?.call(Request::AddStatic { what })?;
        if !matches!(answer, Answer::Statics(_)) {
            return Err(Error::Void(format!("{FAR} answered {answer:?} when asked for a reservation")));
        }
        let until = Instant::now() + LIMIT;
        loop {
            let status = self.bed.status(NEAR)?;
            let installed = status.reservations.iter().filter_map(|row| row.installed.as_ref());
            let held = installed.filter(|found| found.state.as_str() == "installed" && found.bucket_bps == tspec.r_bps);
            if held.count() == flows {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Error::Void(format!("{NEAR} has not installed the reservations of {peak}")));
            }
            patience.wait(LOOK)?;
        }
    }

    /// Runs the program on all nodes, beside the flood; at the time limit ends both.
    pub(super) fn compute(
        &self,
        rounds: u32,
        limit: Duration,
        flood: &Cbr,
        patience: &Patience,
    ) -> Result<FftRun, Error> {
        let at = |name: &str| self.scratch.path().join(name).display().to_string();
        let hosts = self.addresses.map(|address| format!("{address}:1")).join(",");
        let words = format!(
            "hostname {}; exec nice -n 15 mpirun --allow-run-as-root --oversubscribe --bind-to none -np 3 --host {hosts} \
             --mca plm_rsh_agent {} --mca btl tcp,self --mca btl_tcp_if_include 10.0.0.0/8 \
             --mca oob_tcp_if_include 10.0.0.0/8 --mca mpi_yield_when_idle 1 {} {SIZE} {rounds} {COMPUTE_MS}",
            NODES[0],
            at("enter"),
            at("fft"),
        );
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", &words]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let host = self.bed.host(NODES[0])?;
        host.namespace.enter_at_exec(&mut command);
        let begin = Instant::now();
        let mut running = program::start(&mut command)?;
        let out = running.take_stdout();
        while running.is_running() && begin.elapsed() < limit {
            patience.wait(LOOK)?;
        }
        if running.is_running() {
            let seconds = begin.elapsed().as_secs_f64();
            // It tells the other nodes to end, for which the link must be free.
            flood.set_rate(Rate::ZERO);
            let asked = Instant::now();
            if let Some(id) = ProcessId::of(running.id()) {
                // It may have ended just now.
                let _ = id.signal(SIGTERM);
            }
            while running.is_running() && asked.elapsed() < LIMIT {
                patience.wait(LOOK)?;
            }
            return Ok(FftRun { seconds, communication: seconds, whole: false });
        }
        let text = out.map(std::io::read_to_string).transpose().ok().flatten().unwrap_or_default();
        let ended = running.ended();
        let said: Option<Value> = text.lines().find_map(|line| serde_json::from_str(line).ok());
        let number = |name: &str| said.as_ref().and_then(|said| said[name].as_f64());
        match (ended.code, number("seconds"), number("communication")) {
            (Some(0), Some(seconds), Some(communication)) => Ok(FftRun { seconds, communication, whole: true }),
            (code, ..) => {
                let last = ended.errors.lines().last().unwrap_or("it gave no reason").to_owned();
                Err(Error::Program(format!("the FFT ended with {code:?}: {last}")))
            }
        }
    }
}
