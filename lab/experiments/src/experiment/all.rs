//! The list of experiments. It is a file of its own so that the frame needs none of them.

use super::Experiment;

/// Every experiment, in the order of `sluice lab list`.
pub const ALL: &[Experiment] = &[
    crate::rfc2963::EXPERIMENT,
    crate::rfc2963::sensitivity::EXPERIMENT,
    crate::rfc2963::live::EXPERIMENT,
    super::mace_table2::EXPERIMENT,
    crate::mace::LOSS,
    crate::mace::SPACING,
    crate::mace::SAMPLE_PATH,
    crate::mace::ONE_SIZE,
    crate::mace::APPLICATIONS,
    super::video::EXPERIMENT,
    super::video::PACKETS_EXPERIMENT,
    super::bucket::EXPERIMENT,
    super::profiled::EXPERIMENT,
    crate::gara::fig4::EXPERIMENT,
    crate::gara::fig4::GREEDY_EXPERIMENT,
    crate::gara::fig5::EXPERIMENT,
    crate::gara::sla::EXPERIMENT,
    crate::gara::fig6::EXPERIMENT,
    crate::gara::fig6::GREEDY_EXPERIMENT,
    crate::gara::deadline::EXPERIMENT,
    crate::web::THROUGHPUT,
    crate::web::FLOOD,
    crate::web::PROGRAMS,
    crate::fft::EXPERIMENT,
    crate::guaranteed::EXPERIMENT,
];

/// The experiments that are played on the simulator and on real packets.
const ON_BOTH: [&str; 3] = ["mace-fig6", "mace-fig9", "mace-table2"];

/// True if the experiment can be played on the simulator and on real packets.
pub fn is_on_both(experiment: &Experiment) -> bool {
    ON_BOTH.contains(&experiment.name)
}

/// Returns the experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}
