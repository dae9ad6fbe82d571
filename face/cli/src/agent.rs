//! `sluice agent`.

use crate::args::AgentRunArgs;
use crate::complain::Complaint;
use daemon::{AgentConfig, StartError};
use linux::clock::Clock;
use std::process::ExitCode;
use std::sync::Arc;
use trust::Speaks;

/// Runs an agent in this process until it is stopped.
pub fn run(args: &AgentRunArgs) -> Result<ExitCode, Complaint> {
    let mut config = AgentConfig::load(&args.config).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    if let Some(level) = args.log {
        config.log = level;
    }
    if args.check {
        daemon::auth::load(&config).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
        if let Some(listen) = &config.listen {
            let clock = Clock::start();
            let opened = trust::server(&listen.files, Arc::new(move || clock.now()), Speaks::Agent);
            opened.map_err(|error| Complaint::usage(format!("[listen]: {error}")))?;
        }
        println!("{}: no mistake found", args.config.display());
        return Ok(ExitCode::SUCCESS);
    }
    daemon::run(config).map_err(|error| match error {
        StartError::Interfaces(_) => Complaint::usage(format!("{}: {error}", args.config.display())),
        StartError::Keys(_) => Complaint::usage(error.to_string()),
        _ => Complaint::world(error.to_string()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves callers from other machines for the agent that started this process.
pub fn front() -> Result<ExitCode, Complaint> {
    daemon::remote::front::run().map_err(|failed| Complaint::world(failed.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs an agent of what can be reserved on a machine without a configuration file.
pub fn own() -> Result<ExitCode, Complaint> {
    let config = daemon::own::config().map_err(Complaint::world)?;
    daemon::run(config).map_err(|error| Complaint::world(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
