//! TLS to real PostgreSQL servers: the right authority, name and certificate get in; each wrong one is refused in words.

use crate::script::batch;
use bench::certificates::TestAuthority;
use bench::postgres::PostgresServer;
use std::path::PathBuf;
use std::time::Duration;
use store::postgres::{DatabaseTls, JournalCandidate, Leadership, PostgresOptions};
use store::{Error, Store};

/// A folder of certificates that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An attempt at leading over TLS; the words of a failure.
fn attempt(connection: &str, tls: &DatabaseTls) -> Result<(), String> {
    let mut options =
        PostgresOptions::new(connection, Some(tls), "main", "this test").map_err(|why| why.to_string())?;
    options.answer = Duration::from_secs(3);
    let mut candidate = JournalCandidate::new(options).unwrap();
    let begun = std::time::Instant::now();
    loop {
        match candidate.attempt() {
            Ok(Leadership::Leads(mut store)) => {
                store.commit(&mut [batch(0)].iter()).unwrap();
                return Ok(());
            }
            Ok(Leadership::Waits { .. }) if begun.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(candidate.pause());
            }
            Ok(waits) => panic!("{waits:?}"),
            Err(Error::Dead(why)) => return Err(why),
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[test]
fn only_the_server_that_is_meant_and_only_who_it_knows() {
    let folder = Folder(std::env::temp_dir().join(format!("sluice-pg-tls-{}", std::process::id())));
    let (site, other) = match TestAuthority::new(&folder.0.join("site")) {
        Ok(site) => (site, TestAuthority::new(&folder.0.join("other")).unwrap()),
        Err(why) => return bench::skipped(why),
    };
    let server = |name: &str, days: u32| site.sign(name, "/CN=db", "subjectAltName=DNS:localhost", days).unwrap();
    let client = |of: &TestAuthority, name: &str| {
        of.sign(name, &format!("/CN={name}"), "extendedKeyUsage=clientAuth", 30).unwrap()
    };
    let own = client(&site, "sluice");
    let tls =
        |authority: &TestAuthority, own: Option<(PathBuf, PathBuf)>| DatabaseTls { ca: authority.certificate(), own };
    let good = match PostgresServer::with_tls("tls-good", &site.certificate(), &server("good", 30)) {
        Ok(server) => server,
        Err(why) if why.contains("is not installed") => return bench::skipped(why),
        Err(why) => panic!("{why}"),
    };
    let at = |host: &str| good.connection_by_tcp(host);
    assert_eq!(attempt(&at("localhost"), &tls(&site, Some(own.clone()))), Ok(()));
    let encrypted =
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'sluice'";
    assert_eq!(good.sql(encrypted).unwrap(), "0", "they have ended; one that begins is encrypted:");
    let mut held = PostgresOptions::new(&at("localhost"), Some(&tls(&site, Some(own.clone()))), "held", "x").unwrap();
    held.answer = Duration::from_secs(3);
    let held = JournalCandidate::new(held).unwrap().attempt().unwrap();
    assert!(good.sql(encrypted).unwrap().parse::<u32>().unwrap() >= 1, "{held:?}");
    let strangers = client(&other, "stranger");
    for (what, connection, files, why) in [
        ("a wrong authority", at("localhost"), tls(&other, Some(own.clone())), "UnknownIssuer"),
        ("a wrong name", at("127.0.0.1"), tls(&site, Some(own.clone())), "not valid for name"),
        ("no certificate of ours", at("localhost"), tls(&site, None), "certificate"),
        ("a certificate of another authority", at("localhost"), tls(&site, Some(strangers)), "nknown"),
    ] {
        let said = attempt(&connection, &files).expect_err(what);
        assert!(said.contains(why), "{what}: {said}");
    }
    drop(good);
    let old = PostgresServer::with_tls("tls-old", &site.certificate(), &server("old", 0)).unwrap();
    let said = attempt(&old.connection_by_tcp("localhost"), &tls(&site, Some(own))).unwrap_err();
    assert!(said.contains("xpired"), "{said}");
}
