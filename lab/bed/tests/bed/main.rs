//! Testbeds: their files, and what is built from them on this kernel.

mod build;
mod topology;
