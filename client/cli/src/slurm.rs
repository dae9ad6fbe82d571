//! `sluice slurm`: jobs of Slurm with a share of the network, as their comment asks for it.
//!
//! Slurm's four hooks are one command, `sluice slurm hook`; the environment says which it is. PrologSlurmctld reserves in
//! the name of the job's owner, a node's Prolog binds the reservation to the job's control group, its Epilog removes the
//! group, and EpilogSlurmctld gives the reservation back. The comment is written by a stranger: it is read strictly, goes
//! to no shell, and says nothing about who asks and for which job. That Slurm says.

mod comment;
mod controller;
mod job;
mod node;

use crate::complain::Complaint;
use crate::places::BookArgs;
use clap::{Args, Subcommand};
use job::{HookContext, SlurmJob};
use std::process::ExitCode;
use terms::Span;

/// `sluice slurm ...`.
#[derive(Subcommand, Debug)]
pub enum SlurmCommand {
    /// Be one of the hooks of Slurm before and after a job, on its controller or on a node: reserve, bind, give back
    #[command(after_help = "\
Of slurm.conf, all four by one file (dist/slurm/sluice-hook):
  PrologSlurmctld=/etc/slurm/sluice-hook    reserves; where there is no room the job is queued again
  Prolog=/etc/slurm/sluice-hook             binds the reservation to the job's control group
  Epilog=/etc/slurm/sluice-hook             removes that group
  EpilogSlurmctld=/etc/slurm/sluice-hook    gives the reservation back
It does nothing for jobs whose comment asks for nothing. See docs/slurm.md.
Exit status: 0 done, or nothing to do; 1 the job is queued again, or held; 3 no broker or agent answers, or the node is
not set up: Slurm queues the job again, and drains the node if it was its Prolog.")]
    Hook(SlurmHookArgs),
    /// Say what a job's comment asks for; exit status 2 if it is wrong
    #[command(after_help = "Example:\n  sluice slurm check \"sluice: to=dtn2 forward=2gbit\"")]
    Check {
        /// The comment, as #SBATCH --comment has it
        comment: String,
    },
}

/// `sluice slurm hook`.
#[derive(Args, Debug)]
pub struct SlurmHookArgs {
    /// The broker (controller) or the agent (nodes).
    #[command(flatten)]
    pub book: BookArgs,
    /// The term of the reservation of a job without a time limit; it is given back when the job ends
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "30d")]
    pub longest: Span,
    /// The time that a reservation lasts beyond the job's limit, for Slurm to end it
    #[arg(long, value_name = "TIME", value_parser = documents::units::parse_span, default_value = "5m")]
    pub grace: Span,
}

/// Runs it.
pub fn run(command: &SlurmCommand) -> Result<ExitCode, Complaint> {
    match command {
        SlurmCommand::Check { comment } => check(comment),
        SlurmCommand::Hook(args) => {
            let (context, job) = SlurmJob::from_environment()?;
            match context {
                HookContext::Reserve => controller::reserve(args, &job),
                HookContext::Bind => node::bind(args, &job),
                HookContext::Unbind => node::unbind(&job),
                HookContext::GiveBack => controller::give_back(args, &job),
            }
        }
    }
}

fn check(text: &str) -> Result<ExitCode, Complaint> {
    match comment::parse(text).map_err(Complaint::usage)? {
        Some(wish) => println!("{wish}"),
        None => println!("it asks sluice for nothing: such a comment begins with \"{}\"", comment::BEGIN),
    }
    Ok(ExitCode::SUCCESS)
}
