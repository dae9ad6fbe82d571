//! `sluice agent`.

use crate::args::AgentRunArgs;
use crate::complain::Complaint;
use agent_service::{AgentConfig, StartError};
use linux::notify::Supervisor;
use linux::process::ProcessId;
use std::path::Path;
use std::process::ExitCode;

/// Runs an agent in this process until it is stopped.
pub fn run(args: &AgentRunArgs) -> Result<ExitCode, Complaint> {
    let supervisor = Supervisor::take();
    let mut config = AgentConfig::load(&args.config).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    if let Some(level) = args.log {
        config.log = level;
    }
    config.pins.clone_from(&args.pins);
    if args.check {
        let mistakes = agent_service::check::mistakes(&config);
        if !mistakes.is_empty() {
            return Err(Complaint::usage(mistakes.join("\n")));
        }
        agent_service::check::notes(&config).iter().for_each(|note| println!("note: {note}"));
        println!("{}: no mistake found", args.config.display());
        return Ok(ExitCode::SUCCESS);
    }
    agent_service::run_supervised(config, supervisor).map_err(|error| match error {
        StartError::Interfaces(_) => Complaint::usage(format!("{}: {error}", args.config.display())),
        StartError::Keys(_) => Complaint::usage(error.to_string()),
        _ => Complaint::world(error.to_string()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves callers from other machines for the agent that started this process.
pub fn front() -> Result<ExitCode, Complaint> {
    agent_service::remote::front::run().map_err(|failed| Complaint::world(failed.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Puts a question to a broker for the agent that started this process.
pub fn ask_broker() -> Result<ExitCode, Complaint> {
    agent_service::book::question::run().map_err(Complaint::world)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the agent that a broker starts on its own machine: by that file, or else with the resources that it
/// finds. It ends when its standard input ends, as it does with the broker, however that ends.
pub fn own(file: Option<&Path>) -> Result<ExitCode, Complaint> {
    let config = match file {
        Some(file) => AgentConfig::load(file).map_err(|mistake| Complaint::usage(mistake.to_string()))?,
        None => agent_service::own::config().map_err(Complaint::world)?,
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(end_with_input)?;
    agent_service::run(config).map_err(|error| Complaint::world(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of the input, and ends this process as a crash would: state in force stays, and the next
/// agent adopts it.
fn end_with_input() {
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    let _ = ProcessId::of(std::process::id()).map(|own| own.signal(9));
}
