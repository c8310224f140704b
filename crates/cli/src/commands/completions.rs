//! `abide completions`.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::error::Exit;
use crate::output;

pub(crate) fn run(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "abide", &mut script);
    output::out(&String::from_utf8_lossy(&script));
    Exit::Done
}
