//! The local socket: who may, what is refused, and that nobody can make the agent wait.

use crate::bed::{Bed, SENDER, SESSION, refused, tspec, wait_for};
use documents::agent::{Answer, Request};
use rpc::client::Client;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn connect(bed: &Bed) -> UnixStream {
    let stream = UnixStream::connect(bed.home("maui").join("agent.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn answer(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn bad_lines_get_an_answer_and_good_ones_after_them_too() {
    let Some(bed) = Bed::up("30s") else { return };
    let mode = std::fs::metadata(bed.home("maui").join("agent.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut stream = connect(&bed);
    for (line, expected) in [
        ("nonsense\n", r#"{"id":0,"error":{"kind":"malformed""#),
        ("{\"id\":5,\"call\":\"dance\"}\n", r#"{"id":5,"error":{"kind":"malformed""#),
        ("{\"id\":6,\"call\":\"sender\"}\n", r#"{"id":6,"error":{"kind":"malformed""#),
        ("\u{0}\u{1}\n", r#"{"id":0,"error":{"kind":"malformed""#),
        ("\n", r#"{"id":0,"error":{"kind":"malformed""#),
        ("{\"id\":7,\"call\":\"hello\"}\n", r#"{"id":7,"ok":{"hello":{"node":"maui""#),
    ] {
        stream.write_all(line.as_bytes()).unwrap();
        let got = answer(&stream);
        assert!(got.starts_with(expected), "{line:?}: {got}");
    }
    let mut client = bed.client("maui");
    let wrong = Request::Sender { session: SESSION, sender: SENDER, tspec: tspec(0), ttl: 64 };
    assert_eq!(refused(client.call(wrong)).kind, "misuse");
}

#[test]
fn an_endless_line_ends_the_connection_and_nothing_else() {
    let Some(bed) = Bed::up("30s") else { return };
    let mut stream = connect(&bed);
    let chunk = vec![b'x'; 1 << 16];
    let mut sent = 0;
    while sent <= (2 << 20) && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest);
    assert!(rest.is_empty() || rest.contains("a line is longer than"), "{rest}");
    assert_eq!(bed.status("maui").agent.node, "maui");
}

#[test]
fn who_does_not_read_waits_alone() {
    let Some(bed) = Bed::up("30s") else { return };
    let mut lazy = connect(&bed);
    lazy.set_nonblocking(true).unwrap();
    let call = b"{\"id\":1,\"call\":\"status\"}\n".repeat(1000);
    let until = Instant::now() + Duration::from_secs(2);
    let mut written = 0usize;
    while Instant::now() < until {
        match lazy.write(&call) {
            Ok(n) => written += n,
            Err(_) => std::thread::sleep(Duration::from_millis(10)), // its socket is full: it must wait
        }
    }
    assert!(written < 64 << 20, "the agent does not buffer without end: {written}");
    let asked = Instant::now();
    assert_eq!(bed.status("maui").agent.node, "maui");
    assert!(asked.elapsed() < Duration::from_secs(5), "others are served: {:?}", asked.elapsed());
}

#[test]
fn connections_are_limited_and_free_again() {
    let Some(bed) = Bed::up("30s") else { return };
    let many: Vec<UnixStream> = (0..300).map(|_| connect(&bed)).collect();
    let told = answer(many.last().unwrap());
    assert!(told.contains("too many connections"), "{told}");
    drop(many);
    wait_for("there is room again", || {
        let mut client = Client::connect(&bed.home("maui").join("agent.sock")).ok()?;
        matches!(client.call(Request::Hello), Ok(Answer::Hello(_))).then_some(())
    });
}

#[test]
fn a_last_question_is_answered_after_the_writer_closed() {
    let Some(bed) = Bed::up("30s") else { return };
    let mut stream = connect(&bed);
    stream.write_all(b"{\"id\":1,\"call\":\"sessions\"}\n{\"id\":2,\"call\":\"counters\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.lines().count(), 2, "{all}");
    assert!(all.starts_with(r#"{"id":1,"ok":{"sessions":[]}}"#), "{all}");
}
