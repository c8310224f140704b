//! Commands inside commands: operands of wrappers, scripts of shells, code of interpreters, hooks of programs.

use super::programs::{Wrapper, arity};
use super::word::{HOLE, Word};

/// What a wrapper runs.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// The words of the command; empty when there is none.
    pub(super) words: Vec<Word>,
    /// Variables that are set for it.
    pub(super) variables: Vec<String>,
    /// Directories that it runs in, by option.
    pub(super) places: Vec<(String, Word)>,
}

/// Finds the command that a wrapper runs. `Err(None)`: it cannot be followed.
pub(super) fn unwrap(wrapper: &Wrapper, words: &[Word]) -> Result<Inner, Option<String>> {
    let mut inner = Inner::default();
    let mut at = 1;
    let mut replaced: Option<String> = None;
    while let Some(word) = words.get(at) {
        let text = word.literal().ok_or(None)?;
        if text == "--" {
            at += 1;
            break;
        }
        if wrapper.takes_assignments
            && let Some(name) = assigned_name(text)
        {
            inner.variables.push(name.to_owned());
            at += 1;
            continue;
        }
        if wrapper.name == "command" && matches!(text, "-v" | "-V" | "-pv" | "-pV") {
            return Ok(inner);
        }
        if !text.starts_with('-') {
            break;
        }
        let (option, attached) = match text.split_once('=') {
            Some((option, value)) if text.starts_with("--") => (option, Some(value.to_owned())),
            _ => (text, None),
        };
        if wrapper.flags.contains(&option) || is_cluster(wrapper, text) {
            at += 1;
            continue;
        }
        let short = text.get(..2).filter(|short| !text.starts_with("--") && wrapper.valued.contains(short));
        let (option, value) = if wrapper.valued.contains(&option) {
            match attached {
                Some(value) => (option, Word { form: value, ..word.clone() }),
                None => {
                    at += 1;
                    (option, words.get(at).cloned().ok_or(None)?)
                }
            }
        } else if let Some(short) = short {
            (short, Word { form: text.get(2..).unwrap_or_default().to_owned(), ..word.clone() })
        } else if wrapper.name == "nice" && text.len() > 1 && text.chars().skip(1).all(|digit| digit.is_ascii_digit()) {
            at += 1;
            continue;
        } else {
            return Err(None);
        };
        match (wrapper.name, option) {
            ("xargs", "-I" | "--replace") => replaced = Some(value.literal().ok_or(None)?.to_owned()),
            ("env", "-C" | "--chdir") => inner.places.push((option.to_owned(), value)),
            _ => {}
        }
        at += 1;
    }
    for _ in 0..wrapper.n_operands {
        if words.get(at).is_some_and(|word| word.literal().is_none()) {
            return Err(None);
        }
        at += 1;
    }
    if matches!(wrapper.name, "time" | "coproc") {
        while let Some(name) = words.get(at).and_then(Word::literal).and_then(assigned_name) {
            inner.variables.push(name.to_owned());
            at += 1;
        }
    }
    inner.words = words.get(at..).unwrap_or_default().to_vec();
    if wrapper.name == "xargs"
        && let Some(last) = inner.words.last().cloned()
    {
        match replaced.filter(|text| !text.is_empty()) {
            Some(replaced) => {
                for word in &mut inner.words {
                    word.form = word.form.replace(&replaced, &HOLE.to_string());
                }
            }
            None => inner.words.push(Word { form: HOLE.to_string(), range: last.range, has_tilde: false }),
        }
    }
    Ok(inner)
}

fn assigned_name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('=')?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Says whether a word is a cluster of the wrapper's flags.
fn is_cluster(wrapper: &Wrapper, text: &str) -> bool {
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty() && !letters.starts_with('-'))
    else {
        return false;
    };
    letters.chars().all(|letter| wrapper.flags.contains(&format!("-{letter}").as_str()))
}

