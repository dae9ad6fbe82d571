//! `sluice login`: the broker and the certificates of this user, kept in a file of theirs, so that no command needs to
//! name them. The command line and the environment take precedence over it.

use crate::complain::Complaint;
use crate::places::PapersArgs;
use broker_service::client::Error;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs::{Metadata, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The variable that names another file; empty: none is read.
const FILE: &str = "SLUICE_LOGIN";
/// The file as it was when it was first wanted, or as `sluice login` is about to write it.
static OF_USER: OnceLock<Result<LoginFile, String>> = OnceLock::new();
/// The most that a login file has, in bytes.
const MOST: u64 = 16 * 1024;

/// `sluice login`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice login https://broker.example.org:8443 --ca ca.pem --certificate alice.pem --certificate-key alice.key\n  \
                  sluice login https://b1.example.org:8443,https://b2.example.org:8443 ...    two brokers of which one leads\n  \
                  sluice login unix:/run/sluice/broker.sock                                 this machine's own, for every command\n  \
                  sluice login --show                                                       what is kept, and who we are there\n  \
                  sluice logout\n\n\
                  It is kept in ~/.config/sluice/login.toml (XDG_CONFIG_HOME; SLUICE_LOGIN names another file), for you alone. The command \
                  line and the environment (SLUICE_BROKER, SLUICE_CA, ...) take precedence over it."
)]
pub struct LoginArgs {
    /// The broker: https://HOST:PORT, unix:PATH or http://127.0.0.1:PORT; several of which one leads: with commas
    #[arg(required_unless_present_any = ["show", "socket"], conflicts_with = "show")]
    pub broker: Option<String>,
    /// An agent for the commands that ask one: its socket, or tls://HOST:PORT
    #[arg(long, value_name = "PLACE", conflicts_with = "show")]
    pub socket: Option<String>,
    /// Our certificates.
    #[command(flatten)]
    pub papers: PapersArgs,
    /// The token of a virtual organisation
    #[arg(long, value_name = "FILE", conflicts_with = "show")]
    pub token: Option<PathBuf>,
    /// Keep it without asking the broker who we are
    #[arg(long)]
    pub offline: bool,
    /// Show what is kept
    #[arg(long)]
    pub show: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The keys of a login file.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoginFile {
    /// The broker, as `--broker` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// The agent, as `--socket` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// The authority's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Our certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_key: Option<PathBuf>,
    /// The token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<PathBuf>,
}

impl LoginFile {
    /// The login of this user; an empty one if there is none, or if the file is another's: who could write it could send our
    /// requests to a place of theirs.
    ///
    /// # Errors
    /// The file cannot be read, is no login file, or others may write it.
    pub fn of_user() -> Result<&'static LoginFile, Complaint> {
        let read =
            OF_USER.get_or_init(|| file().map_or_else(|| Ok(LoginFile::default()), |path| LoginFile::read(&path)));
        read.as_ref().map_err(|text| Complaint::usage(text.clone()))
    }

    fn read(path: &Path) -> Result<LoginFile, String> {
        let at = path.display();
        let of = |error: std::io::Error| format!("{at}: {error}");
        // What is looked at is what is read.
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(LoginFile::default()),
            // A service may have the home folder of who started it.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(LoginFile::default()),
            Err(error) => return Err(of(error)),
        };
        let found = file.metadata().map_err(of)?;
        if !found.is_file() {
            return Err(format!("{at}: it is no file"));
        }
        if let Some(other) = another_owner(&found).map_err(of)? {
            eprintln!("sluice: {at} belongs to user {other} and is not read: `sluice login` makes one of your own");
            return Ok(LoginFile::default());
        }
        if found.mode() & 0o022 != 0 {
            return Err(format!("{at}: others may write it: chmod 600 {at}"));
        }
        let mut text = String::new();
        file.take(MOST + 1).read_to_string(&mut text).map_err(of)?;
        if text.len() as u64 > MOST {
            return Err(format!("{at}: {MOST} bytes are the most of a login"));
        }
        toml::from_str(&text).map_err(|error| format!("{at}: {}: `sluice login` writes it anew", error.message()))
    }

    /// The file's text: TOML, whose strings are those of JSON.
    fn text(&self) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let keys = [
            ("broker", self.broker.clone()),
            ("socket", self.socket.clone()),
            ("ca", path(&self.ca)),
            ("certificate", path(&self.certificate)),
            ("certificate_key", path(&self.certificate_key)),
            ("token", path(&self.token)),
        ];
        let line =
            |(key, value): (&str, Option<String>)| value.map(|value| format!("{key} = {}\n", serde_json::json!(value)));
        keys.into_iter().filter_map(line).collect()
    }

    /// Writes the file for its owner alone: whole, or not at all.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        if !folder.exists() {
            std::fs::create_dir_all(folder)?;
            std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        }
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let written = options.write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }
}

/// The user who owns a file, if it is neither us nor root.
fn another_owner(found: &Metadata) -> std::io::Result<Option<u32>> {
    let us = std::fs::metadata("/proc/self")?.uid();
    Ok((found.uid() != us && found.uid() != 0).then_some(found.uid()))
}

/// The login file of this user; `None`: there is no place for one.
fn file() -> Option<PathBuf> {
    if let Some(said) = std::env::var_os(FILE) {
        return (!said.is_empty()).then(|| said.into());
    }
    let set = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config.join("sluice/login.toml"))
}

