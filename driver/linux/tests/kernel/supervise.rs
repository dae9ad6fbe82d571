//! A program that is stopped at its calls: what it connects and accepts, what passes, what is refused, what a signal
//! interrupts. On the loopback; no privileges are needed beyond those over one's own child.

use linux::supervise::{Caught, CaughtCall, Supervisor, TargetSocket, at_exec, source_towards};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"
import errno, signal, socket, threading
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(5); p = l.getsockname()
def client():
    c = socket.create_connection(p); print('client', c.recv(5)); c.close()
for n in range(3): threading.Thread(target=client).start()
for n in range(3):
    c, a = l.accept(); assert c.getpeername() == a, (a, c.getpeername()); c.sendall(b'hello'); c.close()
l.setblocking(False)
try: l.accept(); print('BAD')
except BlockingIOError: print('nothing yet')
six = socket.socket(socket.AF_INET6); six.setsockopt(41, 26, 0); six.bind(('::', 0)); six.listen()
t = threading.Thread(target=lambda: socket.create_connection(('127.0.0.1', six.getsockname()[1])).recv(1)); t.start()
c, a = six.accept(); print('mapped', a[0]); c.close(); t.join()
try: socket.create_connection(('127.0.0.9', 1)); print('BAD')
except ConnectionRefusedError: print('refused')
try: socket.socket(socket.AF_UNIX).connect('/nonexistent/socket'); print('BAD')
except FileNotFoundError: print('unix passes')
try: socket.socket().sendto(b'x', 0x20000000, p); print('BAD')
except OSError as e: print('fast open', e.errno == errno.EOPNOTSUPP)
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()
class Alarm(Exception): pass
def alarm(*_): raise Alarm()
signal.signal(signal.SIGALRM, alarm); signal.setitimer(signal.ITIMER_REAL, 0.3)
try: l.accept(); print('BAD')
except Alarm: print('interrupted')
"#;

#[test]
fn a_program_waits_at_its_calls_and_cannot_tell() {
    if Command::new("python3").arg("--version").output().is_err() {
        return bench::skipped("python3 is the program that is supervised");
    }
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM]).stdout(Stdio::piped());
    let starting = at_exec(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    let calls = starting.supervisor().unwrap();
    let (mut waiting, mut gone, mut seen) = (Vec::new(), 0, Vec::new());
    let until = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it hangs; seen: {seen:?}");
        while let Some(call) = calls.next().unwrap() {
            match call.call() {
                CaughtCall::Connect => seen.extend(connects(&calls, &call)),
                CaughtCall::Accept { nonblocking, .. } => {
                    let socket = calls.socket(&call).expect("a socket");
                    waiting.push((call, socket, nonblocking));
                }
            }
        }
        waiting.retain(|(call, socket, nonblocking)| !serve(&calls, call, socket, *nonblocking, &mut gone));
        std::thread::sleep(Duration::from_millis(1));
    }
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let expected = [
        "client b'hello'",
        "client b'hello'",
        "client b'hello'",
        "fast open True",
        "interrupted",
        "mapped ::ffff:127.0.0.1",
        "nothing yet",
        "refused",
        "unix passes",
    ];
    assert_eq!(lines, expected);
    assert_eq!((seen.len(), gone, calls.has_ended()), (5, 1, true), "{seen:?}");
}

/// Binds a socket that connects, and lets it go on, but not to 127.0.0.9.
fn connects(calls: &Supervisor, call: &Caught) -> Option<SocketAddr> {
    let Some(to) = calls.destination(call) else {
        calls.go_on(call);
        return None;
    };
    let socket = calls.socket(call).expect("a socket");
    assert!(socket.is_tcp() && !socket.is_nonblocking() && socket.peer().is_none());
    socket.bind_to(source_towards(to.ip()).unwrap()).unwrap();
    let local = socket.local().expect("an address");
    assert!(local.port() != 0 && local.ip().is_loopback());
    if to.port() == 1 {
        calls.refuse(call)
    } else {
        calls.go_on(call)
    }
    Some(local)
}

/// True if the call needs no more of us.
fn serve(calls: &Supervisor, call: &Caught, socket: &TargetSocket, nonblocking: bool, gone: &mut u32) -> bool {
    if !calls.waits(call) {
        *gone += 1;
        return true;
    }
    match socket.accept(nonblocking).unwrap() {
        Some(connection) => {
            assert!(connection.is_tcp() && connection.peer().is_some());
            assert!(calls.give(call, &connection));
            true
        }
        None if socket.is_nonblocking() => {
            calls.nothing_yet(call);
            true
        }
        None => false,
    }
}
