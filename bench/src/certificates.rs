//! Certificates of servers that are not ours, for tests: an authority of the test's own and what it signs, by `openssl`.

use crate::postgres::finished;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority in a folder.
#[derive(Debug)]
pub struct TestAuthority {
    dir: PathBuf,
}

impl TestAuthority {
    /// A new one; its certificate is [`TestAuthority::certificate`]. `Err`: `openssl` is not here.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(dir: &Path) -> Result<TestAuthority, String> {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let one = TestAuthority { dir: dir.to_owned() };
        // Each has a name of its own, so that another authority is no forgery but a stranger.
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let subject = format!("/CN=authority {}", name.replace('/', "-"));
        let mut make = Command::new("openssl");
        make.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
        ]);
        make.args(["-subj", &subject, "-keyout"]).arg(dir.join("ca.key")).arg("-out");
        finished(make.arg(one.certificate()))?;
        Ok(one)
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// A certificate for this subject (`/CN=...`) and this extension (`subjectAltName=...`), and its key; it is valid for so
    /// many days from now, and with 0 not any more.
    ///
    /// # Errors
    /// A sentence.
    pub fn sign(&self, name: &str, subject: &str, extension: &str, days: u32) -> Result<(PathBuf, PathBuf), String> {
        let at = |end: &str| self.dir.join(format!("{name}.{end}"));
        let mut ask = Command::new("openssl");
        ask.args(["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject]);
        finished(ask.arg("-keyout").arg(at("key")).arg("-out").arg(at("csr")))?;
        fs::write(at("ext"), format!("{extension}\nbasicConstraints=CA:FALSE\n")).map_err(|error| error.to_string())?;
        let mut sign = Command::new("openssl");
        sign.args(["x509", "-req", "-CAcreateserial", "-in"]).arg(at("csr")).arg("-CA").arg(self.certificate());
        sign.arg("-CAkey").arg(self.dir.join("ca.key")).arg("-extfile").arg(at("ext")).arg("-out").arg(at("pem"));
        sign.arg("-days").arg(days.to_string());
        finished(&mut sign)?;
        if days == 0 {
            // The second in which it is made is still part of it.
            std::thread::sleep(std::time::Duration::from_millis(1_500));
        }
        Ok((at("pem"), at("key")))
    }
}
