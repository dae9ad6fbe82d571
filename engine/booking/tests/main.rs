//! The bookings: stories, faults and oracles of the book, its policy, paths.

mod book;
mod path;
mod policy;

use book::{ask, create, flow, granted, oracle, part, random, world};
