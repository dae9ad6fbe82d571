//! The timing wheel: its laws, its table, and what it allocates.

mod counting;
mod no_allocation;
mod wheel;