/// Finds the script of a shell. `Ok(None)`: it runs a file, or says something about itself.
pub(super) fn shell_script(words: &[Word]) -> Result<Option<String>, &'static str> {
    const UNKNOWN: &str = "runs what is only known when it runs";
    let mut has_script = false;
    let mut tells = false;
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.literal().ok_or(UNKNOWN)?;
        match text {
            "--" => {
                at += 1;
                break;
            }
            "--login" | "--norc" | "--noprofile" | "--posix" | "--verbose" | "--restricted" => {}
            "--version" | "--help" => tells = true,
            _ if text.len() > 1 && text.starts_with(['-', '+']) && !text.starts_with("--") => {
                for letter in text.chars().skip(1) {
                    match letter {
                        'c' => has_script = true,
                        'e' | 'u' | 'x' | 'f' | 'n' | 'v' | 'l' | 'h' | 'm' | 'B' | 'C' | 'E' | 'H' | 'P' | 'T' => {}
                        'o' => {
                            at += 1;
                            let value = words.get(at).and_then(Word::literal).unwrap_or_default();
                            if !matches!(value, "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob" | "verbose") {
                                return Err("is started with an option that cannot be followed");
                            }
                        }
                        _ => return Err("is started with an option that cannot be followed"),
                    }
                }
            }
            _ if text.starts_with('-') => return Err("is started with an option that cannot be followed"),
            _ => break,
        }
        at += 1;
    }
    let operand = words.get(at).map(|word| word.literal().ok_or(UNKNOWN)).transpose()?;
    match operand {
        Some(script) if has_script => Ok(Some(script.to_owned())),
        Some(file) if is_stream(file) => Err("reads its script from elsewhere"),
        Some(_) => Ok(None),
        None if tells => Ok(None),
        None => Err("reads its script from elsewhere"),
    }
}

fn is_stream(file: &str) -> bool {
    file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/")
}

/// Checks an interpreter: no code among its options, and a file that it runs.
pub(super) fn interpreter(name: &str, words: &[Word], letters: &str, long: &[&str]) -> Result<(), String> {
    let mut has_operand = false;
    let mut is_after_option = false;
    for word in words.iter().skip(1) {
        if word.form.starts_with(HOLE) {
            return Err(format!("what {name:?} runs is only known when it runs"));
        }
        let text = word.form.as_str();
        let is_long = long
            .iter()
            .any(|option| text == *option || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')));
        let is_short = text.starts_with('-')
            && !text.starts_with("--")
            && text.chars().skip(1).any(|letter| letters.contains(letter));
        if is_long || is_short {
            return Err(format!("{name:?} is given code by {text:?}"));
        }
        if matches!(text, "--version" | "-V" | "-v" | "--help" | "-h") || text == "-m" {
            has_operand = true;
        } else if text.starts_with('-') && text.len() > 1 {
            is_after_option = true;
        } else if is_stream(text) {
            return Err(format!("{name:?} reads code from elsewhere"));
        } else {
            has_operand = true;
            // The value of an option, perhaps: options may follow.
            if !is_after_option {
                return Ok(());
            }
            is_after_option = false;
        }
    }
    if has_operand { Ok(()) } else { Err(format!("{name:?} reads code from elsewhere")) }
}

/// Options of git before its verb that take the next word.
const GIT_VALUED: &[&str] = &["-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source"];

/// Checks git: options and verbs that run commands.
pub(super) fn git(words: &[Word]) -> Result<(), String> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        if word.form.starts_with(HOLE) {
            return Err("what \"git\" does is only known when it runs".to_owned());
        }
        let text = word.form.as_str();
        if !text.starts_with('-') {
            break;
        }
        if text.starts_with("-c") || text.starts_with("--config-env") || text.starts_with("--exec-path=") {
            return Err(format!("\"git\" may run commands by {text:?}"));
        }
        at += if GIT_VALUED.contains(&text) { 2 } else { 1 };
    }
    let operands: Vec<&str> = words.iter().skip(at).map(|word| word.form.as_str()).collect();
    let (Some(verb), rest) = (operands.first().copied(), operands.get(1..).unwrap_or_default()) else { return Ok(()) };
    // Long options may be cut short, and may hold their value.
    let has = |option: &str| {
        rest.iter().any(|text| {
            let typed = text.split('=').next().unwrap_or(text);
            typed.len() > 3 && typed.starts_with("--") && option.starts_with(typed)
        })
    };
    let has_letter = |letter: char| {
        rest.iter().any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(letter))
    };
    let runs = match verb {
        "bisect" => rest.contains(&"run"),
        "submodule" => rest.contains(&"foreach"),
        "filter-branch" | "filter-repo" | "send-email" | "instaweb" | "daemon" | "shell" | "upload-pack"
        | "receive-pack" | "upload-archive" | "remote-ext" | "remote-fd" | "submodule--helper" | "difftool--helper"
        | "hook" | "for-each-repo" | "web--browse" | "cvsserver" | "http-backend" => true,
        // Other ways to push.
        "send-pack" | "http-push" | "p4" | "svn" | "cvsexportcommit" => true,
        "subtree" | "lfs" => rest.contains(&"push"),
        "rebase" => has("--exec") || has_letter('x'),
        "difftool" | "mergetool" => true,
        "grep" => has("--open-files-in-pager") || has_letter('O'),
        "clone" | "init" => {
            has("--upload-pack") || has("--config") || has("--template") || has_letter('c') || has_letter('u')
        }
        "fetch" | "pull" | "ls-remote" => has("--upload-pack"),
        "push" => has("--receive-pack") || has("--exec"),
        "archive" => has("--exec") || has("--remote"),
        "config" => !is_plain_config(rest),
        _ => false,
    };
    if runs || rest.iter().any(|text| text.starts_with("ext::")) {
        return Err(format!("\"git {verb}\" may run commands"));
    }
    Ok(())
}

