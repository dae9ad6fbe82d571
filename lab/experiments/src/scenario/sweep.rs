//! A sweep: the same scenario with other values in some of its fields, each with several seeds.
//!
//! A value replaces the field's text, and the whole text is read again: every field of a file can be swept,
//! and a mistake in a swept value is reported with the field's line.

use super::ScenarioFile;
use super::text::{File, SweepText};
use crate::experiment::sweep::{MAX_RUNS, too_many};
use rpc::document::{Document, Mistake};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The axes and seeds of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioSweep {
    /// The axes; the last one changes fastest.
    pub axes: Vec<SweptField>,
    /// The number of independent runs of each point.
    pub seeds: u64,
}

/// A field and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweptField {
    /// The field's path, `source.flood.cbr`; `reserve` for the reservations.
    pub field: String,
    /// The values, as written in the file.
    pub values: Vec<String>,
    /// The position of the field's value in the text; `None` for `reserve`.
    place: Option<Range<usize>>,
    /// The position of each value in the text.
    said: Vec<Range<usize>>,
}

/// The field name of the reservations' axis.
pub const RESERVE: &str = "reserve";

/// A point of a sweep: the index of a value for each axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GridPoint(pub Vec<usize>);

impl ScenarioSweep {
    /// Reads the sweep, and finds its fields.
    pub(super) fn read(
        document: &Document<'_>,
        text: &str,
        file: &File,
        no_reservations: bool,
    ) -> Result<ScenarioSweep, Mistake> {
        let Some(spanned) = &file.sweep else { return Ok(ScenarioSweep { axes: Vec::new(), seeds: 1 }) };
        let found = spanned.get_ref();
        let mut axes = Vec::new();
        if let Some(reserve) = &found.reserve {
            if reserve.is_empty() || no_reservations {
                let message = "reserve is [false], [true] or both, where a source has a reservation";
                return Err(document.at(spanned.span(), message));
            }
            let values = reserve.iter().map(bool::to_string).collect();
            axes.push(SweptField {
                field: RESERVE.into(),
                values,
                place: None,
                said: vec![spanned.span(); reserve.len()],
            });
        }
        axes.extend(rates(document, text, file, found, spanned.span())?);
        for over in found.over.iter().flatten() {
            let values: Vec<Range<usize>> = over.get_ref().values.iter().map(Spanned::span).collect();
            if values.is_empty() {
                return Err(document.at(over.span(), "a sweep over no values"));
            }
            let field = &over.get_ref().field;
            axes.push(axis(document, text, field.get_ref(), field.span(), values)?);
        }
        let seeds = found.seeds.as_ref().map_or(1, |seeds| *seeds.get_ref());
        let points = axes.iter().fold(1usize, |all, axis| all.saturating_mul(axis.values.len()));
        let runs = points.saturating_mul(usize::try_from(seeds).unwrap_or(usize::MAX));
        if runs == 0 {
            return Err(document.at(spanned.span(), format!("{seeds} seeds: allowed is 1 and more")));
        }
        if runs > MAX_RUNS {
            return Err(document.at(spanned.span(), too_many(runs)));
        }
        Ok(ScenarioSweep { axes, seeds })
    }

    /// Returns every point, in order.
    pub fn points(&self) -> Vec<GridPoint> {
        let mut points = vec![Vec::new()];
        for axis in &self.axes {
            let grown = points.iter().flat_map(|point| {
                (0..axis.values.len()).map(move |n| {
                    let mut point = point.clone();
                    point.push(n);
                    point
                })
            });
            points = grown.collect();
        }
        points.into_iter().map(GridPoint).collect()
    }

