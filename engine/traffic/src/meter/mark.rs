//! Colours as code points: assured forwarding (RFC 2597), expedited forwarding (RFC 3246).

use super::Color;
use terms::Dscp;

/// Expedited forwarding.
pub const EF: Dscp = Dscp(46);

/// One of the four AF classes, 1 to 4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AfClass(u8);

impl AfClass {
    /// Class 1 to 4; `None` for others.
    pub const fn new(class: u8) -> Option<AfClass> {
        if class >= 1 && class <= 4 { Some(AfClass(class)) } else { None }
    }

    /// `AFxy` with drop precedence 1 (green), 2 (yellow) or 3 (red): RFC 2597 section 6.
    pub const fn dscp(self, color: Color) -> Dscp {
        Dscp(self.0 * 8 + 2 * (color as u8 + 1))
    }
}

/// Writes a colour into a packet as a code point, and reads it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    points: [Dscp; 3],
}

impl Marker {
    /// A code point per colour.
    pub const fn new(green: Dscp, yellow: Dscp, red: Dscp) -> Marker {
        Marker { points: [green, yellow, red] }
    }

    /// The three drop precedences of an AF class.
    pub const fn af(class: AfClass) -> Marker {
        Marker::new(class.dscp(Color::Green), class.dscp(Color::Yellow), class.dscp(Color::Red))
    }

    /// The code point of a colour.
    pub const fn mark(&self, color: Color) -> Dscp {
        self.points[color as usize]
    }

    /// The colour of a code point, for colour-aware metering; green for a code point that is not the marker's.
    pub fn color_of(&self, dscp: Dscp) -> Color {
        match self.points.iter().position(|&point| point == dscp) {
            Some(2) => Color::Red,
            Some(1) => Color::Yellow,
            _ => Color::Green,
        }
    }
}