/// Says whether `git config` only reads, or sets something that runs nothing.
fn is_plain_config(rest: &[&str]) -> bool {
    let operands: Vec<&str> = rest.iter().copied().filter(|text| !text.starts_with('-')).collect();
    let reads = rest.iter().any(|text| matches!(*text, "--get" | "--get-all" | "--get-regexp" | "-l" | "--list"))
        || matches!(operands.first(), Some(&("get" | "list")));
    let is_plain = |key: &str| {
        ["user.", "color.", "init.defaultbranch", "push.", "pull."]
            .iter()
            .any(|prefix| key.to_ascii_lowercase().starts_with(prefix))
    };
    reads || operands.len() < 2 || operands.first().is_some_and(|key| is_plain(key))
}

/// Checks programs whose operands may hold commands in a language of their own.
pub(super) fn texts(name: &str, texts: &[&str]) -> Result<(), String> {
    let runs = match name {
        // Old options stand in the first word, without a dash, and their values behind it.
        "tar" | "gtar" | "bsdtar" => {
            texts.first().is_some_and(|text| !text.starts_with('-') && text.contains(['I', 'F']))
        }
        // Variables may be the output of a command.
        "make" | "gmake" => texts.iter().any(|text| {
            *text == "-"
                || text.starts_with("/dev/")
                || text.contains("!=")
                || text.split_once('=').is_some_and(|(_, value)| value.contains(['$', '`']))
        }),
        "dc" => texts.iter().any(|text| text.contains('!')),
        "psql" | "mysql" | "mariadb" => {
            texts.iter().any(|text| text.contains('\\') || text.to_ascii_lowercase().contains("system"))
        }
        "sqlite3" => texts.iter().any(|text| {
            let is_dotted = |line: &str| {
                let mut letters = line.trim_start().chars();
                letters.next() == Some('.') && letters.next().is_some_and(char::is_alphabetic)
            };
            text.lines().any(is_dotted) || text.contains("load_extension") || text.contains("edit(")
        }),
        "cargo" | "rustc" => texts.iter().any(|text| text.contains("linker")),
        _ => false,
    };
    if runs { Err(format!("what {name:?} is given may hold commands")) } else { Ok(()) }
}

