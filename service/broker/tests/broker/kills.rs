//! The leading one of two brokers over one database is killed, and stopped and woken, under load: nothing that was
//! acknowledged is lost, and nothing is decided twice. The brokers are processes of their own: this program again, with
//! one test.

use crate::shared::{agents, ask, client, database, wish};
use crate::stub::Stub;
use bench::postgres::PostgresServer;
use broker_service::BrokerConfig;
use documents::book::BookFilter;
use documents::rest::Wish;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The variable by which this program is a broker: the folder of its files.
const IS_BROKER: &str = "SLUICE_TEST_IS_BROKER";
/// How often the leading broker is killed.
const KILLS: usize = 20;
/// The time within which another one makes new decisions.
const TAKEOVER: Duration = Duration::from_secs(3);

/// Not a test: a broker, where [`IS_BROKER`] says so.
#[test]
fn this_program_is_a_broker() {
    let Some(dir) = std::env::var_os(IS_BROKER).map(PathBuf::from) else { return };
    let config = BrokerConfig::load(&dir.join("broker.toml")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut running = runtime.block_on(broker_service::start(&config)).unwrap();
    let broken = runtime.block_on(running.broke());
    eprintln!("ended: {broken}");
    std::process::exit(3);
}

/// A broker that is a process.
struct BrokerProcess {
    dir: PathBuf,
    child: Child,
}

impl BrokerProcess {
    fn start(dir: &Path) -> BrokerProcess {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "kills::this_program_is_a_broker", "--nocapture"])
            .env(IS_BROKER, dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        BrokerProcess { dir: dir.to_owned(), child }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success());
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.dir.display(), self.log());
        }
        self.kill();
    }
}

/// Agents, a database, and brokers that are processes.
struct House {
    brokers: Vec<BrokerProcess>,
    agents: Vec<Stub>,
    server: PostgresServer,
    dir: PathBuf,
}

