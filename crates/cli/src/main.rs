//! The command line of abide.
//!
//! Only this crate prints. Results go to stdout, everything else to stderr; exit codes are those of [`error::Exit`].

mod args;
mod commands;
mod demo;
mod error;
mod instance;
mod logging;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::error::CliError;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    // The hidden helper of the process runner must not start a runtime.
    if let Some(Command::Helper(helper)) = &cli.command {
        return commands::helper::run(helper);
    }
    logging::start(&cli.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::fail(&CliError::failed(format!("the runtime cannot be started: {error}"))),
    };
    let result = runtime.block_on(dispatch(cli));
    // Blocking work that is abandoned (a hanging file system) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match result {
        Ok(exit) => exit.into(),
        Err(error) => output::fail(&error),
    }
}

async fn dispatch(cli: Cli) -> Result<error::Exit, CliError> {
    let Cli { command, global } = cli;
    match command {
        None => Ok(output::help()),
        Some(Command::Run(args)) => Box::pin(run::run(global, args)).await,
        Some(Command::Serve(args)) => Box::pin(commands::serve::run(global, args)).await,
        Some(Command::Session(command)) => Box::pin(commands::session::run(global, command)).await,
        Some(Command::Models(args)) => Box::pin(commands::models::run(global, args)).await,
        Some(Command::Permission(command)) => Box::pin(commands::permission::run(global, command)).await,
        Some(Command::Config(command)) => Box::pin(commands::config::run(global, command)).await,
        Some(Command::Db(command)) => Box::pin(commands::db::run(global, command)).await,
        Some(Command::Schema(command)) => commands::schema::run(command),
        Some(Command::Protocol(command)) => commands::protocol::run(command),
        Some(Command::Ai(command)) => Box::pin(commands::ai::run(global, command)).await,
        Some(Command::Doctor(args)) => Box::pin(commands::doctor::run(global, args)).await,
        Some(Command::Completions(args)) => Ok(commands::completions::run(&args)),
        Some(Command::Docs) => Ok(commands::docs::run()),
        Some(Command::Tools) => Box::pin(commands::docs::tools(global)).await,
        Some(Command::Demo(args)) => Box::pin(demo::run(args)).await,
        Some(Command::Helper(_)) => Ok(error::Exit::Done),
    }
}
