//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use abide_core::secret::Secrets;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// A coding agent whose work cannot be lost.
#[derive(Debug, Parser)]
#[command(name = "abide", version, about, long_about = None, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 needs a permission or an answer, 4 the provider \
refused, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Directory of the database and all other data [default: the user's data directory]
    #[arg(long, global = true, value_name = "DIR", env = "ABIDE_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Work in this directory instead of the current one
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Log to stderr at this level (error, warn, info, debug, trace)
    #[arg(long, global = true, value_name = "LEVEL", env = "ABIDE_LOG_LEVEL", hide_env_values = true)]
    pub(crate) log_level: Option<String>,
    /// Values that neither logs nor exports show.
    #[arg(skip)]
    pub(crate) secrets: Secrets,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a prompt and show what happens
    Run(RunArgs),
    /// Serve the HTTP API
    Serve(ServeArgs),
    /// Look at sessions and their logs
    #[command(subcommand)]
    Session(SessionCommand),
    /// List the models of usable providers
    Models(ModelsArgs),
    /// Show what rules say
    #[command(subcommand)]
    Permission(PermissionCommand),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look after the database
    #[command(subcommand)]
    Db(DbCommand),
    /// Show event definitions
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Show the HTTP contract
    #[command(subcommand)]
    Protocol(ProtocolCommand),
    /// Use the model layer alone
    #[command(subcommand)]
    Ai(AiCommand),
    /// Check this machine, the data directory and the configuration
    Doctor(FormatArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Internal: prints the reference of the command line
    #[command(name = "__docs", hide = true)]
    Docs,
    /// Print the reference of the tools
    #[command(name = "__tools", hide = true)]
    Tools,
    /// Show a whole session with a scripted model, killed in the middle: no key, no network
    Demo(DemoArgs),
    /// Internal: starts and guards the commands of the shell tool
    #[command(name = "__shell", hide = true)]
    Helper(HelperArgs),
}

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// How a run is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    /// The answer on stdout, what the tools do on stderr
    #[default]
    Text,
    /// One JSON document at the end
    Json,
    /// Every event as it happens, one JSON document a line
    Events,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The prompt; `-`, or none with something piped in, reads it from standard input
    #[arg(value_name = "PROMPT", trailing_var_arg = true)]
    pub(crate) prompt: Vec<String>,
    /// Continue this session
    #[arg(short, long, value_name = "ID", conflicts_with = "continue_last")]
    pub(crate) session: Option<String>,
    /// Continue the newest session of this directory
    #[arg(short = 'c', long = "continue")]
    pub(crate) continue_last: bool,
    /// Use this model, for example anthropic/claude-sonnet-4-5
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Use this agent, for example build or plan
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Give the session this title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Attach a file; may be given more than once
    #[arg(short, long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// Allow what a rule asks about, once each; denials stay denials
    #[arg(long)]
    pub(crate) auto: bool,
    /// Use a running server instead of this process
    #[arg(long, value_name = "URL")]
    pub(crate) attach: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: RunFormat,
    /// Show the model's reasoning on stderr
    #[arg(long)]
    pub(crate) thinking: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; other addresses than loopback need a password (ABIDE_SERVER_PASSWORD)
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", env = "ABIDE_SERVER_HOST", hide_env_values = true)]
    pub(crate) host: String,
    /// Port to listen on; 0 takes any free one
    #[arg(short, long, default_value_t = 4096, env = "ABIDE_SERVER_PORT", hide_env_values = true)]
    pub(crate) port: u16,
    /// Allow web pages of this origin to use the API; may be given more than once
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors: Vec<String>,
    /// Settle what a crash interrupted, but let it go on only when asked
    #[arg(long, env = "ABIDE_NO_RESUME", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_resume: bool,
}