fn needed() -> Result<PathBuf, Complaint> {
    file().ok_or_else(|| Complaint::usage(format!("there is no home folder: name a file with {FILE}")))
}

/// `sluice login`.
pub fn run(args: &LoginArgs) -> Result<ExitCode, Complaint> {
    let path = needed()?;
    if args.show {
        return show(args, &path);
    }
    let absolute = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
    let login = LoginFile {
        broker: args.broker.as_deref().map(from_anywhere).transpose()?,
        socket: args.socket.as_deref().map(from_anywhere).transpose()?,
        ca: absolute(&args.papers.ca)?,
        certificate: absolute(&args.papers.certificate)?,
        certificate_key: absolute(&args.papers.certificate_key)?,
        token: absolute(&args.token)?,
    };
    check_files(&login)?;
    // It is tried as it will be used, whatever an older file says.
    let _ = OF_USER.set(Ok(login.clone()));
    let who = match &args.broker {
        Some(broker) if !args.offline => Some(ask(&args.papers, broker)?),
        _ => None,
    };
    login.write(&path).map_err(|error| Complaint::world(format!("cannot write {}: {error}", path.display())))?;
    say(args, &path, &login, who.as_ref())
}

/// `sluice logout`.
pub fn out() -> Result<ExitCode, Complaint> {
    let path = needed()?;
    match std::fs::remove_file(&path) {
        Ok(()) => println!("{} is removed", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => println!("you were not logged in"),
        Err(error) => return Err(Complaint::world(format!("cannot remove {}: {error}", path.display()))),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &LoginArgs, path: &Path) -> Result<ExitCode, Complaint> {
    let login = LoginFile::of_user()?;
    if *login == LoginFile::default() {
        return Err(Complaint::refused("you are not logged in: sluice login https://BROKER:8443 --ca ... (--help)"));
    }
    let who = match &login.broker {
        Some(broker) if !args.offline => Some(ask(&args.papers, broker)?),
        _ => None,
    };
    say(args, path, login, who.as_ref())
}

/// A place, or several with commas, that means the same in every folder.
fn from_anywhere(text: &str) -> std::io::Result<String> {
    let one = |text: &str| match text.strip_prefix("unix:") {
        Some(path) => Ok(format!("unix:{}", std::path::absolute(path)?.display())),
        None if text.contains("://") => Ok(text.to_owned()),
        None => Ok(std::path::absolute(text)?.display().to_string()),
    };
    let all = text.split(',').map(|text| one(text.trim())).collect::<std::io::Result<Vec<_>>>()?;
    Ok(all.join(","))
}

/// Every file must be there, and no other user may read the key.
fn check_files(login: &LoginFile) -> Result<(), Complaint> {
    for path in [&login.ca, &login.certificate, &login.certificate_key, &login.token].into_iter().flatten() {
        let found =
            std::fs::metadata(path).map_err(|error| Complaint::usage(format!("{}: {error}", path.display())))?;
        if Some(path) == login.certificate_key.as_ref() && found.mode() & 0o077 != 0 {
            return Err(Complaint::usage(format!("{0}: others may read this key: chmod 600 {0}", path.display())));
        }
    }
    Ok(())
}

/// Asks the broker who we are.
fn ask(papers: &PapersArgs, broker: &str) -> Result<documents::overview::MeDoc, Complaint> {
    papers.broker(broker)?.me().map_err(|error| match error {
        Error::Said(problem) => Complaint::refused(format!("{broker}: {}", problem.detail)),
        other => Complaint::world(format!("{other}; --offline keeps it all the same")),
    })
}

fn say(
    args: &LoginArgs,
    path: &Path,
    login: &LoginFile,
    who: Option<&documents::overview::MeDoc>,
) -> Result<ExitCode, Complaint> {
    if args.json {
        super::book::print_json(&serde_json::json!({"file": path, "login": login, "me": who}))?;
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", login.text());
    if let Some(me) = who {
        println!("\nbroker {} ({}) knows you as {}, {}", me.broker, me.version, me.name, me.role);
    }
    println!("kept in {}", path.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_whatever_is_in_it_and_others_may_not_write() {
        let folder = std::env::temp_dir().join(format!("sluice-login-{}", std::process::id()));
        let path = folder.join("login.toml");
        let login = LoginFile {
            broker: Some("https://b:8443,https://c:8443".into()),
            token: Some("/home/al ice/\"quoted\"\\\u{1}.token".into()),
            ..LoginFile::default()
        };
        login.write(&path).unwrap();
        assert_eq!(LoginFile::read(&path).unwrap(), login);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(LoginFile::read(&path).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for (text, why) in [("brokr = \"x\"", "brokr"), ("broker = 1", "login.toml"), (&"#".repeat(20_000), "the most")]
        {
            std::fs::write(&path, text).unwrap();
            assert!(LoginFile::read(&path).unwrap_err().contains(why), "{text}");
        }
        assert_eq!(LoginFile::read(&folder.join("none")).unwrap(), LoginFile::default());
        assert!(LoginFile::read(&folder).unwrap_err().contains("no file"));
        let here = std::env::current_dir().unwrap();
        let meant = format!("unix:{0}/b.sock,https://c:8443,unix:/d", here.display());
        assert_eq!(from_anywhere("unix:b.sock, https://c:8443,unix:/d").unwrap(), meant);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
