//! The page of rights, `docs/rights.md`, played cell by cell: real agents and a real broker, peers of several users through
//! real Unix sockets, certificates through real mutual TLS. A call that is not on the page fails; so does a cell that
//! answers anything but what it says.
//!
//! A cell `rule` is played twice: with a rule that allows it, and without.

mod agent;
mod broker;
mod may;
pub mod who;

use crate::bed::wait_for;
use crate::remote::Far;
use booking::policy::rights::{Call, Seat};
use who::{Strength, Who, bed};

const PAGE: &str = include_str!("../../../../../docs/rights.md");

/// A row of the page.
struct Row {
    call: Call,
    /// Empty, `own` or `others'`.
    whose: &'static str,
    cells: Vec<&'static str>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
enum Came {
    Allowed,
    Refused(String),
    /// Neither: the play is wrong, or the program.
    Odd(String),
}

fn page() -> Vec<Row> {
    let block = PAGE.split("```").nth(1).expect("docs/rights.md holds the table");
    let row = |line: &'static str| {
        let (name, rest) = line.split_at(36);
        let (whose, cells) = rest.split_at(9);
        let known = || Call::ALL.iter().find(|call| call.name() == name.trim());
        let call = *known().unwrap_or_else(|| panic!("{:?} on the page is no call", name.trim()));
        Row { call, whose: whose.trim(), cells: cells.split_whitespace().filter(|cell| *cell != "|").collect() }
    };
    let rows: Vec<Row> = block.lines().skip(1).filter(|line| !line.is_empty()).skip(1).map(row).collect();
    for call in Call::ALL {
        assert!(rows.iter().any(|row| row.call == *call), "{} is not on the page", call.name());
    }
    assert!(rows.iter().all(|row| row.cells.len() == Seat::ALL.len()), "a row has a cell for each column");
    rows
}

/// Counts what was played, and what came out otherwise than the page says.
#[derive(Default)]
struct Score {
    cases: u64,
    surprises: Vec<String>,
}

impl Score {
    fn played(&mut self, row: &Row, who: &Who, rule: Strength, expected: bool, came: &Came) {
        self.cases += 1;
        let as_said = match came {
            Came::Allowed => expected,
            Came::Refused(_) => !expected,
            Came::Odd(_) => false,
        };
        if !as_said {
            let said = if expected { "allowed" } else { "refused" };
            let case = format!("{} {} by {who:?}, {rule:?}", row.call.name(), row.whose);
            self.surprises.push(format!("{case}: to be {said}, came {came:?}"));
        }
    }
}

/// Plays every cell of the rows that `mine` picks.
fn play(
    far: &Far,
    score: &mut Score,
    mine: impl Fn(Call) -> bool,
    mut cell: impl FnMut(&Row, &Who, Strength) -> Option<Came>,
) {
    for row in page().iter().filter(|row| mine(row.call)) {
        for (seat, said) in Seat::ALL.into_iter().zip(&row.cells) {
            // What is refused is so whatever a rule says; what is one's own has to be there.
            let plays: &[(Strength, bool)] = match *said {
                "-" => &[(Strength::Ruled, false)],
                "yes" if row.whose.is_empty() => &[(Strength::Unruled, true), (Strength::Ruled, true)],
                "yes" => &[(Strength::Ruled, true)],
                "rule" => &[(Strength::Ruled, true), (Strength::Unruled, false)],
                other => panic!("{other:?} is no cell"),
            };
            for (strength, expected) in plays {
                for who in who::of(far, seat, *strength) {
                    // The connection stays the broker's, who may speak for the next one.
                    if row.call == Call::SpeakFor && matches!(who, Who::Through(..)) {
                        continue;
                    }
                    let Some(came) = cell(row, &who, *strength) else { continue };
                    score.played(row, &who, *strength, *expected, &came);
                }
            }
        }
    }
}

#[test]
fn every_cell_of_the_page_is_played() {
    let Some(far) = bed() else { return };
    let mut score = Score::default();
    play(
        &far,
        &mut score,
        |call| !call.name().contains(' ') && call != Call::Stop,
        |row, who, strength| agent::cell(&far, row, who, strength),
    );
    let broker = broker::House::start(&far);
    play(&far, &mut score, |call| call.name().contains(' '), |row, who, strength| broker.cell(row, who, strength));
    // The same by browsers, each signed in by a ticket of whoever that is; none gets a ticket itself.
    broker.browse();
    play(
        &far,
        &mut score,
        |call| call.name().contains(' ') && ![Call::PostTicket, Call::ForUser].contains(&call),
        |row, who, strength| broker::can_browse(who).then(|| broker.cell(row, who, strength)).flatten(),
    );
    drop(broker);
    play(
        &far,
        &mut score,
        |call| call == Call::Stop,
        |row, who, strength| {
            let came = agent::cell(&far, row, who, strength);
            if came == Some(Came::Allowed) {
                let stopped = far.bed.agent("b");
                wait_for("it stops", || (!stopped.is_running()).then_some(()));
                who::start(&far);
            }
            came
        },
    );
    println!("{{\"cases\":{},\"surprises\":{}}}", score.cases, score.surprises.len());
    assert!(score.surprises.is_empty(), "{:#?}", score.surprises);
    assert!(score.cases > 400, "{} cells were played", score.cases);
}
