//! The figures: goodput against CBS, and throughput by router, each beside the published values.

use super::published::COLUMNS;
use crate::experiment::Finding;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// Adds all figures.
pub fn add(finding: &mut Finding, seeds: u64) {
    let how = format!("100 SACK TCP connections over 70 Mb/s; mean of {seeds} seed(s); dashed: RFC 2963");
    for (table, name, shaper) in [("A.4", "goodput-trras", "trRAS"), ("A.7", "goodput-green", "G-trRAS")] {
        let chart = by_size(finding, table, &format!("Goodput against CBS: {shaper}"), &how);
        finding.figure(name, &format!("Table {table}: a shaper helps at a small CBS"), chart);
    }
    for (tables, name, shaper) in
        [(["A.2", "A.3"], "throughput-trras", "trRAS"), (["A.5", "A.6"], "throughput-green", "G-trRAS")]
    {
        let chart = by_router(finding, tables, &format!("Throughput at a CBS of 3 KB: {shaper}"), &how);
        finding.figure(
            name,
            &format!("Tables {} and {}: shaped beats unshaped everywhere", tables[0], tables[1]),
            chart,
        );
    }
}

fn chart(title: &str, subtitle: &str, x: &str, y: &str, lines: Vec<ChartLine>) -> Chart {
    let axis = |label: &str| Axis { label: label.into(), reach: 0.0 };
    Chart { title: title.into(), subtitle: subtitle.into(), x: axis(x), y: axis(y), lines, landmark: None }
}

fn by_size(finding: &Finding, table: &str, title: &str, how: &str) -> Chart {
    let mut lines = Vec::new();
    for (column, _) in COLUMNS {
        let cells: Vec<_> = finding.of(table).into_iter().filter(|cell| cell.column == column).collect();
        let size = |row: &str| row.parse().unwrap_or(0.0);
        let shaped = column.ends_with("_sh");
        let (color, mark) = if shaped { (Rgb::BLUE, Mark::Circle) } else { (Rgb::RED, Mark::Square) };
        let published = cells.iter().filter_map(|cell| Some((size(&cell.row), cell.published?))).collect();
        lines.push(ChartLine { name: String::new(), color: Rgb::GREY, mark: Mark::None, points: published });
        let points = cells.iter().map(|cell| (size(&cell.row), cell.measured)).collect();
        let (rate, how) = (&column[..1], if shaped { ", shaped" } else { "" });
        lines.push(ChartLine { name: format!("CIR {rate} Mb/s{how}"), color, mark, points });
    }
    chart(title, how, "CBS (KB)", "Goodput of ten workstations (Mb/s)", lines)
}

fn by_router(finding: &Finding, tables: [&str; 2], title: &str, how: &str) -> Chart {
    let mut lines = Vec::new();
    for (half, table) in tables.into_iter().enumerate() {
        let who = if half == 0 { "unshaped" } else { "shaped" };
        for (column, color) in [("total", Rgb::BLUE), ("green", Rgb::GREEN)] {
            let cells: Vec<_> = finding.of(table).into_iter().filter(|cell| cell.column == column).collect();
            let cir = |n: usize| 2.0 * (n as f64 + 1.0);
            let published = cells.iter().enumerate().filter_map(|(n, cell)| Some((cir(n), cell.published?)));
            lines.push(ChartLine {
                name: String::new(),
                color: Rgb::GREY,
                mark: Mark::None,
                points: published.collect(),
            });
            let points = cells.iter().enumerate().map(|(n, cell)| (cir(n), cell.measured)).collect();
            let mark = if half == 0 { Mark::Square } else { Mark::Circle };
            lines.push(ChartLine { name: format!("{column}, {who}"), color, mark, points });
        }
    }
    chart(title, how, "CIR of the router (Mb/s)", "Offered to the backbone (Mb/s)", lines)
}
