//! The testbed of Figure 4: two hosts that send, two routers, and the link of 10 Mb/s to the destination.

use bed::Bed;
use bed::error::Error;
use bed::host::Host;
use bed::scratch::Scratch;
use bed::testbed::UpOptions;
use documents::agent::{Answer, Request, RowFilter, Rows, View};
use documents::mace::MaceDoc;
use linux::error::SystemError;
use sim::mace::QueueCounts;
use sim::mace::model::WIRE;
use sim::mace::{Params, RuleTerms};
use std::fmt::Write;

/// The MTU gives the bottleneck's queue of best effort, which is 75 ms of the link, room for exactly the 50 packets of the
/// paper's; the class of recognised flows has 50 of its own.
const TOPOLOGY: &str = "\
name = \"mace\"
auth = \"none\"
[[node]]
name = \"testing\"
kind = \"host\"
[[node]]
name = \"crowd\"
kind = \"host\"
[[node]]
name = \"router0\"
kind = \"router\"
[[node]]
name = \"destination\"
kind = \"host\"
[[link]]
between = [\"testing\", \"router0\"]
rate = \"100mbit\"
mtu = 1861
[[link]]
between = [\"crowd\", \"router0\"]
rate = \"100mbit\"
mtu = 1861
[[link]]
between = [\"router0\", \"router1\"]
rate = \"100mbit\"
mtu = 1861
[[link]]
between = [\"router1\", \"destination\"]
rate = \"10mbit\"
mtu = 1861
[[node]]
name = \"router1\"
kind = \"router\"
";

/// The host of the sources that are looked at, that of the background, and the one that receives.
pub(super) const TESTING: &str = "testing";
pub(super) const CROWD: &str = "crowd";
pub(super) const DESTINATION: &str = "destination";
/// The router before the bottleneck, and its interface there.
const ROUTER: &str = "router1";
const BOTTLENECK: &str = "to-destination";

/// All packets go to this port; applications are known by the source ports of their flows.
pub(super) const PORT: u16 = 4_000;
const FIRST_PORT: u16 = 10_000;
/// The ports of a model's flows.
const PORTS: u16 = 4_000;
/// Of the background's sources.
pub(super) const CROWD_PORT: u16 = 60_000;
/// The bytes that the kernel counts for Ethernet on the link. The paper counts 26; the others are sent as data, so that a
/// packet is as long for the kernel's link as it was on the paper's.
pub(super) const ETHERNET: u32 = 14;
/// Of IP and UDP.
pub(super) const HEADERS: u32 = 28;

/// The source port of a flow: the n-th of its model.
pub(super) fn port_of(model: usize, flow: u64) -> u16 {
    FIRST_PORT + model as u16 * PORTS + (flow % u64::from(PORTS)) as u16
}

/// A testbed that is up.
pub(super) struct MaceSite {
    bed: Bed,
    _scratch: Scratch,
    recognises: bool,
}

impl MaceSite {
    /// Brings one up whose bottleneck has the applications and the rule of these parameters.
    pub(super) fn up(params: &Params, options: &UpOptions) -> Result<MaceSite, Error> {
        let scratch = Scratch::create()?;
        let mut text = TOPOLOGY.to_owned();
        let recognises = params.listed > 0;
        if recognises {
            let list = scratch.path().join("applications");
            std::fs::write(&list, applications(params))
                .map_err(SystemError::doing(format!("write {}", list.display())))?;
            let _ = write!(text, "settings = '''\n{}applications = {list:?}\n'''\n", section(params));
        }
        let bed = Bed::of("the testbed of Figure 4", &text, scratch.name(), None, options)?;
        Ok(MaceSite { bed, _scratch: scratch, recognises })
    }

    pub(super) fn host(&self, name: &str) -> Result<Host, Error> {
        self.bed.host(name)
    }

    /// The router's word about its flows; `None` if it does not recognise any.
    pub(super) fn mace(&self) -> Result<Option<MaceDoc>, Error> {
        if self.recognises { mace_of(&self.bed, ROUTER) } else { Ok(None) }
    }

    /// The counters so far of the class of recognised flows and of best effort.
    pub(super) fn classes(&self) -> Result<[QueueCounts; 2], Error> {
        let status = self.bed.status(ROUTER)?;
        let bottleneck = status.interfaces.iter().find(|interface| interface.name == BOTTLENECK);
        let of = |name: &str| {
            let row = bottleneck.and_then(|interface| interface.classes.iter().find(|class| class.name == name));
            row.map_or_else(QueueCounts::default, |row| QueueCounts {
                offered: row.packets + row.drops,
                dropped: row.drops,
                sent: row.packets,
                sent_bytes: row.bytes,
                ..QueueCounts::default()
            })
        };
        Ok([of("measured"), of("best-effort")])
    }
}

/// A node's word about the flows that it recognises.
pub(super) fn mace_of(bed: &Bed, node: &str) -> Result<Option<MaceDoc>, Error> {
    match bed.client(node)?.call(Request::Show { view: View::Mace, filter: RowFilter::default() })? {
        Answer::Shown(shown) => match shown.rows {
            Rows::Mace(mut rows) => Ok(rows.pop()),
            other => Err(Error::Void(format!("the router answered {other:?} when asked for its flows"))),
        },
        other => Err(Error::Void(format!("the router answered {other:?} when asked for its flows"))),
    }
}

/// The agent's section of these parameters, without the list.
fn section(params: &Params) -> String {
    let rule = match params.rule {
        RuleTerms::MeasuredSum { target: (n, d), .. } => {
            format!("rule = \"{}\"\ntarget = \"{}%\"\n", params.rule, n * 100 / d.max(1))
        }
        other => format!("rule = \"{other}\"\n"),
    };
    format!(
        "[mace]\ninterface = \"{BOTTLENECK}\"\nallocated = \"{}bit\"\n{rule}period = \"{}ms\"\nwindow = {}\n\
         refused_for = \"1s\"\n",
        params.allocated.as_bps(),
        params.sampling.as_millis(),
        params.window
    )
}

/// The application list: each model by its source ports. The bucket holds any burst: the paper's flows were not policed.
fn applications(params: &Params) -> String {
    let mut text = String::new();
    for (n, (model, declared)) in params.models.iter().enumerate().take(params.listed) {
        let ip = WIRE - ETHERNET;
        // Declared as wire rate; the list has IP bytes.
        let rate = declared.share(u64::from(ip), u64::from(WIRE)).as_bps();
        let (first, last) = (port_of(n, 0), port_of(n, u64::from(PORTS) - 1));
        let packets = model.recognised_after;
        let _ = writeln!(text, "{}-{n} udp {first}-{last} {rate}bit 16mb {packets} 1h {ip}b", model.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{MaceLoad, Scenario};
    use super::*;
    use ::bed::file::TestbedFile;
    use sim::mace::ApplicationList;
    use std::path::Path;
    use terms::Rate;

    #[test]
    fn the_testbed_has_a_queue_of_fifty_and_the_list_declares_what_the_paper_does() {
        let file = TestbedFile::parse(Path::new("mace.toml"), TOPOLOGY).unwrap();
        let link = &file.topology.links[3];
        // As `control` makes the queue of best effort: 75 ms of the link, in full packets.
        let bytes = link.rate.as_bps() * 75 / 1_000 / 8;
        assert_eq!(bytes / u64::from(link.mtu + ETHERNET), 50);
        let params = Scenario::Four.params(MaceLoad::Together(130), true, false);
        let list = ApplicationList::parse(&applications(&params)).unwrap();
        let declared: Vec<Rate> = list.all().iter().map(|known| known.declared(ETHERNET)).collect();
        for (found, (_, wanted)) in declared.iter().zip(&params.models) {
            assert!(found.as_bps().abs_diff(wanted.as_bps()) <= 2, "{found} {wanted}");
        }
        assert_eq!(list.all().len(), 5);
        assert!(section(&params).contains("rule = \"simple-sum\""));
    }
}
