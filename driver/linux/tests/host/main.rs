//! Processors and disks of this host, reserved against hogs. Everything happens below groups of our own that stand for
//! the host: nobody else's process is moved. One test at a time, because each wants the whole machine for a moment.

mod bed;
mod cpu_groups;
mod cpu_threads;
mod disk;
mod others;
mod version_two;
