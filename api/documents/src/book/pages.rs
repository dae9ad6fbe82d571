//! Pages of answers, so that each stays below 64 KiB: the most steps of reservations and timelines in one
//! answer, and the requests for the rest. A short answer is one page.

use super::{BookAnswer, BookFilter, PromiseRows, PromisesDoc, ReservationDoc, ResourceRow, WindowDoc};
use crate::agent::Request;

/// The most steps of a reservation or of timelines in one answer; each takes some 100 bytes.
pub const STEPS: usize = 512;
/// The cost of a resource without its timeline, in steps.
const OF_RESOURCE: usize = 4;
/// The most reservations of a list, over all its pages; a client asks for the next ones with `after`.
const ROWS: usize = 1_000;
/// The most pages that a client asks for: a list that changes all the time has no end.
const MOST_PAGES: usize = 2_048;

impl Request {
    /// A request for all resources, with a timeline of the free amounts in this window.
    pub fn resources(timeline: Option<WindowDoc>) -> Request {
        Request::Resources { timeline, resource: None, after: None }
    }
}

/// Leaves out the first `skip` steps, counted over all parts in order, and the steps that do not fit.
pub fn cut(doc: &mut ReservationDoc, skip: u64) {
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let mut room = STEPS;
    for part in &mut doc.parts {
        let left_out = skip.min(part.steps.len());
        part.steps.drain(..left_out);
        skip -= left_out;
        let said = room.min(part.steps.len());
        doc.more |= said < part.steps.len();
        part.steps.truncate(said);
        room -= said;
    }
}

/// Keeps the given resource alone, or those `after` the given one, and of them as many as fit.
pub fn cut_resources(rows: &mut Vec<ResourceRow>, resource: Option<&str>, after: Option<&str>) {
    if let Some(resource) = resource {
        rows.retain(|row| row.resource == resource);
    }
    if let Some(before) = after.and_then(|after| rows.iter().position(|row| row.resource == after)) {
        rows.drain(..=before);
    }
    let (mut room, all) = (STEPS, rows.len());
    let mut said = 0;
    for row in rows.iter_mut() {
        // The first one is said in any case, so that each page goes on.
        if room <= OF_RESOURCE {
            break;
        }
        let stretches = row.timeline.len().min(room - OF_RESOURCE);
        row.more = stretches < row.timeline.len();
        row.timeline.truncate(stretches);
        room -= OF_RESOURCE + stretches;
        said += 1;
    }
    rows.truncate(said);
    if let Some(last) = rows.last_mut() {
        last.next = said < all;
    }
}

/// The progress of an answer that is put together from pages.
#[derive(Debug)]
pub struct Pages {
    timeline: Option<WindowDoc>,
    /// The filter of a list.
    filter: Option<BookFilter>,
    /// The question for open promises.
    promises: Option<PromisesDoc>,
    /// The index of the reservation in a list that is asked for now.
    at: usize,
    asked: usize,
}

impl Pages {
    /// Collects the pages of this request; `None`: the request asks for one page only.
    pub fn of(request: &Request) -> Option<Pages> {
        let timeline = match request {
            Request::BookShow { filter, .. } if filter.skip > 0 => return None,
            Request::Resources { resource, after, .. } if resource.is_some() || after.is_some() => return None,
            Request::Resources { timeline, .. } => *timeline,
            // Whether it was done is on the first page.
            Request::BookPrepare(_) | Request::BookDecide(_) => return None,
            _ => None,
        };
        let promises = if let Request::BookPromises(doc) = request { Some(doc.clone()) } else { None };
        let filter = match request {
            Request::BookShow { handle: None, filter } => Some(filter.clone()),
            _ => None,
        };
        Some(Pages { timeline, filter, promises, at: 0, asked: 0 })
    }

    /// The next request that is needed to complete the answer.
    pub fn next(&mut self, answer: &BookAnswer) -> Option<Request> {
        let next = match answer {
            BookAnswer::Reservation(doc) => rest(doc),
            BookAnswer::Reservations { rows, more } => {
                let incomplete = rows.get(self.at..).and_then(|rows| rows.iter().position(|row| row.more));
                self.at = incomplete.map_or(rows.len(), |ahead| self.at + ahead);
                rows.get(self.at).and_then(rest).or_else(|| self.list(rows).filter(|_| *more))
            }
            BookAnswer::Resources(rows) => self.resource(rows.last()?),
            BookAnswer::Promises(PromiseRows { rows, more: true, .. }) => {
                let (doc, last) = (self.promises.clone()?, rows.last()?);
                Some(Request::BookPromises(PromisesDoc { after: Some((last.transaction.clone(), last.member)), ..doc }))
            }
            BookAnswer::Enquired(_) | BookAnswer::Events(_) | BookAnswer::Promises(_) | BookAnswer::Nothing => None,
        };
        self.asked += 1;
        next.filter(|_| self.asked <= MOST_PAGES)
    }

