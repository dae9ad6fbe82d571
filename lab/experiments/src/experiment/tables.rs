//! A table as text: measured, published and difference side by side, the worst cell marked.

use super::finding::Finding;
use rpc::table::{Align, TextTable};

/// Formats one table of a finding: title, rows, and the distance from the published values.
pub fn text(finding: &Finding, table: &str) -> String {
    let title = finding.titles.iter().find(|title| title.table == table).map_or("", |title| title.title.as_str());
    let worst = finding.distance(table).map(|distance| {
        let cell = finding.of(table)[distance.worst_at];
        (distance, cell.row.clone(), cell.column.clone())
    });
    let is_worst = |row: &str, column: &str| matches!(&worst, Some((_, r, c)) if r == row && c == column);
    let mut text = format!("Table {table}: {title}\n{}", grid(finding, table, is_worst));
    if let Some((distance, row, column)) = worst {
        let (rms, worst) = (distance.rms * 100.0, distance.worst * 100.0);
        text += &format!("RMS {rms:.1} %, worst {worst:+.1} % ({row}, {column})\n");
    }
    text
}

/// Returns rows or columns in the order of their first appearance.
pub fn order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn grid(finding: &Finding, table: &str, is_worst: impl Fn(&str, &str) -> bool) -> TextTable {
    let cells = finding.of(table);
    let rows = order(cells.iter().map(|cell| cell.row.as_str()));
    let columns = order(cells.iter().map(|cell| cell.column.as_str()));
    let compared = |column: &str| cells.iter().any(|cell| cell.column == column && cell.published.is_some());
    let mut head = vec![(String::new(), Align::Left)];
    for column in &columns {
        head.push((column.to_string(), Align::Right));
        if compared(column) {
            head.push(("published".to_string(), Align::Right));
            // The mark of the worst cell is a column of its own width, so that the numbers stay aligned.
            head.push(("diff  ".to_string(), Align::Right));
        }
    }
    let mut grid = TextTable::new(&head);
    for row in rows {
        let mut line = vec![row.to_string()];
        for column in &columns {
            let cell = cells.iter().find(|cell| cell.row == row && cell.column == *column);
            line.push(cell.map_or("-".to_string(), |cell| with_interval(cell.measured, cell.ci95)));
            if compared(column) {
                let published = cell.and_then(|cell| cell.published);
                line.push(published.map_or("-".to_string(), |value| format!("{value}")));
                let mark = if is_worst(row, column) { "<" } else { " " };
                let error = cell.and_then(|cell| cell.error());
                line.push(error.map_or("-  ".to_string(), |error| format!("{:+.1}%{mark}", error * 100.0)));
            }
        }
        grid.row(line);
    }
    grid
}

/// Formats a value with its interval: `2.31 ±0.05`.
pub fn with_interval(value: f64, ci95: Option<f64>) -> String {
    let digits = if value.abs() >= 1000.0 {
        0
    } else if value.abs() >= 100.0 {
        1
    } else {
        2
    };
    // What would be nothing but zeros is written with its power of ten.
    if value != 0.0 && value.abs() < 0.005 {
        return match ci95 {
            Some(half) => format!("{value:.1e} ±{half:.1e}"),
            None => format!("{value:.1e}"),
        };
    }
    match ci95 {
        Some(half) => format!("{value:.digits$} ±{half:.digits$}"),
        None => format!("{value:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_with_the_worst_marked() {
        let mut finding = Finding::default();
        finding.title("A.2", "throughput in Mb/s");
        finding.cell("A.2", "C1", "green", Some(1.10), &[1.20, 1.22]);
        finding.cell("A.2", "C1", "flows", None, &[3.0]);
        finding.cell("A.2", "C10", "green", Some(7.57), &[7.6]);
        let text = text(&finding, "A.2");
        assert_eq!(
            text,
            "Table A.2: throughput in Mb/s\n          green  published   diff    flows\n\
             C1   1.21 ±0.13        1.1  +10.0%<   3.00\nC10        7.60       7.57   +0.4%       -\n\
             RMS 7.1 %, worst +10.0 % (C1, green)\n"
        );
    }
}
