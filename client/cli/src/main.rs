//! `sluice`: the command line. It parses and prints; the agent, the laboratory and the drivers do the work.
#![forbid(unsafe_code)]

mod agent;
mod args;
mod book;
mod boomerang;
mod broker;
mod ca;
mod complain;
mod completion;
mod copy;
mod decode;
mod directory;
mod doctor;
mod flows;
mod health;
mod lab;
mod login;
mod mace;
mod metrics;
mod pages;
mod places;
mod plane;
mod profile;
mod rates;
mod rsvp;
mod run;
mod screen;
mod shell;
mod sim;
mod slurm;
mod status;
mod testbed;
mod token;
mod top;
mod topology;
mod torture;
mod watch;
mod web;

use args::{Cli, Command};
use clap::Parser;
use complain::Complaint;
use std::process::ExitCode;

fn main() -> ExitCode {
    shell::answer();
    let cli = Cli::parse();
    if only_reads(&cli.command) {
        linux::process::end_on_broken_pipe();
    }
    match run(&cli) {
        Ok(code) => code,
        Err(complaint) => {
            eprintln!("{} {complaint}", screen::own_name());
            ExitCode::from(complaint.exit_code())
        }
    }
}

/// True for commands that leave nothing to clean up when they are interrupted.
fn only_reads(command: &Command) -> bool {
    !matches!(
        command,
        Command::Agent(_)
            | Command::RemoteFront
            | Command::AskBroker
            | Command::SendMail(_)
            | Command::DelayLine { .. }
            | Command::OwnAgent { .. }
            | Command::Broker(_)
            | Command::Up(_)
            | Command::Down(_)
            | Command::Demo(_)
            | Command::Lab(_)
            | Command::Copy(_)
            | Command::Run(_)
            | Command::Slurm(_)
            | Command::Profile(_)
            | Command::Torture(_)
            // It serves, and whoever asks may go away in the middle of an answer.
            | Command::Metrics(metrics::MetricsArgs { listen: Some(_), .. })
    )
}

fn run(cli: &Cli) -> Result<ExitCode, Complaint> {
    match &cli.command {
        Command::Up(args) => testbed::up(args),
        Command::Down(args) => testbed::down(args),
        Command::Demo(args) => lab::demo(args),
        Command::Lab(command) => lab::run(command),
        Command::Torture(command) => torture::run(command),
        Command::Doctor(args) => doctor::run(args),
        Command::Agent(args) => agent::run(args),
        Command::RemoteFront => agent::front(),
        Command::AskBroker => agent::ask_broker(),
        Command::SendMail(args) => broker::send_mail(args),
        Command::DelayLine { delay, interfaces } => testbed::delay_line(*delay, interfaces),
        Command::OwnAgent { config } => agent::own(config.as_deref()),
        Command::Broker(args) => broker::run(args),
        Command::Reserve(args) => book::reserve(args),
        Command::Enquire(args) => book::enquire(args),
        Command::May(args) => book::may::may(args),
        Command::Modify(args) => book::modify(args),
        Command::Bind(args) => book::bind(args),
        Command::Commit(args) => book::commit(args),
        Command::Cancel(args) => book::cancel::run(args),
        Command::Wait(args) => book::wait::run(args),
        Command::Resolve(args) => book::resolve(args),
        Command::List(args) => book::list(args),
        Command::Calendar(args) => book::calendar::run(args),
        Command::Topology(args) => topology::run(args),
        Command::Directory(args) => directory::run(args),
        Command::Audit(args) => book::audit::run(args),
        Command::Ca(args) => ca::run(args),
        Command::Token(command) => token::run(command),
        Command::Copy(args) => copy::run(args),
        Command::Run(args) => run::run(args),
        Command::Slurm(command) => slurm::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Plane(command) => plane::run(command),
        Command::Profile(args) => profile::run(args),
        Command::Rsvp(command) => rsvp::run(command),
        Command::Boomerang(command) => boomerang::run(command),
        Command::Mace(command) => mace::run(command),
        Command::Status(args) => status::run(args),
        Command::Top(args) => top::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Metrics(args) => metrics::run(args),
        Command::Health(args) => health::run(args),
        Command::Web(args) => web::run(args),
        Command::Login(args) => login::run(args),
        Command::Logout => login::out(),
        Command::Completions { shell } => {
            shell::script(&shell.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { dir } => {
            pages::write(dir)
                .map_err(|e| Complaint::world(format!("cannot write man pages to {}: {e}", dir.display())))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
