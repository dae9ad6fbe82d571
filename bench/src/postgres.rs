//! A PostgreSQL server of a test's or a benchmark's own: made by `initdb` as an unprivileged user, on a Unix socket in
//! a temporary folder, gone with its holder or with the thread that started it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The folder in which Debian has the programs, by version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The number of the server's user where the caller is root, whom it refuses: that without rights.
pub(crate) const USER: &str = "65534";
/// The longest wait for a server to take connections.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    /// Its data, its socket and its log.
    dir: PathBuf,
    settings: Vec<String>,
    /// Its port where it listens to TCP; on its socket the same number is part of the name.
    port: u16,
    /// A process in whose view of the file system its data are on a small disk.
    disk: Option<Child>,
    child: Option<Child>,
}

impl PostgresServer {
    /// Makes a server and starts it, with these settings (`name=value`). `Err`: why there is none here.
    ///
    /// # Errors
    /// A sentence: PostgreSQL is not installed, or it does not start.
    pub fn start(name: &str, settings: &[&str]) -> Result<PostgresServer, String> {
        let programs = programs().ok_or("PostgreSQL is not installed (Debian: postgresql, by dist/setup.sh test)")?;
        let mut server = PostgresServer::empty(programs, name, settings)?;
        server.make()?;
        server.resume_from_stop()?;
        Ok(server)
    }

    fn make(&self) -> Result<(), String> {
        let mut make = self.command("initdb");
        make.args(["--no-sync", "--auth=trust", "--username=sluice", "--encoding=UTF8", "--locale=C", "-D"]);
        finished(make.arg(self.data())).map(drop)
    }

