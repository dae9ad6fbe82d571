//! `sluice run --each`: a reservation for each TCP connection of a command, before it carries data, and for as long as the
//! connection lasts: servers that wait in `accept` or not, clients, refusals, signals, many at once, and nginx.

use crate::bed::{Bed, SLUICE, wait_for};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

/// Serves: waits in `accept`, a thread for each connection, which sends a byte at once and ends after the peer.
const SERVER: &str = "
import socket, sys, threading
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(('10.0.0.1', 8080)); l.listen(64)
def serve(c, a):
    c.sendall(b'x'); c.recv(1); c.close()
for n in range(int(sys.argv[1])):
    c, a = l.accept()
    assert a[0] == '10.0.2.2' and a == c.getpeername(), a
    threading.Thread(target=serve, args=(c, a)).start()
";

/// The same without ever waiting in `accept`.
const POLLING: &str = "
import socket, sys, selectors
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(('10.0.0.1', 8080)); l.listen(64); l.setblocking(False)
s = selectors.DefaultSelector(); s.register(l, 1); left = int(sys.argv[1])
while left:
    for key, _ in s.select():
        if key.fileobj is l:
            try: c, a = l.accept()
            except BlockingIOError: continue
            c.sendall(b'x'); s.register(c, 1)
        else:
            key.fileobj.recv(1); s.unregister(key.fileobj); key.fileobj.close(); left -= 1
";

/// Opens so many connections, waits for a byte on each, says so, and ends them when it is told to.
const CLIENT: &str = "
import socket, sys, time
def come():
    for n in range(400):
        try: return socket.create_connection(('10.0.0.1', 8080))
        except ConnectionRefusedError: time.sleep(0.05)
all = [come() for n in range(int(sys.argv[1]))]
for c in all: assert c.recv(1) == b'x'
print('here', flush=True); sys.stdin.readline()
for c in all: c.close()
";

/// Connects to the far end and says how it went: an errno as exit status.
const CALLER: &str = "
import socket, sys
c = socket.socket(); e = c.connect_ex(('10.0.2.2', 8081))
if e: sys.exit(e)
c.sendall(b'x'); c.recv(1)
";

/// Takes connections until it is ended.
const LISTENER: &str = "
import socket
l = socket.socket(); l.bind(('10.0.2.2', 8081)); l.listen(64); all = []
print('here', flush=True)
while True:
    c, a = l.accept(); c.recv(1); all.append(c)
    if len(all) == 1: import sys; sys.stdin.readline()
    for c in all: c.close()
";

/// The seed's testbed whose far end answers for receivers that do not signal.
fn bed() -> Option<Bed> {
    if Command::new("python3").arg("--version").output().is_err() {
        bench::skipped("python3 is the program that is run");
        return None;
    }
    let bed = Bed::up("1s")?;
    bed.kill("glenwood");
    let file = bed.home("glenwood").join("agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let rule = "[[receiver_proxy]]\nfrom = \"10.0.0.0/24\"\nrate = \"2mbit\"\n";
    std::fs::write(&file, format!("{text}\n{rule}")).unwrap();
    bed.start("glenwood");
    Some(bed)
}

fn on(bed: &Bed, node: &str, program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).env("SLUICE_SOCKET", bed.home(node).join("agent.sock"));
    let netns = bed.netns(node);
    netns.enter_at_exec(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// `sluice run --each ...` on the sender's node.
fn run(bed: &Bed, arguments: &[&str]) -> Child {
    on(bed, "swissvale", SLUICE, &[&["run", "--json", "--each"], arguments].concat())
}

/// Waits until a program has said that it is there.
fn here(child: &mut Child) {
    let mut word = [0; 5];
    let said = std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word);
    if said.is_err() {
        let mut why = String::new();
        let _ = std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut why);
        panic!("it ended: {why}");
    }
}

fn end(mut child: Child) -> Output {
    let _ = std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n");
    child.wait_with_output().unwrap()
}

fn connections(done: &Output) -> Value {
    let text = String::from_utf8_lossy(&done.stderr);
    let last = text.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"));
    report["connections"].clone()
}

