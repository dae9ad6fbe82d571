//! The abilities of this kernel, the substitutes for missing ones, and obstacles on this machine.
//!
//! The doctor does not conclude from a version number: it tries each ability in a scratch network namespace
//! that ends with its thread, and reports the kernel's answer. Outside of it, it only reads.

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

/// The findings of an examination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoctorReport {
    /// The release of the running kernel.
    pub kernel: String,
    /// The findings, one for each ability.
    pub findings: Vec<DoctorFinding>,
    /// Obstacles to reservations on interfaces of the calling thread's network namespace.
    pub warnings: Vec<Warning>,
    /// The hooks for Boomerang's programs on these interfaces.
    pub echo_paths: Vec<EchoPath>,
}

/// The finding about one ability.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoctorFinding {
    /// Its area: `rights`, `scheduler`, `classifier`, `cpu and disk`, `signalling`.
    pub area: &'static str,
    /// Its name.
    pub name: &'static str,
    /// True if it is available and works.
    pub there: bool,
    /// Its use in Sluice.
    pub used_for: &'static str,
    /// The substitute if it is missing.
    pub instead: &'static str,
    /// The kernel's answer, or details of the ability; may be empty.
    pub detail: String,
}

/// The attachment of the flow program since Linux 6.6.
const BY_TCX: &str = "by a TCX link";

/// An obstacle to reservations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The interface.
    pub interface: String,
    /// The obstacle, and a remedy.
    pub text: String,
}

impl DoctorReport {
    /// The finding of this name.
    pub fn finding(&self, name: &str) -> Option<&DoctorFinding> {
        self.findings.iter().find(|finding| finding.name == name)
    }

    /// True if `name` is available.
    pub fn has(&self, name: &str) -> bool {
        self.finding(name).is_some_and(|finding| finding.there)
    }

    /// True if the kernel plane works here.
    pub fn can_reserve(&self) -> bool {
        NEEDED.iter().all(|name| self.has(name))
    }
}

/// The abilities without which nothing can be reserved; of every other there is a substitute.
pub const NEEDED: [&str; 2] = ["htb", "flow program"];

/// Examines everything. It needs root; without it, abilities that cannot be tried are reported as missing,
/// with the reason.
pub fn examine() -> DoctorReport {
    let mut findings = probe::rights();
    findings.extend(probe::in_scratch_namespace());
    findings.extend(probe::signalling());
    findings.extend(probe::cpu_and_disk());
    let warnings = warnings().unwrap_or_default();
    let tcx = findings.iter().any(|found| found.name == "flow program" && found.there && found.detail == BY_TCX);
    DoctorReport { kernel: probe::kernel(), findings, warnings, echo_paths: echo::paths(tcx).unwrap_or_default() }
}

/// Obstacles on the interfaces of the calling thread's network namespace.
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

/// A warning if a device segments packets: the kernel passes them whole, up to `gso_max_size`. A packet
/// longer than the depth of a flow's bucket is always in excess, at any rate.
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

/// Loads the flow program and attaches it to an interface, with a temporary directory; returns the way of
/// attachment.
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
