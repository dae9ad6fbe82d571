//! One self-contained page of all results: tables beside the published ones, figures inline.

use super::finding::{Cell, Finding};
use super::tables::{order, with_interval};
use bed::error::Error;
use linux::error::SystemError;
use std::fmt::Write;
use std::path::Path;

/// The relative error up to which a value counts as near the published one.
const NEAR: f64 = 0.10;

/// Makes the page from findings, each with the folder of its figures.
///
/// # Errors
/// A figure that a finding names cannot be read.
pub fn html(findings: &[(Finding, &Path)]) -> Result<String, Error> {
    let mut page = String::from(HEAD);
    page.push_str("<h1>Sluice: what was measured, beside what was published</h1>\n<ul class=\"toc\">\n");
    for (finding, _) in findings {
        let (name, about) = (escape(&finding.experiment), escape(&finding.about));
        let _ = writeln!(page, "<li><a href=\"#{name}\">{name}</a>: {about}</li>");
    }
    page.push_str("</ul>\n");
    for (finding, folder) in findings {
        section(finding, folder, &mut page)?;
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn section(finding: &Finding, folder: &Path, page: &mut String) -> Result<(), Error> {
    let (name, about, source) = (escape(&finding.experiment), escape(&finding.about), escape(&finding.source));
    let form = if finding.quick { "quick form, " } else { "" };
    let _ = writeln!(page, "<section id=\"{name}\"><h2>{name}</h2><p>{about}.<br>Held against: {source}.</p>");
    let _ = writeln!(page, "<p class=\"soft\">{form}{:.1} s</p>", finding.wall_s);
    for table in finding.tables() {
        grid(finding, table, page);
    }
    page.push_str("<div class=\"figures\">\n");
    for figure in &finding.figures {
        let path = folder.join(format!("{}.svg", figure.name));
        let svg = match &figure.chart {
            Some(chart) => chart.svg(),
            None => std::fs::read_to_string(&path)
                .map_err(|error| SystemError::because(format!("read {}", path.display()), error))?,
        };
        let _ = writeln!(page, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(&figure.caption));
    }
    page.push_str("</div>\n");
    list("Not shown", &finding.shortfalls, page);
    list("Notes", &finding.notes, page);
    page.push_str("</section>\n");
    Ok(())
}

fn grid(finding: &Finding, table: &str, page: &mut String) {
    let cells = finding.of(table);
    let title = finding.titles.iter().find(|title| title.table == table).map_or("", |title| title.title.as_str());
    let columns = order(cells.iter().map(|cell| cell.column.as_str()));
    let worst = finding.distance(table);
    let _ = write!(page, "<h3>Table {}: {}</h3>\n<table><tr><th></th>", escape(table), escape(title));
    for column in &columns {
        let _ = write!(page, "<th>{}</th>", escape(column));
    }
    page.push_str("</tr>\n");
    for row in order(cells.iter().map(|cell| cell.row.as_str())) {
        let _ = write!(page, "<tr><th>{}</th>", escape(row));
        for column in &columns {
            let found = cells.iter().enumerate().find(|(_, cell)| cell.row == row && cell.column == *column);
            match found {
                Some((n, cell)) => entry(cell, worst.is_some_and(|worst| worst.worst_at == n), page),
                None => page.push_str("<td></td>"),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    if let Some(found) = worst {
        let (rms, worst) = (found.rms * 100.0, found.worst * 100.0);
        let _ = writeln!(page, "<p class=\"soft\">RMS {rms:.1} %, worst {worst:+.1} % (framed)</p>");
    }
}

fn entry(cell: &Cell, worst: bool, page: &mut String) {
    let measured = with_interval(cell.measured, cell.ci95);
    let (Some(published), Some(error)) = (cell.published, cell.error()) else {
        let _ = write!(page, "<td>{measured}</td>");
        return;
    };
    let class = if error.abs() <= NEAR { "near" } else { "far" };
    let worst = if worst { " worst" } else { "" };
    let _ = write!(
        page,
        "<td class=\"{class}{worst}\">{measured}<br><small>{published} &nbsp; {:+.1} %</small></td>",
        error * 100.0
    );
}

fn list(title: &str, lines: &[String], page: &mut String) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h3>{title}</h3><ul>");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sluice: the laboratory's report</title>
<meta name=\"viewport\" content=\"width=device-width\">
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #22262e; max-width: 1160px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { margin-top: 2em; border-bottom: 1px solid #e6e8ec } h3 { font-size: 1em; margin: 1.4em 0 .3em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .8em; border: 1px solid #e6e8ec; text-align: right; font-weight: normal } th { background: #f6f7f9 }
td.near { background: #eef8f0 } td.far { background: #fdf0e4 } td.worst { outline: 2px solid #cf461e }
small, .soft { color: #5b616b } .soft { margin: .3em 0 }
.figures { display: flex; flex-wrap: wrap; gap: 1em } figure { margin: 0; flex: 1 1 480px } figure svg { width: 100%; height: auto }
figcaption { color: #5b616b; font-size: .9em }
</style></head><body>
";

#[cfg(test)]
mod tests {
    use super::*;
    use figures::{Axis, Chart};

    #[test]
    fn one_page_with_everything_and_nothing_from_elsewhere() {
        let mut finding = Finding { experiment: "trial".into(), about: "a < b".into(), ..Finding::default() };
        finding.title("A.2", "throughput");
        finding.cell("A.2", "C1", "total", Some(2.0), &[2.5]);
        finding.cell("A.2", "C2", "total", Some(2.0), &[2.0]);
        finding.shortfalls.push("C1 & others".into());
        let axis = || Axis { label: "x".into(), reach: 1.0 };
        let (title, subtitle) = ("Picture".into(), String::new());
        let chart = Chart { title, subtitle, x: axis(), y: axis(), lines: vec![], landmark: None };
        finding.figure("picture", "what is seen", chart);
        let page = html(&[(finding.clone(), Path::new("/nowhere"))]).unwrap();
        for word in ["a &lt; b", "+25.0 %", "far worst", "class=\"near\"", "<svg", "C1 &amp; others", "what is seen"] {
            assert!(page.contains(word), "{word} is not in {page}");
        }
        assert!(!page.contains("src=") && !page.contains("<link") && !page.contains("<script"));
        finding.figures[0].chart = None;
        assert!(html(&[(finding, Path::new("/nowhere"))]).is_err());
    }
}
