//! The agent's parts: its files, the book's documents, premium flows on a real plane.

mod config;
mod documents;
mod network;
