//! The quick form of the reproduction of RFC 2963: two bucket sizes, both shapers, one seed.

use experiments::experiment::{self, RunOptions};
use experiments::rfc2963::EXPERIMENT;

#[test]
fn the_quick_form_keeps_every_ordering_and_comes_near_every_cell() {
    let finding = experiment::run(&EXPERIMENT, &RunOptions::quick()).expect("a law of the simulator did not hold");
    println!("{}", finding.text());
    assert_eq!(finding.shortfalls, [""; 0]);
    // C1 to C10 in three columns and red twice, and four columns of two bucket sizes twice; the same of two single rate
    // shapers, and of four shapers where nobody listens to losses.
    assert_eq!(finding.cells.len(), 2 * 10 * 4 + 2 * 2 * 4 + 2 * 2 * 4 + 4 * 4);
    // Better than one could guess: the marks of the tables against their mean.
    for table in ["A.2", "A.3", "A.4", "A.7"] {
        let distance = finding.distance(table).expect("published cells");
        assert!(distance.rms < 0.09, "table {table}: RMS {:.3}", distance.rms);
    }
}
