//! The broker under test, over two agents without faults. Their policy knows the calling user and no broker.

use super::broker_calls::{AGENTS, Wishes};
use super::http;
use super::target::{Found, ProgramUnderTest};
use crate::crash::Bed;
use bed::error::Error;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use documents::agent::Request;
use linux::anomaly::{InjectedFault, WatchedProgram, watch_at_exec};
use linux::error::SystemError;
use rpc::client::Client;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit for agents and broker to answer after a start without faults.
const START: Duration = Duration::from_secs(60);

/// The agents' policy: it allows local users only. A broker that recovers has no rule.
const POLICY: &str = "[[rule]]\nname = \"tests\"\nwho = [\"uid:*\"]\n";

/// A broker, its agents, and the changes that it acknowledged.
pub struct BrokerUnderTest {
    program: PathBuf,
    beds: [Bed; 2],
    agents: Vec<RunningProgram>,
    wishes: Wishes,
}

impl BrokerUnderTest {
    /// Makes a broker and agents without state.
    ///
    /// # Errors
    /// Namespaces or folders cannot be made.
    pub fn make(program: &Path) -> Result<BrokerUnderTest, Error> {
        let bed = |name: &str| -> Result<Bed, Error> {
            let bed = Bed::make(program, name, "policy = \"policy.toml\"\n")?;
            let file = bed.folder().join("policy.toml");
            std::fs::write(&file, POLICY).map_err(SystemError::doing(format!("write {}", file.display())))?;
            Ok(bed)
        };
        let beds = [bed(AGENTS[0])?, bed(AGENTS[1])?];
        let broker =
            BrokerUnderTest { program: program.to_owned(), beds, agents: Vec::new(), wishes: Wishes::default() };
        let text = "[webhooks]\nallow = [\"https://127.0.0.1:9/hooks/\"]\n";
        let file = broker.folder().join("broker.toml");
        std::fs::write(&file, text).map_err(SystemError::doing(format!("write {}", file.display())))?;
        Ok(broker)
    }

    fn folder(&self) -> &Path {
        self.beds[0].folder()
    }

    fn socket(&self) -> PathBuf {
        self.folder().join("broker.sock")
    }

    fn log(&self) -> PathBuf {
        self.folder().join("broker.log")
    }

    fn command(&self) -> Result<Command, Error> {
        let log = std::fs::File::create(self.log()).map_err(SystemError::doing("write the broker's log"))?;
        let mut command = Command::new(&self.program);
        command.arg("broker").arg("--no-agent").arg("--config").arg(self.folder().join("broker.toml"));
        command.arg("--socket").arg(self.socket()).arg("--state").arg(self.folder().join("broker"));
        for (name, bed) in AGENTS.iter().zip(&self.beds) {
            command.arg("--agent").arg(format!("{name}={}", bed.socket().display()));
        }
        command.stdout(Stdio::null()).stderr(log);
        Ok(command)
    }

    /// Starts both agents with the state that they had.
    fn start_agents(&mut self, patience: &Patience) -> Result<(), Error> {
        self.agents.clear(); // SIGKILL
        for bed in &self.beds {
            self.agents.push(bed.begin()?);
        }
        for (bed, agent) in self.beds.iter().zip(&mut self.agents) {
            bed.answers(agent, START, patience)?;
        }
        Ok(())
    }
}

impl ProgramUnderTest for BrokerUnderTest {
    fn name(&self) -> &'static str {
        "broker"
    }

    fn start_watched(
        &mut self,
        fault: Option<InjectedFault>,
        patience: &Patience,
    ) -> Result<(RunningProgram, WatchedProgram), Error> {
        if self.agents.is_empty() {
            self.start_agents(patience)?;
        }
        let mut command = self.command()?;
        watch_at_exec(&mut command);
        let broker = start(&mut command)?;
        let watch = WatchedProgram::of(broker.id(), fault)?;
        Ok((broker, watch))
    }

    fn answers(&self, running: &mut RunningProgram, most: Duration, patience: &Patience) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < most {
            if let Ok((200, _)) = http::ask(&self.socket(), "GET", "/v1/resources", "", &Value::Null) {
                return Ok(());
            }
            if !running.is_running() {
                return Err(Error::Void(format!("the broker ended by itself: {}", self.last_words())));
            }
            patience.wait(Duration::from_millis(1))?;
        }
        Err(Error::Void(format!("the broker does not answer within {most:?}")))
    }

    fn play(&mut self) {
        self.wishes.play(&self.socket());
    }

    fn start_again(&mut self, patience: &Patience) -> Result<RunningProgram, Error> {
        self.start_agents(patience)?;
        let mut broker = start(&mut self.command()?)?;
        self.answers(&mut broker, START, patience)?;
        Ok(broker)
    }

    /// Checks the broker's answers, and then the bookings of the agents.
    fn look(&mut self, found: &mut Found, _: &Patience) -> Result<(), Error> {
        found.lost.extend(self.wishes.check(&self.socket()));
        let sockets = [self.beds[0].socket(), self.beds[1].socket()];
        found.lost.extend(self.wishes.halves(&sockets)?);
        Ok(())
    }

    /// Reserves over both agents, and cancels one part at its agent.
    fn plant(&mut self, patience: &Patience) -> Result<(), Error> {
        let mut broker = self.start_again(patience)?;
        let taken = self.wishes.create_one(&self.socket());
        broker.stop();
        let handle = taken.ok_or_else(|| Error::Void("nothing was reserved that could be taken away".to_owned()))?;
        Client::connect(&self.beds[1].socket())?.call(Request::BookCancel { handle })?;
        Ok(())
    }

    fn begin_anew(&mut self) -> Result<(), Error> {
        self.agents.clear();
        for bed in &self.beds {
            bed.begin_anew()?;
        }
        // What is not there needs no removing.
        let _ = std::fs::remove_dir_all(self.folder().join("broker"));
        self.wishes = Wishes::default();
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().last().unwrap_or("it said nothing").to_owned()
    }
}
