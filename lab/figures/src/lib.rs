//! Line charts as SVG and PNG, drawn by one and the same layout: title, axes with units, marks, legend.
//!
//! [`Chart::svg`] and [`Chart::png`] differ only in the [`Canvas`] that the layout in `layout.rs` draws on, so that
//! the two files always show the same picture. Lengths are in points of a picture 720 x 460. [`csv`] writes
//! fields of tables, [`progress`] shows how far a long run is.
#![forbid(unsafe_code)]

pub mod csv;
mod font;
mod layout;
mod png;
pub mod progress;
mod svg;

/// A colour, red, green, blue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// The colour of protected traffic.
    pub const BLUE: Rgb = Rgb(0x1b, 0x62, 0xa8);
    /// The colour of unprotected traffic.
    pub const RED: Rgb = Rgb(0xcf, 0x46, 0x1e);
    /// The colour of traffic within its profile.
    pub const GREEN: Rgb = Rgb(0x2e, 0x8b, 0x4f);
    /// The colour of traffic a little above its profile.
    pub const AMBER: Rgb = Rgb(0xd9, 0x9a, 0x0b);
    /// The colour of references.
    pub const GREY: Rgb = Rgb(0x8a, 0x8f, 0x98);
    const INK: Rgb = Rgb(0x22, 0x26, 0x2e);
    const SOFT: Rgb = Rgb(0x5b, 0x61, 0x6b);
    const GRID: Rgb = Rgb(0xe6, 0xe8, 0xec);
    const WHITE: Rgb = Rgb(0xff, 0xff, 0xff);
}

/// The marks at the points of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A filled square, not joined to the next.
    Alone,
    /// No marks, only the line, because so many marks would hide it.
    Solid,
    /// No marks and a dashed line: a reference, not a measurement.
    None,
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct ChartLine {
    /// The name in the legend; empty: none.
    pub name: String,
    /// Its colour.
    pub color: Rgb,
    /// Its marks.
    pub mark: Mark,
    /// Its points, in the axes' units, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// An axis, from zero.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The quantity with its unit: `Cross traffic sent (Mb/s)`.
    pub label: String,
    /// The value that the axis must reach at least.
    pub reach: f64,
}

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The subtitle, in smaller letters: the conditions of the measurement.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, later ones drawn over earlier ones.
    pub lines: Vec<ChartLine>,
    /// A labelled position on the x axis.
    pub landmark: Option<(f64, String)>,
}

impl Chart {
    /// Renders an SVG document.
    pub fn svg(&self) -> String {
        let mut page = svg::Page::new();
        layout::draw(self, &mut page);
        page.finish()
    }

    /// True if title, subtitle and legend fit beside each other.
    pub fn has_room(&self) -> bool {
        layout::has_room(self)
    }

    /// Renders both files of a figure: `NAME.svg` and `NAME.png`, with their bytes.
    pub fn files(&self, name: &str) -> [(String, Vec<u8>); 2] {
        [(format!("{name}.svg"), self.svg().into_bytes()), (format!("{name}.png"), self.png())]
    }

    /// Renders a PNG file of 1440 x 920 pixels.
    pub fn png(&self) -> Vec<u8> {
        let mut sheet = png::Sheet::new();
        layout::draw(self, &mut sheet);
        sheet.finish()
    }
}

/// The width of a picture, in points.
const WIDTH: f64 = 720.0;
/// The height of a picture, in points.
const HEIGHT: f64 = 460.0;

/// The position of a text relative to its anchor point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// The appearance of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Type {
    size: f64,
    bold: bool,
    color: Rgb,
    anchor: Anchor,
    /// True for text that runs upwards.
    upwards: bool,
}

/// The drawing functions that the layout uses.
trait Canvas {
    /// A filled rectangle.
    fn area(&mut self, x: f64, y: f64, width: f64, height: f64, color: Rgb);
    /// A line through points; dashed or not.
    fn line(&mut self, points: &[(f64, f64)], color: Rgb, width: f64, dashed: bool);
    /// A filled circle with a white rim.
    fn circle(&mut self, x: f64, y: f64, radius: f64, color: Rgb);
    /// A filled square with a white rim, by its centre.
    fn square(&mut self, x: f64, y: f64, side: f64, color: Rgb);
    /// A text whose baseline's anchor is at the point.
    fn text(&mut self, x: f64, y: f64, text: &str, look: Type);
}

#[cfg(test)]
mod tests;
