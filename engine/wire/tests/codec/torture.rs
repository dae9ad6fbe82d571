//! The decoder's torture (`examples/torture`), a short one: always the same messages. `SLUICE_TORTURE` says how many.

#[path = "../../examples/torture/mill.rs"]
mod mill;

#[test]
fn p56_messages_put_together_from_objects_and_spoilt() {
    let wanted = std::env::var("SLUICE_TORTURE").ok().and_then(|n| n.parse().ok());
    let count = wanted.unwrap_or(1_000_000);
    let report = mill::run(0, count, |_| {});
    println!("{report:?}");
    assert_eq!((report.executions, report.crashes), (count, 0));
    // They reach the inside: a part is accepted, of every kind.
    assert!(report.accepted > count / 10 && report.neighbourly > count / 100, "{report:?}");
}
