//! The table of faults (`docs/rsvp-faults.md`) names tests that there are.

use std::collections::BTreeSet;
use std::path::Path;

/// The functions without arguments in a file.
fn tests_in(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let names =
        text.lines().filter_map(|l| l.trim_start().strip_prefix("fn ")?.strip_suffix("() {").map(str::to_owned));
    names.collect()
}

#[test]
fn the_fault_table_names_tests_that_there_are() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../docs/rsvp-faults.md")).unwrap();
    let codec = std::fs::read_dir(here.join("../wire/tests/codec")).unwrap();
    let codec: BTreeSet<String> = codec.flat_map(|e| tests_in(&e.unwrap().path())).collect();
    let units = tests_in(&here.join("src/integrity/sequence.rs"));
    let daemon = tests_in(&here.join("../../service/agent/src/sequences.rs"));
    let mut named = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let there = match name.split_once("::") {
            Some((module, test)) => tests_in(&here.join(format!("tests/story/{module}.rs"))).contains(test),
            None if name.contains([' ', '/', '.']) || !name.contains('_') => continue,
            None => codec.contains(name) || units.contains(name) || daemon.contains(name),
        };
        assert!(there, "{name} is named in docs/rsvp-faults.md, and is not there");
        named += 1;
    }
    assert!(named > 40, "{named}");
}
