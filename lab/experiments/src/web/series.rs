//! The two experiments, and what is expected of them.

use super::client::{FetchBatch, Fetched};
use super::site::{FILE, WebSite};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::cbr::Cbr;
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use serde_json::Value;
use std::time::Duration;
use terms::Rate;

/// Figure 3.
pub const THROUGHPUT: Experiment = Experiment {
    name: "web-throughput",
    about: "Fetches of 1 MB from an unmodified web server under cross traffic, without reservations",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), Figure 3",
    takes: "root, 2.5 minutes",
    run: throughput,
};

/// Figure 4.
pub const FLOOD: Experiment = Experiment {
    name: "web-flood",
    about: "The same with a reservation for each connection: sluice run --each 45mbit -- nginx",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), Figure 4",
    takes: "root, 11 minutes",
    run: flood,
};

/// The reservation for each connection, and the rate of the seed's hosts.
const RESERVED: Rate = Rate::from_mbps(45);
const HOST: Rate = Rate::from_mbps(41);
/// The time in which the queues fill, or drain.
const SETTLE: Duration = Duration::from_millis(500);
/// The criteria: the least share of the unloaded rate (in the quick form, whose batch is short), the longest median of the
/// set-up, and its longest share of a transfer. The quick form, which tests run unoptimised, does not judge the set-up.
const SHARE: f64 = 0.98;
const QUICK_SHARE: f64 = 0.75;
const SETUP_US: f64 = 1_000.0;
const SETUP_SHARE: f64 = 0.005;
/// The greatest share without reservations at the worst flood: more, and the flood was none.
const UNRESERVED: f64 = 0.5;

/// How much is fetched.
struct Plan {
    floods: Vec<u64>,
    batches: usize,
    requests: u32,
    /// The time limit of a batch.
    limit: Duration,
}

impl Plan {
    fn of(options: &RunOptions) -> Plan {
        match options.quick {
            true => Plan { floods: vec![0, 60, 100], batches: 1, requests: 12, limit: Duration::from_secs(5) },
            // 200 requests, in five batches whose median counts.
            false => Plan {
                floods: (0..=100).step_by(10).collect(),
                batches: 5,
                requests: 40,
                limit: Duration::from_secs(10),
            },
        }
    }
}

/// The measurements at a rate of the cross traffic.
struct Point {
    flood: u64,
    /// Each batch's throughput, Mb/s, sorted; the same with the time for connecting.
    web: Vec<f64>,
    connecting: Vec<f64>,
    /// The cross traffic that came, Mb/s.
    passed: f64,
    failed: u32,
}

impl Point {
    fn median(&self) -> f64 {
        self.web[self.web.len() / 2]
    }

    fn median_with_connecting(&self) -> f64 {
        self.connecting[self.connecting.len() / 2]
    }
}

/// A run over all rates of the cross traffic.
struct Series {
    points: Vec<Point>,
    /// The counts of `sluice run`.
    counted: Option<Value>,
}

impl Series {
    fn unloaded(&self) -> f64 {
        self.points[0].median()
    }

    /// The least throughput at any flood, as a share of that without one.
    fn least_share(&self) -> f64 {
        let least = self.points.iter().map(Point::median).fold(f64::INFINITY, f64::min);
        least / self.unloaded().max(1e-9)
    }
}

fn series(site: &WebSite, each: Option<Rate>, plan: &Plan, options: &RunOptions) -> Result<Series, Error> {
    let server = site.serve(each, &options.patience)?;
    let flood = site.flood()?;
    let mut points = Vec::new();
    for &rate in &plan.floods {
        if options.progress {
            let with = if each.is_some() { "with" } else { "without" };
            eprint!("\r{with} reservations, cross traffic {rate} of 100 Mb/s ");
        }
        points.push(point(site, &flood, rate, plan, options)?);
    }
    if options.progress {
        eprintln!();
    }
    drop(flood);
    let counted = each.map(|_| server.end()).transpose()?;
    Ok(Series { points, counted })
}

