//! Completion in a shell: the script, and the answers that it asks for.

use crate::args::Cli;
use crate::complain::Complaint;
use crate::completion::completed;
use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, Shells};

/// The variable by which the script says that this is a completion, and for which shell.
const VARIABLE: &str = "SLUICE_COMPLETE";

/// Completes the words and ends the process, if the script of `sluice completions` has started it.
pub fn answer() {
    CompleteEnv::with_factory(|| completed(Cli::command())).var(VARIABLE).complete();
}

/// Prints the script for a shell.
pub fn script(shell: &str) -> Result<(), Complaint> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| Complaint::usage(format!("{shell}: no such shell")))?;
    let mut text = Vec::new();
    completer.write_registration(VARIABLE, "sluice", "sluice", "sluice", &mut text)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
