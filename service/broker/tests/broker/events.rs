//! Event streams: everybody hears what is theirs, and goes on where it broke off.

use crate::bed::{Bed, Stream};
use serde_json::{Value, json};

fn reserve(bed: &Bed) -> String {
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}]});
    bed.alice("POST", "/v1/reservations", wish).ok(201)["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_stream_goes_on_where_it_broke_off() {
    let bed = Bed::one("stream");
    let mut stream = Stream::open(&bed, "/v1/events", None);
    assert_eq!(stream.next().1, "begins");
    let first = reserve(&bed);
    let (last, kind, data) = stream.next();
    assert_eq!((kind.as_str(), data["reservation"].as_str()), ("created", Some(first.as_str())));
    assert_eq!(last, "here:1");
    drop(stream);
    let second = reserve(&bed);
    bed.alice("DELETE", &format!("/v1/reservations/{second}"), Value::Null).ok(200);
    for path in ["/v1/events", "/v1/events?after=here:1"] {
        let mut stream = Stream::open(&bed, path, (!path.contains("after")).then_some(last.as_str()));
        let (id, kind, data) = stream.next_event();
        assert_eq!(
            (id.as_str(), kind.as_str(), data["reservation"].as_str()),
            ("here:2", "created", Some(second.as_str()))
        );
        assert_eq!(stream.next_event().1, "cancelled");
        let third = reserve(&bed);
        assert!((0..4).any(|_| stream.next_event().2["reservation"] == third.as_str()));
        bed.alice("DELETE", &format!("/v1/reservations/{third}"), Value::Null).ok(200);
    }
}

#[test]
fn an_agent_that_goes_and_comes_back_loses_nothing() {
    let bed = Bed::one("back");
    let mut stream = Stream::open(&bed, "/v1/events", None);
    stream.next();
    let first = reserve(&bed);
    assert_eq!(stream.next_event().2["reservation"], first.as_str());
    bed.agents[0].go();
    bed.agents[0].listen();
    let second = reserve(&bed);
    assert_eq!(stream.next_event().2["reservation"], second.as_str());
}

#[test]
fn only_what_is_theirs_and_only_what_was_asked_for() {
    let bed = Bed::one("theirs");
    let mine = reserve(&bed);
    let mut all = Stream::open(&bed, "/v1/events?after=here:0", None);
    let mut one = Stream::open(&bed, &format!("/v1/events?after=here:0&reservation={mine}"), None);
    bed.root("POST", "/v1/reservations", json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}]}))
        .ok(201);
    let other = reserve(&bed);
    bed.alice("DELETE", &format!("/v1/reservations/{mine}"), Value::Null).ok(200);
    let heard = |stream: &mut Stream, count: usize| -> Vec<String> {
        (0..count).map(|_| stream.next_event().2["reservation"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(heard(&mut all, 3), [mine.clone(), other, mine.clone()], "root's is not among them");
    assert_eq!(heard(&mut one, 2), [mine.clone(), mine]);
    bed.alice("GET", "/v1/events?after=nonsense", Value::Null).problem(400);
    bed.alice("GET", &format!("/v1/events?reservation={}", "0".repeat(26)), Value::Null).problem(404);
}

#[test]
fn streams_are_limited_and_their_room_comes_back() {
    let bed = Bed::with(
        "limit",
        |dir| vec![crate::stub::Stub::start(&dir.join("here"), "here", &[("cpu", 2.0)], Vec::new())],
        |config| config.limits.streams = 2,
    );
    let mut streams = [Stream::open(&bed, "/v1/events", None), Stream::open(&bed, "/v1/events", None)];
    streams.iter_mut().for_each(|stream| drop(stream.next()));
    bed.alice("GET", "/v1/events", Value::Null).problem(429);
    drop(streams);
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut stream = std::net::TcpStream::connect(bed.address()).unwrap();
        use std::io::{Read, Write};
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        if &start == b"HTTP/1.1 200" {
            return;
        }
    }
    panic!("the room of streams that ended is not given back");
}
