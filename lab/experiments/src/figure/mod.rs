//! Line charts as SVG and PNG, drawn by one and the same layout: title, axes with units, marks, legend.
//!
//! [`Chart::svg`] and [`Chart::png`] differ only in the [`Canvas`] that the layout in `layout.rs` draws on, so that
//! the two files always show the same picture. Lengths are in points of a picture 720 x 460.

mod font;
mod layout;
mod png;
mod svg;

/// A colour, red, green, blue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// For what was protected.
    pub const BLUE: Rgb = Rgb(0x1b, 0x62, 0xa8);
    /// For what was not.
    pub const RED: Rgb = Rgb(0xcf, 0x46, 0x1e);
    /// For what was within its profile.
    pub const GREEN: Rgb = Rgb(0x2e, 0x8b, 0x4f);
    /// For what was a little above it.
    pub const AMBER: Rgb = Rgb(0xd9, 0x9a, 0x0b);
    /// For references.
    pub const GREY: Rgb = Rgb(0x8a, 0x8f, 0x98);
    const INK: Rgb = Rgb(0x22, 0x26, 0x2e);
    const SOFT: Rgb = Rgb(0x5b, 0x61, 0x6b);
    const GRID: Rgb = Rgb(0xe6, 0xe8, 0xec);
    const WHITE: Rgb = Rgb(0xff, 0xff, 0xff);
}

/// How the points of a line are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A filled square, not joined to the next.
    Alone,
    /// Nothing but the line: so many points that marks would hide it.
    Solid,
    /// Nothing: a reference, not a measurement; its line is dashed.
    None,
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct ChartLine {
    /// What the legend says.
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
    /// What it is, with the unit: `Cross traffic sent (Mb/s)`.
    pub label: String,
    /// The least that its end must show.
    pub reach: f64,
}

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the title, smaller: how it was measured.
    pub subtitle: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, later lines over earlier ones.
    pub lines: Vec<ChartLine>,
    /// A place on the x axis that deserves a name, with the name.
    pub landmark: Option<(f64, String)>,
}

impl Chart {
    /// As an SVG document.
    pub fn svg(&self) -> String {
        let mut page = svg::Page::new();
        layout::draw(self, &mut page);
        page.finish()
    }

    /// Whether title, subtitle and legend have room beside each other.
    pub fn has_room(&self) -> bool {
        layout::has_room(self)
    }

    /// As a PNG file, 1440 x 920 pixels.
    pub fn png(&self) -> Vec<u8> {
        let mut sheet = png::Sheet::new();
        layout::draw(self, &mut sheet);
        sheet.finish()
    }
}

/// Width of a picture.
const WIDTH: f64 = 720.0;
/// Height of a picture.
const HEIGHT: f64 = 460.0;

/// Where a text's anchor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Type {
    size: f64,
    bold: bool,
    color: Rgb,
    anchor: Anchor,
    /// Turned a quarter to the left, to run upwards.
    upwards: bool,
}

/// What the layout draws on.
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