fn point(site: &WebSite, flood: &Cbr, rate: u64, plan: &Plan, options: &RunOptions) -> Result<Point, Error> {
    let client = site.host("client")?;
    flood.set_rate(Rate::from_mbps(rate));
    options.patience.wait(SETTLE)?;
    let (before, begin) = (flood.count(), std::time::Instant::now());
    let batch = FetchBatch { server: site.address()?, file: FILE, count: plan.requests, limit: plan.limit, pace: HOST };
    let fetched: Vec<Fetched> =
        (0..plan.batches).map(|_| batch.fetch(&client, &options.patience)).collect::<Result<_, _>>()?;
    let passed = flood.count().since(&before).received_mbps(begin.elapsed());
    let sorted = |of: fn(&Fetched) -> f64| {
        let mut all: Vec<f64> = fetched.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (web, connecting) = (sorted(Fetched::mbps), sorted(Fetched::mbps_with_connecting));
    Ok(Point { flood: rate, web, connecting, passed, failed: fetched.iter().map(|one| one.failed).sum() })
}

/// The seed's throughput without reservations, as its text gives it: 41 up to about 35, 23 at 40, about 20 from there to 60,
/// "almost zero" at the end.
fn published(flood: u64) -> Option<f64> {
    match flood {
        0..=30 => Some(41.0),
        40 => Some(23.0),
        50 | 60 => Some(20.0),
        100 => Some(0.0),
        _ => None,
    }
}

fn throughput(options: &RunOptions) -> Result<Finding, Error> {
    let site = WebSite::up(&options.patience)?;
    let plain = series(&site, None, &Plan::of(options), options)?;
    let mut finding = Finding::default();
    finding.title("3", "throughput of the web transfers and of the cross traffic, Mb/s");
    rows(&mut finding, "3", &plain, published, |_| None);
    finding.value("unreserved_min_share", plain.least_share());
    unreserved(&mut finding, &plain);
    notes(&mut finding);
    finding.figure(
        "web-throughput",
        "Web transfers without reservations",
        chart(&[("without reservations", &plain, Rgb::GREY)]),
    );
    Ok(finding)
}

fn flood(options: &RunOptions) -> Result<Finding, Error> {
    let site = WebSite::up(&options.patience)?;
    let plan = Plan::of(options);
    let with = series(&site, Some(RESERVED), &plan, options)?;
    let plain = series(&site, None, &plan, options)?;
    let mut finding = Finding::default();
    finding.title("4, without", "without reservations, Mb/s");
    rows(&mut finding, "4, without", &plain, published, |_| None);
    finding.title("4, with", "with a reservation of 45 Mb/s for each connection, Mb/s");
    // The seed's cross traffic had about 1 Mb/s where the link was congested.
    rows(&mut finding, "4, with", &with, |_| Some(41.0), |flood| (flood > 35).then_some(1.0));
    finding.value("reserved_min_share", with.least_share());
    finding.value("unreserved_min_share", plain.least_share());
    unreserved(&mut finding, &plain);
    judge(&mut finding, &with, options.quick);
    notes(&mut finding);
    finding.notes.push(
        "The seed's scheduler dropped nearly all cross traffic under congestion; here it has what is not reserved."
            .into(),
    );
    let lines = [("with reservations", &with, Rgb::BLUE), ("without", &plain, Rgb::GREY)];
    finding.figure("web-flood", "Web transfers with and without reservations", chart(&lines));
    Ok(finding)
}

fn rows(
    finding: &mut Finding,
    table: &str,
    of: &Series,
    web: impl Fn(u64) -> Option<f64>,
    cross: impl Fn(u64) -> Option<f64>,
) {
    for point in &of.points {
        let row = format!("{} Mb/s sent", point.flood);
        finding.cell(table, &row, "web", web(point.flood), &[point.median()]);
        finding.cell(table, &row, "with connecting", None, &[point.median_with_connecting()]);
        finding.cell(table, &row, "cross traffic", cross(point.flood), &[point.passed]);
    }
}

fn notes(finding: &mut Finding) {
    finding.notes.push(
        "The link is 80 Mb/s, as much as the seed's 100 Mb/s link carried; the client reads at most 41 Mb/s, the rate of the \
         seed's hosts; the server's TCP is Reno."
            .into(),
    );
    finding.notes.push(
        "The throughput is that of transfers, from each request to its end. A connection is reserved when it stands, so its \
         handshake is best effort: lost in the flood, it is sent again after a second."
            .into(),
    );
}

fn unreserved(finding: &mut Finding, plain: &Series) {
    if plain.least_share() > UNRESERVED {
        let share = plain.least_share();
        finding
            .shortfalls
            .push(format!("without reservations the flood left {share:.2} of the unloaded rate: it was none"));
    }
}

fn judge(finding: &mut Finding, with: &Series, quick: bool) {
    let (unloaded, share) = (with.unloaded(), if quick { QUICK_SHARE } else { SHARE });
    for point in with.points.iter().filter(|point| point.median() < share * unloaded) {
        let (got, flood) = (point.median(), point.flood);
        finding
            .shortfalls
            .push(format!("at {flood} Mb/s of cross traffic a reserved transfer had {got:.1} of {unloaded:.1} Mb/s"));
    }
    let failed: u32 = with.points.iter().map(|point| point.failed).sum();
    let count = |name: &str| with.counted.as_ref().and_then(|counted| counted[name].as_f64()).unwrap_or(f64::NAN);
    let (by_rsvp, refused, setup) = (count("rsvp"), count("refused"), count("setup_us_median"));
    let transfer_us = FILE as f64 * 8.0 / unloaded.max(1e-9);
    for (name, value) in [("setup_us_median", setup), ("setup_share", setup / transfer_us), ("refused", refused)] {
        finding.value(name, value);
    }
    finding.title("4, set-up", "of a reservation, and its share of a transfer");
    finding.cell("4, set-up", "median", "us", Some(470.0), &[setup]);
    finding.cell("4, set-up", "median", "% of a transfer", Some(0.24), &[100.0 * setup / transfer_us]);
    finding
        .notes
        .push(format!("{by_rsvp} connections were reserved by RSVP over two routers, {refused} were refused."));
    if failed > 0 || refused > 0.0 {
        finding.shortfalls.push(format!("{failed} requests failed, {refused} reservations were refused"));
    }
    if setup.is_nan() || !quick && (setup >= SETUP_US || setup / transfer_us >= SETUP_SHARE) {
        let percent = 100.0 * setup / transfer_us;
        finding.shortfalls.push(format!("a set-up took {setup} us (median), {percent:.2} % of a transfer"));
    }
}

fn chart(series: &[(&str, &Series, Rgb)]) -> Chart {
    let line = |name: String, color, mark, of: &Series, value: fn(&Point) -> f64| ChartLine {
        name,
        color,
        mark,
        points: of.points.iter().map(|point| (point.flood as f64, value(point))).collect(),
    };
    let lines = series.iter().flat_map(|(name, of, color)| {
        [
            line(format!("web, {name}"), *color, Mark::Solid, of, Point::median),
            line(format!("cross traffic, {name}"), *color, Mark::None, of, |point| point.passed),
        ]
    });
    Chart {
        title: "A web server under cross traffic".into(),
        subtitle: "fetches of 1 MB, one after the other; 80 Mb/s link; hosts of 41 Mb/s; each reserves 45 Mb/s".into(),
        x: Axis { label: "Cross traffic sent (Mb/s)".into(), reach: 100.0 },
        y: Axis { label: "Throughput (Mb/s)".into(), reach: 90.0 },
        lines: lines.collect(),
        landmark: None,
    }
}
