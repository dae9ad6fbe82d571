//! Reads a tree file: TOML to [`TreeSpec`]. The format is that of `examples/tree.toml`.

use super::leaf_text::{DropperText, MarkerText, MeterText, QueueText, RuleText, ShaperText};
use super::words::Word;
use rpc::document::{Document, Mistake, read};
use serde::Deserialize;
use std::path::Path;
use terms::{Rate, ServiceCurve};
use toml::Spanned;
use traffic::scheduler::hfsc::Curves;
use traffic::tree::{
    LeafSpec, LinkShape, NodeKind, SchedulerKind, TreeNodeSpec, TreeShare, TreeSpec, Unworkable, check,
};

/// A valid tree, and the seed for its random decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeFile {
    /// The tree's name.
    pub name: String,
    /// The seed of droppers and TSWTCM.
    pub seed: u64,
    /// The tree.
    pub spec: TreeSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    seed: u64,
    link: Spanned<LinkText>,
    #[serde(default)]
    node: Vec<NodeText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    rate: Word<Rate>,
    #[serde(default)]
    overhead: u32,
    scheduler: SharingText,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SharingText {
    Priority,
    Wf2q,
    Drr,
    Hfsc,
}

impl From<SharingText> for SchedulerKind {
    fn from(text: SharingText) -> SchedulerKind {
        match text {
            SharingText::Priority => SchedulerKind::Priority,
            SharingText::Wf2q => SchedulerKind::Wf2q,
            SharingText::Drr => SchedulerKind::Drr,
            SharingText::Hfsc => SchedulerKind::Hfsc,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeText {
    name: Spanned<String>,
    parent: Option<Spanned<String>>,
    priority: Option<u8>,
    rate: Option<Word<Rate>>,
    quantum: Option<u32>,
    real_time: Option<Word<ServiceCurve>>,
    link_share: Option<Word<ServiceCurve>>,
    upper_limit: Option<Word<ServiceCurve>>,
    scheduler: Option<SharingText>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
    shaper: Option<Spanned<ShaperText>>,
    meter: Option<Spanned<MeterText>>,
    marker: Option<Spanned<MarkerText>>,
    dropper: Option<Spanned<DropperText>>,
    queue: Option<Spanned<QueueText>>,
}

impl TreeFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn load(file: &Path) -> Result<TreeFile, Mistake> {
        TreeFile::parse(file, &read(file)?)
    }

    /// Reads and checks a text that came from `file`.
    ///
    /// # Errors
    /// The first [`Mistake`] in it.
    pub fn parse(file: &Path, text: &str) -> Result<TreeFile, Mistake> {
        let document = Document::new(file, text);
        let found: File = document.parse()?;
        let LinkText { rate, overhead, scheduler } = *found.link.get_ref();
        let link = LinkShape { rate: rate.0, overhead, scheduler: scheduler.into() };
        let nodes = found.node.iter().map(|node| node.spec(&document, &link)).collect::<Result<Vec<_>, _>>()?;
        let spec = TreeSpec { link, nodes };
        check(&spec).map_err(|refused| {
            let node = refused.node.and_then(|n| found.node.get(n));
            let span = node.map_or(found.link.span(), |node| node.place(&refused));
            document.at(span, refused.to_string())
        })?;
        Ok(TreeFile { name: found.name, seed: found.seed, spec })
    }
}

impl NodeText {
    fn spec(&self, document: &Document<'_>, link: &LinkShape) -> Result<TreeNodeSpec, Mistake> {
        let wrong = |message: &str| document.at(self.name.span(), format!("{:?}: {message}", self.name.get_ref()));
        let leaf = !self.rule.is_empty()
            || self.shaper.is_some()
            || self.meter.is_some()
            || self.marker.is_some()
            || self.dropper.is_some()
            || self.queue.is_some();
        let kind = match self.scheduler {
            Some(_) if leaf => {
                return Err(wrong("a node has either a scheduler or rules, shaper, meter, marker, dropper and queue"));
            }
            Some(sharing) => NodeKind::Inner(sharing.into()),
            None => NodeKind::Leaf(Box::new(self.leaf(document, link)?)),
        };
        let share = self.share().map_err(wrong)?;
        let parent = self.parent.as_ref().map(|p| p.get_ref().clone());
        Ok(TreeNodeSpec { name: self.name.get_ref().clone(), parent, share, kind })
    }

    fn share(&self) -> Result<TreeShare, &'static str> {
        let curves = Curves {
            real_time: self.real_time.map(|c| c.0),
            link_share: self.link_share.map(|c| c.0),
            upper_limit: self.upper_limit.map(|c| c.0),
        };
        let any = (curves != Curves::default()).then_some(TreeShare::Curves(curves));
        let rate = self.rate.map(|rate| TreeShare::Rate(rate.0));
        let stated = [self.priority.map(TreeShare::Priority), rate, self.quantum.map(TreeShare::Quantum), any];
        let mut stated = stated.into_iter().flatten();
        match (stated.next(), stated.next()) {
            (Some(share), None) => Ok(share),
            (None, _) => {
                Err("what it gets of its parent is missing: priority, rate, quantum, or real_time and link_share")
            }
            _ => Err("it states shares of several kinds: give the one that its parent's scheduler needs"),
        }
    }

    fn leaf(&self, document: &Document<'_>, link: &LinkShape) -> Result<LeafSpec, Mistake> {
        let queue = self.queue.as_ref().ok_or_else(|| {
            let message = format!("{:?}: a leaf needs a queue, an inner node a scheduler", self.name.get_ref());
            document.at(self.name.span(), message)
        })?;
        let rules = self.rule.iter().map(|rule| {
            rule.get_ref().spec().ok_or_else(|| {
                document.at(rule.span(), "an empty rule matches everything: a leaf without rules takes the rest")
            })
        });
        Ok(LeafSpec {
            rules: rules.collect::<Result<Vec<_>, _>>()?,
            shaper: part(document, &self.shaper, |s| s.spec())?,
            meter: part(document, &self.meter, |m| m.spec())?,
            marker: part(document, &self.marker, |m| m.spec())?,
            dropper: part(document, &self.dropper, |d| d.spec(link))?,
            queue: queue.get_ref().spec(),
        })
    }

    /// Returns the place of the refused part in the file.
    fn place(&self, refused: &Unworkable) -> std::ops::Range<usize> {
        let part = match refused.part {
            "rules" => self.rule.first().map(Spanned::span),
            "shaper" => self.shaper.as_ref().map(Spanned::span),
            "meter" => self.meter.as_ref().map(Spanned::span),
            "marker" => self.marker.as_ref().map(Spanned::span),
            "dropper" => self.dropper.as_ref().map(Spanned::span),
            "queue" => self.queue.as_ref().map(Spanned::span),
            _ => None,
        };
        part.unwrap_or_else(|| self.name.span())
    }
}

/// Converts a part of a leaf. A mistake names its place.
fn part<T, S>(
    document: &Document<'_>,
    text: &Option<Spanned<T>>,
    spec: impl Fn(&T) -> Result<S, String>,
) -> Result<Option<S>, Mistake> {
    let Some(text) = text else { return Ok(None) };
    spec(text.get_ref()).map(Some).map_err(|message| document.at(text.span(), message))
}
