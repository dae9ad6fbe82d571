//! Against OpenLDAP: what is published is what `ldapsearch` finds; a server that is away, slow, full or somebody else's.

use bench::certificates::TestAuthority;
use bench::skipped;
use bench::slapd::{ADMIN, PASSWORD, SlapdServer};
use directory::entry::write_instant;
use directory::publish::ToPublish;
use directory::sync::{DirectoryReport, DirectoryUpdate, plan};
use directory::{DirectoryEntry, DirectoryError, DirectoryKey, DirectoryPlace, DirectoryServer, Login, read};
use documents::book::Instant;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terms::Time;

const BASE: &str = "ou=sluice,dc=example,dc=org";
const PATIENCE: Duration = Duration::from_secs(5);

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ldap/sluice.schema").canonicalize().unwrap()
}

fn server(name: &str, global: &str, own: &str) -> Option<SlapdServer> {
    SlapdServer::start(name, &schema(), global, own).map_err(skipped).ok()
}

fn at(s: u64) -> Instant {
    Instant(Time::from_nanos((1_800_000_000 + s) * 1_000_000_000))
}

fn entry(key: DirectoryKey, publisher: &str, until: u64, free: u64) -> DirectoryEntry {
    let mut entry = DirectoryEntry::new(key.clone());
    entry.set("sluicePublisher", publisher);
    entry.set("sluiceUpdated", write_instant(at(0)));
    entry.set("sluiceValidUntil", write_instant(at(until)));
    if let DirectoryKey::Resource(..) = key {
        entry.set("sluiceUnit", "bit/s");
        entry.set("sluiceCapacity", "100000000");
        entry.set("sluiceFree", free.to_string());
    } else {
        entry.set("sluiceState", "up");
    }
    entry
}

/// An agent with so many interfaces.
fn some(publisher: &str, until: u64, interfaces: usize, free: u64) -> ToPublish {
    let mut entries = vec![entry(DirectoryKey::Agent("maui".into()), publisher, until, 0)];
    let name = |number| DirectoryKey::Resource("maui".into(), format!("net/eth{number:04}"));
    entries.extend((0..interfaces).map(|number| entry(name(number), publisher, until, free)));
    ToPublish { entries, away: Vec::new(), all_away: false, left_out: Vec::new() }
}

fn open(slapd: &SlapdServer) -> Result<DirectoryServer, DirectoryError> {
    let place = DirectoryPlace::parse(&slapd.address()).unwrap();
    DirectoryServer::open(&place, None, &Login::External, PATIENCE)
}

/// One round, as `sluice directory` does it.
fn publish(
    slapd: &SlapdServer,
    wanted: &ToPublish,
    publisher: &str,
    now: u64,
) -> (DirectoryReport, Result<(), DirectoryError>) {
    let mut server = match open(slapd) {
        Ok(server) => server,
        Err(error) => return (DirectoryReport::default(), Err(error)),
    };
    let mut update = DirectoryUpdate::new(&mut server, BASE, publisher, at(now));
    if let Err(error) = update.make_base() {
        return (DirectoryReport::default(), Err(error));
    }
    let changes = match update.known(wanted) {
        Ok(known) => plan(&known, wanted, at(now)),
        Err(error) => return (DirectoryReport::default(), Err(error)),
    };
    update.carry_out(&changes)
}

fn done(said: (DirectoryReport, Result<(), DirectoryError>)) -> (usize, usize, usize, usize) {
    assert_eq!(said.1, Ok(()), "{:?}", said.0);
    (said.0.added, said.0.renewed, said.0.removed, said.0.failed)
}

