//! What is known about programs: which run other commands, which run code given to them, how many words name what they
//! do, which operands are places.

/// A program that runs the command in its operands.
pub(crate) struct Wrapper {
    pub(crate) name: &'static str,
    /// Options that stand alone.
    pub(crate) flags: &'static [&'static str],
    /// Options with a value, in the next word or attached.
    pub(crate) valued: &'static [&'static str],
    /// Operands before the command.
    pub(crate) n_operands: usize,
    /// Whether `NAME=value` may stand before the command.
    pub(crate) takes_assignments: bool,
}

const fn wrapper(name: &'static str, flags: &'static [&'static str], valued: &'static [&'static str]) -> Wrapper {
    Wrapper { name, flags, valued, n_operands: 0, takes_assignments: false }
}

/// Wrappers. An option that is not listed makes the line opaque.
const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        takes_assignments: true,
        ..wrapper(
            "env",
            &["-", "-i", "-0", "-v", "--ignore-environment", "--null", "--debug"],
            &["-u", "--unset", "-C", "--chdir"],
        )
    },
    Wrapper {
        takes_assignments: true,
        ..wrapper(
            "sudo",
            &["-n", "-E", "-H", "-S", "-b", "-A", "-k", "-P", "--non-interactive", "--preserve-env", "--set-home"],
            &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "--user", "--group", "--prompt"],
        )
    },
    wrapper("doas", &["-n"], &["-u", "-C"]),
    wrapper("nohup", &[], &[]),
    wrapper(
        "time",
        &["-p", "-v", "-a", "--portability", "--verbose", "--append"],
        &["-f", "-o", "--format", "--output"],
    ),
    Wrapper {
        n_operands: 1,
        ..wrapper(
            "timeout",
            &["-v", "--verbose", "--foreground", "--preserve-status"],
            &["-k", "-s", "--kill-after", "--signal"],
        )
    },
    wrapper("nice", &[], &["-n", "--adjustment"]),
    wrapper("command", &["-p"], &[]),
    wrapper("builtin", &[], &[]),
    wrapper("coproc", &[], &[]),
    wrapper("setsid", &["-c", "-f", "-w", "--ctty", "--fork", "--wait"], &[]),
    wrapper("stdbuf", &[], &["-i", "-o", "-e", "--input", "--output", "--error"]),
    wrapper("ionice", &["-t"], &["-c", "-n"]),
    wrapper("busybox", &[], &[]),
    wrapper("toybox", &[], &[]),
    wrapper("noglob", &[], &[]),
    wrapper("nocorrect", &[], &[]),
    wrapper(
        "xargs",
        &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose", "--exit"],
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-s",
            "-d",
            "-E",
            "-a",
            "--replace",
            "--max-args",
            "--max-procs",
            "--max-lines",
            "--max-chars",
            "--delimiter",
            "--arg-file",
        ],
    ),
];

