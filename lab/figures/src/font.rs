//! The font: DejaVu Sans, cut down to the characters of the figures, so that a PNG looks the same everywhere.

use std::sync::OnceLock;
use ttf_parser::{Face, OutlineBuilder};

/// The font family in an SVG; the metrics are those of the first.
pub const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

static REGULAR: &[u8] = include_bytes!("../font/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../font/DejaVuSans-Bold.ttf");

fn face(bold: bool) -> &'static Face<'static> {
    static FACES: OnceLock<[Face<'static>; 2]> = OnceLock::new();
    let parse = |bytes| Face::parse(bytes, 0).expect("the fonts in this crate are whole: a test draws with both");
    &FACES.get_or_init(|| [parse(REGULAR), parse(BOLD)])[usize::from(bold)]
}

/// Returns the width of a text at `size`, in points.
pub fn width(text: &str, size: f64, bold: bool) -> f64 {
    let face = face(bold);
    text.chars().map(|letter| advance(face, letter)).sum::<f64>() * size / f64::from(face.units_per_em())
}

/// A step of an outline, in points from the text's origin, y downwards.
#[derive(Clone, Copy, Debug)]
pub enum GlyphStep {
    /// Begins a contour at this point.
    Move(f32, f32),
    /// A straight line to this point.
    Line(f32, f32),
    /// A curve by one control point to the last point.
    Quad(f32, f32, f32, f32),
    /// A curve by two control points to the last point.
    Cubic(f32, f32, f32, f32, f32, f32),
    /// Ends the contour.
    Close,
}

/// Returns the outlines of the letters of a text.
pub fn outline(text: &str, size: f64, bold: bool) -> Vec<GlyphStep> {
    let face = face(bold);
    let scale = size / f64::from(face.units_per_em());
    let mut pen = Pen { steps: Vec::new(), scale, offset: 0.0 };
    for letter in text.chars() {
        if let Some(glyph) = face.glyph_index(letter) {
            face.outline_glyph(glyph, &mut pen);
        }
        pen.offset += advance(face, letter) * scale;
    }
    pen.steps
}

struct Pen {
    steps: Vec<GlyphStep>,
    scale: f64,
    offset: f64,
}

impl Pen {
    fn x(&self, x: f32) -> f32 {
        (f64::from(x) * self.scale + self.offset) as f32
    }

    fn y(&self, y: f32) -> f32 {
        (-f64::from(y) * self.scale) as f32
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.steps.push(GlyphStep::Move(self.x(x), self.y(y)));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.steps.push(GlyphStep::Line(self.x(x), self.y(y)));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.steps.push(GlyphStep::Quad(self.x(x1), self.y(y1), self.x(x), self.y(y)));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.steps.push(GlyphStep::Cubic(self.x(x1), self.y(y1), self.x(x2), self.y(y2), self.x(x), self.y(y)));
    }

    fn close(&mut self) {
        self.steps.push(GlyphStep::Close);
    }
}

fn advance(face: &Face<'_>, letter: char) -> f64 {
    let advance = face.glyph_index(letter).and_then(|glyph| face.glyph_hor_advance(glyph));
    advance.map_or(0.0, f64::from)
}