#[test]
fn what_is_published_is_what_ldapsearch_finds() {
    let Some(slapd) = server("finds", "", "") else { return };
    assert_eq!(done(publish(&slapd, &some("main", 100, 3, 7), "main", 0)), (4, 0, 0, 0));
    let found = slapd.search(BASE, "sub", "(&(objectClass=sluiceResource)(sluiceFree>=7))", &["sluiceFree"]).unwrap();
    assert_eq!(found.matches("sluiceFree: 7").count(), 3, "{found}");
    assert!(
        found.contains("dn: sluiceResourceName=net/eth0000,sluiceAgentName=maui,ou=sluice,dc=example,dc=org"),
        "{found}"
    );
    let none = slapd.search(BASE, "sub", "(&(objectClass=sluiceResource)(sluiceFree>=8))", &["dn"]).unwrap();
    assert_eq!(none.trim(), "", "free amounts are numbers to the server");
    // What is the same is renewed and nothing else; what is gone goes.
    assert_eq!(done(publish(&slapd, &some("main", 200, 2, 7), "main", 60)), (0, 3, 1, 0));
    let stamps = slapd.search(BASE, "sub", "(sluiceValidUntil>=20270115080320Z)", &["dn"]).unwrap();
    assert_eq!(stamps.matches("dn: ").count(), 3, "{stamps}");
    // Read back, for as long as it may be believed.
    let mut reader = open(&slapd).unwrap();
    assert_eq!(reader.has_schema(), Ok(Some(true)));
    let doc = read::read(&mut reader, BASE, at(199), false).unwrap();
    assert_eq!((doc.entries.len(), doc.old, doc.more), (3, 0, false));
    assert_eq!(doc.entries[1].free, Some(7));
    let doc = read::read(&mut reader, BASE, at(200), false).unwrap();
    assert_eq!((doc.entries.len(), doc.old), (0, 3));
}

#[test]
fn two_publishers_leave_each_other_alone_until_one_is_too_old() {
    let Some(slapd) = server("two", "", "") else { return };
    let one = some("one", 100, 1, 1);
    assert_eq!(done(publish(&slapd, &one, "one", 0)), (2, 0, 0, 0));
    let (report, said) = publish(&slapd, &some("two", 150, 1, 2), "two", 50);
    assert_eq!((said, report.failed), (Ok(()), 2));
    assert!(report.reasons[0].contains("\"one\" publishes this entry"), "{:?}", report.reasons);
    assert!(slapd.search(BASE, "sub", "(sluicePublisher=two)", &["dn"]).unwrap().trim().is_empty());
    assert_eq!(done(publish(&slapd, &some("two", 250, 1, 2), "two", 100)), (0, 2, 0, 0));
    assert_eq!(slapd.search(BASE, "sub", "(sluicePublisher=two)", &["dn"]).unwrap().matches("dn: ").count(), 2);
    // An entry of another class with this name, or one that somebody put below ours.
    slapd.administer("ldapdelete", &["-r", BASE]).unwrap();
    assert_eq!(done(publish(&slapd, &one, "one", 0)), (2, 0, 0, 0));
}

#[test]
fn a_directory_that_goes_comes_back_and_gets_everything() {
    let Some(mut slapd) = server("away", "", "") else { return };
    assert_eq!(done(publish(&slapd, &some("main", 100, 3, 7), "main", 0)), (4, 0, 0, 0));
    slapd.kill();
    let (_, said) = publish(&slapd, &some("main", 160, 3, 6), "main", 60);
    assert!(matches!(&said, Err(DirectoryError::Away(why)) if why.contains("no directory at")), "{said:?}");
    slapd.resume().unwrap();
    assert_eq!(done(publish(&slapd, &some("main", 220, 3, 5), "main", 120)), (0, 4, 0, 0));
    // Somebody empties it.
    slapd.administer("ldapdelete", &["-r", BASE]).unwrap();
    assert_eq!(done(publish(&slapd, &some("main", 280, 3, 5), "main", 180)), (4, 0, 0, 0));
}

