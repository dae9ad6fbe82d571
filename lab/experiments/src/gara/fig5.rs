//! Figure 5 of seed 002 (section 5.3): the flows of Figure 4 over a wide area, through three domains.
//!
//! The testbed is `examples/three-domains.toml` with the seed's rates: 60 Mb/s between the domains, of which 55 may be
//! premium, and 27 Mb/s of premium within the laboratories. The long way is a wire in user space that holds each frame
//! back for [`DELAY`] each way; the seed prints no round trip. As in the seed's prototype (section 4.1), the agreements
//! between domains are static: the transit domain and the receiver's each book 27 Mb/s for all packets between the two
//! hosts, which its border polices and marks anew. The flows are booked at the sender's edge.

use super::fig4::{self, Form};
use super::garnet::{Garnet, Layout};
use super::timeline::FIGURE_5;
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use documents::book::{BindingDoc, FlowDoc, PartDoc};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gara-fig5",
    about: "The same over a wide area: three domains, 60 Mb/s between them, and a round trip of 50 ms",
    source: "Foster, Roy, Sander, Winkler: End-to-End Quality of Service for High-End Applications (2000), Figure 5",
    takes: "root, 3 minutes",
    run,
};

pub(super) const LAYOUT: Layout = Layout {
    file: "examples/three-domains.toml",
    text: include_str!("../../../../examples/three-domains.toml"),
    edge: "anl-edge",
    behind: "anl-border",
    counted: ["anl-border", "esnet-west"],
    // Each 200 microseconds.
    flood_packet: 1_250,
};
const FORM: Form = Form {
    table: "5",
    network: "three domains, 55 Mb/s premium of 60 between them, 27 at the edge, round trip 50 ms",
    greedy: false,
    of: &FIGURE_5,
};
/// The premium channel within a laboratory, in the example and here.
const PREMIUM_THERE: &str = "premium = \"45mbit\"";
const PREMIUM_HERE: &str = "premium = \"27mbit\"";
/// The links where nothing is booked, and what is set apart there for marked packets: 55 Mb/s in all. Behind the first of
/// them all premium packets have one mark.
const CORES: [(&str, &str); 3] = [
    (
        "between = [\"anl-border\", \"esnet-west\"]\nrate = \"60mbit\"\n",
        "premium = \"30mbit\", background = \"25mbit\"",
    ),
    (
        "between = [\"esnet-north\", \"esnet-east\"]\nrate = \"100mbit\"\n",
        "premium = \"50mbit\", background = \"5mbit\"",
    ),
    (
        "between = [\"esnet-east\", \"lbnl-border\"]\nrate = \"60mbit\"\n",
        "premium = \"50mbit\", background = \"5mbit\"",
    ),
];
const BOOKED: &str = "premium = \"55mbit\"\n";
/// The link that is long, and its delay each way.
const LONG: &str = "between = [\"esnet-west\", \"esnet-north\"]\n";
const DELAY: &str = "25ms";
/// The rate of the agreements between the domains, bit/s.
const AGREED: u64 = 27_000_000;
/// The longest round trip that is stated, milliseconds: that of the testbed, and what a busy machine adds.
const RTT_MS: f64 = 250.0;
/// The least share of the foreground's packets that must come to the receiver.
const DELIVERED: f64 = 0.99;

/// The example without its agreements (`[[sla]]`): here flows are booked at the borders instead.
fn without_agreements(text: &str) -> String {
    let begin = text.find("[[sla]]").unwrap_or(text.len());
    let end = text.find("[[node]]").unwrap_or(text.len());
    format!("{}{}", &text[..begin.min(end)], &text[end..])
}

fn topology() -> String {
    let mut text = without_agreements(LAYOUT.text).replace(PREMIUM_THERE, PREMIUM_HERE);
    for (link, core) in CORES {
        text = text.replace(&format!("{link}{BOOKED}"), &format!("{link}core = {{ {core} }}\n"));
    }
    text.replace(LONG, &format!("{LONG}delay = \"{DELAY}\"\n"))
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let garnet = Garnet::up_at(LAYOUT, &topology())?;
    for (node, towards) in [("esnet-west", "esnet-north"), ("lbnl-border", "lbnl-edge")] {
        agree(&garnet, node, towards)?;
    }
    let played = fig4::play(&garnet, &FORM, options)?;
    let mut finding = fig4::judge(&played);
    let delivered = finding.values.get("foreground_delivered_share").copied().unwrap_or(0.0);
    if delivered < DELIVERED {
        finding.shortfalls.push(format!("{:.2} % of the foreground came to its receiver", delivered * 100.0));
    }
    finding.notes.push(format!(
        "the long way is a wire in user space, {DELAY} each way; the seed prints a curve and no round trip; counted \
         where packets leave ANL for ESnet; agreements between domains are static, {} Mb/s",
        AGREED / 1_000_000
    ));
    Ok(finding)
}

/// Books the agreement of a domain with the one before it, at the border where the packets come in.
fn agree(garnet: &Garnet, node: &str, towards: &str) -> Result<(), Error> {
    let [src, dst] = garnet.addresses()?.map(Some);
    let (mut book, resource) = garnet.book_at(node, towards)?;
    let part = PartDoc {
        resource,
        rate: Some(AGREED),
        rtt_ms: Some(RTT_MS),
        binding: Some(BindingDoc::Flow(FlowDoc { src, dst, ..FlowDoc::default() })),
        ..PartDoc::default()
    };
    book.reserve(part, "agreement")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bed::file::TestbedFile;
    use std::path::Path;
    use terms::{Rate, Span};

    #[test]
    fn the_example_is_changed_where_it_must() {
        let file = TestbedFile::parse(Path::new(LAYOUT.file), &topology()).unwrap();
        let long: Vec<Span> = file.delays.iter().flatten().copied().collect();
        assert_eq!(long, [Span::from_millis(25)]);
        let links = file.topology.links.iter().zip(&file.premium);
        let rates: Vec<Rate> = links.filter_map(|(link, share)| Some(share.as_ref()?.of(link.rate))).collect();
        let premium = |mbps: u64| rates.iter().filter(|rate| **rate == Rate::from_mbps(mbps)).count();
        assert_eq!((premium(27), premium(45), premium(55)), (2, 0, 3));
        assert_eq!(file.cores.iter().flatten().count(), 3);
        assert!(file.slas.is_empty());
    }
}
