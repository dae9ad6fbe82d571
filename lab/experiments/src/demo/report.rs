//! The results of the demonstration: as a table, as figures, as JSON.

use super::{charts, verdict};
use crate::setup::SetupTime;
use crate::video::bucket::Burstiness;
use documents::agent::TspecDoc;
use linux::error::SystemError;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::Path;
use terms::{Rate, Tspec};

/// The link header bytes that the kernel counts for each packet.
pub const ETHERNET: u32 = 14;

/// One point of a sweep. Rates are IP bytes, Mb/s, and the median of the windows; the rest counts the whole point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DemoPoint {
    /// The flood's rate as requested.
    pub flood_asked_mbps: f64,
    /// The flood's rate as sent.
    pub flood_sent_mbps: f64,
    /// True if the video had a reservation.
    pub reserved: bool,
    /// The video's rate at the receiver's interface.
    pub video_mbps: f64,
    /// The video's rate including link headers.
    pub video_wire_mbps: f64,
    /// Whole frames shown per second.
    pub fps: f64,
    /// Number of frames that were spoilt or never shown.
    pub damaged_frames: u64,
    /// The fraction of frames that were spoilt or never shown.
    pub frame_error_rate: f64,
    /// The fraction of RTP packets lost.
    pub loss: f64,
    /// Number of RTP packets lost.
    pub lost_packets: u64,
    /// Number of RTP packets that later ones overtook.
    pub overtaken_packets: u64,
    /// The flood's rate at the receiver.
    pub flood_mbps: f64,
    /// The time from the reservation call to its confirmation, during the flood.
    pub setup_ms: Option<f64>,
}

impl DemoPoint {
    /// Formats the point as a line for people who wait.
    pub fn line(&self) -> String {
        format!(
            "{} flood {:>4.1} Mb/s  ->  {:4.1} frames/s, {:3} damaged, loss {:5.2} %, flood got {:5.2} Mb/s",
            if self.reserved { "reserved:  " } else { "unreserved:" },
            self.flood_sent_mbps,
            self.fps,
            self.damaged_frames,
            self.loss * 100.0,
            self.flood_mbps
        )
    }

    fn line_for_scripts(&self) -> Side {
        Side {
            video_mbps: number(self.video_mbps),
            fps: number(self.fps),
            loss: number(self.loss),
            damaged_frames: self.damaged_frames,
            flood_mbps: number(self.flood_mbps),
        }
    }
}

/// The line for scripts, with names and order that stay the same.
#[derive(Serialize)]
struct Line {
    bottleneck_mbps: Value,
    rtt_ms: Value,
    setup_ms: Value,
    unloaded: Calm,
    unreserved: Option<Side>,
    reserved: Option<Side>,
}

#[derive(Serialize)]
struct Calm {
    video_mbps: Value,
    fps: Value,
}

#[derive(Serialize)]
struct Side {
    video_mbps: Value,
    fps: Value,
    loss: Value,
    damaged_frames: u64,
    flood_mbps: Value,
}

/// All results of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DemoReport {
    /// True for a run in simulated time, with groups of packets as frames.
    pub simulated: bool,
    /// The rate of the slowest link on the wire, Mb/s.
    pub bottleneck_mbps: f64,
    /// The set-up times on the idle path.
    pub setup: SetupTime,
    /// The Tspec that the sender announced.
    pub tspec: Option<TspecDoc>,
    /// The points, in the order of measurement.
    pub points: Vec<DemoPoint>,
    /// Remarks that a reader of this run must know.
    pub notes: Vec<String>,
    /// Expected results that did not appear, in words.
    pub shortfalls: Vec<String>,
    #[serde(skip)]
    burstiness: Option<Burstiness>,
}

impl DemoReport {
    /// Creates a report without points.
    pub(super) fn new(bottleneck: Rate, setup: SetupTime) -> DemoReport {
        DemoReport {
            simulated: false,
            bottleneck_mbps: bottleneck.as_bps() as f64 / 1e6,
            setup,
            tspec: None,
            points: Vec::new(),
            notes: Vec::new(),
            shortfalls: Vec::new(),
            burstiness: None,
        }
    }

    /// Records the measured burstiness and the announced Tspec.
    pub(super) fn announce(&mut self, found: Burstiness, tspec: Tspec) {
        self.burstiness = Some(found);
        self.tspec = Some(tspec.into());
    }

    /// Computes the shortfalls.
    pub(super) fn judge(&mut self) {
        self.shortfalls = verdict::shortfalls(self);
    }

    /// Describes the stream and its Tspec in a line.
    pub fn stream_line(&self) -> String {
        let (Some(found), Some(tspec)) = (&self.burstiness, &self.tspec) else { return String::new() };
        format!(
            "the video sends {:.2} Mb/s in bursts of at most {} and needs a bucket of {}; announced: r = {:.2} Mb/s, b = {} kB, \
             m = {} bytes, M = {} bytes",
            found.sent.as_bps() as f64 / 1e6,
            kilobytes(found.burst.get()),
            kilobytes(found.depth.get()),
            tspec.r_bps as f64 / 1e6,
            tspec.b_bytes >> 10,
            tspec.m_bytes,
            tspec.max_bytes
        )
    }

    /// Returns the point without flood and without reservation.
    pub fn unloaded(&self) -> Option<&DemoPoint> {
        self.points.iter().find(|point| point.flood_asked_mbps == 0.0 && !point.reserved)
    }

