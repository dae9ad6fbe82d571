//! The numbers that the paper's text gives of Figures 6 and 7 (section 5.4), beside this run's. They are of vic's video, 12
//! frames a second of motion JPEG, in which a lost packet spoils one frame; a codec that builds frames on others loses more.

use super::report::{DemoPoint, DemoReport};

/// One number of the text, and what this run has in its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BesidePaper {
    /// Its name, with its unit.
    pub what: &'static str,
    /// The paper's number.
    pub published: f64,
    /// This run's.
    pub here: f64,
}

/// How a number of the text is read from the unloaded point and the point at a flood.
type Read = fn(&DemoPoint, &DemoPoint) -> f64;

/// The numbers: what, the paper's, the flood (Mb/s; infinite: the largest of the sweep), and how it is read.
pub const BESIDE: [(&str, f64, f64, Read); 4] = [
    ("frames/s without a flood", 12.0, 0.0, |calm, _| calm.fps),
    ("share of those frames at 7 Mb/s (\"drops by nearly half\")", 0.5, 7.0, |calm, at| at.fps / calm.fps),
    ("packets lost at 7 Mb/s, % (\"less than 10 %\")", 10.0, 7.0, |_, at| at.loss * 100.0),
    ("share of those frames at the largest flood (\"only 2 fps\" of 12)", 2.0 / 12.0, f64::INFINITY, |calm, at| {
        at.fps / calm.fps
    }),
];

impl DemoReport {
    /// The numbers of the paper's text beside this run's, as far as the sweep has such points.
    pub fn beside(&self) -> Vec<BesidePaper> {
        let Some(calm) = self.unloaded().filter(|calm| calm.fps > 0.0) else { return Vec::new() };
        let flooded = || self.points.iter().filter(|point| !point.reserved);
        let at = |flood: f64| match flood.is_finite() {
            true => flooded().find(|point| (point.flood_asked_mbps - flood).abs() < 0.01),
            false => flooded().max_by(|a, b| a.flood_asked_mbps.total_cmp(&b.flood_asked_mbps)),
        };
        let one = |(what, published, flood, read): &(&'static str, f64, f64, Read)| {
            Some(BesidePaper { what, published: *published, here: read(calm, at(*flood)?) })
        };
        BESIDE.iter().filter_map(one).collect()
    }
}
