//! The published values: Tables 1 to 9 of *Profiling resource reservation protocols* (IFIP 2001),
//! microseconds on a 400 MHz Pentium II. Its figures have no numbers; `charts` has the values from their
//! text.

/// A number with its 95 % confidence interval. Most tables state the interval alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedFigure {
    /// The median, where it is stated.
    pub median: Option<f64>,
    /// The interval; equal ends where only one number is stated.
    pub interval: (f64, f64),
}

impl PublishedFigure {
    /// Returns the stated median, or the middle of the interval.
    pub fn middle(&self) -> f64 {
        self.median.unwrap_or((self.interval.0 + self.interval.1) / 2.0)
    }
}

/// One number of a table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entry {
    /// The table, 1 to 9.
    pub table: u8,
    /// The row's name.
    pub row: &'static str,
    /// The column's name.
    pub column: &'static str,
    /// The number, microseconds.
    pub value: PublishedFigure,
}

const fn of(table: u8, row: &'static str, column: &'static str, low: f64, high: f64) -> Entry {
    Entry { table, row, column, value: PublishedFigure { median: None, interval: (low, high) } }
}

const fn about(table: u8, row: &'static str, column: &'static str, median: f64, low: f64, high: f64) -> Entry {
    Entry { table, row, column, value: PublishedFigure { median: Some(median), interval: (low, high) } }
}

/// Titles of the tables, as they stand there, in order.
pub const TITLES: [&str; 9] = [
    "RSVP benchmarking: checkpoint 1, into and out of the interface; 2, past the packet filter",
    "Boomerang benchmarking: checkpoints 1 and 2",
    "RSVP Path message profiling",
    "RSVP Resv message profiling",
    "Boomerang Resv message profiling",
    "RSVP PathTear message profiling",
    "RSVP ResvTear message profiling",
    "Boomerang ResvTear message profiling",
    "Message processing steps affected by session load, per session",
];

/// Names of rows.
pub mod row {
    /// Path.
    pub const PATH: &str = "Path message";
    /// PathTear.
    pub const PATH_TEAR: &str = "PathTear message";
    /// Resv.
    pub const RESV: &str = "Resv message";
    /// ResvTear.
    pub const RESV_TEAR: &str = "ResvTear message";
    /// Boomerang's message that reserves.
    pub const BOOMERANG: &str = "Boomerang reservation";
    /// Boomerang's message that releases.
    pub const BOOMERANG_TEAR: &str = "Boomerang reservation tear";
}

/// Every number.
pub const ENTRIES: [Entry; 39] = [
    about(1, row::PATH, "1", 298.0, 283.5, 302.5),
    about(1, row::PATH, "2", 274.0, 270.8, 277.2),
    about(1, row::PATH_TEAR, "1", 147.0, 135.7, 158.3),
    about(1, row::PATH_TEAR, "2", 124.0, 123.4, 124.6),
    about(1, row::RESV, "1", 815.0, 799.8, 830.2),
    about(1, row::RESV, "2", 787.0, 785.4, 788.6),
    about(1, row::RESV_TEAR, "1", 454.0, 452.0, 456.0),
    about(1, row::RESV_TEAR, "2", 428.0, 426.8, 429.2),
    about(2, row::BOOMERANG, "1", 42.0, 41.5, 42.5),
    about(2, row::BOOMERANG, "2", 24.0, 22.8, 25.2),
    about(2, row::BOOMERANG_TEAR, "1", 41.0, 40.8, 41.2),
    about(2, row::BOOMERANG_TEAR, "2", 24.0, 22.9, 25.1),
    of(3, row::PATH, "find session block", 1.97, 2.03),
    of(3, row::PATH, "create session block", 11.85, 12.15),
    of(3, row::PATH, "search for PSB", 1.95, 2.05),
    of(3, row::PATH, "create PSB", 7.9, 8.1),
    of(3, row::PATH, "route computation", 58.48, 59.52),
    of(3, row::PATH, "path refresh", 145.05, 148.95),
    of(4, row::RESV, "find session block", 2.6, 2.7),
    of(4, row::RESV, "check styles", 1.3, 1.4),
    of(4, row::RESV, "reservation management", 624.8, 627.2),
    of(4, row::RESV, "reservation refresh", 90.43, 91.57),
    of(5, row::BOOMERANG, "find session block", 1.7, 1.8),
    of(5, row::BOOMERANG, "create session block", 4.25, 4.35),
    of(5, row::BOOMERANG, "reservation management", 5.77, 5.91),
    of(6, row::PATH_TEAR, "find session block", 2.67, 2.78),
    of(6, row::PATH_TEAR, "search for PSB", 2.92, 3.06),
    of(6, row::PATH_TEAR, "tear PSB, path refresh", 148.27, 153.13),
    of(7, row::RESV_TEAR, "find session block and RSB", 2.94, 3.02),
    of(7, row::RESV_TEAR, "reservation tear", 278.4, 281.6),
    of(7, row::RESV_TEAR, "reservation refresh", 93.36, 94.22),
    of(8, row::BOOMERANG_TEAR, "find session block", 1.84, 1.92),
    of(8, row::BOOMERANG_TEAR, "reservation management", 7.8, 7.95),
    of(8, row::BOOMERANG_TEAR, "tear session block", 2.02, 2.08),
    of(9, "create PSB (Path message)", "per session", 0.19, 0.19),
    of(9, "tear PSB (PathTear message)", "per session", 0.18, 0.18),
    of(9, "reservation management (Resv message)", "per session", 0.10, 0.10),
    of(9, "reservation refresh (Resv message)", "per session", 0.21, 0.21),
    of(9, "reservation tear (ResvTear message)", "per session", 0.20, 0.20),
];

/// The cost of soft state of ISI RSVP for each session and second (section 6.3), microseconds.
pub const MAINTENANCE_US: f64 = 10.0;
