//! Checks of the house: `cargo xtask arrows` (layers), `cargo xtask tidy` (file and function length, headers).
fn main() {}
