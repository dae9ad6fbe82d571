//! Flows that never signalled, in the node: the caller recognises and admits them.

use super::Node;
use control::tc::measured::MeasuredFlow;
use terms::ports::{PolicyPort, RHandle, Route};
use terms::probe::ProbeObserver;
use terms::{IfIndex, Rate, Refused, Time};

impl<R: Route, P: ProbeObserver, B: PolicyPort> Node<R, P, B> {
    /// Promotes a flow that was admitted by measurement; see [`control::Tc::promote`]. Drain [`Node::poll`] afterwards as
    /// after an input: the plane's answer is [`Output::Promoted`](crate::io::Output::Promoted).
    ///
    /// # Errors
    /// As for [`control::Tc::promote`].
    pub fn promote(&mut self, now: Time, wanted: &MeasuredFlow) -> Result<RHandle, Refused> {
        let promoted = self.world.tc.promote(wanted);
        self.end_turn(now);
        promoted
    }

    /// Says how much signalled controlled load is admitted by measurement; see [`control::tc::measured::set_room`].
    pub fn set_measured_room(&mut self, oif: IfIndex, room: Option<Rate>) {
        control::tc::measured::set_room(&mut self.world.tc, oif, room);
    }

    /// Demotes a promoted flow; see [`control::Tc::demote`]. Drain [`Node::poll`] afterwards as after an input.
    pub fn demote(&mut self, now: Time, handle: RHandle) {
        self.world.tc.demote(now, handle);
        self.end_turn(now);
    }
}
