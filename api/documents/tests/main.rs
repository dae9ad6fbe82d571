//! Documents: pages of a bounded size, and no field that nobody knows.

mod pages;
mod strict;
