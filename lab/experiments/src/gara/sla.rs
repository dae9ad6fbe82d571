//! A domain that lies (seed 002, sections 4.1 and 4.2): its edge marks more premium packets than were booked in the next
//! domain, or marks them without any booking there. What the next domain carries as premium is what is booked on its
//! agreement with that domain.
//!
//! The testbed is `examples/three-domains.toml`. ANL's edge books and marks [`MARKED`] for a flow whose sender
//! keeps to it; at ESnet's border nothing, then a part of it, then twice that part is booked on `sla/anl`. What leaves
//! each border in the class of EF is counted by the kernel.

use super::booking::Book;
use super::fig5::LAYOUT;
use super::garnet::Garnet;
use super::meter::{ClassMeter, Second};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use documents::book::{BindingDoc, FlowDoc, PartDoc};
use std::time::Duration;
use terms::Rate;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gara-sla",
    about: "A domain that marks more premium than it booked at the next: what comes in is what is booked there",
    source: "Foster, Roy, Sander, Winkler: End-to-End Quality of Service for High-End Applications (2000), section 4.2",
    takes: "root, 1 minute",
    run,
};

const TABLE: &str = "agreement";
/// The rate that the lying domain marks, bit/s of IP bytes.
const MARKED: u64 = 25_000_000;
/// The bookings in the next domain, one after the other, bit/s of IP bytes.
const AGREED: [u64; 3] = [0, 10_000_000, 20_000_000];
const PACKET: u32 = 1_400;
const PORT: u16 = 7_000;
const UDP: u8 = 17;
/// The links where nothing is booked, and what is set apart there for marked packets, instead of what may be booked.
const CORES: [&str; 2] = [
    "between = [\"anl-border\", \"esnet-west\"]\nrate = \"60mbit\"\n",
    "between = [\"esnet-west\", \"esnet-north\"]\nrate = \"100mbit\"\n",
];
const BOOKABLE: &str = "premium = \"55mbit\"\n";
const CORE: &str = "core = { premium = \"27mbit\", background = \"25mbit\" }\n";
/// The length of a step, seconds; and in the quick form.
const STEP: [u64; 2] = [15, 4];
/// The time after a change before counting begins: longer than a bucket lasts.
const SETTLE: Duration = Duration::from_millis(500);
/// The seconds of its rate that the agreement's bucket holds: the usual round trip, 100 ms.
const BUCKET: f64 = 0.1;
/// The least part of what is booked that must come in.
const LEAST: f64 = 0.95;

fn topology() -> String {
    let set_apart = |text: String, link: &str| text.replace(&format!("{link}{BOOKABLE}"), &format!("{link}{CORE}"));
    CORES.iter().fold(LAYOUT.text.to_owned(), |text, link| set_apart(text, link))
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let garnet = Garnet::up_at(LAYOUT, &topology())?;
    let seconds = STEP[usize::from(options.quick)];
    lie(&garnet)?;
    let sender = garnet.flow(PORT, PACKET)?;
    sender.set_rate(Rate::from_bps(MARKED));
    let (mut sent, mut carried) = (garnet.meter()?, garnet.meter_at("esnet-west", "esnet-north")?);
    let mut border = garnet.book_of("esnet-west")?;
    let mut finding = Finding::default();
    finding
        .title(TABLE, "premium that ANL sends, and that ESnet carries, by what is booked on sla/anl, Mb/s of IP bytes");
    let mut worst = 0_f64;
    for agreed in AGREED {
        let booked = if agreed > 0 { Some(agree(&mut border, agreed)?) } else { None };
        std::thread::sleep(SETTLE);
        let [sent, carried] = count(&mut sent, &mut carried, seconds)?;
        let (row, want) = (format!("{} Mb/s", agreed / 1_000_000), agreed as f64 / 1e6);
        finding.cell(TABLE, &row, "sent", None, &[sent.foreground]);
        finding.cell(TABLE, &row, "carried", Some(want), &[carried.foreground]);
        let most = want * (1.0 + BUCKET / carried.length);
        worst = worst.max(carried.foreground - want);
        if carried.foreground > most || carried.foreground < want * LEAST {
            let what = format!("{row} are booked, {:.3} came in as premium", carried.foreground);
            finding.shortfalls.push(what);
        }
        if sent.foreground < MARKED as f64 / 1e6 * LEAST {
            finding.shortfalls.push(format!("the domain that lies sent {:.3} Mb/s only", sent.foreground));
        }
        if let Some(handle) = booked {
            border.cancel(&handle)?;
        }
    }
    finding.value("most_over_agreed_mbps", worst);
    finding.notes.push(format!(
        "ANL's edge booked and marked {} Mb/s for itself; steps of {seconds} s; counted in the classes of EF where packets \
         leave the borders",
        MARKED / 1_000_000
    ));
    Ok(finding)
}

/// ANL's own edge marks its flow premium, whatever is booked elsewhere.
fn lie(garnet: &Garnet) -> Result<(), Error> {
    let [src, dst] = garnet.addresses()?.map(Some);
    let flow = FlowDoc { src, dst, protocol: Some(UDP), src_port: Some(PORT), dst_port: Some(PORT) };
    let part = PartDoc {
        resource: garnet.resource(),
        rate: Some(MARKED),
        binding: Some(BindingDoc::Flow(flow)),
        ..PartDoc::default()
    };
    garnet.book()?.reserve(part, "lie")?;
    Ok(())
}

/// Books on ESnet's agreement with ANL.
fn agree(border: &mut Book, rate: u64) -> Result<String, Error> {
    let part = PartDoc { resource: "sla/anl".to_owned(), rate: Some(rate), ..PartDoc::default() };
    Ok(border.reserve(part, "agreement")?.handle)
}

/// The rates that leave the two borders in so many seconds.
fn count(sent: &mut ClassMeter, carried: &mut ClassMeter, seconds: u64) -> Result<[Second; 2], Error> {
    let mut read = || Ok::<_, Error>([sent.read(|| 0)?, carried.read(|| 0)?]);
    let before = read()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let after = read()?;
    Ok([0, 1].map(|n| Second::between(&before[n], &after[n])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bed::file::TestbedFile;
    use std::path::Path;

    #[test]
    fn the_example_is_changed_where_it_must() {
        let file = TestbedFile::parse(Path::new(LAYOUT.file), &topology()).unwrap();
        assert_eq!((file.cores.iter().flatten().count(), file.slas.len()), (2, 4));
    }
}
