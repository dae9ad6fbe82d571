//! The agent's end of a plane in user space.

use crate::protocol::{
    PairStatus, PlaneAnswer, PlaneHello, PlaneRequest, ServedInterface, VERSION, receive_answer, send_request,
};
use crate::recognition::{RecognisedFlows, WatchSpec};
use crate::serve::netns_number;
use linux::error::SystemError;
use linux::process;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terms::{Fault, FlowKey, IfIndex, Span, Time};
use traffic::plan::{ClassId, Plan, PlanOp};
use traffic::plane::{DataPlane, PlaneCounters};

/// How long the plane may take for an answer. Its thread answers between two bursts.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a plane, made anew when the plane was.
#[derive(Debug)]
pub struct UserPlane {
    path: PathBuf,
    /// The user that the plane may run as, beside root.
    user: Option<u32>,
    stream: Option<UnixStream>,
    served: Vec<ServedInterface>,
}

impl UserPlane {
    /// Connects to the plane of this network namespace. Its process must run as root or as this process's user: no
    /// other user may decide about packets.
    ///
    /// # Errors
    /// No plane listens there, or it is another user's, version's or namespace's.
    pub fn connect(path: &Path) -> Result<UserPlane, SystemError> {
        use std::os::unix::fs::MetadataExt;
        let user = std::fs::metadata("/proc/self").ok().map(|found| found.uid());
        let mut plane = UserPlane { path: path.to_owned(), user, stream: None, served: Vec::new() };
        plane.reconnect().map_err(SystemError::doing(format!("reach the plane at {}", path.display())))?;
        Ok(plane)
    }

    /// The interfaces that it serves, as it said when it was connected.
    pub fn served(&self) -> &[ServedInterface] {
        &self.served
    }

    /// Asks again what it serves; connects again if need be.
    ///
    /// # Errors
    /// The plane does not answer.
    pub fn greet(&mut self) -> Result<(), Fault> {
        match self.ask(&PlaneRequest::Hello { version: VERSION })? {
            PlaneAnswer::Hello(hello) => {
                self.served = hello.interfaces;
                Ok(())
            }
            other => Err(unexpected(other)),
        }
    }

    /// The state of each pair.
    ///
    /// # Errors
    /// The plane does not answer.
    pub fn status(&mut self) -> Result<Vec<PairStatus>, Fault> {
        match self.ask(&PlaneRequest::Status)? {
            PlaneAnswer::Status(pairs) => Ok(pairs),
            other => Err(unexpected(other)),
        }
    }

    /// Has flows that never signalled recognised at an interface, instead of what was watched there.
    ///
    /// # Errors
    /// The plane does not answer, does not serve the interface, or no packets pass there.
    pub fn watch(&mut self, oif: IfIndex, watch: &WatchSpec) -> Result<(), Fault> {
        match self.ask(&PlaneRequest::Watch { oif, watch: watch.clone() })? {
            PlaneAnswer::Applied => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Takes the flows that were recognised at an interface.
    ///
    /// # Errors
    /// The plane does not answer, or does not serve the interface.
    pub fn take_recognised(&mut self, oif: IfIndex) -> Result<RecognisedFlows, Fault> {
        match self.ask(&PlaneRequest::TakeRecognised { oif })? {
            PlaneAnswer::Recognised(flows) => Ok(flows),
            other => Err(unexpected(other)),
        }
    }

    /// The installed flows of a class at an interface, each with the time since its last packet.
    ///
    /// # Errors
    /// The plane does not answer, or does not serve the interface.
    pub fn silences(&mut self, oif: IfIndex, class: ClassId) -> Result<Vec<(FlowKey, Span)>, Fault> {
        match self.ask(&PlaneRequest::Silences { oif, class })? {
            PlaneAnswer::Silences(flows) => Ok(flows),
            other => Err(unexpected(other)),
        }
    }

    fn reconnect(&mut self) -> io::Result<()> {
        self.stream = None;
        let mut stream = UnixStream::connect(&self.path)?;
        let peer = process::peer(&stream)?;
        if peer.uid != 0 && Some(peer.uid) != self.user {
            let who = format!("user {} listens there, who is neither root nor ours", peer.uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, who));
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        send_request(&mut stream, &PlaneRequest::Hello { version: VERSION })?;
        let PlaneAnswer::Hello(PlaneHello { version: VERSION, netns, interfaces }) = receive_answer(&mut stream)?
        else {
            return Err(io::Error::other("it is of another version: restart it with this program"));
        };
        if netns != netns_number() {
            return Err(io::Error::other("it serves another network namespace"));
        }
        self.served = interfaces;
        self.stream = Some(stream);
        Ok(())
    }

    /// Asks, and connects anew if the connection is gone: the plane may have been started again. A batch says what is to
    /// be, so a second one does no harm.
    fn ask(&mut self, request: &PlaneRequest) -> Result<PlaneAnswer, Fault> {
        if let Some(stream) = &mut self.stream {
            let answered = send_request(stream, request).and_then(|()| receive_answer(stream));
            match answered {
                Ok(answer) => return Ok(answer),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(TOO_LONG),
                // What comes late would be taken for the answer to the next question.
                Err(_) => self.stream = None,
            }
        }
        self.reconnect().map_err(|error| silent(&error))?;
        let stream = self.stream.as_mut().ok_or(SILENT)?;
        match send_request(stream, request).and_then(|()| receive_answer(stream)) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.stream = None;
                Err(silent(&error))
            }
        }
    }
}

const SILENT: Fault =
    Fault { what: "the plane in user space does not answer (is `sluice plane serve` running?)", code: 0 };
const TOO_LONG: Fault = Fault { what: "a batch that is too long for the plane in user space", code: 90 };

fn silent(error: &io::Error) -> Fault {
    Fault { code: error.raw_os_error().unwrap_or(0), ..SILENT }
}

fn unexpected(answer: PlaneAnswer) -> Fault {
    match answer {
        PlaneAnswer::Fault(fault) => fault,
        _ => Fault { what: "the plane in user space answered something else", code: 71 },
    }
}

/// The plane keeps its own time.
impl DataPlane for UserPlane {
    fn apply(&mut self, _: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        match self.ask(&PlaneRequest::Apply(ops.to_vec()))? {
            PlaneAnswer::Applied => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn read(&mut self) -> Result<Plan, Fault> {
        match self.ask(&PlaneRequest::Read)? {
            PlaneAnswer::Plan(plan) => Ok(plan),
            other => Err(unexpected(other)),
        }
    }

    fn counters(&mut self) -> Result<PlaneCounters, Fault> {
        match self.ask(&PlaneRequest::Counters)? {
            PlaneAnswer::Counters(counters) => Ok(counters),
            other => Err(unexpected(other)),
        }
    }
}
