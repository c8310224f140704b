//! The references of the command line and of the tools, as Markdown.

use std::fmt::Write as _;

use abide_core::tool::reference::reference;
use abide_schema::location::LocationRef;
use clap::CommandFactory as _;

use crate::args::{Cli, Global};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) fn run() -> Exit {
    let mut text = String::from(
        "# Command line\n\nMade from the code by `cargo xtask gen`.\n\nExit codes: 0 done, 1 failed, 2 usage, 3 needs a \
         permission or an answer, 4 the provider refused, 130 interrupted.\n",
    );
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&command, "abide", &mut text);
    output::out(&text);
    Exit::Done
}

fn describe(command: &clap::Command, path: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _infallible = write!(text, "\n## {path}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        describe(child, &format!("{path} {}", child.get_name()), text);
    }
}

/// Prints the tools of the directory.
pub(crate) async fn tools(global: Global) -> Result<Exit, CliError> {
    let instance = Instance::open(&global).await?;
    let directory = instance::directory(&global)?;
    let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await;
    let text = location.map(|location| reference(&location.registry().tools()));
    instance.close().await;
    output::out(&text?);
    Ok(Exit::Done)
}
