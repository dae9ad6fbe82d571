//! The golden page of rights, `docs/rights.md`, is the table: each call, each cell, in the page's order.

use booking::policy::rights::{Call, Right, Seat, Whose};
use booking::policy::{Policy, Who};
use terms::book::{Caller, CallerRole};

/// The page's block of cells.
const PAGE: &str = include_str!("../../../../docs/rights.md");

fn page() -> Vec<&'static str> {
    let block = PAGE.split("```").nth(1).expect("docs/rights.md holds the table");
    block.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

fn line(name: &str, whose: &str, cells: [&str; 8]) -> String {
    let mut line = format!("{name:<36}{whose:<9}");
    cells.iter().enumerate().for_each(|(n, cell)| line += &format!("{}{cell:<10}", if n == 3 { "| " } else { "" }));
    line.trim_end().to_owned()
}

#[test]
fn the_page_is_the_table() {
    let head = line("call", "whose", Seat::ALL.map(Seat::name));
    let rows = Call::ALL.iter().flat_map(|call| {
        let row =
            |row: &booking::policy::rights::RightsRow| line(call.name(), row.whose.name(), row.rights.map(Right::name));
        call.rows().iter().map(row).collect::<Vec<String>>()
    });
    let table: Vec<String> = std::iter::once(head).chain(rows).collect();
    for (n, (table, page)) in table.iter().zip(page()).enumerate() {
        assert_eq!(table, page, "line {n} of docs/rights.md; the whole table is\n{}", whole(table, n));
    }
    assert_eq!(table.len(), page().len(), "the whole table is\n{}", table.join("\n"));
}

fn whole(first: &str, n: usize) -> String {
    format!("(from line {n}) {first}")
}

/// No row lets a stranger of another machine do what only this machine may, and nobody has more than root.
#[test]
fn what_no_cell_may_say() {
    for call in Call::ALL {
        for row in call.rows() {
            let of = |seat: Seat| row.rights[seat as usize];
            if *call != Call::SpeakFor {
                // What only a neighbour's broker does is done in its own name, and is nobody's here.
                let neighbours_only = Seat::ALL.into_iter().all(|seat| seat == Seat::Broker || of(seat) == Right::No);
                for seat in Seat::ALL.into_iter().filter(|_| !neighbours_only) {
                    let more = of(seat) != Right::No && of(Seat::Root) == Right::No;
                    assert!(!more, "{}: {} may, root may not", call.name(), seat.name());
                }
                assert!(call.name().contains(' ') || [Right::No, Right::Yes].contains(&of(Seat::Agent)));
            }
            let here = of(Seat::Operator) == Right::No;
            assert!(!here || of(Seat::Member) == Right::No, "{}: a member is no more than an operator", call.name());
        }
    }
}

/// A refusal says who they are, what they asked, and who may.
#[test]
fn refusals_name_the_caller_and_who_may() {
    let groups = vec!["gid:1000".to_owned(), "gid:27".to_owned()];
    let caller = Caller { name: "uid:1000".to_owned(), groups, role: CallerRole::Owner, token: None };
    let policy = Policy::default();
    assert_eq!(
        policy.may_ask(Seat::Member, Call::Stop, &caller).unwrap_err(),
        "stop is for root, the operators' group; you are uid:1000 (groups gid:1000, gid:27), member on this machine"
    );
    assert_eq!(
        policy.may_ask(Seat::Requester, Call::Trace, &Caller { groups: Vec::new(), ..caller.clone() }).unwrap_err(),
        "trace is for root, the operators' group, on the agent's own socket; you are uid:1000 (no groups), requester by certificate"
    );
    assert!(policy.may_ask(Seat::Member, Call::Status, &caller).unwrap_err().ends_with("`auditors` do not name you"));
    let policy = policy.with_auditors(vec![Who::Group(booking::policy::NamePattern::new("gid:27").unwrap())]);
    assert_eq!(policy.may_ask(Seat::Member, Call::Status, &caller), Ok(()));
    assert!(Call::BoomerangRelease.refusal(Seat::Member, Whose::Others, &caller).contains("somebody else's"));
}
