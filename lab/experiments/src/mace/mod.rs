//! Seed 003 (Jamin and Jin, 1998): flows that never signalled, recognised and admitted by what is measured, beside
//! background traffic; by real sockets through a bottleneck whose agent recognises them, or on the simulator.
//!
//! [`scenario`] has the paper's scenarios as parameters of [`sim::mace`], [`site`] is the testbed of its Figure 4,
//! [`source`] sends what the simulator would be offered, at the same times, [`sink`] counts what arrives and how it is
//! spaced, [`live`] plays several runs side by side. [`loss`] has Figures 6 to 8, [`spacing`] Figures 9 to 13; on the simulator
//! alone [`sample_path`] has Figures 14 to 16 and [`one_size`] Figure 5. [`applications`] has real programs in their place. Table 2 is in [`crate::experiment`].

mod applications;
pub(crate) mod live;
mod loss;
mod one_size;
mod sample_path;
mod scenario;
mod sink;
mod site;
mod source;
mod spacing;

pub use applications::EXPERIMENT as APPLICATIONS;
pub use loss::EXPERIMENT as LOSS;
pub use one_size::EXPERIMENT as ONE_SIZE;
pub use sample_path::EXPERIMENT as SAMPLE_PATH;
pub use spacing::EXPERIMENT as SPACING;

use crate::experiment::{RunOn, RunOptions};
use bed::error::Error;
use sim::mace::{MaceOutcome, Params};

/// Plays runs: live, side by side, or on the simulator.
fn play(all: &[Params], options: &RunOptions, said: &str) -> Result<Vec<MaceOutcome>, Error> {
    match options.on.unwrap_or(RunOn::Netns) {
        RunOn::Netns => live::play(all, options, said),
        RunOn::Sim => all
            .iter()
            .map(|params| options.patience.check().map(|()| sim::mace::run(params)))
            .collect::<Result<_, Error>>(),
    }
}

/// Returns where the runs were played, for a reader.
fn place(options: &RunOptions) -> &'static str {
    match options.on.unwrap_or(RunOn::Netns) {
        RunOn::Netns => "Real packets through a bottleneck of 10 Mb/s whose agent has [mace].",
        RunOn::Sim => "On the simulator.",
    }
}