/// Finds a wrapper by the base name of a program.
pub(crate) fn wrapper_of(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

/// Programs whose operands hold a command, in ways too many to follow: `rm` in their operands counts as a command, and
/// an interpreter or wrapper there makes the line opaque. With a second word, only this use of the program.
const RUNNERS: &[&str] = &[
    "apptainer",
    "arch",
    "asdf",
    "bun x",
    "bundle exec",
    "bunx",
    "bwrap",
    "caffeinate",
    "cargo watch",
    "catchsegv",
    "cgexec",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "conda run",
    "cpulimit",
    "dbus-launch",
    "dbus-run-session",
    "direnv",
    "distrobox",
    "docker compose",
    "docker container",
    "docker exec",
    "docker run",
    "doppler",
    "dotenv",
    "dumb-init",
    "eatmydata",
    "envdir",
    "fakeroot",
    "faketime",
    "firejail",
    "flatpak",
    "flatpak-spawn",
    "flock",
    "gosu",
    "hatch run",
    "hyperfine",
    "i386",
    "ip netns",
    "ip vrf",
    "kubectl exec",
    "lerna exec",
    "linux32",
    "linux64",
    "ltrace",
    "mise",
    "nix",
    "nix-shell",
    "nox",
    "npm exec",
    "npm explore",
    "npm x",
    "npx",
    "nq",
    "nsenter",
    "numactl",
    "nvm exec",
    "nx exec",
    "oc exec",
    "op run",
    "pdm run",
    "perf",
    "pipenv run",
    "pipx",
    "pkexec",
    "pnpm dlx",
    "pnpm exec",
    "pnpm x",
    "podman compose",
    "podman container",
    "podman exec",
    "podman run",
    "poetry run",
    "prlimit",
    "proot",
    "qemu-x86_64",
    "rlwrap",
    "run-parts",
    "run0",
    "runcon",
    "rye run",
    "setarch",
    "setpriv",
    "setuidgid",
    "singularity",
    "softlimit",
    "ssh",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "su-exec",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-run",
    "taskset",
    "time-limit",
    "tini",
    "toolbox",
    "torsocks",
    "tox",
    "tsp",
    "turbo exec",
    "uname26",
    "unbuffer",
    "unshare",
    "uv run",
    "uvx",
    "vagrant",
    "valgrind",
    "wine",
    "x86_64",
    "xcrun",
    "xvfb-run",
    "yarn dlx",
    "yarn exec",
];

/// Says whether a program, used this way, is a runner. Options may stand before the second word.
pub(crate) fn is_runner(name: &str, words: &[&str]) -> bool {
    let is_loader = name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so";
    is_loader
        || RUNNERS.iter().any(|runner| match runner.split_once(' ') {
            Some((program, verb)) => program == name && words.contains(&verb),
            None => *runner == name,
        })
}

/// Says whether a program writes the files that its operands name.
pub(crate) fn puts_files(name: &str) -> bool {
    matches!(name, "cp" | "mv" | "ln" | "tee" | "install" | "touch" | "chmod" | "truncate" | "dd")
}

/// Commands that always run text as code, or change what later words mean.
const ALWAYS_OPAQUE: &[&str] = &[
    "!",
    "((",
    "-",
    ".",
    "[[",
    "alias",
    "at",
    "autoload",
    "batch",
    "bind",
    "capsh",
    "case",
    "compgen",
    "complete",
    "crontab",
    "do",
    "done",
    "ed",
    "elif",
    "else",
    "emacs",
    "emacsclient",
    "emulate",
    "enable",
    "entr",
    "esac",
    "eval",
    "ex",
    "exec",
    "expect",
    "fc",
    "fi",
    "for",
    "function",
    "functions",
    "gdb",
    "gvim",
    "hash",
    "hx",
    "if",
    "in",
    "kak",
    "let",
    "lldb",
    "logout",
    "m4",
    "micro",
    "nano",
    "newgrp",
    "nvim",
    "parallel",
    "pico",
    "rc",
    "repeat",
    "runuser",
    "rvim",
    "sched",
    "screen",
    "script",
    "select",
    "sem",
    "sg",
    "socat",
    "source",
    "su",
    "then",
    "tmux",
    "trap",
    "unalias",
    "until",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "watch",
    "while",
    "xterm",
    "zcompile",
    "zle",
    "zmodload",
    "{",
    "}",
];

/// Says whether the command is always opaque.
pub(crate) fn is_always_opaque(name: &str) -> bool {
    ALWAYS_OPAQUE.contains(&name)
}

/// Shells whose `-c` script is scanned.
pub(crate) fn is_posix_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "dash"
            | "zsh"
            | "ksh"
            | "ash"
            | "mksh"
            | "rbash"
            | "yash"
            | "posh"
            | "osh"
            | "lksh"
            | "oksh"
            | "sash"
    )
}

/// Returns the options by which an interpreter takes code: letters of short options, and long options. `None`: it is
/// no interpreter.
pub(crate) fn code_options(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    Some(match stem {
        "python" | "pypy" | "ipython" | "jython" | "micropython" => ("ci", &[]),
        "perl" => ("eEMmdI", &[]),
        "ruby" | "jruby" => ("erI", &["--require"]),
        "node" | "nodejs" => {
            ("epr", &["--eval", "--print", "--require", "--import", "--loader", "--experimental-loader"])
        }
        "bun" | "deno" => ("ep", &["--eval", "--print", "--preload", "eval", "exec", "repl"]),
        "php" => ("rRBEFda", &["--run"]),
        "lua" | "luajit" => ("el", &[]),
        "tclsh" | "wish" => ("", &[]),
        "gnuplot" | "ocaml" | "ghc" | "kotlin" | "swift" | "raku" | "ts-node" | "tsx" | "rust-script" | "irb"
        | "crystal" | "osascript" | "Rscript" | "guile" | "racket" | "sbcl" | "clisp" | "groovy" | "scala"
        | "elixir" | "erl" => ("e", &["--eval", "-eval", "--load"]),
        "R" | "julia" | "octave" => ("eE", &["--eval", "--print"]),
        "pwsh" | "powershell" => ("ceCE", &["-Command", "-EncodedCommand", "-command"]),
        "fish" | "csh" | "tcsh" | "nu" | "xonsh" | "elvish" => ("cC", &["--command", "--commands", "--init-command"]),
        _ => return None,
    })
}

/// Options by which compilers run or load something.
const GCC_OPTIONS: &[&str] = &["-wrapper", "-fplugin", "-specs", "--specs", "-B"];