#[test]
fn what_is_accepted_is_reserved_by_rsvp_before_it_carries_data() {
    let Some(bed) = bed() else { return };
    for server in [SERVER, POLLING] {
        let running =
            run(&bed, &["200kbit", "--with", "rsvp", "--patience", "10s", "--", "python3", "-c", server, "4"]);
        let mut client = on(&bed, "glenwood", "python3", &["-c", CLIENT, "4"]);
        here(&mut client);
        // Each has had a byte: each is reserved, on every node.
        for node in ["swissvale", "yosemite", "maui"] {
            let rows = bed.reservations(node);
            assert_eq!(rows.len(), 4, "{node}: {rows:#?}");
        }
        let ended = end(client);
        assert!(ended.status.success(), "{ended:?}");
        let done = running.wait_with_output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let said = connections(&done);
        assert_eq!(
            (&said["rsvp"], &said["refused"], &said["most_at_once"]),
            (&4.into(), &0.into(), &4.into()),
            "{said}"
        );
        println!("{{\"bench\":\"run_each_setup\",\"value\":{},\"unit\":\"us\",\"n\":4}}", said["setup_us_median"]);
        wait_for("given back", || bed.reservations("yosemite").is_empty().then_some(()));
    }
    // One that closes is given back while the command runs on; more than the path has is closed.
    let running = run(&bed, &["200kbit", "--with", "rsvp", "--patience", "10s", "--", "python3", "-c", SERVER, "2"]);
    let mut first = on(&bed, "glenwood", "python3", &["-c", CLIENT, "1"]);
    here(&mut first);
    assert_eq!(bed.reservations("yosemite").len(), 1);
    end(first);
    wait_for("the first is given back", || bed.reservations("yosemite").is_empty().then_some(()));
    let mut second = on(&bed, "glenwood", "python3", &["-c", CLIENT, "1"]);
    here(&mut second);
    end(second);
    assert!(running.wait_with_output().unwrap().status.success());
}

#[test]
fn what_is_opened_is_booked_refused_or_goes_on_without() {
    let Some(bed) = bed() else { return };
    let mut listener = on(&bed, "glenwood", "python3", &["-c", LISTENER]);
    here(&mut listener);
    let call = ["--", "python3", "-c", CALLER];
    let booked = run(&bed, &[&["200kbit", "--with", "booking"][..], &call].concat());
    let list = || {
        let shown = on(&bed, "swissvale", SLUICE, &["list", "--json"]).wait_with_output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    wait_for("it is booked for its ports", || (list().contains("8081") && list().contains("in_force")).then_some(()));
    std::io::Write::write_all(listener.stdin.as_mut().unwrap(), b"\n").unwrap();
    let done = booked.wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(connections(&done)["booking"], 1);
    // More than the link has: the call fails as if the far end refused, or goes on without.
    let refused = run(&bed, &[&["900mbit", "--with", "booking"][..], &call].concat()).wait_with_output().unwrap();
    assert_eq!((refused.status.code(), &connections(&refused)["refused"]), (Some(111), &1.into()), "{refused:?}");
    let words = ["900mbit", "--with", "booking", "--or-best-effort"];
    let without = run(&bed, &[&words[..], &call].concat()).wait_with_output().unwrap();
    assert_eq!((without.status.code(), &connections(&without)["unreserved"]), (Some(0), &1.into()), "{without:?}");
    // Nobody answers for the rule's host beyond its rate; a booking is what is left, and the host is asked once.
    let words = ["3mbit", "--patience", "300ms"];
    let auto = run(&bed, &[&words[..], &call].concat()).wait_with_output().unwrap();
    assert_eq!((auto.status.code(), &connections(&auto)["booking"]), (Some(0), &1.into()), "{auto:?}");
    let _ = listener.kill();
    listener.wait().unwrap();
}

/// Many short connections at nginx with two workers, which never wait in `accept`.
#[test]
fn nginx_has_a_reservation_for_each_request() {
    if Command::new("nginx").arg("-v").output().is_err() {
        return bench::skipped("nginx is not installed: apt-get install nginx-light");
    }
    let Some(bed) = bed() else { return };
    let home = bed.home("swissvale");
    let root = home.join("www");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("file"), vec![b'x'; 20_000]).unwrap();
    let at = |name: &str| home.join(name).display().to_string();
    let text = format!(
        "daemon off; user root; worker_processes 2; pid {}; error_log {} info;\nevents {{ worker_connections 256; }}\n\
         http {{ access_log off; keepalive_timeout 0; client_body_temp_path {t}; proxy_temp_path {t}; fastcgi_temp_path {t};\n\
         uwsgi_temp_path {t}; scgi_temp_path {t}; server {{ listen 10.0.0.1:8080; root {}; }} }}\n",
        at("nginx.pid"),
        at("nginx.log"),
        root.display(),
        t = at("temp")
    );
    std::fs::write(home.join("nginx.conf"), text).unwrap();
    let running = run(
        &bed,
        &["1mbit", "--with", "rsvp", "--patience", "10s", "--", "nginx", "-c", &at("nginx.conf"), "-p", &at("")],
    );
    let fetch = "
import urllib.request, time, sys
for n in range(400):
    try: urllib.request.urlopen('http://10.0.0.1:8080/file').read(); break
    except OSError: time.sleep(0.05)
for n in range(19):
    assert len(urllib.request.urlopen('http://10.0.0.1:8080/file').read()) == 20000
";
    let done = on(&bed, "glenwood", "python3", &["-c", fetch]).wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?} {:?}", std::fs::read_to_string(home.join("nginx.log")));
    wait_for("given back", || bed.reservations("yosemite").is_empty().then_some(()));
    let process = linux::process::ProcessId::of(running.id()).unwrap();
    process.signal(15).unwrap();
    let done = running.wait_with_output().unwrap();
    let said = connections(&done);
    assert!(done.status.success() && said["rsvp"].as_u64() >= Some(20) && said["refused"] == 0, "{said} {done:?}");
}
