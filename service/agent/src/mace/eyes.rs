//! The part of the data plane that recognises flows: a program of the kernel, or the plane in user space.

use linux::bpf::FlowRecogniser;
use terms::{Bytes, Fault, Span, Time, WatchedPorts};
use traffic::plan::ClassId;
use user_plane::recognition::{RecognisedFlows, WatchSpec};

/// The time between two questions to the plane in user space.
const ASK: Span = Span::from_millis(100);
/// The same, after it did not answer as it should.
const ASK_AGAIN: Span = Span::from_secs(1);

/// The recogniser at work.
pub(crate) enum Eyes {
    /// The program behind the flow program; its ring wakes the agent.
    Kernel(Box<FlowRecogniser>),
    /// The plane in user space, which is asked again and again.
    Plane(PlaneEyes),
}

/// The agent's side of recognition in user space.
pub(crate) struct PlaneEyes {
    watch: WatchSpec,
    /// True while the plane is known to watch as it was told.
    told: bool,
    arrived: Option<Bytes>,
    next: Time,
    /// The fault that was last said.
    said: Option<Fault>,
}

/// The next thing to ask of the plane.
pub(crate) enum PlaneQuestion {
    /// Watch these ports.
    Watch(WatchSpec),
    /// The flows that were recognised.
    Take,
}

impl Eyes {
    /// Watches exactly these ports from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn watch(&mut self, ports: Vec<WatchedPorts>) -> Result<(), Fault> {
        match self {
            Eyes::Kernel(recogniser) => recogniser.watch(&ports),
            Eyes::Plane(eyes) => {
                eyes.watch.ports = ports;
                eyes.forget();
                Ok(())
            }
        }
    }

    /// The bytes that promoted flows have brought; `None`: the plane in user space has not said it.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub(crate) fn arrived(&self) -> Result<Option<Bytes>, Fault> {
        match self {
            Eyes::Kernel(recogniser) => recogniser.arrived(ClassId::MEASURED).map(Some),
            Eyes::Plane(eyes) => Ok(eyes.arrived),
        }
    }

    /// The time of the next question to the plane in user space.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        match self {
            Eyes::Kernel(_) => None,
            Eyes::Plane(eyes) => Some(eyes.next),
        }
    }
}

impl PlaneEyes {
    pub(crate) fn new(watch: WatchSpec) -> PlaneEyes {
        PlaneEyes { watch, told: false, arrived: None, next: Time::ZERO, said: None }
    }

    /// Has the plane told again: it may be another one, or another interface.
    pub(crate) fn forget(&mut self) {
        (self.told, self.next) = (false, Time::ZERO);
    }

    /// The next question, if it is time for one; `at_once`: whatever the time.
    pub(crate) fn question(&mut self, now: Time, at_once: bool) -> Option<PlaneQuestion> {
        if !at_once && self.next > now {
            return None;
        }
        self.next = now + ASK;
        Some(if self.told { PlaneQuestion::Take } else { PlaneQuestion::Watch(self.watch.clone()) })
    }

    /// The plane watches.
    pub(crate) fn watching(&mut self) {
        (self.told, self.said) = (true, None);
    }

    /// The plane has answered.
    pub(crate) fn took(&mut self, found: &RecognisedFlows) {
        self.told = found.watching;
        self.arrived = found.watching.then_some(found.arrived);
    }

    /// The plane did not do as it was asked. True: it is to be said.
    pub(crate) fn failed(&mut self, now: Time, fault: Fault) -> bool {
        (self.told, self.arrived, self.next) = (false, None, now + ASK_AGAIN);
        self.said.replace(fault) != Some(fault)
    }
}
