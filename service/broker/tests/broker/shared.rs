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
