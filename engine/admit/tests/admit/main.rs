//! The slot table against oracles, the links that use it, measured sums.

mod cases;
mod displace;
mod grant;
mod ledger;
mod life;
mod link;
mod measured;
mod pool;
mod profile;
mod stock;
