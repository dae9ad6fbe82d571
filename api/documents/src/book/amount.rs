//! Units of amounts in documents, and bindings as the engines have them.

use super::{BindingDoc, FlowDoc};
use terms::book::{Binding, BoundFlow, ResourceKind, Task};

/// An amount in the unit of the documents.
pub fn amount(kind: ResourceKind, amount: u64) -> f64 {
    amount as f64 / scale(kind)
}

/// The unit of a kind in documents.
pub fn unit(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => "bit/s",
        ResourceKind::Cpu => "cores",
        ResourceKind::Disk => "bytes/s",
        ResourceKind::Countable => "pieces",
    }
}

/// The factor from a kind's unit in documents to its unit in the bookings.
pub fn scale(kind: ResourceKind) -> f64 {
    match kind {
        ResourceKind::Network | ResourceKind::Countable | ResourceKind::Sla | ResourceKind::Measured => 1.0,
        ResourceKind::Cpu => 1e6,
        ResourceKind::Disk => 8.0,
    }
}

impl From<BindingDoc> for Binding {
    fn from(doc: BindingDoc) -> Binding {
        match doc {
            BindingDoc::Flow(f) => Binding::Flow(BoundFlow {
                src: f.src,
                dst: f.dst,
                protocol: f.protocol,
                src_port: f.src_port,
                dst_port: f.dst_port,
            }),
            BindingDoc::Pid(pid) => Binding::Process(Task::numbered(pid)),
            BindingDoc::Tid(tid) => Binding::Thread(Task::numbered(tid)),
            BindingDoc::Cgroup(path) => Binding::Cgroup(path),
        }
    }
}

impl From<Binding> for BindingDoc {
    fn from(binding: Binding) -> BindingDoc {
        match binding {
            Binding::Flow(f) => BindingDoc::Flow(FlowDoc {
                src: f.src,
                dst: f.dst,
                protocol: f.protocol,
                src_port: f.src_port,
                dst_port: f.dst_port,
            }),
            Binding::Process(task) => BindingDoc::Pid(task.number),
            Binding::Thread(task) => BindingDoc::Tid(task.number),
            Binding::Cgroup(path) => BindingDoc::Cgroup(path),
        }
    }
}