/// Options by which programs that are no interpreters run commands.
const EXEC_OPTIONS: &[(&str, &[&str])] = &[
    ("ansible", &["-a", "--args"]),
    ("apt", &["-o", "--option", "-c", "--config-file"]),
    ("apt-get", &["-o", "--option", "-c", "--config-file"]),
    ("bash", &["--rcfile", "--init-file"]),
    ("cargo", &["--config"]),
    ("cmake", &["-E", "-P"]),
    ("curl", &["-K", "--config"]),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("fdfind", &["-x", "-X", "--exec", "--exec-batch"]),
    (
        "find",
        &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"],
    ),
    ("c++", GCC_OPTIONS),
    ("cc", GCC_OPTIONS),
    ("cpio", &["--rsh-command"]),
    ("dpkg", &["--pre-invoke", "--post-invoke"]),
    ("fzf", &["--preview", "--bind", "--with-shell"]),
    ("g++", GCC_OPTIONS),
    ("gcc", GCC_OPTIONS),
    ("go", &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec"]),
    ("just", &["-c", "--command", "--shell", "--shell-arg"]),
    ("less", &["+"]),
    ("latex", &["-shell-escape", "--shell-escape", "-enable-write18"]),
    ("make", &["--eval", "-f-", "SHELL=", "MAKEFLAGS=", ".SHELLFLAGS=", "-E"]),
    ("gmake", &["--eval", "-f-", "SHELL=", "MAKEFLAGS=", ".SHELLFLAGS=", "-E"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("nc", &["-e", "-c", "--exec", "--sh-exec"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec"]),
    ("npm", &["-c", "--call", "--script-shell", "--node-options"]),
    ("npx", &["-c", "--call", "--node-options"]),
    ("openssl", &["-engine", "-provider-path", "-provider"]),
    ("pdflatex", &["-shell-escape", "--shell-escape", "-enable-write18"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o", "-F"]),
    ("sftp", &["-S", "-o", "-F"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("ssh", &["-o", "-F"]),
    (
        "tar",
        &[
            "-I",
            "-F",
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ],
    ),
    ("tcpdump", &["-z"]),
    ("wget", &["-e", "--execute", "--use-askpass", "--config"]),
    ("zip", &["-TT", "--unzip-command"]),
];

/// Returns the option of `words` by which the program runs a command, if there is one.
pub(crate) fn exec_option<'w>(name: &str, words: &[&'w str]) -> Option<&'w str> {
    let (_, options) = EXEC_OPTIONS.iter().find(|(program, _)| *program == name)?;
    words.iter().copied().find(|word| options.iter().any(|option| is_option(word, option)))
}

/// Says whether a word is the option, with or without an attached value, alone or in a cluster of letters.
fn is_option(word: &str, option: &str) -> bool {
    if word == option || (option.ends_with('=') || option == "+") && word.starts_with(option) {
        return true;
    }
    if let Some(rest) = word.strip_prefix(option)
        && rest.starts_with('=')
    {
        return true;
    }
    // Long options may be cut short.
    if option.starts_with("--") {
        let typed = word.split('=').next().unwrap_or(word);
        return typed.len() > 3 && typed.starts_with("--") && option.starts_with(typed);
    }
    let mut letters = option.chars();
    match (letters.next(), letters.next(), letters.next()) {
        (Some('-'), Some(letter), None) => {
            word.len() > 1 && word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
        }
        _ => false,
    }
}

/// Programs of which two words say what they do.
const ARITY_2: &[&str] = &[
    "bazel",
    "brew",
    "bun",
    "cargo",
    "cdk",
    "cf",
    "cmake",
    "composer",
    "consul",
    "crictl",
    "deno",
    "docker",
    "eksctl",
    "firebase",
    "flyctl",
    "git",
    "go",
    "gradle",
    "helm",
    "heroku",
    "hugo",
    "ip",
    "kind",
    "kubectl",
    "kustomize",
    "make",
    "mc",
    "minikube",
    "mongosh",
    "mysql",
    "mvn",
    "ng",
    "npm",
    "npx",
    "nvm",
    "nx",
    "openssl",
    "pip",
    "pipenv",
    "pnpm",
    "poetry",
    "podman",
    "psql",
    "pulumi",
    "python",
    "pyenv",
    "rake",
    "rbenv",
    "redis-cli",
    "rustup",
    "serverless",
    "skaffold",
    "sls",
    "sst",
    "swift",
    "systemctl",
    "terraform",
    "tmux",
    "turbo",
    "ufw",
    "vault",
    "vercel",
    "volta",
    "wp",
    "yarn",
];

/// Programs, or programs with their first word, of which three words say what they do.
const ARITY_3: &[&str] = &[
    "aws",
    "az",
    "bun run",
    "bun x",
    "cargo add",
    "cargo run",
    "consul kv",
    "deno task",
    "docker builder",
    "docker compose",
    "docker container",
    "docker image",
    "docker network",
    "docker volume",
    "doctl",
    "eksctl create",
    "gcloud",
    "gh",
    "git config",
    "git remote",
    "git stash",
    "ip addr",
    "ip link",
    "ip netns",
    "ip route",
    "kind create",
    "kubectl kustomize",
    "kubectl rollout",
    "mc admin",
    "npm exec",
    "npm init",
    "npm run",
    "npm view",
    "openssl req",
    "openssl x509",
    "pnpm dlx",
    "pnpm exec",
    "pnpm run",
    "podman container",
    "podman image",
    "pulumi stack",
    "sfdx",
    "terraform workspace",
    "vault auth",
    "vault kv",
    "yarn dlx",
    "yarn run",
];

/// Returns how many words say what a command does.
pub(crate) fn arity(name: &str, second: Option<&str>) -> usize {
    let pair = second.map(|second| format!("{name} {second}"));
    if ARITY_3.contains(&name) || pair.is_some_and(|pair| ARITY_3.contains(&pair.as_str())) {
        3
    } else if ARITY_2.contains(&name) {
        2
    } else {
        1
    }
}

/// Programs whose operands are places.
pub(crate) fn takes_paths(name: &str) -> bool {
    matches!(
        name,
        "rm" | "cp"
            | "mv"
            | "ln"
            | "mkdir"
            | "rmdir"
            | "touch"
            | "chmod"
            | "chown"
            | "tee"
            | "cat"
            | "head"
            | "tail"
            | "ls"
            | "install"
            | "truncate"
            | "shred"
            | "unlink"
            | "find"
            | "less"
            | "more"
            | "dd"
    )
}

/// Variables that change nothing about what runs although their names look so.
const PLAIN_EXCEPTIONS: &[&str] = &[
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CGO_ENABLED",
    "DOCKER_BUILDKIT",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_TERMINAL_PROMPT",
    "GOARCH",
    "GOOS",
    "NODE_ENV",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

const LOADED_NAMES: &[&str] = &[
    "AR",
    "AS",
    "BROWSER",
    "CC",
    "CPP",
    "CXX",
    "ENV",
    "EXECIGNORE",
    "GLOBIGNORE",
    "HOME",
    "IFS",
    "LD",
    "MAKEFILES",
    "NM",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "SHELL",
    "VISUAL",
    "cdpath",
    "fpath",
    "module_path",
    "path",
    "psvar",
];

const LOADED_PREFIXES: &[&str] = &[
    "ANSIBLE_",
    "AWS_",
    "BASH",
    "BUNDLE_",
    "BUN_",
    "CARGO_",
    "CGO_",
    "CLASSPATH",
    "CMAKE_",
    "COMPOSE_",
    "DENO_",
    "DOCKER_",
    "DYLD_",
    "ELECTRON_",
    "FZF_",
    "GCC_",
    "GEM_",
    "GIT_",
    "GNUPG",
    "GO",
    "GPG_",
    "GRADLE_",
    "HELM_",
    "JAVA",
    "JDK_",
    "KUBE",
    "LD_",
    "LESS",
    "LUA_",
    "MAKE",
    "MAN",
    "MAVEN_",
    "NODE_",
    "NPM_",
    "NPX_",
    "PERL",
    "PHP",
    "PIP_",
    "PNPM_",
    "POETRY_",
    "PYTHON",
    "RSYNC_",
    "RUBY",
    "RUST",
    "SHELLOPTS",
    "SSH_",
    "SUDO_",
    "SYSTEMD_",
    "TAR_",
    "TF_",
    "UV_",
    "VSCODE_",
    "XDG_",
    "YARN_",
    "ZDOTDIR",
    "ZSH",
    "_JAVA",
    "npm_config_",
];

const LOADED_SUFFIXES: &[&str] = &[
    "ASKPASS", "CMD", "COMMAND", "CONFIG", "EDITOR", "FLAGS", "HOME", "HOOK", "INIT", "LINKER", "OPTIONS", "OPTS",
    "INPUTRC", "PAGER", "PATH", "PRELOAD", "PROGRAM", "RSH", "RUNNER", "SHELL", "WRAPPER",
];

/// Says whether setting a variable may change what runs: loaders, search paths, editors, pagers, options of tools.
pub(crate) fn is_loaded_variable(name: &str) -> bool {
    !PLAIN_EXCEPTIONS.contains(&name)
        && (LOADED_NAMES.contains(&name)
            || LOADED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || LOADED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}
