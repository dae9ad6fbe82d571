//! The codec's tests, one program: what is written is read back, every fault of the table has its test, nothing panics.

mod corpus;
mod exhaustive;
mod faults_header;
mod faults_lists;
mod faults_neighbours;
mod faults_objects;
mod faults_values;
mod floats;
mod round_trip;
mod said;
mod salvage;
mod seeds;
mod torture;
mod tshark;
