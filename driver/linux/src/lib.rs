//! Sluice on the Linux kernel. This crate acts; it decides nothing.
//!
//! [`clock`] is the one place that reads a clock; [`netns`] makes and enters network namespaces, [`process`] starts
//! and knows processes, [`owner`] whose they are, [`channel`] joins two of them, [`privilege`] and [`landlock`] give power away, [`poll`]
//! waits; [`netlink`] speaks to the kernel about links, routes and traffic control;
//! [`cgroup`] knows control groups, [`cpu`] and [`storage`] reserve processors and disks, [`gauge`] makes rates of counts;
//! [`doctor`] says what this kernel can do; [`sockets`] speak RSVP; [`testbed`] makes a small network of namespaces;
//! [`tsc`] measures the steps of an engine; [`files`] are made where strangers may have been.

pub mod anomaly;
pub mod boomerang;
pub mod bpf;
pub mod cache;
pub mod capture;
pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod cpu;
pub mod doctor;
pub mod error;
pub mod ethtool;
pub mod files;
pub mod gauge;
pub mod landlock;
pub mod mroute;
pub mod netlink;
pub mod netns;
pub mod notifier;
pub mod notify;
pub mod offload;
pub mod owner;
pub mod plane;
pub mod poll;
pub mod privilege;
pub mod process;
pub mod route;
pub mod sockets;
pub mod storage;
pub mod tcp;
pub mod testbed;
pub mod tsc;
