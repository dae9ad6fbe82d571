//! What SACK TCP does about loss, written down segment by segment: one, two and three losses in a window, a lost
//! retransmission, and a whole window lost. The golden files are to be read; `SLUICE_BLESS=1` writes them anew.

use crate::pipe::Pipe;
use sim::scenario::{Growth, Tcp};
use sim::tcp::{Conduct, ONE};
use std::path::PathBuf;
use terms::{Bytes, Span, Time};

fn tcp() -> Tcp {
    Tcp { initial_window: 10, initial_threshold: Some(10), window: Bytes::new(40 * 1_460), ..Tcp::default() }
}

fn golden(name: &str, tcp: &Tcp, segments: u32, drops: &[(u32, u32)]) {
    let mut pipe = Pipe::new(Conduct::new(tcp), segments, drops);
    pipe.play(Time::ZERO + Span::from_secs(60));
    assert!(pipe.sender.is_finished(), "everything arrives in the end");
    let head = format!(
        "# {name}: a pipe of 50 ms each way, a segment every ms; a window of 10 at the start, of 40 at most.\n\
         # Dropped: {}.\n#   ms    phase  window  pipe\n",
        drops.iter().map(|(n, times)| format!("{n} ({times}x)")).collect::<Vec<_>>().join(", ")
    );
    let text = head + &pipe.lines.join("\n") + "\n";
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("SLUICE_BLESS").is_some() {
        std::fs::write(&file, &text).expect("the golden file can be written");
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    for (n, (now, then)) in text.lines().zip(known.lines()).enumerate() {
        assert_eq!(now, then, "line {} of {}", n + 1, file.display());
    }
    assert_eq!(text.lines().count(), known.lines().count(), "{} has another length", file.display());
}

#[test]
fn one_loss() {
    golden("recovery-1", &Tcp { limited_transmit: false, ..tcp() }, 40, &[(12, 1)]);
}

#[test]
fn two_losses() {
    golden("recovery-2", &Tcp { limited_transmit: false, ..tcp() }, 40, &[(12, 1), (15, 1)]);
}

#[test]
fn three_losses_with_limited_transmit() {
    golden("recovery-3", &tcp(), 40, &[(12, 1), (14, 1), (17, 1)]);
}

#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    golden("recovery-lost-again", &tcp(), 40, &[(12, 2)]);
}

#[test]
fn a_lost_tail_is_rescued_or_times_out() {
    golden("recovery-tail", &tcp(), 24, &[(12, 1), (23, 1)]);
    golden("recovery-tail-alone", &tcp(), 24, &[(22, 1), (23, 1)]);
}

#[test]
fn the_timer_backs_off_until_something_comes_back() {
    let mut pipe = Pipe::new(
        Conduct::new(&tcp()),
        20,
        &[(0, 6), (1, 9), (2, 9), (3, 9), (4, 9), (5, 9), (6, 9), (7, 9), (8, 9), (9, 9)],
    );
    pipe.play(Time::ZERO + Span::from_secs(80));
    let sent: Vec<u64> = pipe
        .lines
        .iter()
        .filter(|line| line.contains("send 0"))
        .map(|line| line.trim_start().split(' ').next().unwrap().parse().unwrap())
        .collect();
    let gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The handshake took 101 ms, so the timer starts at its floor.
    assert_eq!(gaps, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]);
}

#[test]
fn a_delayed_acknowledgement_stands_for_two_segments_and_waits_no_longer_than_it_may() {
    let count = |delayed_ack, segments| {
        let mut pipe = Pipe::new(Conduct::new(&Tcp { delayed_ack, ..tcp() }), segments, &[]);
        pipe.play(Time::ZERO + Span::from_secs(60));
        assert!(pipe.sender.is_finished());
        (pipe.acks, pipe.now.as_nanos() / 1_000_000)
    };
    let wait = Span::from_millis(200);
    assert_eq!(count(None, 40).0, 40);
    assert_eq!(count(Some(wait), 40).0, 20);
    let (one, at) = count(Some(wait), 1);
    assert_eq!((one, at), (1, 101 + 101 + 200), "handshake, data there and back, and the wait");
}

#[test]
fn recovery_halves_reno_and_takes_three_tenths_of_cubic() {
    for (growth, least, most) in [(Growth::Reno, 0.45, 0.55), (Growth::Cubic, 0.65, 0.75)] {
        let tcp = Tcp { growth, initial_window: 20, initial_threshold: Some(20), ..tcp() };
        let mut pipe = Pipe::new(Conduct::new(&tcp), 60, &[(25, 1)]);
        pipe.play(Time::ZERO + Span::from_secs(60));
        let recovery = pipe.lines.iter().find(|line| line.contains("-> Recovery")).expect("it recovers");
        let window: f64 = recovery.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!((20.0 * least..22.0 * most).contains(&window), "{growth:?}: {recovery}");
    }
    assert_eq!(ONE, 65_536);
}
