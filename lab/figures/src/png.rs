//! The canvas that paints pixels, two to a point.

use super::font::{self, GlyphStep};
use super::{Anchor, Canvas, HEIGHT, Rgb, Type, WIDTH};
use tiny_skia::{FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};

/// Pixels per point.
const SCALE: f64 = 2.0;

/// A picture in progress.
pub struct Sheet {
    pixels: Pixmap,
}

impl Sheet {
    /// Creates a white picture.
    pub fn new() -> Sheet {
        let size = |points: f64| (points * SCALE) as u32;
        let mut pixels = Pixmap::new(size(WIDTH), size(HEIGHT)).expect("a fixed size that is not zero");
        pixels.fill(tiny_skia::Color::WHITE);
        Sheet { pixels }
    }

    /// Returns the PNG file.
    pub fn finish(self) -> Vec<u8> {
        self.pixels.encode_png().expect("a picture in memory can always be encoded")
    }

    fn fill(&mut self, path: &Path, color: Rgb) {
        self.pixels.fill_path(path, &paint(color), FillRule::Winding, scaled(), None);
    }

    fn stroke(&mut self, path: &Path, color: Rgb, width: f64, dashed: bool) {
        let dash = if dashed { StrokeDash::new(vec![6.0, 4.0], 0.0) } else { None };
        let stroke = Stroke { width: width as f32, line_join: LineJoin::Round, dash, ..Stroke::default() };
        self.pixels.stroke_path(path, &paint(color), &stroke, scaled(), None);
    }

    fn rimmed(&mut self, path: &Path, color: Rgb) {
        self.fill(path, color);
        self.stroke(path, Rgb::WHITE, 1.2, false);
    }
}

impl Canvas for Sheet {
    fn area(&mut self, x: f64, y: f64, width: f64, height: f64, color: Rgb) {
        if let Some(rect) = Rect::from_xywh(x as f32, y as f32, width as f32, height as f32) {
            self.fill(&PathBuilder::from_rect(rect), color);
        }
    }

    fn line(&mut self, points: &[(f64, f64)], color: Rgb, width: f64, dashed: bool) {
        let mut path = PathBuilder::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            match index {
                0 => path.move_to(x as f32, y as f32),
                _ => path.line_to(x as f32, y as f32),
            }
        }
        if let Some(path) = path.finish() {
            self.stroke(&path, color, width, dashed);
        }
    }

    fn circle(&mut self, x: f64, y: f64, radius: f64, color: Rgb) {
        if let Some(path) = PathBuilder::from_circle(x as f32, y as f32, radius as f32) {
            self.rimmed(&path, color);
        }
    }

    fn square(&mut self, x: f64, y: f64, side: f64, color: Rgb) {
        let corner = |centre: f64| (centre - side / 2.0) as f32;
        if let Some(rect) = Rect::from_xywh(corner(x), corner(y), side as f32, side as f32) {
            self.rimmed(&PathBuilder::from_rect(rect), color);
        }
    }

    fn text(&mut self, x: f64, y: f64, text: &str, look: Type) {
        let width = font::width(text, look.size, look.bold);
        let back = match look.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let mut letters = PathBuilder::new();
        for step in font::outline(text, look.size, look.bold) {
            match step {
                GlyphStep::Move(x, y) => letters.move_to(x, y),
                GlyphStep::Line(x, y) => letters.line_to(x, y),
                GlyphStep::Quad(a, b, x, y) => letters.quad_to(a, b, x, y),
                GlyphStep::Cubic(a, b, c, d, x, y) => letters.cubic_to(a, b, c, d, x, y),
                GlyphStep::Close => letters.close(),
            }
        }
        if let Some(path) = letters.finish() {
            let turn = if look.upwards { Transform::from_rotate(-90.0) } else { Transform::identity() };
            let place = Transform::from_translate(-back as f32, 0.0)
                .post_concat(turn)
                .post_translate(x as f32, y as f32)
                .post_concat(scaled());
            self.pixels.fill_path(&path, &paint(look.color), FillRule::Winding, place, None);
        }
    }
}

fn scaled() -> Transform {
    Transform::from_scale(SCALE as f32, SCALE as f32)
}

fn paint(Rgb(red, green, blue): Rgb) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}