    /// Returns the values of a point, with their fields.
    pub fn values<'a>(&'a self, point: &'a GridPoint) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.axes.iter().zip(&point.0).map(|(axis, &n)| (axis.field.as_str(), axis.values[n].as_str()))
    }

    /// Returns the scenario of a point, and true if its reservations are made.
    ///
    /// # Errors
    /// The values do not fit together.
    pub fn at(&self, file: &ScenarioFile, point: &GridPoint) -> Result<(ScenarioFile, bool), Mistake> {
        let mut reserved = !file.reservations.is_empty();
        let mut places = Vec::new();
        for (axis, &n) in self.axes.iter().zip(&point.0) {
            match &axis.place {
                Some(place) => places.push((place.clone(), axis.values[n].as_str())),
                None => reserved = axis.values[n] == "true",
            }
        }
        let text = with(&file.text, places);
        let found = ScenarioFile::once(&file.path, &text)?;
        Ok((found, reserved))
    }

    /// Reads the scenario with each value of each axis in turn.
    pub(super) fn try_each_value(&self, file: &ScenarioFile) -> Result<(), Mistake> {
        for axis in &self.axes {
            let Some(place) = &axis.place else { continue };
            for (value, said) in axis.values.iter().zip(&axis.said) {
                let text = with(&file.text, vec![(place.clone(), value)]);
                ScenarioFile::once(&file.path, &text).map_err(|mistake| {
                    let message = format!("with {} = {value}: {}", axis.field, mistake.message);
                    Document::new(&file.path, &file.text).at(said.clone(), message)
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the text with other values in some places.
fn with(text: &str, mut places: Vec<(Range<usize>, &str)>) -> String {
    let mut text = text.to_string();
    // From the end, so that places before stay where they are.
    places.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    for (place, value) in places {
        text.replace_range(place, value);
    }
    text
}

/// Reads the short form: the rates of one source with cbr.
fn rates(
    document: &Document<'_>,
    text: &str,
    file: &File,
    found: &SweepText,
    at: Range<usize>,
) -> Result<Option<SweptField>, Mistake> {
    let (Some(source), Some(rates)) = (&found.source, &found.rates) else {
        if found.source.is_some() || found.rates.is_some() {
            return Err(document.at(at, "a sweep of rates needs both `source` and `rates`"));
        }
        return Ok(None);
    };
    let name = source.get_ref();
    let Some(known) = file.source.iter().find(|known| known.name.get_ref() == name) else {
        return Err(document.at(source.span(), format!("there is no source {name:?}")));
    };
    if known.cbr.is_none() {
        return Err(document.at(source.span(), "only a source with cbr has a rate to sweep"));
    }
    let values = rates.iter().map(Spanned::span).collect();
    axis(document, text, &format!("source.{name}.cbr"), source.span(), values).map(Some)
}

fn axis(
    document: &Document<'_>,
    text: &str,
    field: &str,
    at: Range<usize>,
    said: Vec<Range<usize>>,
) -> Result<SweptField, Mistake> {
    let table = DeTable::parse(text).map_err(|error| document.whole(error.message().to_string()))?;
    let mut steps: Vec<&str> = field.split('.').collect();
    let first = steps.remove(0);
    let found = table.get_ref().get(first).and_then(|value| find(value, &steps));
    let Some(place) = found else {
        let message = format!(
            "there is no {field:?} in this file: write the field once with any value, and name it as KIND.NAME.FIELD, as \
             source.flood.cbr, link.a-b.rate, tcp.x.rto.floor or seed"
        );
        return Err(document.at(at, message));
    };
    let values = said.iter().map(|range| text.get(range.clone()).unwrap_or_default().to_string()).collect();
    Ok(SweptField { field: field.to_string(), values, place: Some(place), said })
}

/// Returns the position of the value at the end of the path.
fn find(value: &Spanned<DeValue<'_>>, steps: &[&str]) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::Table(table) => {
            let (first, rest) = steps.split_first()?;
            find(table.get(*first)?, rest)
        }
        // Entries of one kind: by name, which may have dots in it.
        DeValue::Array(entries) if !steps.is_empty() => entries.iter().find_map(|entry| {
            let taken = (1..=steps.len()).find(|&n| is_named(entry.get_ref(), &steps[..n].join(".")))?;
            find(entry, &steps[taken..])
        }),
        _ => steps.is_empty().then(|| value.span()),
    }
}

/// True if an entry has that name: its `name`, or for a link its two ends.
fn is_named(entry: &DeValue<'_>, name: &str) -> bool {
    let DeValue::Table(table) = entry else { return false };
    match (table.get("name").map(Spanned::get_ref), table.get("between").map(Spanned::get_ref)) {
        (Some(DeValue::String(known)), _) => known == name,
        (None, Some(DeValue::Array(ends))) => {
            let words = ends.iter().filter_map(|end| end.get_ref().as_str());
            words.collect::<Vec<_>>().join("-") == name
        }
        _ => false,
    }
}
