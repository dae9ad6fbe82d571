//! The dashboard for Grafana, `dist/grafana/sluice.json`: what it asks for is what agents and brokers really print.

use crate::agents::broker::broker_over;
use crate::bed::{Bed, SLUICE, expect, reserve};
use documents::agent::EventDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The labels of each series, by its name.
type Series = BTreeMap<String, BTreeSet<String>>;

/// Labels that Prometheus gives to all that it reads.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/grafana/sluice.json")
}

/// Adds the series of a page.
fn learn(series: &mut Series, page: &str) {
    for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let known = series.entry(name.to_owned()).or_default();
        known.extend(labels.split("=\"").filter_map(|before| {
            let label = before.rsplit([',', '{']).next()?;
            label.chars().all(|c| c.is_ascii_lowercase() || c == '_').then(|| label.to_owned())
        }));
        known.remove("");
    }
}

/// The series of an expression, and the labels that it asks of each; then those by which it sums.
fn asked(expression: &str) -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rest = expression;
    while let Some(at) = rest.find("sluice_") {
        let end = rest[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(rest.len(), |end| at + end);
        let labels = found.entry(rest[at..end].to_owned()).or_default();
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('{') {
            let inside = &inside[..inside.find('}').unwrap()];
            labels.extend(inside.split(',').map(|one| one.split(['=', '!', '~']).next().unwrap().trim().to_owned()));
        }
    }
    let words = |text: &str| text[..text.find(')').unwrap()].split(',').map(|word| word.trim().to_owned()).collect();
    let by: Vec<BTreeSet<String>> = expression.split("by (").skip(1).map(words).collect();
    (found, by.into_iter().flatten().collect())
}

/// Every expression with its legend.
fn queries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file()).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut found = Vec::new();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let said = |what: &str| target[what].as_str().unwrap().to_owned();
        found.push((said("expr"), said("legendFormat")));
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// The mistakes in a query.
fn mistakes(series: &Series, expression: &str, legend: &str) -> Vec<String> {
    let (asked, by) = asked(expression);
    let mut wrong = Vec::new();
    let mut there: BTreeSet<&str> = OF_PROMETHEUS.into();
    for (name, labels) in &asked {
        let Some(known) = series.get(name) else {
            wrong.push(format!("{expression}: nobody prints {name}"));
            continue;
        };
        there.extend(known.iter().map(String::as_str));
        let none = labels.iter().filter(|one| !known.contains(*one) && !OF_PROMETHEUS.contains(&one.as_str()));
        wrong.extend(none.map(|label| format!("{expression}: {name} has no label {label}")));
    }
    let shown = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap());
    let none = by.iter().map(String::as_str).chain(shown).filter(|label| !there.contains(label));
    wrong.extend(none.map(|label| format!("{expression}: no series of it has the label {label}")));
    if asked.is_empty() {
        wrong.push(format!("{expression}: it asks for nothing of ours"));
    }
    wrong
}

#[test]
fn mistakes_in_queries_are_found() {
    let mut series = Series::new();
    learn(
        &mut series,
        "# TYPE sluice_up gauge\nsluice_up 1\nsluice_class_bytes_total{interface=\"a\",class=\"b c\"} 3\n",
    );
    let fine = "sum by (interface) (rate(sluice_class_bytes_total{instance=~\"$instance\",class=\"x\"}[5m]))";
    assert_eq!(mistakes(&series, fine, "{{interface}}"), Vec::<String>::new());
    for (wrong, legend) in [
        ("sluice_down", ""),
        ("sluice_up{interface=\"a\"}", ""),
        ("sum by (port) (sluice_class_bytes_total)", ""),
        ("sluice_up", "{{class}}"),
        ("1", ""),
    ] {
        assert_eq!(mistakes(&series, wrong, legend).len(), 1, "{wrong}");
    }
}

#[test]
fn the_dashboard_asks_for_what_is_printed() {
    let Some(bed) = Bed::up("30s") else { return };
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let socket = bed.home("maui").join("agent.sock");
    let page = Command::new(SLUICE).args(["metrics", "--socket"]).arg(socket).output().unwrap();
    let agent = String::from_utf8_lossy(&page.stdout).into_owned();
    let (_broker, socket) = broker_over(&bed);
    let mut stream = UnixStream::connect(&socket).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").unwrap();
    let mut broker = String::new();
    stream.read_to_string(&mut broker).unwrap();
    let broker = broker.split_once("\r\n\r\n").unwrap().1.to_owned();

    let mut series = Series::new();
    learn(&mut series, &agent);
    learn(&mut series, &broker);
    let wrong: Vec<String> = queries().iter().flat_map(|(ask, legend)| mistakes(&series, ask, legend)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing that is printed is without a place.
    let asked: BTreeSet<String> = queries().iter().flat_map(|(ask, _)| asked(ask).0.into_keys()).collect();
    let unseen: Vec<&String> = series.keys().filter(|name| !asked.contains(*name)).collect();
    assert!(unseen.is_empty(), "no panel shows {unseen:?}");
    by_prometheus(&bed.home("maui"), &[agent, broker]);
}

/// Prometheus' own reader takes the pages and the expressions.
fn by_prometheus(place: &Path, pages: &[String]) {
    if Command::new("promtool").arg("--version").output().is_err() {
        return bench::skipped("promtool is not here: apt install prometheus");
    }
    for page in pages {
        let mut check = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        check.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
        let said = check.wait_with_output().unwrap();
        // It would have rates in bytes; links are named by their bits everywhere else.
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        let advice = |line: &&str| line.ends_with("use base unit \"bytes\" instead of \"bits\"");
        let wrong: Vec<&str> = said.lines().filter(|line| !line.is_empty() && !advice(line)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, (ask, _)) in queries().iter().enumerate() {
        let ask = ask.replace("$__rate_interval", "5m").replace("$instance", ".*");
        rules += &format!("  - record: dashboard:query:{number}\n    expr: {}\n", serde_json::to_string(&ask).unwrap());
    }
    let file = place.join("dashboard.yml");
    std::fs::write(&file, rules).unwrap();
    let said = Command::new("promtool").args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}
