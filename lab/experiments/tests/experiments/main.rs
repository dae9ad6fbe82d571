//! Experiments without a kernel: figures, scenario files.

mod mace_figures;
mod pictures;
mod rfc2963;
mod scenario_file;