    /// A server that also listens at the loopback, with TLS alone: under this certificate and key, and to clients whose
    /// certificate this authority has signed.
    ///
    /// # Errors
    /// As [`PostgresServer::start`].
    pub fn with_tls(
        name: &str,
        authority: &Path,
        (certificate, key): &(PathBuf, PathBuf),
    ) -> Result<PostgresServer, String> {
        let programs = programs().ok_or("PostgreSQL is not installed (Debian: postgresql, by dist/setup.sh test)")?;
        let mut server = PostgresServer::empty(programs, name, &[])?;
        let wrong = |error: io::Error| error.to_string();
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        server.port = free.map_err(wrong)?.port();
        for (from, to) in [(authority, "ca.pem"), (certificate, "server.pem"), (key, "server.key")] {
            let to = server.dir.join(to);
            fs::copy(from, &to).map_err(wrong)?;
            if is_root() {
                std::os::unix::fs::chown(&to, USER.parse().ok(), USER.parse().ok()).map_err(wrong)?;
            }
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(&to, mode).map_err(wrong)?;
        }
        let file = |name: &str| server.dir.join(name).display().to_string();
        server.settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", server.port),
            "ssl=on".to_owned(),
            format!("ssl_ca_file={}", file("ca.pem")),
            format!("ssl_cert_file={}", file("server.pem")),
            format!("ssl_key_file={}", file("server.key")),
        ];
        server.make()?;
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n";
        fs::write(server.data().join("pg_hba.conf"), rules).map_err(wrong)?;
        server.resume_from_stop()?;
        Ok(server)
    }

    /// A server whose data are on a disk of so many bytes, which no other process sees.
    ///
    /// # Errors
    /// As [`PostgresServer::start`]; and a sentence that it needs root.
    pub fn on_small_disk(name: &str, bytes: u64) -> Result<PostgresServer, String> {
        let programs = programs().ok_or("PostgreSQL is not installed (Debian: postgresql, by dist/setup.sh test)")?;
        if !is_root() {
            return Err("a disk of its own needs root".to_owned());
        }
        let mut server = PostgresServer::empty(programs, name, &[])?;
        let disk = server.dir.join("disk");
        fs::create_dir(&disk).map_err(|error| error.to_string())?;
        let script = format!(
            "mount -t tmpfs -o size={bytes},uid={USER},gid={USER},mode=0700 tmpfs {disk} && echo ready && exec sleep 100000",
            disk = disk.display()
        );
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "sh", "-c", &script]);
        let mut holder =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut said = [0; 5];
        let ready = holder.stdout.take().is_some_and(|mut output| io::Read::read_exact(&mut output, &mut said).is_ok());
        server.disk = Some(holder);
        if !ready {
            return Err("no small disk could be made".to_owned());
        }
        server.make()?;
        server.resume_from_stop()?;
        Ok(server)
    }

    /// Fills the small disk but for so many bytes.
    ///
    /// # Errors
    /// A sentence.
    pub fn fill_disk(&self, but: u64) -> Result<(), String> {
        let script =
            "left=$(df --output=avail -B1 \"$2\" | tail -n 1); head -c $((left - $1)) /dev/zero > \"$2/filler\"";
        let mut command = self.plain_command("sh");
        finished(command.args(["-c", script, "sh", &but.to_string()]).arg(self.dir.join("disk"))).map(drop)
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// A sentence.
    pub fn empty_disk(&self) -> Result<(), String> {
        finished(self.plain_command("rm").arg(self.dir.join("disk/filler"))).map(drop)
    }

    fn empty(programs: PathBuf, name: &str, settings: &[&str]) -> Result<PostgresServer, String> {
        let dir = std::env::temp_dir().join(format!("sluice-pg-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let server = PostgresServer {
            programs,
            dir: dir.clone(),
            settings: settings.iter().map(|text| (*text).to_owned()).collect(),
            port: 5432,
            disk: None,
            child: None,
        };
        let made = fs::create_dir_all(&dir).and_then(|()| match is_root() {
            true => std::os::unix::fs::chown(&dir, USER.parse().ok(), USER.parse().ok()),
            false => Ok(()),
        });
        made.map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(server)
    }

    /// A copy of this server made by `pg_basebackup`, which follows it as `name`; not confirmed by it unless its setting
    /// `synchronous_standby_names` says so.
    ///
    /// # Errors
    /// A sentence.
    pub fn standby(&self, name: &str, settings: &[&str]) -> Result<PostgresServer, String> {
        let mut copy = PostgresServer::empty(self.programs.clone(), name, settings)?;
        let mut make = copy.command("pg_basebackup");
        let from = format!("host={} user=sluice application_name={name}", self.dir.display());
        make.args(["--no-sync", "--write-recovery-conf", "--checkpoint=fast", "-X", "stream", "-d", &from, "-D"]);
        finished(make.arg(copy.data()))?;
        copy.resume_from_stop()?;
        Ok(copy)
    }

    /// The connection string of a program on this machine.
    pub fn connection(&self) -> String {
        match self.port {
            5432 => format!("host={} user=sluice dbname=postgres", self.dir.display()),
            port => format!("host={} port={port} user=sluice dbname=postgres", self.dir.display()),
        }
    }

    /// The same by TCP, to this name of the loopback.
    pub fn connection_by_tcp(&self, host: &str) -> String {
        format!("host={host} port={} user=sluice dbname=postgres", self.port)
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Starts it again after [`PostgresServer::kill`]: it recovers from its log.
    ///
    /// # Errors
    /// A sentence.
    pub fn resume_from_stop(&mut self) -> Result<(), String> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let own = ["listen_addresses=", "shared_buffers=16MB", "max_connections=60", "max_wal_size=64MB"];
        for setting in own.iter().map(|text| (*text).to_owned()).chain(self.settings.clone()) {
            command.arg("-c").arg(setting);
        }
        command.arg("-c").arg(format!("unix_socket_directories={}", self.dir.display()));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log"));
        let log = log.map_err(|error| error.to_string())?;
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        self.child = Some(command.spawn().map_err(|error| error.to_string())?);
        let begun = Instant::now();
        while self.sql("SELECT 1").is_err() {
            let ended = self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended || begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("the server of this test does not start: {log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The output of `psql` for a statement, without decoration.
    ///
    /// # Errors
    /// Its complaint.
    pub fn sql(&self, statement: &str) -> Result<String, String> {
        let mut command = self.command("psql");
        command.env("PGCONNECT_TIMEOUT", "5").args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]);
        finished(command.arg(self.connection())).map(|text| text.trim().to_owned())
    }

    /// A program of the same version, as the server's user.
    pub fn command(&self, program: &str) -> Command {
        self.plain_command(&self.programs.join(program).display().to_string())
    }

    fn plain_command(&self, program: &str) -> Command {
        // Where its data are on a disk of its own, there is one process that sees it.
        let mut command = match &self.disk {
            Some(holder) => {
                let mut command = Command::new("nsenter");
                command.args(["--mount", "--target", &holder.id().to_string(), "setpriv"]);
                command
            }
            None => Command::new("setpriv"),
        };
        // It ends with the thread that started it, however that ends.
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        }
        command.arg(program).env("LC_ALL", "C").current_dir(&self.dir);
        command
    }

    /// Kills it with all its processes, as a loss of power does for them.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The first one would start again what it loses: it stands still before the others are looked for.
        signal(&[child.id()], "STOP");
        let mut all = vec![child.id()];
        all.extend(descendants(child.id()));
        signal(&all, "KILL");
        let _ = child.wait();
        // The next start waits for the shared memory of processes that are still there.
        let begun = Instant::now();
        while all.iter().any(|id| is_running(*id)) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops all its processes where they are.
    pub fn stop(&self) {
        self.all(|all| signal(all, "STOP"));
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.all(|all| signal(all, "CONT"));
    }

    /// Makes a standby take writes.
    ///
    /// # Errors
    /// A sentence.
    pub fn promote(&self) -> Result<(), String> {
        let mut command = self.command("pg_ctl");
        finished(command.args(["promote", "--wait", "-D"]).arg(self.data())).map(|_| ())
    }

    fn all(&self, work: impl Fn(&[u32])) {
        let Some(child) = &self.child else { return };
        let mut all = descendants(child.id());
        all.push(child.id());
        work(&all);
    }

    fn data(&self) -> PathBuf {
        match &self.disk {
            Some(_) => self.dir.join("disk/data"),
            None => self.dir.join("data"),
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.go_on();
        self.kill();
        if let Some(mut holder) = self.disk.take() {
            let _ = holder.kill();
            let _ = holder.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(VERSIONS)
        .ok()?
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, path)| path.join("postgres").exists() && path.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path)
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|proc| std::os::unix::fs::MetadataExt::uid(&proc) == 0)
}

pub(crate) fn finished(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error: io::Error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

pub(crate) fn signal(ids: &[u32], name: &str) {
    for id in ids {
        let _ = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).stderr(Stdio::null()).status();
    }
}

/// The children of a process, and theirs.
fn descendants(id: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    children.iter().flat_map(|child| descendants(*child)).chain(children.iter().copied()).collect()
}

pub(crate) fn is_running(id: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
