//! The listener for browsers: signing in by a ticket, whose requests are served, and what ends a session.

use crate::bed::{Bed, Said, request, said, talk};
use broker_service::web::WebSettings;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A bed with a listener for browsers on the loopback.
fn bed(name: &str) -> Bed {
    let mut bed = Bed::one(name);
    bed.stop();
    bed.config.web = Some(WebSettings::at("127.0.0.1:0".parse().unwrap()));
    bed.start();
    bed
}

fn address(bed: &Bed) -> SocketAddr {
    bed.running.as_ref().unwrap().web().unwrap().0
}

/// Sends what a page of ours would, with these fields beside.
fn browse(bed: &Bed, method: &str, path: &str, fields: &[(&str, &str)], body: &Value) -> Said {
    let here = address(bed);
    let origin = format!("http://{here}");
    let all: Vec<(&str, &str)> = [("Origin", origin.as_str())].into_iter().chain(fields.iter().copied()).collect();
    talk(TcpStream::connect(here).unwrap(), &named(&here.to_string(), &request(method, path, &all, body)))
}

/// The same request to another host.
fn named(host: &str, request: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(request).replacen("Host: localhost", &format!("Host: {host}"), 1).into_bytes()
}

/// A ticket for root, by the Unix socket.
fn ticket(bed: &Bed) -> String {
    let doc = bed.root("POST", "/v1/tickets", Value::Null).ok(201);
    let link = doc["address"].as_str().unwrap();
    let (page, ticket) = link.split_once("/#ticket=").unwrap();
    assert_eq!(page, format!("http://{}", address(bed)));
    ticket.to_owned()
}

fn sign_in(bed: &Bed, ticket: &str) -> Said {
    browse(bed, "POST", "/session", &[], &json!({"ticket": ticket}))
}

/// The cookie of an answer, as a browser sends it back.
fn cookie(said: &Said) -> String {
    let field = said.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    field.split(';').next().unwrap().to_owned()
}

#[test]
fn a_ticket_signs_one_browser_in_as_whoever_took_it() {
    let bed = bed("web-ticket");
    let link = ticket(&bed);
    let said = sign_in(&bed, &link);
    assert_eq!(said.status, 201, "{said:?}");
    for attribute in ["httponly", "samesite=strict", "path=/", "max-age=43200"] {
        assert!(said.head.contains(attribute), "{}", said.head);
    }
    let cookie = cookie(&said);
    let me = browse(&bed, "GET", "/v1/me", &[("Cookie", &cookie)], &Value::Null);
    for field in
        ["content-security-policy: default-src 'self'", "x-content-type-options: nosniff", "cache-control: no-store"]
    {
        assert!(me.head.contains(field), "{}", me.head);
    }
    let me = me.ok(200);
    assert_eq!((&me["name"], &me["role"], &me["seat"]), (&json!("uid:0"), &json!("operator"), &json!("root")));
    assert!(me["until"].is_string());
    sign_in(&bed, &link).problem(401);
    // It asks what every other listener answers, and no session makes another.
    assert!(browse(&bed, "GET", "/v1/resources", &[("Cookie", &cookie)], &Value::Null).ok(200)["resources"].is_array());
    browse(&bed, "POST", "/v1/tickets", &[("Cookie", &cookie)], &Value::Null).problem(403);
    // Who is only named by the configuration is not known.
    bed.alice("POST", "/v1/tickets", Value::Null).problem(403);
    assert!(bed.alice("GET", "/v1/me", Value::Null).ok(200)["until"].is_null());
}

#[test]
fn without_a_session_there_are_pages_and_no_data() {
    let bed = bed("web-none");
    for (path, kind) in
        [("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css"), ("/icon.svg", "image/svg+xml")]
    {
        let said = browse(&bed, "GET", path, &[], &Value::Null);
        assert!(
            said.status == 200 && said.head.contains(kind) && said.head.contains("nosniff"),
            "{path}: {}",
            said.head
        );
        assert!(!said.body.is_empty());
    }
    for path in ["/v1/me", "/v1/resources", "/openapi.json", "/v1/events", "/nothing", "/app.js/../v1/me"] {
        browse(&bed, "GET", path, &[], &Value::Null).problem(401);
        browse(&bed, "GET", path, &[("Cookie", "sluice=00")], &Value::Null).problem(401);
    }
    for odd in [json!({}), json!({"ticket": "x", "more": 1}), json!("x"), json!({"ticket": "0".repeat(4000)})] {
        browse(&bed, "POST", "/session", &[], &odd).problem(400);
    }
    sign_in(&bed, &"0".repeat(64)).problem(401);
}

