//! PostgreSQL servers of these tests' own: who leads, what a server that is killed, stopped, replaced or older does.

use crate::script::{Content, batch};
use bench::postgres::PostgresServer;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use store::postgres::{JournalCandidate, Leadership, Postgres, PostgresOptions};
use store::{Error, Journal, Store, Ticket};

/// A server; without one the test says that it is skipped.
pub fn database(name: &str, settings: &[&str]) -> Option<PostgresServer> {
    match PostgresServer::start(name, settings) {
        Ok(server) => Some(server),
        Err(why) if why.contains("is not installed") => {
            bench::skipped(why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn candidate(connection: &str, journal: &str, holder: &str) -> JournalCandidate {
    JournalCandidate::new(PostgresOptions::new(connection, None, journal, holder).unwrap()).unwrap()
}

/// Waits until it leads.
pub fn leader(connection: &str, journal: &str) -> Postgres {
    wait_to_lead(&mut candidate(connection, journal, "this test"))
}

fn wait_to_lead(candidate: &mut JournalCandidate) -> Postgres {
    let begun = Instant::now();
    loop {
        let why = match candidate.attempt() {
            Ok(Leadership::Leads(store)) => return *store,
            Ok(Leadership::Waits { leader, left }) => format!("{leader} leads for {left:?}"),
            Err(Error::Dead(why)) => why,
            Err(error) => panic!("{error}"),
        };
        assert!(begun.elapsed() < Duration::from_secs(30), "{why}");
        std::thread::sleep(candidate.pause());
    }
}

#[test]
fn one_leads_and_who_was_taken_over_writes_nothing() {
    let Some(server) = database("lead", &[]) else { return };
    let mut first = candidate(&server.connection(), "main", "the first");
    let mut second = candidate(&server.connection(), "main", "the second");
    let mut old = wait_to_lead(&mut first);
    old.commit(&mut [batch(0)].iter()).unwrap();
    // It is renewed: nobody takes over for longer than it lasts.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let standing = second.attempt().unwrap();
        assert!(matches!(&standing, Leadership::Waits { leader, .. } if leader == "the first"), "{standing:?}");
        assert!(old.lease().is_held());
        std::thread::sleep(Duration::from_millis(100));
    }
    // Another journal in the same database is another matter.
    let mut other = leader(&server.connection(), "other");
    other.commit(&mut [batch(5)].iter()).unwrap();
    assert_eq!(other.epoch(), 1);
    // A lease that ends under its holder, as with a process that is stopped.
    let over = || server.sql("UPDATE sluice.journal SET until = to_timestamp(0) WHERE name = 'main'").unwrap();
    let mut new = loop {
        over();
        if let Leadership::Leads(store) = second.attempt().unwrap() {
            break store;
        }
    };
    assert_eq!((old.epoch(), new.epoch()), (1, 2));
    let refused = old.commit(&mut [batch(1)].iter());
    assert_eq!(refused, Err(Error::Deposed("the second".to_owned())));
    assert_eq!(old.commit(&mut [batch(1)].iter()), refused, "and so it stays");
    assert!(!old.lease().is_held() && old.lease().lost_to() == Some("the second"));
    assert!(Content::of(&mut *new).unwrap() == Content::after(1), "nothing of it is there");
    new.commit(&mut [batch(1)].iter()).unwrap();
    // The keeper of one that writes nothing hears of it too.
    let begun = Instant::now();
    let mut third = loop {
        over();
        if let Leadership::Leads(store) = first.attempt().unwrap() {
            break store;
        }
    };
    while new.lease().lost_to().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(5), "nobody tells the second");
        std::thread::sleep(Duration::from_millis(10));
    }
    // One that ends in order is followed at once.
    assert!(Content::of(&mut *third).unwrap() == Content::after(2));
    drop(third);
    assert!(matches!(second.attempt().unwrap(), Leadership::Leads(_)));
    assert!(Content::of(&mut other).unwrap().audit.len() == 1);
}

#[test]
fn a_newer_format_and_a_careless_server_are_refused() {
    let Some(mut server) = database("newer", &[]) else { return };
    drop(leader(&server.connection(), "main"));
    server.sql("UPDATE sluice.format SET version = 99").unwrap();
    let newer = candidate(&server.connection(), "main", "x").attempt();
    assert!(matches!(newer, Err(Error::Newer { found: 99, known: 1 })), "{newer:?}");
    assert_eq!(server.sql("SELECT epoch FROM sluice.journal").unwrap(), "1", "nothing was touched");
    server.sql("UPDATE sluice.format SET version = 1").unwrap();
    server.sql("ALTER SYSTEM SET fsync = off").unwrap();
    server.kill();
    server.resume_from_stop().unwrap();
    let careless = candidate(&server.connection(), "main", "x").attempt().unwrap_err();
    assert!(matches!(&careless, Error::Failed { why, .. } if why.contains("fsync off")), "{careless}");
    let nobody = format!("{} user=nobody_here", server.connection());
    let refused = candidate(&nobody, "main", "x").attempt().unwrap_err();
    assert!(matches!(&refused, Error::Failed { why, .. } if why.contains("nobody_here")), "{refused}");
    let away = candidate("host=/none dbname=x user=x", "main", "x").attempt();
    assert!(matches!(away, Err(Error::Dead(_))), "{away:?}");
}

#[test]
fn damage_and_a_database_that_lost_what_it_confirmed_are_said() {
    let Some(server) = database("older", &[]) else { return };
    let mut store = leader(&server.connection(), "main");
    for n in 0..5 {
        store.commit(&mut [batch(n)].iter()).unwrap();
    }
    // As after the failover to a server that was not waited for.
    server.sql("UPDATE sluice.journal SET batch = batch - 1").unwrap();
    let lost = store.commit(&mut [batch(5)].iter()).unwrap_err();
    assert!(matches!(&lost, Error::Dead(why) if why.contains("lost changes")), "{lost}");
    assert_eq!(store.commit(&mut [batch(5)].iter()), Err(lost));
    drop(store);
    server.sql("UPDATE sluice.record SET value = 'x' WHERE key = (SELECT key FROM sluice.record LIMIT 1)").unwrap();
    let found = Content::of(&mut leader(&server.connection(), "main")).unwrap_err();
    assert!(matches!(found, Error::Damaged(_)), "{found}");
    server.sql("UPDATE sluice.audit SET body = 'x' WHERE number = 3").unwrap();
    let found = candidate(&server.connection(), "main", "x").attempt().unwrap_err();
    assert!(matches!(found, Error::Damaged(store::Damage::Audit(3))), "{found}");
}

/// Batches under way while `disturb` does its worst; all are answered well, and each is there once.
fn under_load(connection: &str, most: u64, disturb: impl FnOnce()) {
    let store = leader(connection, "main");
    let (send, answers) = channel();
    let journal =
        Journal::start(store, move |all| all.drain(..).for_each(|answer| send.send(answer).unwrap())).unwrap();
    let work = || {
        for n in 0..most {
            journal.append(Ticket(n), batch(n)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        std::thread::sleep(Duration::from_millis(200));
        disturb();
    });
    for n in 0..most {
        let answer = answers.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!((answer.ticket, answer.result), (Ticket(n), Ok(())));
    }
    drop(journal);
    assert!(Content::of(&mut leader(connection, "main")).unwrap() == Content::after(most), "each is there once");
}

#[test]
fn a_server_that_is_killed_or_stopped_and_comes_back_lost_nothing() {
    let Some(mut server) = database("killed", &[]) else { return };
    let connection = server.connection();
    under_load(&connection, 600, || {
        for _ in 0..2 {
            server.kill();
            std::thread::sleep(Duration::from_millis(100));
            server.resume_from_stop().unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        // Sessions that are ended one by one, in the middle of whatever they do.
        for _ in 0..20 {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'";
            server.sql(end).unwrap();
        }
    });
}

#[test]
fn a_synchronous_standby_that_is_promoted_has_all_that_was_confirmed() {
    // Nothing is confirmed without the standby: it is named once it is there.
    let Some(mut primary) = database("primary", &["wal_level=replica", "max_wal_senders=4"]) else { return };
    let standby = primary.standby("standby", &[]).unwrap();
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").unwrap();
    primary.sql("ALTER SYSTEM SET synchronous_commit = 'remote_apply'").unwrap();
    primary.sql("SELECT pg_reload_conf()").unwrap();
    let begun = Instant::now();
    while primary.sql("SELECT sync_state FROM pg_stat_replication").unwrap() != "sync" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the standby is not waited for");
        std::thread::sleep(Duration::from_millis(50));
    }
    let folder = |server: &PostgresServer| server.socket().parent().unwrap().display().to_string();
    let both = format!("host={},{} user=sluice dbname=postgres", folder(&primary), folder(&standby));
    under_load(&both, 400, || {
        primary.kill();
        standby.promote().unwrap();
    });
}

/// A server that answers nobody: after so much patience the journal is dead, and whoever reads it again finds the
/// batch whole or not at all.
#[test]
fn a_server_that_stays_silent() {
    let Some(server) = database("silent", &[]) else { return };
    let mut options = PostgresOptions::new(&server.connection(), None, "main", "x").unwrap();
    (options.answer, options.patience) = (Duration::from_millis(300), Duration::from_secs(1));
    let mut store = wait_to_lead(&mut JournalCandidate::new(options).unwrap());
    store.commit(&mut [batch(0)].iter()).unwrap();
    server.stop();
    let begun = Instant::now();
    let dead = store.commit(&mut [batch(1)].iter()).unwrap_err();
    assert!(matches!(&dead, Error::Dead(why) if why.contains("is not known")), "{dead}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!store.lease().is_held() || begun.elapsed() < Duration::from_millis(1500));
    server.go_on();
    drop(store);
    let found = Content::of(&mut leader(&server.connection(), "main")).unwrap();
    assert!(found == Content::after(1) || found == Content::after(2), "whole or not at all");
}