    /// The rest of a list, after these rows; `None` when as many have come as were asked for.
    fn list(&self, rows: &[ReservationDoc]) -> Option<Request> {
        let filter = self.filter.clone()?;
        let most = filter.limit.filter(|limit| *limit > 0).map_or(ROWS, |limit| limit.min(ROWS));
        let limit = most.checked_sub(rows.len()).filter(|left| *left > 0)?;
        let after = Some(rows.last()?.handle.clone());
        Some(Request::BookShow { handle: None, filter: BookFilter { after, limit: Some(limit), ..filter } })
    }

    fn resource(&self, last: &ResourceRow) -> Option<Request> {
        let come_to = last.timeline.last().and_then(|stretch| stretch.end);
        match (last.more, self.timeline, come_to) {
            (true, Some(WindowDoc { end, .. }), Some(start)) => {
                let timeline = Some(WindowDoc { start, end });
                Some(Request::Resources { timeline, resource: Some(last.resource.clone()), after: None })
            }
            _ if last.next => {
                let after = Some(last.resource.clone());
                Some(Request::Resources { timeline: self.timeline, resource: None, after })
            }
            _ => None,
        }
    }

    /// Adds a page.
    pub fn add(&mut self, answer: &mut BookAnswer, page: BookAnswer) {
        match (answer, page) {
            (BookAnswer::Reservation(doc), BookAnswer::Reservation(page)) => join(doc, page),
            (BookAnswer::Reservations { rows, .. }, BookAnswer::Reservation(page)) => {
                rows.get_mut(self.at).into_iter().for_each(|row| join(row, page.clone()));
            }
            (BookAnswer::Reservations { rows, more }, BookAnswer::Reservations { rows: page, more: still }) => {
                rows.extend(page);
                *more = still;
            }
            (BookAnswer::Promises(all), BookAnswer::Promises(page)) => {
                all.rows.extend(page.rows);
                (all.more, all.clock_ns) = (page.more, page.clock_ns);
            }
            (BookAnswer::Resources(rows), BookAnswer::Resources(page)) => {
                let mut page = page.into_iter();
                if let Some(last) = rows.last_mut()
                    && last.more
                {
                    let same = page.next().filter(|row| row.resource == last.resource);
                    // It may have gone meanwhile.
                    last.more = same.as_ref().is_some_and(|row| row.more);
                    last.timeline.extend(same.into_iter().flat_map(|row| row.timeline));
                } else if let Some(last) = rows.last_mut() {
                    last.next = false;
                }
                // Where the one before has gone, an agent begins again.
                let new: Vec<ResourceRow> =
                    page.filter(|row| rows.iter().all(|known| known.resource != row.resource)).collect();
                rows.extend(new);
            }
            _ => {}
        }
    }

    /// Skips a reservation of a list whose rest is no longer kept.
    pub fn give_up(&mut self) {
        self.at += 1;
    }
}

/// The next page of a reservation.
fn rest(doc: &ReservationDoc) -> Option<Request> {
    let skip = come(doc) as u64;
    let filter = BookFilter { skip, ..BookFilter::default() };
    doc.more.then(|| Request::BookShow { handle: Some(doc.handle.clone()), filter })
}

/// The number of steps that have come.
fn come(doc: &ReservationDoc) -> usize {
    doc.parts.iter().map(|part| part.steps.len()).sum()
}

fn join(doc: &mut ReservationDoc, page: ReservationDoc) {
    if come(doc) == 0 {
        *doc = page;
    } else if page.version == doc.version {
        doc.more = page.more;
        for (part, more) in doc.parts.iter_mut().zip(page.parts) {
            part.steps.extend(more.steps);
        }
    } else {
        // It was changed meanwhile: from the first step again.
        doc.parts.iter_mut().for_each(|part| part.steps.clear());
    }
}