    /// Returns the point nearest to the seed's last, a flood of 10 Mb/s.
    fn saturated(&self, reserved: bool) -> Option<&DemoPoint> {
        let far = |point: &&DemoPoint| (point.flood_asked_mbps - 10.0).abs();
        let points = self.points.iter().filter(|point| point.reserved == reserved);
        points.min_by(|a, b| far(a).total_cmp(&far(b)))
    }

    /// Formats the points as a table.
    pub fn table(&self) -> String {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = TextTable::new(&[
            ("flood sent", right),
            ("reserved", left),
            ("video Mb/s", right),
            ("frames/s", right),
            ("damaged", right),
            ("loss %", right),
            ("flood got", right),
            ("set-up ms", right),
        ]);
        for point in &self.points {
            table.row([
                format!("{:.2}", point.flood_sent_mbps),
                if point.reserved { "yes" } else { "no" }.to_string(),
                format!("{:.3}", point.video_mbps),
                format!("{:.1}", point.fps),
                point.damaged_frames.to_string(),
                format!("{:.2}", point.loss * 100.0),
                format!("{:.2}", point.flood_mbps),
                point.setup_ms.map_or("-".to_string(), |ms| format!("{ms:.2}")),
            ]);
        }
        table.to_string()
    }

    /// Formats the results as text: table, set-up times, notes, shortfalls.
    pub fn text(&self) -> String {
        let mut text = self.table();
        text += &format!("\n{}\n{}\n", self.setup.line(), self.stream_line());
        for beside in self.beside() {
            text += &format!("the paper's text: {}: {:.2}; here {:.2}\n", beside.what, beside.published, beside.here);
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        for shortfall in &self.shortfalls {
            text += &format!("NOT SHOWN: {shortfall}\n");
        }
        if self.shortfalls.is_empty() {
            text += "with the reservation no packet of the video was lost at any flood rate, and the flood got what was left\n";
        }
        text
    }

    /// Formats the one line for scripts.
    pub fn json(&self) -> String {
        let unloaded = self.unloaded();
        let side = |reserved| self.saturated(reserved).map(DemoPoint::line_for_scripts);
        let line = Line {
            bottleneck_mbps: number(self.bottleneck_mbps),
            rtt_ms: number(self.setup.rtt_ms),
            setup_ms: number(self.setup.setup_ms),
            unloaded: Calm {
                video_mbps: number(unloaded.map_or(0.0, |point| point.video_mbps)),
                fps: number(unloaded.map_or(0.0, |point| point.fps)),
            },
            unreserved: side(false),
            reserved: side(true),
        };
        serde_json::to_string(&line).expect("numbers and fixed names can always be written as JSON")
    }

    /// Writes figures (SVG and PNG), the table and all numbers as JSON into `folder`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), SystemError> {
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, content).map_err(SystemError::doing(format!("write {}", path.display())))
        };
        fs::create_dir_all(folder).map_err(SystemError::doing(format!("make {}", folder.display())))?;
        for (name, chart) in charts::all(self) {
            write(&format!("{name}.svg"), chart.svg().as_bytes())?;
            write(&format!("{name}.png"), &chart.png())?;
        }
        write("table.txt", self.text().as_bytes())?;
        let value = serde_json::to_vec_pretty(self)
            .map_err(|error| SystemError::because("write the report as JSON", std::io::Error::other(error)))?;
        write("report.json", &value)
    }
}

/// Formats a rate for people: `7`, `2.5`.
pub fn mbps(rate: Rate) -> String {
    format!("{}", rate.as_bps() as f64 / 1e6)
}

fn kilobytes(bytes: u64) -> String {
    format!("{:.1} kB", bytes as f64 / 1024.0)
}

/// Rounds to a millionth, because further digits are noise. Whole numbers have no point.
fn number(value: f64) -> Value {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { Value::from(rounded as i64) } else { Value::from(rounded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_scripts_keeps_its_promise() {
        let setup = SetupTime {
            count: 100,
            rtt_ms: 0.11,
            setup_ms: 0.9,
            setup_p10_ms: 0.8,
            setup_p90_ms: 1.2,
            end_to_end_ms: 1.5,
            target_ms: 1.33,
        };
        let mut report = DemoReport::new(Rate::from_mbps(10), setup);
        for (asked, reserved, fps) in [(0.0, false, 25.0), (10.0, false, 0.25), (10.0, true, 25.0)] {
            report.points.push(DemoPoint {
                flood_asked_mbps: asked,
                flood_sent_mbps: asked,
                reserved,
                video_mbps: 3.1,
                video_wire_mbps: 3.15,
                fps,
                damaged_frames: if fps < 1.0 { 255 } else { 0 },
                frame_error_rate: 0.0,
                loss: if fps < 1.0 { 0.541_25 } else { 0.0 },
                lost_packets: 0,
                overtaken_packets: 0,
                flood_mbps: if asked == 0.0 { 0.0 } else { 6.79 },
                setup_ms: reserved.then_some(1.1),
            });
        }
        let wanted = concat!(
            r#"{"bottleneck_mbps":10,"rtt_ms":0.11,"setup_ms":0.9,"unloaded":{"video_mbps":3.1,"fps":25},"#,
            r#""unreserved":{"video_mbps":3.1,"fps":0.25,"loss":0.54125,"damaged_frames":255,"flood_mbps":6.79},"#,
            r#""reserved":{"video_mbps":3.1,"fps":25,"loss":0,"damaged_frames":0,"flood_mbps":6.79}}"#,
        );
        assert_eq!(report.json(), wanted);
        assert!(report.table().lines().count() == 4 && report.text().contains("flood sent"));
    }
}
