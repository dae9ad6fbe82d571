//! `sluice web`: a link that signs a browser in, with the rights of the caller.

use crate::complain::Complaint;
use crate::places::{PapersArgs, usual_broker};
use broker_service::client::{BrokerClient, BrokerEndpoint, Error};
use clap::Args;
use std::process::ExitCode;

/// `sluice web`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sluice web                                       by this machine's own broker\n  \
                  sluice web --broker https://broker.example.org:8443    by mutual TLS: see `sluice ca`\n\
The link is good once, for a minute. The browser that opens it may do what you may, for at most 12 hours; its own page has \
a way to sign out."
)]
pub struct WebArgs {
    /// The broker: unix:PATH or https://HOST:PORT [env: SLUICE_BROKER] [default: this machine's own]
    #[arg(long, short = 'b', value_name = "PLACE")]
    pub broker: Option<String>,
    /// Our certificates for a broker on another machine.
    #[command(flatten)]
    pub papers: PapersArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Asks for a ticket, and prints the link.
pub fn run(args: &WebArgs) -> Result<ExitCode, Complaint> {
    let said = match &args.broker {
        None => usual_broker(true)?,
        said => said.clone(),
    };
    let own = || Ok(BrokerClient::new(BrokerEndpoint::own()));
    let ticket = said.map_or_else(own, |text| args.papers.broker(&text))?.ticket().map_err(|error| match error {
        Error::Said(problem) => Complaint::refused(problem.detail.clone()),
        other => Complaint::world(other.to_string()),
    })?;
    match args.json {
        true => println!("{}", serde_json::json!(ticket)),
        false => println!("{}", ticket.address),
    }
    Ok(ExitCode::SUCCESS)
}
