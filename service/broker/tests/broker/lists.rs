//! Long lists in pages, readings in streams, calendar files, and the recorded answers that the pages are timed with.

use crate::bed::{Bed, Said, Stream, link};
use crate::stub::Stub;
use documents::overview::{Agents, MapDoc};
use documents::rest::{Reservations, Resources};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn ids(doc: &Value) -> Vec<String> {
    doc["reservations"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn sorted(ids: &[String]) -> BTreeSet<&String> {
    ids.iter().collect()
}

fn part(resource: &str) -> Value {
    json!({"resource": resource, "rate": 1000})
}

fn wish(resources: &[&str]) -> Value {
    json!({"end": "forever", "parts": resources.iter().map(|one| part(one)).collect::<Vec<_>>()})
}

/// Reservations of one agent and of several, those of several in different orders at their agents.
fn filled(name: &str) -> (Bed, Vec<String>) {
    let bed = Bed::five(name);
    let mut made = Vec::new();
    for resources in [
        &["a/net/b"][..],
        &["a/net/b", "b/net/e"],
        &["e/net/out"],
        &["c/net/d", "a/net/c", "e/net/out"],
        &["b/net/a"],
        &["d/net/e", "b/net/e"],
        &["a/net/in"],
        &["e/net/b", "a/net/in"],
        &["c/net/a"],
    ] {
        let doc = bed.alice("POST", "/v1/reservations", wish(resources)).ok(201);
        made.push(doc["id"].as_str().unwrap().to_owned());
    }
    (bed, made)
}

fn pages(bed: &Bed, query: &str, limit: usize) -> Vec<Vec<String>> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let doc = bed.alice("GET", &format!("/v1/reservations?limit={limit}{query}{after}"), Value::Null).ok(200);
        all.push(ids(&doc));
        assert_eq!(doc["more"], !doc["next"].is_null(), "{doc}");
        let Some(next) = doc["next"].as_str() else { return all };
        assert!(all.len() < 40, "the list has no end: {all:?}");
        after = format!("&after={next}");
    }
}

#[test]
fn pages_have_every_reservation_once_and_in_order() {
    let (bed, made) = filled("pages");
    let whole = ids(&bed.alice("GET", "/v1/reservations", Value::Null).ok(200));
    assert_eq!((whole.len(), sorted(&whole)), (made.len(), sorted(&made)));
    for limit in 1..=10 {
        let pages = pages(&bed, "", limit);
        assert!(pages.iter().all(|page| page.len() <= limit), "{limit}: {pages:?}");
        assert_eq!(pages.concat(), whole, "{limit} a page");
    }
    // With what is over, and without.
    bed.alice("DELETE", &format!("/v1/reservations/{}", made[3]), Value::Null).ok(200);
    let left: Vec<String> = whole.iter().filter(|id| **id != made[3]).cloned().collect();
    assert_eq!(pages(&bed, "", 2).concat(), left);
    assert_eq!(pages(&bed, "&state=active,cancelled", 2).concat(), whole);
}

#[test]
fn a_part_that_is_over_at_one_agent_hides_no_broken_reservation() {
    let (bed, made) = filled("pages-broken");
    // The first agent of the second reservation has given it back by itself.
    let of_several = |book: &mut crate::stub::Book| {
        let row = book.rows.iter_mut().find(|row| row.members.len() > 1).unwrap();
        row.state = "cancelled".into();
    };
    of_several(&mut bed.agents[0].book.lock().unwrap());
    for limit in 1..4 {
        let found: BTreeSet<String> = pages(&bed, "", limit).concat().into_iter().collect();
        assert_eq!(found, made.iter().cloned().collect(), "{limit} a page");
    }
}

