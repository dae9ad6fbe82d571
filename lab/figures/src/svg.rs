//! The canvas that writes SVG.

use super::{Anchor, Canvas, HEIGHT, Rgb, Type, WIDTH, font};
use std::fmt::Write;

/// An SVG document in progress.
pub struct Page {
    body: String,
}

impl Page {
    /// Creates an empty document.
    pub fn new() -> Page {
        Page { body: String::new() }
    }

    /// Returns the document.
    pub fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"{}\">\n{}</svg>\n",
            font::FAMILY,
            self.body
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

impl Canvas for Page {
    fn area(&mut self, x: f64, y: f64, width: f64, height: f64, color: Rgb) {
        let (x, y, width, height, color) = (n(x), n(y), n(width), n(height), hex(color));
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"/>"));
    }

    fn line(&mut self, points: &[(f64, f64)], color: Rgb, width: f64, dashed: bool) {
        let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", n(x), n(y))).collect();
        let dash = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}/>",
            points.join(" "),
            hex(color),
            n(width)
        ));
    }

    fn circle(&mut self, x: f64, y: f64, radius: f64, color: Rgb) {
        let (x, y, radius, color) = (n(x), n(y), n(radius), hex(color));
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{color}\" stroke=\"#fff\" stroke-width=\"1.2\"/>"
        ));
    }

    fn square(&mut self, x: f64, y: f64, side: f64, color: Rgb) {
        let (x, y, side, color) = (n(x - side / 2.0), n(y - side / 2.0), n(side), hex(color));
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{color}\" stroke=\"#fff\" \
             stroke-width=\"1.2\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, text: &str, look: Type) {
        let anchor = match look.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
        let turn = if look.upwards { format!(" transform=\"rotate(-90 {} {})\"", n(x), n(y)) } else { String::new() };
        self.add(format_args!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{anchor}\"{weight}{turn}>{}</text>",
            n(x),
            n(y),
            n(look.size),
            hex(look.color),
            escape(text)
        ));
    }
}

/// Formats a number with at most two decimals.
fn n(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn hex(Rgb(red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