/// Checks sed: scripts made of addresses with `p`, `d`, `q`, `=` and of substitutions without flags that run or write.
pub(super) fn sed(words: &[Word]) -> Result<(), String> {
    let unknown = || Err("a script of \"sed\" may run commands or write files".to_owned());
    let mut scripts: Vec<&str> = Vec::new();
    let mut operands: Vec<&str> = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let text = word.form.as_str();
        match text {
            "-n" | "-E" | "-r" | "-i" | "-s" | "-u" | "-z" | "-nE" | "-ne" | "-nr" | "-En" | "-Ei" | "-iE"
            | "--posix" | "--quiet" | "--silent" | "--regexp-extended" | "--in-place" | "--version" | "--help" => {
                if text == "-ne" {
                    scripts.extend(rest.next().map(|word| word.form.as_str()));
                }
            }
            "-e" | "--expression" => scripts.extend(rest.next().map(|word| word.form.as_str())),
            _ if text.starts_with("-i.") || text.starts_with("--in-place=") => {}
            _ if text.starts_with("--expression=") => scripts.extend(text.strip_prefix("--expression=")),
            _ if text.starts_with('-') && text.len() > 1 => return unknown(),
            _ => operands.push(text),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    if words.iter().any(|word| word.form.starts_with(HOLE)) {
        return unknown();
    }
    if scripts.iter().all(|script| is_plain_sed(script)) { Ok(()) } else { unknown() }
}

fn is_plain_sed(script: &str) -> bool {
    !script.contains(HOLE)
        && script.split([';', '\n']).all(|part| {
            let part = part.trim();
            let command = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || "$,!~+ ".contains(letter));
            let command = match command.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
                Some((address, rest)) if !address.contains('\\') => {
                    rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || "$,!~+ ".contains(letter))
                }
                _ => command,
            };
            matches!(command, "" | "p" | "d" | "q" | "=" | "D" | "N" | "P" | "G") || is_plain_substitution(command)
        })
}

fn is_plain_substitution(command: &str) -> bool {
    let Some(rest) = command.strip_prefix('s') else { return false };
    let Some(border) = rest.chars().next().filter(|border| !border.is_alphanumeric() && *border != '\\') else {
        return false;
    };
    let mut n_borders = 0;
    let mut is_escaped = false;
    let mut flags = String::new();
    for letter in rest.chars() {
        if n_borders == 3 {
            flags.push(letter);
        } else if letter == border && !is_escaped {
            n_borders += 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    n_borders == 3 && flags.chars().all(|flag| flag.is_ascii_digit() || "gpiI".contains(flag))
}

/// Checks awk: programs without ways to run commands or to write files.
pub(super) fn awk(words: &[Word]) -> Result<(), String> {
    let unknown = || Err("a program of \"awk\" may run commands or write files".to_owned());
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let text = word.form.as_str();
        if matches!(text, "-F" | "-v") {
            rest.next();
        } else if text.starts_with("-F") || text.starts_with("-v") {
        } else if text.starts_with('-') {
            return unknown();
        } else {
            let is_plain = !text.contains(HOLE)
                && !text.contains(['|', '>', '@', '`'])
                && !["system", "getline", "close", "printf >", "load", "include"]
                    .iter()
                    .any(|part| text.contains(part));
            return if is_plain { Ok(()) } else { unknown() };
        }
    }
    unknown()
}

/// Returns the command without options before its verb, in every way in which these options may take the word behind
/// them: for programs whose verb matters.
pub(super) fn without_options(words: &[Word]) -> Vec<(Vec<Word>, bool)> {
    const MAX_OPTIONS: usize = 6;
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let is_option = |word: &Word| word.form.len() > 1 && word.form.starts_with('-');
    if arity(&name.form, None) < 2 || !rest.first().is_some_and(is_option) {
        return Vec::new();
    }
    let mut found: Vec<(Vec<Word>, bool)> = Vec::new();
    let mut open: Vec<(usize, usize, bool)> = vec![(0, 0, true)];
    while let Some((at, n_options, is_sure)) = open.pop() {
        match rest.get(at) {
            Some(word) if is_option(word) && n_options < MAX_OPTIONS => {
                if name.form == "git" {
                    let takes = GIT_VALUED.contains(&word.form.as_str());
                    open.push((at + if takes { 2 } else { 1 }, n_options + 1, is_sure));
                } else {
                    open.push((at + 1, n_options + 1, false));
                    open.push((at + 2, n_options + 1, false));
                }
            }
            _ => {
                let mut words = vec![name.clone()];
                words.extend_from_slice(rest.get(at..).unwrap_or_default());
                found.push((words, is_sure));
            }
        }
    }
    found
}
