//! Reservations, in a flat table: a handle is a place and a growing number, so that a stale handle never
//! names another reservation, and handles sort by age.

use crate::record::FlowRecord;
use alloc::vec::Vec;
use terms::ports::{Preemption, RHandle};
use terms::{FlowKey, FlowSpec, IfIndex, Rate, Session, Span, Time, Tspec};
use traffic::plan::{BucketId, BucketSpec, ClassId, FlowSpecEntry};

/// The number of a handle's bits for its place.
const PLACE_BITS: u32 = 24;
/// The most reservations of a node.
pub const MOST: usize = 1 << PLACE_BITS;

/// The index of a reservation in the table.
pub(crate) type Place = u32;

/// The flows of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flows {
    /// One sender's (FF), or any sender's (WF).
    One(FlowKey),
    /// Several senders' (SE), in ascending order, each once.
    Several(Vec<FlowKey>),
}

impl Flows {
    pub(crate) fn as_slice(&self) -> &[FlowKey] {
        match self {
            Flows::One(flow) => core::slice::from_ref(flow),
            Flows::Several(flows) => flows,
        }
    }

    pub(crate) fn contains(&self, flow: &FlowKey) -> bool {
        match self {
            Flows::One(one) => one == flow,
            Flows::Several(flows) => flows.binary_search(flow).is_ok(),
        }
    }

    /// The first flow, which names the reservation.
    pub(crate) fn first(&self) -> FlowKey {
        // Never empty: no request without filters is let in.
        self.as_slice()[0]
    }
}

/// One reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) oif: IfIndex,
    pub(crate) session: Session,
    pub(crate) flows: Flows,
    /// The bucket that its flows share.
    pub(crate) shared: Option<BucketId>,
    pub(crate) flowspec: FlowSpec,
    pub(crate) sender_tspec: Tspec,
    pub(crate) lifetime: Span,
    pub(crate) admitted: Rate,
    /// Its slot; `None`: it was admitted by measurement, and shares the grant of its class.
    pub(crate) slot: Option<admit::SlotId>,
    /// True: its packets were recognised, and it was not signalled in this run.
    pub(crate) recognised: bool,
    pub(crate) class: ClassId,
    pub(crate) bucket: BucketSpec,
    pub(crate) priority: Preemption,
    /// Its rank among the reservations of its link with the same defending priority and rate.
    pub(crate) rank: u32,
    /// For a reservation that was adopted and not requested again yet: the end of its lifetime.
    pub(crate) adopted_until: Option<Time>,
    /// The number of changes in the plane that it waits for.
    pub(crate) pending: u32,
}

impl Held {
    /// The flowspec as it is counted and policed.
    pub(crate) fn charged(&self) -> FlowSpec {
        crate::classes::charged(&self.session, &self.flowspec)
    }

    /// The entry of each of its flows in the plane.
    pub(crate) fn entry(&self) -> FlowSpecEntry {
        FlowSpecEntry {
            class: self.class,
            bucket: self.bucket,
            shared: self.shared,
            record: FlowRecord {
                session: self.session,
                flowspec: self.flowspec,
                sender_tspec: self.sender_tspec,
                admitted: self.admitted,
                lifetime: self.lifetime,
                priority: self.priority,
            }
            .encode(),
        }
    }
}

/// All reservations of a node.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    places: Vec<(RHandle, Option<Held>)>,
    vacant: Vec<Place>,
    last: u64,
}

impl Reservations {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Adds a reservation. The caller has checked that there are fewer than [`MOST`].
    pub(crate) fn insert(&mut self, held: Held) -> RHandle {
        self.last += 1;
        let place = self.vacant.pop().unwrap_or(self.places.len() as Place);
        let handle = RHandle(self.last << PLACE_BITS | u64::from(place));
        match self.places.get_mut(place as usize) {
            Some(at) => *at = (handle, Some(held)),
            None => self.places.push((handle, Some(held))),
        }
        handle
    }

    pub(crate) fn remove(&mut self, handle: RHandle) -> Option<Held> {
        let at = self.places.get_mut(place(handle) as usize).filter(|at| at.0 == handle)?;
        let held = at.1.take()?;
        self.vacant.push(place(handle));
        Some(held)
    }

    pub(crate) fn get(&self, handle: RHandle) -> Option<&Held> {
        self.places.get(place(handle) as usize).filter(|at| at.0 == handle)?.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, handle: RHandle) -> Option<&mut Held> {
        self.places.get_mut(place(handle) as usize).filter(|at| at.0 == handle)?.1.as_mut()
    }

    /// The reservation at a place.
    pub(crate) fn at(&self, place: Place) -> Option<(RHandle, &Held)> {
        let (handle, held) = self.places.get(place as usize)?;
        Some((*handle, held.as_ref()?))
    }

    pub(crate) fn at_mut(&mut self, place: Place) -> Option<&mut Held> {
        self.places.get_mut(place as usize)?.1.as_mut()
    }

    /// All reservations, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RHandle, &Held)> {
        self.places.iter().filter_map(|(handle, held)| Some((*handle, held.as_ref()?)))
    }

    /// All reservations, oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = (RHandle, &Held)> {
        let mut handles: Vec<RHandle> = self.iter().map(|(handle, _)| handle).collect();
        handles.sort_unstable();
        handles.into_iter().filter_map(|handle| Some((handle, self.get(handle)?)))
    }
}

/// The place of a handle's reservation, if it exists.
pub(crate) fn place(handle: RHandle) -> Place {
    handle.0 as Place & (MOST as Place - 1)
}