#[test]
fn an_agent_that_comes_and_goes_between_pages() {
    let (bed, made) = filled("pages-away");
    let first = bed.alice("GET", "/v1/reservations?limit=3", Value::Null).ok(200);
    bed.agents[4].go();
    let next = first["next"].as_str().unwrap();
    let second = bed.alice("GET", &format!("/v1/reservations?limit=50&after={next}"), Value::Null).ok(200);
    assert_eq!(second["away"], json!(["e"]));
    let all: BTreeSet<String> = ids(&first).into_iter().chain(ids(&second)).collect();
    assert_eq!(all.len(), ids(&first).len() + ids(&second).len(), "none twice");
    assert!(all.is_subset(&made.iter().cloned().collect()), "{all:?}");
    for wrong in ["limit=0", "limit=1001", "limit=x", "after=", "after=a", "after=a:1"] {
        bed.alice("GET", &format!("/v1/reservations?{wrong}"), Value::Null).problem(400);
    }
    // Agents that nobody knows are no reason to begin anew.
    let odd = bed.alice("GET", "/v1/reservations?after=zz:1:h", Value::Null).ok(200);
    assert!(!ids(&odd).is_empty());
}

#[test]
fn one_task_reads_a_reservation_for_all_who_look() {
    let bed = Bed::one("measured");
    let id = bed.alice("POST", "/v1/reservations", wish(&["here/net/eth0"])).ok(201)["id"].as_str().unwrap().to_owned();
    let other =
        bed.root("POST", "/v1/reservations", wish(&["here/net/eth0"])).ok(201)["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/reservations/{id}/measured");
    bed.alice("GET", &format!("/v1/reservations/{other}/measured"), Value::Null).problem(404);
    bed.alice("GET", "/v1/reservations/nothing/measured", Value::Null).problem(404);
    let mut looking: Vec<Stream> = (0..5).map(|_| Stream::open(&bed, &path, None)).collect();
    for stream in &mut looking {
        let (_, kind, doc) = stream.next();
        assert_eq!((kind.as_str(), doc["parts"][0]["resource"].as_str()), ("measured", Some("here/net/eth0")), "{doc}");
    }
    let shows = || bed.agents[0].told().iter().filter(|line| line.ends_with("book_show")).count();
    let (before, begun) = (shows(), Instant::now());
    for _ in 0..3 {
        looking.iter_mut().for_each(|stream| assert_eq!(stream.next().1, "measured"));
    }
    let (asked, seconds) = (shows() - before, begun.elapsed().as_secs_f64());
    // Each reading asks an agent once or twice; five askers would ask five times as often.
    assert!((3..=8).contains(&asked), "{asked} questions in {seconds:.1} s");
    drop(looking);
    // Nobody looks: nobody asks.
    std::thread::sleep(Duration::from_millis(1500));
    let rest = shows();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(shows() <= rest + 2, "{} questions for nobody", shows() - rest);
}

#[test]
fn a_calendar_file_has_what_the_caller_may_see() {
    let bed = Bed::one("ics");
    let mine = bed.alice("POST", "/v1/reservations", wish(&["here/net/eth0"])).ok(201);
    bed.root("POST", "/v1/reservations", json!({"end": "forever", "parts": [{"resource": "here/cpu", "cores": 1.0}]}))
        .ok(201);
    let text = |said: Said| {
        assert_eq!(said.status, 200, "{}", said.head);
        assert!(said.head.contains("content-type: text/calendar"), "{}", said.head);
        String::from_utf8(said.body).unwrap().replace("\r\n ", "")
    };
    let own = text(bed.alice("GET", "/v1/calendar.ics", Value::Null));
    assert!(own.starts_with("BEGIN:VCALENDAR\r\n") && own.ends_with("END:VCALENDAR\r\n"), "{own}");
    assert_eq!(own.matches("BEGIN:VEVENT").count(), 1, "{own}");
    assert!(own.contains(&format!("UID:{}-0-0@sluice", mine["id"].as_str().unwrap())), "{own}");
    let all = text(bed.root("GET", "/v1/calendar.ics", Value::Null));
    assert_eq!(all.matches("BEGIN:VEVENT").count(), 2, "{all}");
    let cpu = text(bed.root("GET", "/v1/calendar.ics?resource=here/cpu", Value::Null));
    assert!(cpu.matches("BEGIN:VEVENT").count() == 1 && cpu.contains("LOCATION:here/cpu"), "{cpu}");
    bed.alice("GET", "/v1/calendar.ics?colour=red", Value::Null).problem(400);
}

