//! An LDAP server of a test's own: OpenLDAP's `slapd` as an unprivileged user, on a Unix socket in a temporary folder, gone
//! with its holder or with the thread that started it.

use crate::postgres::{USER, finished, is_root, is_running, signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server's program, where Debian has it.
const SLAPD: &str = "/usr/sbin/slapd";
/// The longest wait for a server to take connections.
const PATIENCE: Duration = Duration::from_secs(20);

/// The name under which everything is.
pub const SUFFIX: &str = "dc=example,dc=org";
/// Who may change everything, by password.
pub const ADMIN: &str = "cn=admin,dc=example,dc=org";
/// The administrator's password.
pub const PASSWORD: &str = "a secret of this test";

/// A server.
#[derive(Debug)]
pub struct SlapdServer {
    dir: PathBuf,
    address: Option<String>,
    child: Option<Child>,
}

impl SlapdServer {
    /// Makes a server with this schema beside the usual ones, and these lines in its configuration: `global` above its
    /// database, `own` in it. `Err`: why there is none here.
    ///
    /// # Errors
    /// A sentence: it is not installed, or it does not start.
    pub fn start(name: &str, schema: &Path, global: &str, own: &str) -> Result<SlapdServer, String> {
        SlapdServer::listening(name, schema, global, own, None)
    }

    /// The same, which also listens at this address, with this certificate: `ldaps://127.0.0.1:PORT`.
    ///
    /// # Errors
    /// A sentence.
    pub fn listening(
        name: &str,
        schema: &Path,
        global: &str,
        own: &str,
        address: Option<String>,
    ) -> Result<SlapdServer, String> {
        if !Path::new(SLAPD).exists() {
            return Err("OpenLDAP is not installed (Debian: slapd and ldap-utils, by dist/setup.sh test)".to_owned());
        }
        let dir = std::env::temp_dir().join(format!("sluice-ldap-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let mut server = SlapdServer { dir: dir.clone(), address, child: None };
        let user = fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).unwrap_or_default();
        let group = fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::gid(&me)).unwrap_or_default();
        let configuration = format!(
            "include /etc/ldap/schema/core.schema\ninclude {}\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             pidfile {dir}/pid\nargsfile {dir}/args\nidletimeout 60\n\
             authz-regexp gidNumber={group}\\\\+uidNumber={user},cn=peercred,cn=external,cn=auth {ADMIN}\n{global}\n\
             database mdb\nsuffix {SUFFIX}\nrootdn cn=nobody,{SUFFIX}\ndirectory {dir}/data\nindex objectClass eq\n\
             dbnosync\naccess to attrs=userPassword by * auth\naccess to * by dn.exact={ADMIN} manage by * read\n{own}\n",
            schema.display(),
            dir = dir.display(),
        );
        let first = format!(
            "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n\
             dn: {ADMIN}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: admin\nuserPassword: {PASSWORD}\n"
        );
        let made = fs::create_dir_all(dir.join("data"))
            .and_then(|()| fs::write(dir.join("slapd.conf"), configuration))
            .and_then(|()| fs::write(dir.join("first.ldif"), first));
        made.map_err(|error| format!("{}: {error}", dir.display()))?;
        if is_root() {
            let user = USER.parse().ok();
            for path in [dir.clone(), dir.join("data")] {
                std::os::unix::fs::chown(&path, user, user).map_err(|error| error.to_string())?;
            }
        }
        // `slapadd` is the server's own program under another name.
        let mut add = server.command("/usr/sbin/slapadd");
        finished(add.arg("-f").arg(dir.join("slapd.conf")).arg("-l").arg(dir.join("first.ldif")))?;
        server.resume()?;
        Ok(server)
    }

    /// The folder in which it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address of its socket: `ldapi://%2F...`.
    pub fn address(&self) -> String {
        format!("ldapi://{}", self.dir.join("socket").display().to_string().replace('/', "%2F"))
    }

    /// Starts it, also again after [`SlapdServer::kill`].
    ///
    /// # Errors
    /// A sentence.
    pub fn resume(&mut self) -> Result<(), String> {
        let mut all = self.address();
        if let Some(more) = &self.address {
            all = format!("{all} {more}");
        }
        let mut command = self.command(SLAPD);
        command.args(["-d", "0", "-h", &all, "-f"]).arg(self.dir.join("slapd.conf"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("log"));
        let log = log.map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().map_err(|error| error.to_string())?);
        let begun = Instant::now();
        while self.search(SUFFIX, "base", "(objectClass=*)", &["dn"]).is_err() {
            let ended = self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended || begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("the directory of this test does not start: {log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The output of `ldapsearch`, without a name; long lines are not folded.
    ///
    /// # Errors
    /// Its complaint.
    pub fn search(&self, base: &str, scope: &str, filter: &str, attributes: &[&str]) -> Result<String, String> {
        let mut command = Command::new("ldapsearch");
        command.args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", &self.address(), "-b", base, "-s", scope]);
        finished(command.arg(filter).args(attributes).env("LDAPNOINIT", "1"))
    }

    /// The output of a program of ldap-utils as administrator: `ldapdelete`, `ldapadd`.
    ///
    /// # Errors
    /// Its complaint.
    pub fn administer(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command.args(["-x", "-H", &self.address(), "-D", ADMIN, "-w", PASSWORD]).args(words);
        finished(command.env("LDAPNOINIT", "1"))
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(&[child.id()], "KILL");
        let _ = child.wait();
        let begun = Instant::now();
        while is_running(child.id()) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_file(self.dir.join("socket"));
    }

    /// Stops it where it is.
    pub fn stop(&self) {
        self.child.iter().for_each(|child| signal(&[child.id()], "STOP"));
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.child.iter().for_each(|child| signal(&[child.id()], "CONT"));
    }

    /// A program of the server, as its user.
    fn command(&self, program: &str) -> Command {
        // It ends with the thread that started it, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        }
        command.arg(program).current_dir(&self.dir);
        command
    }
}

impl Drop for SlapdServer {
    fn drop(&mut self) {
        self.go_on();
        self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
