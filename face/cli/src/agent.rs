//! `sluice agent`.

use crate::args::AgentRunArgs;
use crate::complain::Complaint;
use daemon::{AgentConfig, StartError};
use std::process::ExitCode;

/// Runs an agent in this process until it is stopped.
pub fn run(args: &AgentRunArgs) -> Result<ExitCode, Complaint> {
    let mut config = AgentConfig::load(&args.config).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
    if let Some(level) = args.log {
        config.log = level;
    }
    if args.check {
        daemon::auth::load(&config).map_err(|mistake| Complaint::usage(mistake.to_string()))?;
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
