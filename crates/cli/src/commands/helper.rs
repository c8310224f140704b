//! The hidden helper that starts and guards commands of the shell tool.

use std::process::ExitCode;

use crate::args::HelperArgs;

pub(crate) fn run(_args: &HelperArgs) -> ExitCode {
    abide_core::shell::process::helper::run()
}