#[test]
fn pages_from_elsewhere_ask_nothing() {
    let bed = bed("web-elsewhere");
    let cookie = cookie(&sign_in(&bed, &ticket(&bed)));
    let here = address(&bed).to_string();
    let send = |host: &str, fields: &[(&str, &str)], method: &str, path: &str| {
        let all: Vec<(&str, &str)> = [("Cookie", cookie.as_str())].into_iter().chain(fields.iter().copied()).collect();
        talk(TcpStream::connect(address(&bed)).unwrap(), &named(host, &request(method, path, &all, &Value::Null)))
    };
    send(&here, &[], "GET", "/v1/me").ok(200);
    send("evil.example", &[], "GET", "/v1/me").problem(421);
    send("evil.example", &[], "GET", "/").problem(421);
    send(&here, &[("Origin", "http://evil.example")], "GET", "/v1/me").problem(403);
    send(&here, &[("Origin", "null")], "POST", "/session").problem(403);
    send(&here, &[("Sec-Fetch-Site", "cross-site")], "GET", "/v1/me").problem(403);
    send(&here, &[], "DELETE", "/session").problem(403);
    send(&here, &[], "GET", "/v1/me").ok(200);
}

#[test]
fn signing_out_ends_requests_and_streams() {
    let bed = bed("web-out");
    let cookie = cookie(&sign_in(&bed, &ticket(&bed)));
    let mut stream = TcpStream::connect(address(&bed)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let fields = format!("Host: {}\r\nCookie: {cookie}\r\n\r\n", address(&bed));
    stream.write_all(format!("GET /v1/events HTTP/1.1\r\n{fields}").as_bytes()).unwrap();
    let mut piece = [0; 4096];
    let n = stream.read(&mut piece).unwrap();
    assert_eq!(said(&piece[..n]).status, 200);
    assert_eq!(browse(&bed, "DELETE", "/session", &[("Cookie", &cookie)], &Value::Null).status, 204);
    browse(&bed, "GET", "/v1/me", &[("Cookie", &cookie)], &Value::Null).problem(401);
    // The stream of that browser hears nothing more: it ends with the next event.
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]});
    bed.alice("POST", "/v1/reservations", wish).ok(201);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("created"), "{rest}");
}

#[test]
fn the_map_and_the_agents_are_told_with_those_that_are_away() {
    let bed = Bed::five("web-map");
    let map = bed.alice("GET", "/v1/map", Value::Null).ok(200);
    assert_eq!(map["agents"], json!(["a", "b", "c", "d", "e"]));
    let networks = map["networks"].as_array().unwrap();
    let between = networks.iter().find(|row| row["network"] == "10.1.1.0/30").unwrap();
    let ends: Vec<&str> =
        between["ends"].as_array().unwrap().iter().map(|end| end["resource"].as_str().unwrap()).collect();
    assert_eq!(ends, ["a/net/b", "b/net/a"]);
    assert_eq!(networks.iter().filter(|row| row["ends"].as_array().unwrap().len() == 1).count(), 2, "the hosts' own");
    bed.agents[1].go();
    let agents = bed.alice("GET", "/v1/agents", Value::Null).ok(200);
    let rows = agents["agents"].as_array().unwrap();
    let away: Vec<&str> =
        rows.iter().filter(|row| row["away"].is_string()).map(|row| row["agent"].as_str().unwrap()).collect();
    assert_eq!(away, ["b"], "{agents}");
    assert!(rows[0]["version"].is_string());
    // A requester reads no counters, and no audit without a policy that lets them.
    bed.alice("GET", "/v1/interfaces", Value::Null).problem(403);
    for query in ["agent=zz", "limit=0", "limit=1001", "from=1", "from=x&agent=a", "other=1"] {
        bed.alice("GET", &format!("/v1/audit?{query}"), Value::Null).problem(400);
    }
}
