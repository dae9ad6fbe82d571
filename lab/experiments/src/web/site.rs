//! The testbed of the web experiments: nginx on one host, with or without a reservation for each of its connections.

use bed::Bed;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::host::Host;
use bed::patience::Patience;
use bed::program::{self, RunningProgram};
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::process::ProcessId;
use serde_json::Value;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::Rate;

/// The length of the file that is fetched (section 5.3).
pub const FILE: u64 = 1 << 20;
const TOPOLOGY: &str = include_str!("../../../../examples/web.toml");
const PORT: u16 = 8_080;
const FLOOD_PORT: u16 = 9_000;
/// The length of the flood's packets, bytes of IP.
const FLOOD_PACKET: u32 = 1_400;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// The time limit for the server to begin, and to end.
const LIMIT: Duration = Duration::from_secs(10);

/// The testbed.
pub struct WebSite {
    bed: Bed,
    scratch: Scratch,
    program: PathBuf,
    clock: Clock,
}

impl WebSite {
    /// Brings it up, with the file.
    ///
    /// # Errors
    /// Missing privileges, nginx is not installed, or a node does not start.
    pub fn up(patience: &Patience) -> Result<WebSite, Error> {
        Bed::possible()?;
        program::output(Command::new("nginx").arg("-v"), patience).map_err(|error| match error {
            Error::Program(what) if what.contains("not installed") => {
                Error::Program("nginx is not installed: `apt install nginx-light` brings it".into())
            }
            other => other,
        })?;
        let options = UpOptions::usual()?;
        // Without the right to it the machine's other work may hold senders up.
        let _ = linux::process::go_first();
        scratch::sweep(&options.testbeds);
        let scratch = Scratch::create()?;
        let bed = Bed::of("examples/web.toml", TOPOLOGY, scratch.name(), None, &options)?;
        let site = WebSite { bed, scratch, program: options.program, clock: Clock::start() };
        site.write("file", &vec![b'x'; FILE as usize])?;
        let conf = site.configuration();
        site.write("nginx.conf", conf.as_bytes())?;
        // The machine's default may be any other, and the seed's was of its time.
        let reno = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
        site.host("server")?.namespace.run(reno)?.map_err(SystemError::doing("choose the congestion control"))?;
        Ok(site)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SystemError> {
        let path = self.scratch.path().join(name);
        fs::write(&path, bytes).map_err(SystemError::doing(format!("write {}", path.display())))
    }

    fn configuration(&self) -> String {
        let at = |name: &str| self.scratch.path().join(name).display().to_string();
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|which| format!("{which}_temp_path {}; ", at("temp")))
            .concat();
        format!(
            "daemon off; user root; worker_processes 1; pid {}; error_log {} crit;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_timeout 0; sendfile on; {temp}\n\
             server {{ listen {PORT}; root {}; location /slow {{ alias {}; limit_rate 5000k; }} }} }}\n",
            at("nginx.pid"),
            at("nginx.log"),
            self.scratch.path().display(),
            at("big")
        )
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the beginning of a command of `sluice run` on the server's host, by RSVP, with these options.
    ///
    /// # Errors
    /// The host does not exist.
    pub fn run_command(&self, options: &[&str]) -> Result<Vec<String>, Error> {
        let socket = self.bed.node("server")?.socket.display().to_string();
        let program = self.program.display().to_string();
        let words = [&[&*program, "run", "--socket", &socket, "--with", "rsvp"][..], options, &["--"]].concat();
        Ok(words.into_iter().map(str::to_owned).collect())
    }

    /// Returns a host.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn host(&self, name: &str) -> Result<Host, Error> {
        self.bed.host(name)
    }

    /// Returns the server's address.
    ///
    /// # Errors
    /// The host does not exist.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        Ok(SocketAddr::from((self.host("server")?.address, PORT)))
    }

    /// Prepares the cross traffic. It sends nothing yet.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn flood(&self) -> Result<Cbr, Error> {
        let (from, to) = (self.host("cross")?, self.host("sink")?);
        Ok(Cbr::start_of(FLOOD_PACKET, &from, &to, FLOOD_PORT, self.clock)?)
    }

    /// Starts the server; with `each` as a command of `sluice run --each`. It answers when this returns.
    ///
    /// # Errors
    /// It does not start.
    pub fn serve(&self, each: Option<Rate>, patience: &Patience) -> Result<WebServer, Error> {
        let conf = self.scratch.path().join("nginx.conf");
        let mut command = match each {
            None => Command::new("nginx"),
            Some(rate) => {
                let mut command = Command::new(&self.program);
                command.arg("run").arg("--socket").arg(&self.bed.node("server")?.socket).arg("--json");
                command.args(["--each", &format!("{}bit", rate.as_bps()), "--with", "rsvp", "--", "nginx"]);
                command
            }
        };
        command.arg("-c").arg(&conf).arg("-p").arg(self.scratch.path()).stdout(Stdio::null());
        let log = self.scratch.path().join("server.log");
        let file = File::create(&log).map_err(SystemError::doing(format!("make {}", log.display())))?;
        command.stderr(file);
        let host = self.host("server")?;
        host.namespace.enter_at_exec(&mut command);
        let running = program::start(&mut command)?;
        let mut server = WebServer { running, log, pid: self.scratch.path().join("nginx.pid") };
        let address = self.address()?;
        let until = Instant::now() + LIMIT;
        // From the host itself: what stays there has no reservation.
        while host.namespace.run(|| TcpStream::connect_timeout(&address, LIMIT))?.is_err() {
            if !server.running.is_running() || Instant::now() > until {
                return Err(Error::Void(format!("the web server does not start: {}", server.words())));
            }
            patience.wait(Duration::from_millis(20))?;
        }
        Ok(server)
    }
}

/// The server. It ends when this is dropped.
pub struct WebServer {
    running: RunningProgram,
    log: PathBuf,
    pid: PathBuf,
}

impl WebServer {
    fn words(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().lines().last().unwrap_or("it says nothing").to_owned()
    }

    /// Ends it. Returns what `sluice run` counted of its connections.
    ///
    /// # Errors
    /// It does not end, or has counted nothing.
    pub fn end(mut self) -> Result<Value, Error> {
        self.tell_to_end();
        let words = self.words();
        let report: Option<Value> = serde_json::from_str(&words).ok();
        let counted = report.and_then(|mut report| report.get_mut("connections").map(Value::take));
        counted.ok_or_else(|| Error::Void(format!("sluice run has counted nothing: {words}")))
    }

    fn tell_to_end(&mut self) {
        let until = Instant::now() + LIMIT;
        if let Some(id) = ProcessId::of(self.running.id()) {
            // It may have ended already.
            let _ = id.signal(SIGTERM);
        }
        while self.running.is_running() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.tell_to_end();
        self.running.stop();
        // nginx removes its file when it ends; if it is there, only its parent has ended.
        let left = fs::read_to_string(&self.pid).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let is_nginx =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nginx");
        if let Some(left) = left.filter(is_nginx).and_then(ProcessId::of) {
            let _ = left.signal(SIGKILL);
        }
    }
}
