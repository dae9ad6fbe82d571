//! Sluice on the Linux kernel. This crate acts; it makes no decisions.
//!
//! [`clock`] is the only module that reads a clock; [`netns`] makes and enters network namespaces;
//! [`process`] starts and identifies processes, [`owner`] finds their owners, [`channel`] connects two of
//! them; [`privilege`] and [`landlock`] drop rights; [`poll`] waits; [`netlink`] configures links, routes and
//! traffic control; [`cgroup`] manages control groups, [`cpu`] and [`storage`] reserve processors and disks,
//! [`gauge`] computes rates from counts; [`doctor`] reports the abilities of this kernel; [`sockets`] send
//! and receive RSVP; [`tsc`] measures the steps of an engine; [`files`] makes files safely in places that other
//! users may write; [`mount`] unmounts; [`delay_line`] is a long wire; [`frames`] gives and takes whole
//! link frames for a data plane in user space; [`supervise`] stops a program at its calls.

pub mod anomaly;
pub mod boomerang;
pub mod bpf;
pub mod cache;
pub mod capture;
pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod cpu;
pub mod delay_line;
pub mod doctor;
pub mod error;
pub mod ethtool;
pub mod files;
pub mod frames;
pub mod gauge;
pub mod landlock;
pub mod mount;
pub mod mroute;
pub mod netlink;
pub mod netns;
pub mod notifier;
pub mod notify;
pub mod offload;
pub mod owner;
mod packet_socket;
pub mod plane;
pub mod poll;
pub mod privilege;
pub mod process;
pub mod route;
pub mod sockets;
pub mod storage;
pub mod supervise;
pub mod tcp;
pub mod tsc;
