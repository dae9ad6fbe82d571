//! Tables A.2 to A.7 of RFC 2963, appendix A, as printed there.

/// Green, yellow and total throughput in Mb/s of five customers, C1 to C5 or C6 to C10.
pub type Throughput = [[f64; 3]; 5];

/// Red traffic, which the tables leave out: the rest of the total, to the hundredth, as they are printed.
pub fn red([green, yellow, total]: [f64; 3]) -> f64 {
    ((total - green - yellow).max(0.0) * 100.0).round() / 100.0
}

/// The name of the table of what a table of throughput leaves.
pub fn of_red(table: &str) -> String {
    format!("{table} red")
}

/// Table A.2: C1 to C5, unshaped, beside shapers that are trRAS.
pub const A2: Throughput =
    [[1.10, 0.93, 2.25], [2.57, 1.80, 4.55], [4.10, 2.12, 6.39], [5.88, 2.32, 8.33], [7.57, 2.37, 10.0]];
/// Table A.3: C6 to C10, shaped by trRAS.
pub const A3: Throughput =
    [[2.00, 1.69, 3.71], [3.97, 2.34, 6.33], [5.93, 2.23, 8.17], [7.84, 2.28, 10.1], [9.77, 2.14, 11.9]];
/// Table A.5: C1 to C5, unshaped, beside shapers that are G-trRAS.
pub const A5: Throughput =
    [[1.10, 0.95, 2.26], [2.41, 1.66, 4.24], [3.94, 1.97, 6.07], [5.72, 2.13, 7.96], [7.25, 2.29, 9.64]];
/// Table A.6: C6 to C10, shaped by G-trRAS.
pub const A6: Throughput =
    [[1.92, 1.75, 3.77], [3.79, 3.24, 7.05], [5.35, 3.62, 8.97], [6.96, 3.48, 10.4], [8.69, 3.06, 11.7]];

/// Goodput in Mb/s by CBS in KB: of C1, C6, C3 and C8.
pub type Goodput = [(u64, [f64; 4]); 10];

/// Columns of [`Goodput`], as the tables name them, and which customer each is.
pub const COLUMNS: [(&str, usize); 4] = [("2_Mbps_unsh", 0), ("2_Mbps_sh", 5), ("6_Mbps_unsh", 2), ("6_Mbps_sh", 7)];

/// Table A.4: trRAS.
// 3.14 is a goodput here.
#[allow(clippy::approx_constant)]
pub const A4: Goodput = [
    (3, [1.88, 3.49, 5.91, 7.77]),
    (10, [2.97, 2.91, 6.76, 7.08]),
    (25, [3.14, 2.78, 7.07, 6.73]),
    (50, [3.12, 2.67, 7.20, 6.64]),
    (75, [3.18, 2.56, 7.08, 6.58]),
    (100, [3.20, 2.64, 7.00, 6.62]),
    (150, [3.21, 2.54, 7.11, 6.52]),
    (200, [3.26, 2.57, 7.07, 6.53]),
    (300, [3.19, 2.53, 7.13, 6.49]),
    (400, [3.13, 2.48, 7.18, 6.43]),
];
/// Table A.7: G-trRAS.
pub const A7: Goodput = [
    (3, [1.90, 3.44, 5.62, 8.44]),
    (10, [2.95, 3.30, 6.70, 7.20]),
    (25, [2.98, 3.01, 7.03, 6.93]),
    (50, [3.06, 2.85, 6.81, 6.84]),
    (75, [3.08, 2.80, 6.87, 6.96]),
    (100, [2.99, 2.78, 6.85, 6.88]),
    (150, [2.98, 2.70, 6.80, 6.81]),
    (200, [2.96, 2.70, 6.82, 6.97]),
    (300, [2.94, 2.70, 6.83, 6.86]),
    (400, [2.86, 2.62, 6.83, 6.84]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// "Throughput" is offered load before drops: it sums to more than the 70 Mb/s of the bottleneck.
    #[test]
    fn totals_are_more_than_the_bottleneck_carries() {
        let sum = |table: &Throughput| table.iter().map(|row| row[2]).sum::<f64>();
        assert!((sum(&A2) + sum(&A3) - 71.73).abs() < 0.01);
        assert!((sum(&A5) + sum(&A6) - 72.06).abs() < 0.01);
    }
}
