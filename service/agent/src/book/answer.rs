//! Calls about bookings on the local socket. The answer to a change is sent after the change is on the disk.

use super::{Book, shown};
use crate::calls::problem;
use crate::drive::Drive;
use crate::enforce::{Usage, premium};
use booking::io::{CallId, CallResult as Said};
use booking::{BookingView, Call, Input, Reply};
use documents::agent::{Answer, BookAnswer, FlowMeasured, Problem, ReplyLine, Request};
use documents::book::{ColorDoc, ColorsDoc, MeasuredDoc, ReservationDoc, amount, pages};
use terms::book::ResourceKind;
use terms::{Amount, Span};
use traffic::edge::ColorCounters;

/// The most calls that wait for an answer, over all connections.
const MOST_CALLS: usize = 1 << 16;

/// A client that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) client: u64,
    /// The number that the client gave its call.
    pub(super) id: u64,
    /// True if the client follows the events of bookings after the answer.
    follows: bool,
    page: Page,
}

/// The page of an answer that the client asks for.
#[derive(Clone, Default, Debug)]
struct Page {
    /// The number of steps to leave out.
    skip: u64,
    /// Only this resource.
    resource: Option<String>,
    /// Only resources after this name.
    after: Option<String>,
}

impl Page {
    fn of(request: &Request) -> Page {
        match request {
            Request::BookShow { handle: Some(_), filter } => Page { skip: filter.skip, ..Page::default() },
            Request::Resources { resource, after, .. } => {
                Page { resource: resource.clone(), after: after.clone(), ..Page::default() }
            }
            _ => Page::default(),
        }
    }
}

impl Book {
    /// Gives a number to a call whose answer comes later.
    ///
    /// # Errors
    /// Too many calls wait.
    pub(super) fn wait_for(&mut self, client: u64, id: u64) -> Result<u64, Problem> {
        if self.calls.len() >= MOST_CALLS {
            return Err(problem("refused", "too many calls wait for the disk: try again"));
        }
        let number = self.next_call;
        self.next_call += 1;
        self.calls.insert(number, Waiting { client, id, follows: false, page: Page::default() });
        Ok(number)
    }
}

impl Drive {
    /// Hands a call about bookings to the engine and returns true; false for any other call.
    /// [`Drive::reply_book`] sends the answer.
    ///
    /// # Errors
    /// The call is invalid; the engine has not seen it.
    pub(crate) fn call_bookings(&mut self, client: u64, id: u64, request: &Request) -> Result<bool, Problem> {
        if let Request::BookAudit(ask) = request {
            return self.call_audit(client, id, ask).map(|()| true);
        }
        let Some(mut call) = crate::book::convert::call(request)? else { return Ok(false) };
        if matches!(call, Call::Decided(_)) && !self.speakers.coordinates(client, &self.book.brokers) {
            let what = "only who may speak for others decides over several agents: root, or a broker that this agent's policy names";
            return Err(problem("refused", what));
        }
        self.speakers.name_coordinator(client, &mut call)?;
        super::sight::identify(&mut call);
        let number = self.book.wait_for(client, id)?;
        if let Some(waiting) = self.book.calls.get_mut(&number) {
            (waiting.follows, waiting.page) = (matches!(request, Request::BookFollow { .. }), Page::of(request));
        }
        self.console.owe(client);
        let caller = self.speakers.of(client);
        self.tell_bookings(Input::Call { id: CallId(number), caller: Box::new(caller), call });
        Ok(true)
    }

    /// A page of an answer as it is shown: reservations with what their enforcers hold and see.
    fn shown(&self, said: Said, page: &Page) -> BookAnswer {
        match said {
            Said::Reservation(view) => BookAnswer::Reservation(self.reservation(view, page.skip)),
            Said::List { views, more } => {
                let rows = views.into_iter().map(|view| self.reservation(view, 0)).collect();
                BookAnswer::Reservations { rows, more }
            }
            Said::Resources(views) => {
                let mut rows = views.into_iter().map(shown::resource_row).collect();
                pages::cut_resources(&mut rows, page.resource.as_deref(), page.after.as_deref());
                BookAnswer::Resources(rows)
            }
            other => shown::answer(other),
        }
    }