impl ServeArgs {
    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let host = if self.host == "localhost" { "127.0.0.1" } else { &self.host };
        host.parse().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the throwaway repository and its data
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HelperArgs {
    /// What the process runner passes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// How to print.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FormatArgs {
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List {
        /// Sessions of all directories, not of this one only
        #[arg(long)]
        all: bool,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Show the transcript of a session
    Show {
        /// The session
        id: String,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Show every event of a session's log
    Log {
        /// The session
        id: String,
        /// Only events after this log position
        #[arg(long)]
        after: Option<u64>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Write a session's log as a bundle that can be kept: one JSON record a line
    Export {
        /// The session
        id: String,
        /// Write to this file instead of stdout
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take a session over from a bundle, whole or not at all
    Import {
        /// The bundle; `-` reads standard input
        file: PathBuf,
    },
    /// Show a session as it was at a position of its log
    Replay {
        /// The session
        id: String,
        /// The log position, as `session log` shows it [default: the last one]
        #[arg(long, value_name = "SEQ")]
        to: Option<u64>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Copy a session's history into a new session
    Fork {
        /// The session
        id: String,
        /// Copy what the log held at this position, also what a revert has removed since
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Copy what came before this message
        #[arg(long, value_name = "MESSAGE", conflicts_with = "at")]
        before: Option<String>,
        /// Give the new session this title
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
    },
    /// Move a session to another directory
    Move {
        /// The session
        id: String,
        /// The directory
        to: PathBuf,
        /// Allow a directory of another project
        #[arg(long)]
        other_project: bool,
    },
    /// Look at what waits to be taken up, and change it
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Go back: stage it, look at it, then commit it or take it back
    #[command(subcommand)]
    Revert(RevertCommand),
    /// Settle what a dead process left, and say what was settled
    Recover {
        /// This session only
        id: Option<String>,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare a session's projections with its log
    Verify {
        /// The session
        id: String,
    },
    /// Delete a session with its children
    Delete {
        /// The session
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List what waits, in order
    List {
        /// The session
        id: String,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Let a waiting input wait until the present work is done
    Queue {
        /// The session
        id: String,
        /// The input
        input: String,
    },
    /// Take a waiting input back
    Cancel {
        /// The session
        id: String,
        /// The input
        input: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RevertCommand {
    /// Bring files back to before a message; messages stay until the commit
    Stage {
        /// The session
        id: String,
        /// The message to go back before; it goes too [default: the newest prompt]
        message: Option<String>,
        /// Leave files alone
        #[arg(long)]
        no_files: bool,
        /// Keep the message itself, drop only what came after it
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Take the staged revert back: files are as before it
    Clear {
        /// The session
        id: String,
    },
    /// Make the staged revert final: the messages go, files stay as they are
    Commit {
        /// The session
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionCommand {
    /// Show what is found in a command line, and which rule decides about it
    Explain {
        /// The command line
        line: String,
        /// The rules of this agent [default: the configured agent]
        #[arg(short, long, value_name = "NAME")]
        agent: Option<String>,
        #[command(flatten)]
        format: FormatArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the effective configuration; secrets are left out
    Show {
        /// Say where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        format: FormatArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Print the path of the database
    Path,
    /// Compare all projections with the logs
    Verify {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Make all projections anew from the logs
    Rebuild,
}

/// How reference data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// A Markdown page
    Markdown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// List the events
    List {
        /// How to print
        #[arg(long, value_enum, default_value_t)]
        format: ListFormat,
    },
    /// Print the JSON schema of an event's data
    Print {
        /// The event, for example session.next.step.ended
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProtocolCommand {
    /// List the routes
    Routes {
        /// How to print
        #[arg(long, value_enum, default_value_t)]
        format: ListFormat,
    },
    /// Print the OpenAPI document
    Openapi,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AiCommand {
    /// List the providers with their models, which key each wants, and whether it is there
    Models {
        /// This provider only
        #[arg(value_name = "PROVIDER")]
        provider: Option<String>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Make one model request and stream the answer
    Stream {
        /// The prompt; `-` reads it from standard input
        prompt: String,
        /// The model, for example anthropic/claude-sonnet-4-5
        #[arg(short, long, value_name = "PROVIDER/MODEL")]
        model: Option<String>,
        /// A system prompt
        #[arg(long, value_name = "TEXT")]
        system: Option<String>,
        /// How to print: the text, or every event as it comes, one JSON document a line
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
