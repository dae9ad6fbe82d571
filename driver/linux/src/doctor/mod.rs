//! What this kernel can and cannot do, what is used instead, and what on this machine is in the way.
//!
//! Nothing is concluded from a version number: each thing is tried, in a scratch network namespace that goes with its
//! thread, and what the kernel answered is the finding. Only reading is done outside of it.

mod echo;
mod probe;

pub use echo::EchoPath;

use crate::bpf::{FlowTable, Hook};
use crate::netlink::Socket;
use crate::netlink::link::LinkState;
use crate::netlink::tc::TcHandle;
use crate::offload;
use probe::Tried;
use std::path::Path;
use terms::Fault;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoctorReport {
    /// Release of the running kernel.
    pub kernel: String,
    /// Everything that was looked for.
    pub findings: Vec<DoctorFinding>,
    /// What is in the way of reservations on interfaces of the calling thread's network namespace.
    pub warnings: Vec<Warning>,
    /// Where Boomerang's programs can hang on them.
    pub echo_paths: Vec<EchoPath>,
}

/// One thing that was looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoctorFinding {
    /// Whose: `rights`, `scheduler`, `classifier`, `cpu and disk`, `signalling`.
    pub area: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether it is there and works.
    pub there: bool,
    /// What Sluice does with it.
    pub used_for: &'static str,
    /// What it does without it.
    pub instead: &'static str,
    /// What the kernel said, or more about what is there; may be empty.
    pub detail: String,
}

/// How the flow program hangs since Linux 6.6.
const BY_TCX: &str = "by a TCX link";

/// Something that will bite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// On which interface.
    pub interface: String,
    /// What, and what to do.
    pub text: String,
}

impl DoctorReport {
    /// The finding of this name.
    pub fn finding(&self, name: &str) -> Option<&DoctorFinding> {
        self.findings.iter().find(|finding| finding.name == name)
    }

    /// Whether `name` was found.
    pub fn has(&self, name: &str) -> bool {
        self.finding(name).is_some_and(|finding| finding.there)
    }

    /// Whether the kernel plane works here.
    pub fn can_reserve(&self) -> bool {
        self.has("htb") && self.has("flow program")
    }
}

/// Looks at everything. Needs root to see all; without it, what cannot be tried is not there, with the reason.
pub fn examine() -> DoctorReport {
    let mut findings = probe::rights();
    findings.extend(probe::in_scratch_namespace());
    findings.extend(probe::signalling());
    findings.extend(probe::cpu_and_disk());
    let warnings = warnings().unwrap_or_default();
    let tcx = findings.iter().any(|found| found.name == "flow program" && found.there && found.detail == BY_TCX);
    DoctorReport { kernel: probe::kernel(), findings, warnings, echo_paths: echo::paths(tcx).unwrap_or_default() }
}

/// What is in the way on the interfaces of the calling thread's network namespace.
///
/// # Errors
/// The kernel does not answer.
pub fn warnings() -> Result<Vec<Warning>, Fault> {
    let mut socket = Socket::open()?;
    let mut all = Vec::new();
    for link in socket.links()?.iter().filter(|link| !link.loopback) {
        let root = socket.root_qdisc(link.index)?;
        let foreign = root.filter(|root| root.handle != TcHandle::NONE && root.handle != crate::plane::ROOT);
        if let Some(root) = foreign {
            let what = format!("{} {:?}", root.discipline.name(), root.handle);
            let text = format!(
                "another program's root qdisc is here ({what}): reservations are refused; remove it with \
                 `tc qdisc del dev {} root`",
                link.name
            );
            all.push(Warning { interface: link.name.clone(), text });
        }
        all.extend(merging(link));
    }
    Ok(all)
}

/// A device that cuts packets itself hands them down whole, up to `gso_max_size`: one that is longer than a flow's
/// bucket is deep is in excess for ever, however slowly it comes.
fn merging(link: &LinkState) -> Option<Warning> {
    let on = offload::segmentation_features(&link.name).ok().filter(|on| !on.is_empty())?;
    let text = format!(
        "segmentation offload is on ({}): packets of up to {} bytes are policed as one; a reservation whose burst is \
         smaller loses them to best effort. Ask for a larger burst, or switch it off (`ethtool -K {} tso off gso off \
         gro off`)",
        on.join(", "),
        link.gso_max_size,
        link.name
    );
    Some(Warning { interface: link.name.clone(), text })
}

fn finding(
    area: &'static str,
    name: &'static str,
    tried: Tried,
    used_for: &'static str,
    instead: &'static str,
) -> DoctorFinding {
    let (there, detail) = match tried {
        Ok(detail) => (true, detail),
        Err(detail) => (false, detail),
    };
    DoctorFinding { area, name, there, used_for, instead, detail }
}

/// Loads the flow program and hangs it on an interface, in a directory that is removed again; says where it hung.
fn flow_program(socket: &mut Socket, dir: &Path) -> Tried {
    let loopback = socket.link_by_name("lo").map_err(|error| error.to_string())?.index;
    let told = |fault: Fault| match std::io::Error::from_raw_os_error(fault.code) {
        error if fault.code != 0 => format!("{}: {error}", fault.what),
        _ => fault.what.to_owned(),
    };
    let works = FlowTable::open(dir, 16, Hook::Best).and_then(|table| {
        table.attach(socket, loopback)?;
        let holds = table.is_attached(socket, loopback);
        let place = if table.is_linked(loopback) { BY_TCX } else { "by clsact: no TCX before Linux 6.6" };
        table.detach(socket, loopback)?;
        if holds { Ok(place.to_owned()) } else { Err(Fault { what: "the program does not stay", code: 0 }) }
    });
    let forgotten = crate::bpf::forget(dir);
    works.and_then(|place| forgotten.map(|()| place)).map_err(told)
}