    fn reservation(&self, view: BookingView, skip: u64) -> ReservationDoc {
        let (handle, installed) = (view.handle, view.parts.iter().any(|part| part.installed > 0));
        let kinds: Vec<_> = view.parts.iter().map(|part| part.kind).collect();
        let mut doc = shown::reservation(view);
        pages::cut(&mut doc, skip);
        if !installed {
            return doc;
        }
        for (n, (row, kind)) in doc.parts.iter_mut().zip(kinds).enumerate().filter(|(_, (row, _))| row.installed > 0.0)
        {
            let usage = match kind {
                ResourceKind::Network => {
                    row.means = premium::means(self.node.tc(), &self.names, (handle, n));
                    row.colors = self.premium.colors((handle, n)).map(colors);
                    self.premium.measured((handle, n))
                }
                ResourceKind::Sla => {
                    let background = row.background.is_some();
                    row.means = premium::agreed(self.node.tc(), &self.names, &row.resource, background);
                    row.colors = self.premium.agreed_colors(&row.resource, background).map(colors);
                    self.premium.agreed(&row.resource, background)
                }
                ResourceKind::Measured => {
                    let found = self.mace.as_ref().and_then(|mace| mace.booked_flow((handle, n)));
                    let usage = found.as_ref().and_then(|(oif, flow, _)| self.meter.last(*oif, flow)).map(of_flow);
                    row.means = found.map(|(_, _, words)| words);
                    usage
                }
                _ => {
                    row.means = self.book.enforcers.means(&row.resource, handle, n);
                    self.book.enforcers.measured(&row.resource, handle, n)
                }
            };
            row.measured = usage.map(|usage| measured(kind, usage));
        }
        doc
    }

    /// Sends the answer of the engine to the client that waits for it.
    pub(crate) fn reply_book(&mut self, id: CallId, reply: Reply) {
        let Some(waiting) = self.book.calls.remove(&id.0) else { return };
        let Waiting { client, id, follows, page } = waiting;
        let line = match reply {
            Ok(said) => {
                if let (true, Said::Events { events, last, .. }) = (follows, &said) {
                    let seen = events.last().map_or(*last, |event| event.seq);
                    self.book.followers.add(client, seen);
                }
                ReplyLine::Ok { id, ok: Box::new(Answer::Book(self.shown(said, &page))) }
            }
            Err(refusal) => ReplyLine::Error { id, error: shown::problem(&refusal) },
        };
        self.console.pay(client, &line);
        if follows {
            self.catch_up(client);
        }
    }
}

/// The use of a flow of its own: what passed its policer, and what exceeded it and was best effort.
fn of_flow(found: FlowMeasured) -> Usage {
    let of = |bps: f64| ResourceKind::Measured.amount(bps as u64);
    let interval = Span::from_millis(found.interval_ms);
    Usage { amount: of(found.bps), refused: Some(of(found.excess_bps)), unreserved: None, interval }
}

fn colors(counted: ColorCounters) -> ColorsDoc {
    let [green, yellow, red] = counted.map(|of| ColorDoc { packets: of.packets, bytes: of.bytes });
    ColorsDoc { green, yellow, red }
}

fn measured(kind: ResourceKind, usage: Usage) -> MeasuredDoc {
    let shown = |measured: Amount| amount(kind, measured.count());
    MeasuredDoc {
        amount: shown(usage.amount),
        interval_s: usage.interval.as_nanos() as f64 / 1e9,
        refused: usage.refused.map(shown),
        unreserved: usage.unreserved.map(shown),
    }
}
