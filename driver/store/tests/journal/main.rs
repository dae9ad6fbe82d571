//! What the disk was told, and when: every acknowledged batch lies behind a completed sync, whatever of the rest a power loss
//! drops, tears, reorders or spoils; what a disk that fails does to the journal; and what is found at start.

mod conform;
mod cut;
mod disk;
mod fails;
mod found;
mod loss;
mod many;
mod postgres;
mod postgres_full;
mod postgres_tls;
mod posts;
mod room;
mod script;
mod syncs;
mod vfs;
