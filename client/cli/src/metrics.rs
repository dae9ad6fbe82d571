//! `sluice metrics`: what an agent counts, as text for Prometheus, once or at an address.

use crate::complain::Complaint;
use crate::places::AgentArgs;
use broker_service::metrics_page;
use clap::Args;
use documents::agent::{Answer, Request};
use documents::book::BookAnswer;
use metrics::{AgentFigures, of_agent};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer serves all who ask.
const LIFE: Duration = Duration::from_millis(500);

/// `sluice metrics`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sluice metrics                               once, of this machine's agent\n  \
                  sluice metrics --listen 127.0.0.1:9464       http://127.0.0.1:9464/metrics, for Prometheus\n\
It asks with the rights of whoever runs it: root, an operator, or a member of the socket's group whom `auditors` in the policy \
names. A broker has the page of all its agents at /metrics, for operators and auditors by certificate.")]
pub struct MetricsArgs {
    /// Serve the page at this address of the loopback, to every program of this machine
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Prints the page, or serves it.
pub fn run(args: &MetricsArgs) -> Result<ExitCode, Complaint> {
    let Some(at) = args.listen else {
        print!("{}", of_agent(Some(&ask(&args.agent)?)));
        return Ok(ExitCode::SUCCESS);
    };
    let (place, kept) = (args.agent.clone(), Mutex::new(None::<(Instant, String)>));
    let page = move || {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = kept.as_ref().filter(|(came, _)| came.elapsed() < LIFE) {
            return text.clone();
        }
        let found = ask(&place);
        if let Err(complaint) = &found {
            eprintln!("sluice: {complaint}");
        }
        let text = of_agent(found.ok().as_ref());
        *kept = Some((Instant::now(), text.clone()));
        text
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ready = |at| eprintln!("metrics at http://{at}/metrics");
    runtime.block_on(metrics_page::export(at, ready, page))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks an agent for everything that its page shows.
pub fn ask(place: &AgentArgs) -> Result<AgentFigures, Complaint> {
    let mut client = place.connect()?;
    let odd = |what: &str| Complaint::world(format!("the agent's answer to {what} makes no sense"));
    let Answer::Status(status) = client.call(Request::Status)? else { return Err(odd("status")) };
    let Answer::Counters(counters) = client.call(Request::Counters)? else { return Err(odd("counters")) };
    let Answer::Book(BookAnswer::Resources(resources)) = client.call(Request::resources(None))? else {
        return Err(odd("resources"));
    };
    Ok(AgentFigures { status, counters, resources })
}
