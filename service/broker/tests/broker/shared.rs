//! Two brokers over one database: who leads, what a standby says, and what the other knows when it leads. That they are
//! killed and stopped is in `kills`.

use crate::bed::{Bed, heard, link, request, said};
use crate::stub::Stub;
use bench::postgres::PostgresServer;
use broker_service::client::{BrokerClient, BrokerEndpoint};
use broker_service::{BrokerConfig, RunningBroker, SharedStore};
use documents::rest::Wish;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub fn database(name: &str) -> Option<PostgresServer> {
    match PostgresServer::start(&format!("broker-{name}"), &[]) {
        Ok(server) => Some(server),
        Err(why) if why.contains("is not installed") => {
            bench::skipped(why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// A part at each of three agents.
pub fn wish() -> Value {
    let part = |agent: &str| json!({"resource": format!("{agent}/net/eth0"), "rate": 1000});
    json!({"end": "forever", "parts": [part("a"), part("b"), part("c")]})
}

pub fn agents(dir: &Path) -> Vec<Stub> {
    let one = |name: &str| Stub::start(&dir.join(name), name, &[("net/eth0", 1e9)], vec![link("eth0", "10.0.1.1/24")]);
    ["a", "b", "c"].map(one).into()
}

/// A bed over a database, and a second broker over the same.
struct Pair {
    bed: Bed,
    second: BrokerConfig,
    other: Option<RunningBroker>,
    _server: PostgresServer,
}

impl Pair {
    fn new(name: &str, change: impl Fn(&mut BrokerConfig)) -> Option<Pair> {
        let server = database(name)?;
        let of = |config: &mut BrokerConfig, called: &str| {
            let store = SharedStore { called: Some(called.to_owned()), ..SharedStore::at(&server.connection()) };
            config.store = Some(store);
            change(config);
        };
        let bed = Bed::with(&format!("shared-{name}"), agents, |config| of(config, "the first"));
        let mut second = bed.config.clone();
        (second.socket, second.state) = (bed.dir.join("second.sock"), bed.dir.join("second"));
        of(&mut second, "the second");
        let mut pair = Pair { bed, second, other: None, _server: server };
        pair.until("the first leads", |pair| {
            pair.bed.running.as_ref().unwrap().leads() && pair.first("GET", "/v1/me").0 == 200
        });
        pair.start_other();
        Some(pair)
    }

    fn start_other(&mut self) {
        self.other = Some(self.bed.runtime.block_on(broker_service::start(&self.second)).unwrap());
    }

    fn stop_other(&mut self) {
        if let Some(other) = self.other.take() {
            self.bed.runtime.block_on(other.stop());
        }
    }

    fn until(&self, what: &str, mut there: impl FnMut(&Pair) -> bool) {
        let begun = Instant::now();
        while !there(self) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn first(&self, method: &str, path: &str) -> (u16, Value) {
        ask(&self.bed.config.socket, method, path, &[], &Value::Null)
    }

    fn second(&self, method: &str, path: &str) -> (u16, Value) {
        ask(&self.second.socket, method, path, &[], &Value::Null)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop_other();
        self.bed.stop();
    }
}

/// Status and body. 0: nobody answers there.
pub fn ask(socket: &Path, method: &str, path: &str, fields: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let Ok(stream) = UnixStream::connect(socket) else { return (0, Value::Null) };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let all = heard(stream, &request(method, path, fields, body));
    if !all.windows(4).any(|window| window == b"\r\n\r\n") {
        return (0, Value::Null);
    }
    let said = said(&all);
    (said.status, serde_json::from_slice(&said.body).unwrap_or_default())
}

#[test]
fn a_standby_says_who_leads_and_goes_on_when_that_one_ends() {
    let Some(mut pair) = Pair::new("standby", |config| config.hooks = vec!["http://127.0.0.1:9/".into()]) else {
        return;
    };
    let first = pair.bed.config.socket.clone();
    let (second, keyed) = (pair.second.socket.clone(), [("Idempotency-Key", "one")]);
    let (status, made) = ask(&first, "POST", "/v1/reservations", &keyed, &wish());
    assert_eq!(status, 201, "{made}");
    let hook = json!({"url": "http://127.0.0.1:9/x"});
    let (status, hook) = ask(&first, "POST", "/v1/webhooks", &[], &hook);
    assert_eq!(status, 201, "{hook}");
    // The other refuses everything, in words, and says that nothing was changed.
    pair.until("the second says who leads", |pair| {
        pair.second("GET", "/v1/me").1["detail"].to_string().contains("the first leads")
    });
    for (method, path) in
        [("GET", "/v1/reservations"), ("POST", "/v1/reservations"), ("GET", "/v1/events"), ("GET", "/nothing")]
    {
        let (status, said) = ask(&second, method, path, &keyed, &wish());
        assert_eq!((status, &said["type"]), (503, &json!("/problems/standby")), "{said}");
    }
    assert_eq!(ask(&first, "POST", "/v1/reservations", &keyed, &wish()).1["id"], made["id"]);
    // It ends in order: the other leads at once, and knows the reservation, its key and the webhook.
    let begun = Instant::now();
    pair.bed.stop();
    pair.until("the second leads", |pair| pair.second("GET", "/v1/me").0 == 200);
    println!("led {:?} after the other was told to end", begun.elapsed());
    assert_eq!(ask(&second, "POST", "/v1/reservations", &keyed, &wish()).1["id"], made["id"]);
    assert_eq!(pair.second("GET", "/v1/webhooks").1["webhooks"][0]["id"], hook["id"]);
    let (status, said) = pair.second("DELETE", &format!("/v1/webhooks/{}", hook["id"].as_str().unwrap()));
    assert_eq!(status, 204, "{said}");
    let (status, said) = pair.second("DELETE", &format!("/v1/reservations/{}", made["id"].as_str().unwrap()));
    assert_eq!((status, &said["state"]), (200, &json!("cancelled")), "{said}");
    // And back.
    pair.bed.start();
    pair.until("the first says who leads", |pair| {
        pair.first("GET", "/v1/me").1["detail"].to_string().contains("the second leads")
    });
    pair.stop_other();
    pair.until("the first leads again", |pair| pair.first("GET", "/v1/me").0 == 200);
    assert_eq!(pair.first("GET", "/v1/webhooks").1["webhooks"], json!([]));
    assert!(pair.bed.agents.iter().all(|agent| agent.states() == ["cancelled"]));
}

/// The events and the webhooks of a client go on at the other broker where they were.
#[test]
fn a_stream_goes_on_at_the_other_broker() {
    let Some(mut pair) = Pair::new("stream", |_| {}) else { return };
    let doors = || vec![pair.bed.config.socket.clone(), pair.second.socket.clone()];
    let client = client(&doors());
    let mut listener = client.listen(Some("0")).unwrap();
    let key = |n: u32| format!("key{n}");
    let wish: Wish = serde_json::from_value(wish()).unwrap();
    let ids: Vec<String> = (0..3).map(|n| client.create(&wish, &key(n)).unwrap().id).collect();
    let mut seen = Vec::new();
    let mut hear = |listener: &mut broker_service::client::Listener, until: usize| {
        while seen.len() < until {
            if let Ok(Some(broker_service::client::StreamItem::Event(event))) = listener.hear()
                && event.event.event == "created"
            {
                seen.push((event.agent.clone(), event.event.seq));
            }
        }
    };
    hear(&mut listener, 9);
    let place = listener.place().to_owned();
    pair.bed.stop();
    pair.until("the second leads", |pair| pair.second("GET", "/v1/me").0 == 200);
    let more = client.create(&wish, "key9").unwrap();
    assert!(!ids.contains(&more.id));
    let mut listener = client.listen(Some(&place)).unwrap();
    hear(&mut listener, 12);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 12, "each once: {seen:?}");
}

#[test]
fn the_python_package_goes_on_to_the_one_that_leads() {
    let Some(pair) = Pair::new("python", |_| {}) else { return };
    let Some(wheel) = crate::python::wheel(&pair.bed.dir) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../client/python/tests/standby.py");
    pair.until("the second is a standby", |pair| {
        pair.second("GET", "/v1/me").1["detail"].to_string().contains("leads")
    });
    let run = Command::new("timeout")
        .args(["60", "python3", "-W", "error"])
        .arg(script)
        .args([&pair.second.socket, &pair.bed.config.socket])
        .env("PYTHONPATH", wheel)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("all went on"), "{said}");
}

/// A database of yesterday: agents know a newer start of this broker, and it is refused in words.
#[test]
fn a_database_of_yesterday() {
    let Some(server) = database("yesterday") else { return };
    let bed = |config: &mut BrokerConfig| config.store = Some(SharedStore::at(&server.connection()));
    let mut bed = Bed::with("shared-yesterday", agents, bed);
    let socket = bed.config.socket.clone();
    let create = || {
        let begun = Instant::now();
        loop {
            let (status, said) = ask(&socket, "POST", "/v1/reservations", &[], &wish());
            if said["type"] != "/problems/standby" && status != 0 {
                return (status, said);
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(create().0, 201);
    bed.stop();
    server
        .sql("CREATE TABLE old_record AS TABLE sluice.record; CREATE TABLE old_journal AS TABLE sluice.journal")
        .unwrap();
    bed.start();
    assert_eq!(create().0, 201);
    bed.stop();
    let old = "DELETE FROM sluice.record; INSERT INTO sluice.record TABLE old_record; \
               UPDATE sluice.journal SET epoch = o.epoch, batch = o.batch, until = o.until FROM old_journal o";
    server.sql(old).unwrap();
    bed.start();
    let (status, said) = create();
    assert_eq!(status, 503, "{said}");
    assert!(said["detail"].as_str().unwrap().contains("newer start of this coordinator"), "{said}");
    bed.stop();
    bed.config.accept_older_journal = true;
    bed.start();
    let (status, said) = create();
    assert_eq!(status, 201, "{said}");
}

pub fn client(doors: &[PathBuf]) -> BrokerClient {
    BrokerClient::over(doors.iter().cloned().map(BrokerEndpoint::Socket).collect())
}

/// A browser is shown a page that says who leads; what its scripts ask gets the problem.
#[test]
fn a_browser_at_a_standby_is_shown_who_leads() {
    let web = |config: &mut BrokerConfig| {
        config.web = Some(broker_service::web::WebSettings::at("127.0.0.1:0".parse().unwrap()));
    };
    let Some(pair) = Pair::new("page", web) else { return };
    pair.until("the second says who leads", |pair| {
        pair.second("GET", "/v1/me").1["detail"].to_string().contains("the first leads")
    });
    let address = pair.other.as_ref().unwrap().web().unwrap().0;
    let get = |path: &str, accept: &str| {
        let stream = std::net::TcpStream::connect(address).unwrap();
        let text = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        said(&heard(stream, text.as_bytes()))
    };
    let page = get("/", "text/html,application/xhtml+xml");
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert_eq!(page.status, 503);
    assert!(page.head.to_lowercase().contains("content-type: text/html"), "{}", page.head);
    assert!(text.contains("the first leads") && text.contains("http-equiv=\"refresh\""), "{text}");
    // A session is of one broker alone, so that data are refused before it matters who leads.
    for (path, accept, status) in [("/v1/me", "text/html", 401), ("/", "application/json", 503)] {
        let said = get(path, accept);
        assert!(said.status == status && said.head.contains("problem+json"), "{path}: {}", said.head);
    }
}

/// The database's disk is full: what was acknowledged stays, the refusal says why, and there is room again afterwards.
#[test]
fn a_full_database_refuses_in_words_and_the_broker_goes_on_when_there_is_room() {
    let server = match PostgresServer::on_small_disk("broker-full", 120 << 20) {
        Ok(server) => server,
        Err(why) if why.contains("is not installed") || why.contains("needs root") => return bench::skipped(why),
        Err(why) => panic!("{why}"),
    };
    let store = SharedStore { called: Some("the only one".to_owned()), ..SharedStore::at(&server.connection()) };
    let bed = Bed::with("shared-full", agents, |config| config.store = Some(store.clone()));
    let socket = bed.config.socket.clone();
    let reserve = |key: &str| ask(&socket, "POST", "/v1/reservations", &[("Idempotency-Key", key)], &wish());
    let until = |what: &str, there: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !there() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("it leads", &mut || ask(&socket, "GET", "/v1/me", &[], &Value::Null).0 == 200);
    server.fill_disk(0).unwrap();
    let mut acknowledged = BTreeSet::new();
    let refused = loop {
        assert!(acknowledged.len() < 3_000, "the disk is not full");
        match reserve(&format!("k{}", acknowledged.len())) {
            (201, made) => acknowledged.insert(made["id"].as_str().unwrap().to_owned()),
            other => break other,
        };
    };
    println!("{} reservations, then: {} {}", acknowledged.len(), refused.0, refused.1["detail"]);
    assert_eq!(refused.0, 503, "{}", refused.1);
    assert!(refused.1["detail"].to_string().contains("full"), "{}", refused.1);
    server.empty_disk().unwrap();
    let key = format!("k{}", acknowledged.len());
    until("there is room again", &mut || {
        let (status, made) = reserve(&key);
        status == 201 && acknowledged.insert(made["id"].as_str().unwrap().to_owned())
    });
    let (mut found, mut after) = (BTreeSet::new(), String::new());
    loop {
        let (status, page) = ask(&socket, "GET", &format!("/v1/reservations?limit=500{after}"), &[], &Value::Null);
        assert_eq!(status, 200, "{page}");
        let rows = page["reservations"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["state"] == "active"), "none is half: {page}");
        found.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(acknowledged.is_subset(&found), "{} acknowledged, {} there", acknowledged.len(), found.len());
}