/// The recorded answers, each a line: the path, a tab, the document.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../client/web/test/map-200.json.gz")
}

const RECORDED: [&str; 4] = ["/v1/agents", "/v1/map", "/v1/resources", "/v1/reservations"];

/// 200 agents in a tree of four branches at each node, with links between neighbours in it every ten; and 2,000
/// reservations, as a real broker answers over agents that are stubs. `SLUICE_UPDATE=1` records them.
#[test]
fn the_recorded_map_is_what_a_broker_says() {
    if std::env::var_os("SLUICE_UPDATE").is_some() {
        record();
    }
    let text = Command::new("gzip").arg("-dc").arg(recorded()).stderr(Stdio::inherit()).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let of = |path: &str| {
        let line = text.lines().find(|line| line.split('\t').next() == Some(path));
        line.and_then(|line| line.split_once('\t')).unwrap_or_else(|| panic!("{path} is not recorded")).1
    };
    let agents: Agents = serde_json::from_str(of("/v1/agents")).unwrap();
    let map: MapDoc = serde_json::from_str(of("/v1/map")).unwrap();
    let resources: Resources = serde_json::from_str(of("/v1/resources")).unwrap();
    let list: Reservations = serde_json::from_str(of("/v1/reservations")).unwrap();
    assert_eq!((agents.agents.len(), list.reservations.len()), (200, 2000));
    assert!(map.networks.len() > 200 && resources.resources.len() == 2 * map.networks.len(), "{}", map.networks.len());
}

fn record() {
    let name = |n: usize| format!("n{n}");
    let more = (1..200).filter(|n| n % 10 == 0).map(|n| (n - 1, n));
    let pairs: Vec<(usize, usize)> = (1..200).map(|n| ((n - 1) / 4, n)).chain(more).collect();
    let agents = |dir: &Path| {
        let of = |n: usize| {
            let ends = pairs.iter().enumerate().filter(|(_, (a, b))| *a == n || *b == n);
            let links: Vec<_> = ends
                .map(|(number, (a, b))| {
                    let (far, last) = if *a == n { (*b, 1) } else { (*a, 2) };
                    link(&format!("to-{}", name(far)), &format!("10.{}.{}.{last}/24", number >> 8, number & 255))
                })
                .collect();
            let rooms: Vec<String> = links.iter().map(|link| format!("net/{}", link.interface)).collect();
            let rooms: Vec<(&str, f64)> = rooms.iter().map(|room| (room.as_str(), 1e7)).collect();
            Stub::start(&dir.join(name(n)), &name(n), &rooms, links)
        };
        (0..200).map(of).collect()
    };
    let bed = Bed::with("record", agents, |_| {});
    for number in 0..2000 {
        let (a, b) = pairs[number * 7 % pairs.len()];
        let label = json!(format!("number {number}"));
        let mut doc = wish(&[&format!("n{a}/net/to-n{b}"), &format!("n{b}/net/to-n{a}")]);
        (doc["label"], doc["parts"][0]["rate"]) = (label, json!(1000 * (1 + number % 900)));
        bed.root("POST", "/v1/reservations", doc).ok(201);
    }
    let line = |path: &str| {
        let said = bed.root("GET", path, Value::Null).ok(200);
        format!("{path}\t{said}\n")
    };
    let text: String = RECORDED.iter().map(|path| line(path)).collect();
    let plain = recorded().with_extension("");
    std::fs::write(&plain, text).unwrap();
    let packed = Command::new("gzip").args(["-9nf"]).arg(&plain).status().unwrap();
    assert!(packed.success());
}
