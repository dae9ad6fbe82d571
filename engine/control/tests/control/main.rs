//! Traffic control over a data plane that does exactly what it is told, watches the law at every operation, and can fail.

mod book;
mod edges;
mod least_packet;
mod measured;
mod record;
mod service_curve;
mod shared;
mod sla;
mod traffic_control;
mod traffic_control_laws;
mod turns;
mod world;
