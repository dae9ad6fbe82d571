//! Cases that RFC 2963 describes and does not simulate: the single rate shapers in the same network behind srTCMs, and
//! traffic that does not listen to losses, for which section 4 expects no gain.

use super::published::COLUMNS;
use super::{LARGE, Results, Run, SMALL, matches, params, shaped};
use crate::experiment::Finding;
use sim::scenarios::rfc2963::{Params, Shaping};

/// The table of traffic that does not listen to losses.
pub const UNRESPONSIVE: &str = "unresponsive";
/// The single rate shapers.
pub const SINGLE_RATE: [Shaping; 2] = [Shaping::SrRas, Shaping::SrGreen];
/// All shapers.
const ALL: [Shaping; 4] = [Shaping::TrRas, Shaping::Green, Shaping::SrRas, Shaping::SrGreen];
/// CBS of their tables, KB.
const SIZES: [u64; 2] = [SMALL, LARGE];

/// The runs.
pub(super) fn runs(seeds: u64) -> Vec<Run> {
    let mut all = Vec::new();
    for seed in 1..=seeds {
        for (shaping, kilobytes) in SINGLE_RATE.into_iter().flat_map(|shaping| SIZES.map(|size| (shaping, size))) {
            all.push(Run { shaping, kilobytes, params: params(shaping, kilobytes, seed) });
        }
        for shaping in ALL {
            let params = Params { unresponsive: true, ..params(shaping, SMALL, seed) };
            all.push(Run { shaping, kilobytes: SMALL, params });
        }
    }
    all
}

/// The tables: goodput of shaped and unshaped customers side by side.
pub(super) fn tables(results: &Results, finding: &mut Finding) {
    for shaping in SINGLE_RATE {
        let table = shaped(shaping);
        finding.title(
            table,
            format!("goodput in Mb/s by CBS in KB behind srTCMs; shaped: {table}; the RFC has no such table"),
        );
        for kilobytes in SIZES {
            for (column, customer) in COLUMNS {
                let samples = results.samples(shaping, kilobytes, |played| played.customers[customer].goodput);
                finding.cell(table, &kilobytes.to_string(), column, None, &samples);
            }
        }
    }
    let title = "what arrives in Mb/s of UDP at twice CIR, at a CBS of 3 KB, by shaper; the RFC has no such table";
    finding.title(UNRESPONSIVE, title.to_owned());
    for shaping in ALL {
        for (column, customer) in COLUMNS {
            let here = |run: &Run| matches(run, shaping, SMALL) && run.params.unresponsive;
            let samples = results.of(here, |played| played.customers[customer].goodput);
            finding.cell(UNRESPONSIVE, shaped(shaping), column, None, &samples);
        }
    }
}
