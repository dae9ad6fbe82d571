//! A page of metrics: families of gauges and counters, each with its rows.

use prometheus_client::encoding::{EncodeMetric, prometheus_text};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::AtomicU64;

/// The format of a page (Prometheus, "Exposition formats", text-based format).
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values of labels.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// The labels of one row.
pub(crate) fn labels<const N: usize>(all: [(&'static str, &str); N]) -> Labels {
    all.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page(Registry);

impl Page {
    pub(crate) fn new() -> Page {
        Page(Registry::with_prefix("sluice"))
    }

    /// Values that rise and fall.
    pub(crate) fn gauges(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) {
        self.family(name, help, rows, |gauge: &Gauge<f64, AtomicU64>, value| {
            gauge.set(value);
        });
    }

    /// Counts since the start of what counts them; the name gets the ending `_total`.
    pub(crate) fn counters(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) {
        self.family(name, help, rows, |counter: &Counter, count| {
            counter.inc_by(count);
        });
    }

    /// A family of metrics, which is left out if it has no row.
    fn family<M, V>(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, V)>, put: impl Fn(&M, V))
    where
        M: EncodeMetric + TypedMetric + Metric + Default + Clone,
        fn() -> M: MetricConstructor<M>,
    {
        let (family, mut any) = (Family::<Labels, M>::default(), false);
        for (labels, value) in rows {
            put(&family.get_or_create(&labels), value);
            any = true;
        }
        if any {
            self.0.register(name, help, family);
        }
    }

    /// The page as text.
    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        // Writing into memory does not fail.
        let _ = prometheus_text::encode(&mut text, &self.0);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_empty_families_left_out() {
        let mut page = Page::new();
        page.gauges("free", "Free", [(labels([("resource", "a\"b\\c\nd")]), 1.5)]);
        page.counters("packets", "Packets", [(labels([]), 7)]);
        page.gauges("nothing", "Nothing", []);
        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&r#"sluice_free{resource="a\"b\\c\nd"} 1.5"#), "{text}");
        assert!(lines.contains(&"sluice_packets_total 7") && lines.contains(&"# TYPE sluice_free gauge"), "{text}");
        assert!(!text.contains("nothing"), "{text}");
    }
}