impl House {
    fn new(name: &str) -> Option<House> {
        let server = database(name)?;
        let dir = std::env::temp_dir().join(format!("sluice-shared-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let agents = agents(&dir);
        let mut house = House { brokers: Vec::new(), agents, server, dir };
        for name in ["b0", "b1"] {
            let dir = house.dir.join(name);
            std::fs::create_dir_all(&dir).unwrap();
            let agents: String = ["a", "b", "c"]
                .map(|agent| format!("[[agent]]\nname = \"{agent}\"\nsocket = {:?}\n", house.dir.join(agent)))
                .concat();
            let text = format!(
                "socket = {:?}\nstate = {:?}\n{agents}[store]\npostgres = {:?}\ncalled = \"{name}\"\n",
                dir.join("sock"),
                dir.join("state"),
                house.server.connection()
            );
            std::fs::write(dir.join("broker.toml"), text).unwrap();
            house.brokers.push(BrokerProcess::start(&dir));
        }
        house.until("one leads", |house| house.leader().is_some());
        Some(house)
    }

    fn doors(&self) -> Vec<PathBuf> {
        self.brokers.iter().map(|broker| broker.dir.join("sock")).collect()
    }

    /// The number of the broker that leads, if it lets callers in.
    fn leader(&self) -> Option<usize> {
        self.doors().iter().position(|door| ask(door, "GET", "/v1/me", &[], &Value::Null).0 == 200)
    }

    fn until(&self, what: &str, mut there: impl FnMut(&House) -> bool) {
        let begun = Instant::now();
        while !there(self) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Each reservation that was acknowledged is whole at all agents, once, and nothing else is there.
    fn check(&self, acknowledged: &BTreeMap<String, String>) {
        let ids: BTreeSet<&String> = acknowledged.values().collect();
        assert_eq!(ids.len(), acknowledged.len(), "each key made its own");
        self.until("what is decided is done", |house| {
            house.agents.iter().all(|agent| !agent.states().iter().any(|state| state == "promised"))
        });
        for agent in &self.agents {
            let book = agent.book.lock().unwrap();
            let groups: BTreeSet<&String> =
                book.rows.iter().filter(|row| row.state == "active").map(|row| &row.group).collect();
            let active = book.rows.iter().filter(|row| row.state == "active").count();
            assert_eq!((groups.len(), active), (ids.len(), ids.len()), "{}: each once", book.node);
        }
        let client = client(&self.doors());
        let (mut filter, mut listed) = (BookFilter { limit: Some(200), ..BookFilter::default() }, BTreeSet::new());
        loop {
            let page = client.list(&filter).unwrap();
            listed.extend(page.reservations.iter().map(|one| {
                assert!(one.missing.is_empty() && one.state == "active", "{one:?}");
                one.id.clone()
            }));
            match page.next {
                Some(next) if filter.after.as_ref() != Some(&next) => filter.after = Some(next),
                _ => break,
            }
        }
        assert_eq!(listed.iter().collect::<BTreeSet<_>>(), ids, "nothing is lost, nothing is there twice");
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.brokers.clear();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Callers that reserve one after another, each with a key, until they are stopped; a key is asked for until it is
/// acknowledged.
fn callers(house: &House, stop: &AtomicBool, acknowledged: &Mutex<BTreeMap<String, String>>, disturb: impl FnOnce()) {
    let (doors, number) = (house.doors(), AtomicU64::new(0));
    let wish: Wish = serde_json::from_value(wish()).unwrap();
    let call = || {
        let client = client(&doors);
        while !stop.load(Ordering::Relaxed) {
            let key = format!("k{}", number.fetch_add(1, Ordering::Relaxed));
            let begun = Instant::now();
            let id = loop {
                match client.create(&wish, &key) {
                    Ok(made) => break made.id,
                    Err(error) => assert!(begun.elapsed() < Duration::from_secs(40), "{key}: {error}"),
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            acknowledged.lock().unwrap().insert(key, id);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(call);
        }
        disturb();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_leading_broker_is_killed_again_and_again() {
    let Some(mut house) = House::new("kill") else { return };
    let (stop, acknowledged) = (AtomicBool::new(false), Arc::new(Mutex::new(BTreeMap::new())));
    let mut brokers = std::mem::take(&mut house.brokers);
    let dirs: Vec<PathBuf> = brokers.iter().map(|broker| broker.dir.clone()).collect();
    let doors: Vec<PathBuf> = dirs.iter().map(|dir| dir.join("sock")).collect();
    let leads = |number: usize| ask(&doors[number], "GET", "/v1/me", &[], &Value::Null).0 == 200;
    let wish: Wish = serde_json::from_value(wish()).unwrap();
    let (mut times, probe) = (Vec::new(), client(&doors));
    let kills = std::env::var("SLUICE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    // The brokers are this test's own meanwhile: the house has their places.
    house.brokers = dirs.iter().map(|dir| BrokerProcess { dir: dir.clone(), child: nobody() }).collect();
    callers(&house, &stop, &acknowledged, || {
        for kill in 0..kills {
            let begun = Instant::now();
            let leader = loop {
                if let Some(leader) = (0..2).find(|number| leads(*number)) {
                    break leader;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "nobody leads");
            };
            // The other has had its time to become a standby; the moment of the kill is another each time.
            std::thread::sleep(Duration::from_millis(400 + 37 * (kill as u64 % 11)));
            brokers[leader].kill();
            let begun = Instant::now();
            let key = format!("probe{kill}");
            let id = loop {
                match probe.create(&wish, &key) {
                    Ok(made) => break made.id,
                    Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
                }
            };
            times.push(begun.elapsed());
            acknowledged.lock().unwrap().insert(key, id);
            brokers[leader] = BrokerProcess::start(&dirs[leader]);
        }
    });
    house.brokers = brokers;
    times.sort();
    let made = acknowledged.lock().unwrap();
    println!(
        "{kills} kills, {} reservations: a new decision after {:?} (median), {:?} (worst)",
        made.len(),
        times[times.len() / 2],
        times[times.len() - 1]
    );
    house.check(&made);
    let late = times.iter().filter(|time| **time > TAKEOVER).count();
    assert_eq!(late, 0, "later than {TAKEOVER:?}: {times:?}");
}

/// A process that ends at once.
fn nobody() -> Child {
    Command::new("true").spawn().unwrap()
}

/// A broker that is stopped and wakes when another leads: it decides nothing more, says so, and ends.
#[test]
fn a_broker_that_wakes_from_a_stop_decides_nothing_more() {
    let Some(house) = House::new("stop") else { return };
    let (stop, acknowledged) = (AtomicBool::new(false), Arc::new(Mutex::new(BTreeMap::new())));
    let old = house.leader().unwrap();
    let door = house.doors()[old].clone();
    // Requests that are under way in it when it stops, and come to it while it is.
    let asked = |key: &str| {
        let (door, key) = (door.clone(), key.to_owned());
        std::thread::spawn(move || ask(&door, "POST", "/v1/reservations", &[("Idempotency-Key", &key)], &wish()))
    };
    let before: Vec<_> = (0..8).map(|n| asked(&format!("before{n}"))).collect();
    house.brokers[old].signal("STOP");
    let meanwhile: Vec<_> = (0..4).map(|n| asked(&format!("meanwhile{n}"))).collect();
    let other = 1 - old;
    house.until("the other leads", |house| ask(&house.doors()[other], "GET", "/v1/me", &[], &Value::Null).0 == 200);
    callers(&house, &stop, &acknowledged, || std::thread::sleep(Duration::from_millis(300)));
    house.brokers[old].signal("CONT");
    house.until("the old one ends", |house| house.brokers[old].log().contains("ended: "));
    assert!(house.brokers[old].log().contains(&format!("was taken over by b{other}")), "{}", house.brokers[old].log());
    for (asked, words) in [(before, "before"), (meanwhile, "meanwhile")] {
        for (n, asked) in asked.into_iter().enumerate() {
            let (status, said) = asked.join().unwrap();
            match status {
                201 if words == "before" => {
                    acknowledged.lock().unwrap().insert(format!("before{n}"), said["id"].as_str().unwrap().to_owned());
                }
                201 => panic!("it decided after it was taken over: {said}"),
                // Not decided, or decided and not said: the same key gives the one answer.
                _ => {
                    let client = client(&house.doors()[other..=other]);
                    let wish: Wish = serde_json::from_value(wish()).unwrap();
                    let made = client.create(&wish, &format!("{words}{n}")).unwrap();
                    acknowledged.lock().unwrap().insert(format!("{words}{n}"), made.id);
                }
            }
        }
    }
    let made = acknowledged.lock().unwrap();
    println!("{} reservations", made.len());
    house.check(&made);
}
