//! The program as a person or a script runs it: alone, as agents and brokers on this kernel, and as the documents tell.

mod agents;
mod ca;
mod decode;
mod dissector;
mod docs;
mod experiments;
mod packages;
mod place;
mod plane;
mod plane_live;

use agents::{bed, boomerang, inside, lone, remote};
