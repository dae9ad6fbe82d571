//! A whole agent in a network namespace of its own, and those who call it.

use crate::work::{ENQUIRED, INTERFACE, later, wish};
use crate::{ROUND, rate};
use agent_service::AgentConfig;
use bench::Draw;
use documents::agent::{Answer, BookAnswer, Call, Request};
use documents::book::{AskDoc, Instant as Moment, PartDoc, WhenDoc};
use documents::links::CallerDoc;
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netns::{Guarded, Namespace};
use linux::poll::{Poll, PollInterest, Token};
use rpc::client::Client;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use terms::{Span, Time};

/// An agent on a thread of its own, stopped by its socket.
pub struct Agent {
    socket: PathBuf,
    state: PathBuf,
    thread: Option<JoinHandle<()>>,
    _namespace: Guarded,
}

impl Agent {
    /// With its state in this folder and a link of this rate; comes back when it answers.
    pub fn start(home: &Path, rate: &str) -> Result<Agent, String> {
        std::fs::create_dir_all(home).map_err(|error| error.to_string())?;
        let name = format!("sluice-bench-book-{}", std::process::id());
        let namespace = Guarded::create(&name).map_err(|failed| failed.to_string())?;
        namespace.run(wire).map_err(|failed| failed.to_string())?;
        let policy = "[[rule]]\nname = \"everybody\"\nwho = [\"*\"]\n";
        std::fs::write(home.join("policy.toml"), policy).map_err(|error| error.to_string())?;
        let (socket, state) = (std::env::temp_dir().join(format!("{name}.sock")), home.join("state"));
        let text = format!(
            "name = \"bench\"\nauth = \"none\"\nsocket = {socket:?}\nstate = {state:?}\nlog = \"error\"\n\
             policy = \"policy.toml\"\n\
             [store]\nany_filesystem = true\n[[interface]]\nname = \"{INTERFACE}\"\nrate = \"{rate}\"\n"
        );
        let config = AgentConfig::parse(&home.join("agent.toml"), &text).map_err(|mistake| mistake.to_string())?;
        let within = Namespace::open(namespace.name()).map_err(|failed| failed.to_string())?;
        let thread = std::thread::spawn(move || {
            within.run(|| agent_service::run(config)).expect("inside").unwrap_or_else(|error| panic!("{error}"));
        });
        let agent = Agent { socket, state, thread: Some(thread), _namespace: namespace };
        let patience = Instant::now() + Duration::from_secs(300);
        while agent.connect().is_none() {
            if agent.thread.as_ref().is_none_or(JoinHandle::is_finished) || Instant::now() > patience {
                return Err("it ended, or does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(agent)
    }

    fn connect(&self) -> Option<Client> {
        let mut client = Client::connect(&self.socket).ok()?;
        client.call(Request::Hello).ok().map(|_| client)
    }

    /// One who calls.
    pub fn client(&self) -> One {
        One { client: self.connect().expect("it answers"), draw: Draw::new(3) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut client) = self.connect() {
            let _ = client.call(Request::Stop);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // It does so itself where it ends in good order.
        let _ = linux::mount::unmount_below(&self.state);
    }
}

fn wire() {
    let mut netlink = Socket::open().expect("netlink");
    netlink.add_veth(INTERFACE, "far", None).expect("a link");
    for name in [INTERFACE, "far"] {
        let index = netlink.link_by_name(name).expect("a link").index;
        netlink.set_link_up(index, true).expect("up");
    }
}

fn ask(rate: u64, start: Time, end: Time) -> AskDoc {
    let part = PartDoc { resource: format!("net/{INTERFACE}"), rate: Some(rate), ..PartDoc::default() };
    let when = WhenDoc { start: Some(Moment(start)), end: Some(Moment(end)), ..WhenDoc::default() };
    AskDoc { parts: vec![part], when, ..AskDoc::default() }
}

fn wished(draw: &mut Draw) -> AskDoc {
    let wish = wish(draw, Clock::start().now());
    ask(wish.rate, wish.start, wish.end)
}

/// One client as programs use it.
pub struct One {
    client: Client,
    draw: Draw,
}

impl One {
    /// Acknowledged creates a second.
    pub fn creates(&mut self) -> f64 {
        rate(|| match self.client.call(Request::BookCreate(wished(&mut self.draw))) {
            Ok(Answer::Book(BookAnswer::Reservation(_))) => {}
            other => panic!("everything fits: {other:?}"),
        })
    }

    /// How long each enquiry took, ns, and how many would be refused.
    pub fn enquiries(&mut self, count: usize) -> (Vec<f64>, usize) {
        let mut refused = 0;
        let one = |_| {
            let start = later(&mut self.draw, Clock::start().now());
            let asked = ask(ENQUIRED, start, start + Span::from_secs(3_600));
            let begun = Instant::now();
            let answer = self.client.call(Request::BookEnquire(asked));
            let took = begun.elapsed().as_nanos() as f64;
            match answer {
                Ok(Answer::Book(BookAnswer::Enquired(said))) => refused += usize::from(!said.accepted),
                other => panic!("{other:?}"),
            }
            took
        };
        let times = (0..count).map(one).collect();
        (times, refused)
    }
}

/// Many connections, each of which waits for its answer before it asks again.
pub struct Crowd {
    streams: Vec<UnixStream>,
    poll: Poll,
    clock: Clock,
    draw: Draw,
    id: u64,
}

impl Crowd {
    /// So many.
    pub fn connect(agent: &Agent, count: u64) -> Crowd {
        let clock = Clock::start();
        let mut poll = Poll::new(clock).expect("a poll");
        let one = |n| {
            let mut stream = UnixStream::connect(&agent.socket).expect("a connection");
            // Each for somebody else: what one may have is limited.
            let who =
                CallerDoc { name: format!("owner-{n}"), groups: Vec::new(), role: "owner".to_owned(), token: None };
            let call = Call { id: 0, request: Request::SpeakFor { who: Some(who) } };
            let mut line = serde_json::to_vec(&call).expect("a document");
            line.push(b'\n');
            stream.write_all(&line).expect("written");
            assert_ne!(stream.read(&mut [0; 256]).expect("an answer"), 0);
            poll.add(&stream, Token(n), PollInterest::Read).expect("watched");
            stream
        };
        let streams = (0..count).map(one).collect();
        Crowd { streams, poll, clock, draw: Draw::new(4), id: 0 }
    }

    fn ask(&mut self, n: usize) {
        self.id += 1;
        let request = Request::BookCreate(wished(&mut self.draw));
        let mut line = serde_json::to_vec(&Call { id: self.id, request }).expect("a document");
        line.push(b'\n');
        self.streams[n].write_all(&line).expect("written");
    }

    /// Acknowledged creates a second.
    pub fn creates(&mut self) -> f64 {
        let (start, mut done, mut out) = (Instant::now(), 0, self.streams.len());
        (0..out).for_each(|n| self.ask(n));
        let mut buffer = [0; 4_096];
        while out > 0 {
            let deadline = self.clock.now() + Span::from_secs(60);
            let ready: Vec<usize> =
                self.poll.wait(Some(deadline)).expect("it answers").iter().map(|one| one.token.0 as usize).collect();
            for n in ready {
                let len = self.streams[n].read(&mut buffer).expect("an answer");
                let text = &buffer[..len];
                // An answer is shorter than a buffer, and is there whole or not at all.
                let is_good = text.ends_with(b"\n") && text.windows(5).any(|five| five == b"\"ok\":");
                assert!(is_good, "{}", String::from_utf8_lossy(text));
                done += 1;
                if start.elapsed() < ROUND {
                    self.ask(n);
                } else {
                    out -= 1;
                }
            }
        }
        done as f64 / start.elapsed().as_secs_f64()
    }
}