#[test]
fn a_directory_that_does_not_answer_is_waited_for_so_long_and_no_longer() {
    let Some(slapd) = server("slow", "", "") else { return };
    assert_eq!(done(publish(&slapd, &some("main", 100, 1, 7), "main", 0)), (2, 0, 0, 0));
    slapd.stop();
    let begun = std::time::Instant::now();
    let place = DirectoryPlace::parse(&slapd.address()).unwrap();
    let said = DirectoryServer::open(&place, None, &Login::External, Duration::from_millis(700));
    assert!(matches!(&said, Err(DirectoryError::Away(why)) if why.contains("did not answer within 0.7 s")), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    slapd.go_on();
    assert_eq!(done(publish(&slapd, &some("main", 200, 1, 7), "main", 90)), (0, 2, 0, 0));
}

#[test]
fn a_directory_with_a_limit_of_entries_is_kept_up_to_date_all_the_same() {
    let Some(slapd) = server("limit", "sizelimit 20", "") else { return };
    assert_eq!(done(publish(&slapd, &some("main", 100, 50, 7), "main", 0)), (51, 0, 0, 0));
    // It shows 20 of 51: the others are found by adding them.
    assert_eq!(done(publish(&slapd, &some("main", 200, 50, 6), "main", 60)), (0, 51, 0, 0));
    let mut reader = open(&slapd).unwrap();
    let doc = read::read(&mut reader, BASE, at(60), false).unwrap();
    assert!(doc.more && doc.entries.len() == 20, "{} {}", doc.more, doc.entries.len());
}

#[test]
fn a_full_directory_is_said_and_takes_the_rest_when_there_is_room() {
    // Pages of 4 KiB: some 200 of them are full after a while.
    let Some(mut slapd) = server("full", "", "maxsize 400000") else { return };
    let many = some("main", 100, 2_000, 7);
    let (report, said) = publish(&slapd, &many, "main", 0);
    assert_eq!(said, Ok(()), "a full one still answers");
    assert!(report.added > 10 && report.failed > 100 && report.added + report.failed == 2_001, "{report:?}");
    assert!(report.reasons.iter().any(|why| why.contains("as a full one does")), "{:?}", report.reasons);
    // What it can still do, it does; its administrator gives it room, and the next round brings the rest.
    slapd.kill();
    let file = slapd.dir().join("slapd.conf");
    let text = std::fs::read_to_string(&file).unwrap().replace("maxsize 400000", "maxsize 40000000");
    std::fs::write(&file, text).unwrap();
    slapd.resume().unwrap();
    let (after, said) = publish(&slapd, &some("main", 200, 2_000, 6), "main", 60);
    assert_eq!((said, after.failed), (Ok(()), 0), "{after:?}");
    assert_eq!(after.added + after.renewed, 2_001);
}

#[test]
fn who_may_not_write_is_told_and_so_is_who_has_a_wrong_password() {
    let Some(slapd) = server("rights", "", "") else { return };
    let place = DirectoryPlace::parse(&slapd.address()).unwrap();
    let open = |login: &Login| DirectoryServer::open(&place, None, login, PATIENCE);
    let wrong = open(&Login::Password(ADMIN.into(), "wrong".into()));
    assert!(matches!(&wrong, Err(DirectoryError::Refused { code: 49, .. })), "{wrong:?}");
    assert!(open(&Login::Password(ADMIN.into(), PASSWORD.into())).is_ok());
    let mut nobody = open(&Login::Anonymous).unwrap();
    let said = DirectoryUpdate::new(&mut nobody, BASE, "main", at(0)).make_base();
    assert!(matches!(&said, Err(DirectoryError::Refused { code: 8 | 50, .. })), "{said:?}");
    let mut admin = open(&Login::Password(ADMIN.into(), PASSWORD.into())).unwrap();
    let elsewhere = DirectoryUpdate::new(&mut admin, "cn=x,dc=example,dc=org", "main", at(0)).make_base();
    assert!(elsewhere.unwrap_err().to_string().contains("only an ou= can be made"));
    let outside = DirectoryUpdate::new(&mut admin, "ou=x,dc=elsewhere", "main", at(0)).make_base();
    assert!(outside.is_err());
}

#[test]
fn a_directory_without_our_schema_is_told_apart() {
    let core = Path::new("/etc/ldap/schema/cosine.schema");
    let Some(slapd) = SlapdServer::start("schema", core, "", "").map_err(skipped).ok() else { return };
    assert_eq!(open(&slapd).unwrap().has_schema(), Ok(Some(false)));
    let (report, said) = publish(&slapd, &some("main", 100, 1, 7), "main", 0);
    assert_eq!((said, report.failed), (Ok(()), 2));
    assert!(report.reasons[0].contains("sluice.ldif"), "{:?}", report.reasons);
}

#[test]
fn over_tls_a_directory_must_be_the_one_that_is_meant() {
    let folder = std::env::temp_dir().join(format!("sluice-ldap-tls-{}", std::process::id()));
    let authority = match TestAuthority::new(&folder) {
        Ok(authority) => authority,
        Err(why) => return skipped(why),
    };
    let other = TestAuthority::new(&folder.join("other")).unwrap();
    let sign =
        |name: &str, of: &str, days: u32| authority.sign(name, "/CN=x", &format!("subjectAltName={of}"), days).unwrap();
    for (number, (certificate, trusted, fits)) in [
        (sign("good", "IP:127.0.0.1", 30), authority.certificate(), None),
        (sign("name", "DNS:ldap.example.org", 30), authority.certificate(), Some("not valid for name")),
        (sign("old", "IP:127.0.0.1", 0), authority.certificate(), Some("expired")),
        (sign("stranger", "IP:127.0.0.1", 30), other.certificate(), Some("UnknownIssuer")),
    ]
    .into_iter()
    .enumerate()
    {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (pem, key) = (certificate.0, certificate.1);
        for path in [&pem, &key] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let lines = format!("TLSCertificateFile {}\nTLSCertificateKeyFile {}", pem.display(), key.display());
        let address = format!("ldaps://127.0.0.1:{port}");
        let name = format!("tls{number}");
        let started = SlapdServer::listening(&name, &schema(), &lines, "", Some(address.clone()));
        let Some(_slapd) = started.map_err(skipped).ok() else { return };
        let place = DirectoryPlace::parse(&address).unwrap();
        let login = Login::Password(ADMIN.into(), PASSWORD.into());
        let said = DirectoryServer::open(&place, Some(&trusted), &login, PATIENCE);
        match fits {
            None => assert_eq!(said.unwrap().has_schema(), Ok(Some(true))),
            Some(why) => {
                let text = said.unwrap_err().to_string();
                assert!(text.contains(why), "{text}");
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Servers that are none, or mean harm: an answer each, in time, and never a panic.
#[test]
fn whatever_a_server_says_is_an_answer() {
    let dir = std::env::temp_dir().join(format!("sluice-ldap-evil-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let bind = |body: &[u8]| {
        let mut all = vec![0x30, u8::try_from(body.len() + 3).unwrap(), 2, 1, 1];
        all.extend(body);
        all
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("ends at once", Vec::new()),
        ("speaks HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("promises a gigabyte", vec![0x30, 0x84, 0x40, 0, 0, 0]),
        ("an empty message", vec![0x30, 0]),
        ("an empty result", bind(&[0x61, 0])),
        ("a result that is no text", bind(&[0x61, 8, 10, 1, 0, 4, 1, 0xff, 4, 0])),
        ("an entry nobody asked for", bind(&[0x64, 4, 4, 0, 0x30, 0])),
        (
            "nested a hundred times",
            bind(&[0x61, 100].iter().copied().chain([0x30, 0x62].repeat(50)).collect::<Vec<u8>>()),
        ),
        ("a control that is none", bind(&[0x61, 7, 10, 1, 0, 4, 0, 4, 0, 0xa0, 2, 4, 0])),
        ("goodbye", bind(&[0x78, 10, 10, 1, 52, 4, 0, 4, 3, b'o', b'u', b't'])),
    ];
    for (what, bytes) in cases {
        let path = dir.join("socket");
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 64];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(&bytes);
        });
        let said = DirectoryServer::open(&DirectoryPlace::Socket(path), None, &Login::External, Duration::from_secs(2));
        assert!(matches!(said, Err(DirectoryError::Away(_))), "{what}: {said:?}");
        thread.join().unwrap();
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// The file for a server that keeps its configuration in `cn=config`, as `ldapadd` would give it to one.
#[test]
fn the_ldif_is_taken_by_a_server_with_its_configuration_in_a_directory() {
    let dir = std::env::temp_dir().join(format!("sluice-ldap-config-{}", std::process::id()));
    let run = |program: &str, words: &[&str]| Command::new(program).args(words).current_dir(&dir).output();
    let _ = std::fs::remove_dir_all(&dir);
    for name in ["config", "data"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let text = format!(
        "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\n\
         suffix dc=example,dc=org\ndirectory {}\n",
        dir.join("data").display()
    );
    std::fs::write(dir.join("slapd.conf"), text).unwrap();
    let Ok(made) = run("/usr/sbin/slaptest", &["-f", "slapd.conf", "-F", "config"]) else {
        return skipped("OpenLDAP is not installed (Debian: slapd and ldap-utils, by dist/setup.sh test)");
    };
    // It complains of a database that is empty, after it has written the configuration.
    assert!(dir.join("config/cn=config").exists(), "{}", String::from_utf8_lossy(&made.stderr));
    let ldif = schema().with_extension("ldif");
    let added = run("/usr/sbin/slapadd", &["-n", "0", "-F", "config", "-l", ldif.to_str().unwrap()]).unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let checked = run("/usr/sbin/slaptest", &["-u", "-F", "config"]).unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let there = std::fs::read_dir(dir.join("config/cn=config/cn=schema")).unwrap().flatten();
    assert!(there.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("sluice")));
    let _ = std::fs::remove_dir_all(&dir);
}
