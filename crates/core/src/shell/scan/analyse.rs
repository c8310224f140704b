//! Says what one command is: what it runs itself, how rules may name it, what places it works on.

use super::code;
use super::programs::{
    arity, code_options, exec_option, is_always_opaque, is_loaded_variable, is_posix_shell, is_runner, puts_files,
    takes_paths, wrapper_of,
};
use super::word::{HOLE, Word, base_name, join};
use super::{Command, Dialect, MAX_NESTING, Place, Scan, Spelling, Usage};

/// Collects into a scan.
pub(super) struct Finder<'f, 's> {
    pub(super) scan: &'f mut Scan,
    pub(super) source: &'s str,
    pub(super) nesting: usize,
    /// Whether patterns of this line may be saved.
    pub(super) offers_saves: bool,
}

/// One command with its words.
pub(super) struct Call<'w> {
    pub(super) words: &'w [Word],
    pub(super) text: String,
    pub(super) form: String,
    pub(super) is_inner: bool,
    pub(super) depth: usize,
}

impl Finder<'_, '_> {
    /// Makes the line opaque; the first reason is kept.
    pub(super) fn opaque(&mut self, reason: impl Into<String>) {
        self.scan.opaque.get_or_insert_with(|| reason.into());
    }

    /// Adds a redirection without a command.
    pub(super) fn bare(&mut self, text: String, form: String) {
        self.scan.commands.push(Command { text, save: None, is_inner: false, form, spellings: Vec::new() });
    }

    /// Adds a place.
    pub(super) fn place(&mut self, word: &Word, usage: Usage) {
        let Some(path) = word.literal() else {
            self.scan.has_unknown_place = true;
            return;
        };
        if path.is_empty() {
            return;
        }
        if word.has_tilde && path != "~" && !path.starts_with("~/") {
            self.scan.has_unknown_place = true;
            return;
        }
        // A quoted tilde is a name like any other.
        let path = if path.starts_with('~') && !word.has_tilde { format!("./{path}") } else { path.to_owned() };
        if matches!(usage, Usage::Enter | Usage::Write) && is_of_git(&path) {
            self.opaque("git looks for commands in the place that it writes or goes to");
        }
        let place = Place { path, usage };
        if !self.scan.places.contains(&place) {
            self.scan.places.push(place);
        }
    }

    /// Adds a command, and those that it runs.
    pub(super) fn call(&mut self, call: Call<'_>) {
        let Some(first) = call.words.first() else { return };
        if call.depth > MAX_NESTING {
            self.opaque("commands stand too deep inside each other");
            return;
        }
        let Some(name) = first.literal().filter(|name| !name.is_empty()) else {
            self.opaque("the name of a command is only known when it runs");
            self.push(&call, None);
            return;
        };
        let base = base_name(name).to_owned();
        if matches!(base.as_str(), "cd" | "pushd" | "popd" | "chdir") {
            self.enter(&base, call.words.get(1..).unwrap_or_default());
            return;
        }
        self.push(&call, Some(&base));
        if is_always_opaque(name) || is_always_opaque(&base) {
            self.opaque(format!("{base:?} runs text as commands or changes what words mean"));
            return;
        }
        self.builtins(&base, call.words);
        self.operands(&base, call.words);
        if let Some(wrapper) = wrapper_of(&base) {
            self.wrapper(wrapper, &call);
        } else if is_posix_shell(&base) {
            self.shell(&base, call.words);
        } else if let Some((letters, long)) = code_options(&base) {
            if let Err(reason) = code::interpreter(&base, call.words, letters, long) {
                self.opaque(reason);
            }
            let texts: Vec<&str> = call.words.iter().skip(1).map(|word| word.form.as_str()).collect();
            if is_runner(&base, &texts) {
                self.runner(&base, call.words);
            }
        } else {
            self.programs(&base, call.words);
        }
    }

    fn push(&mut self, call: &Call<'_>, base: Option<&str>) {
        let is_wrapper = base.is_some_and(|base| wrapper_of(base).is_some());
        let offers = self.offers_saves && !call.is_inner && !is_wrapper;
        let save = if offers { base.and_then(|_| self.save(call.words)) } else { None };
        let mut command = Command {
            text: call.text.clone(),
            save,
            is_inner: call.is_inner,
            form: call.form.clone(),
            spellings: Vec::new(),
        };
        spell(&mut command, call.words, base);
        self.scan.commands.push(command);
    }

    /// Returns the pattern that "always" saves: as many first words as say what the command does.
    fn save(&self, words: &[Word]) -> Option<String> {
        let raw: Vec<&str> =
            words.iter().take(3).map(|word| self.source.get(word.range.clone()).unwrap_or_default()).collect();
        let first = *raw.first()?;
        let second = raw.get(1).copied();
        let n_words = arity(first, second).min(raw.len());
        // An option in the place of the verb would save everything that the program can do.
        if n_words > 1 && second.is_some_and(|second| second.starts_with('-')) {
            return None;
        }
        let prefix = raw.get(..n_words)?;
        let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "_./:@%+=,-".contains(letter);
        prefix
            .iter()
            .all(|word| !word.is_empty() && word.chars().all(is_safe))
            .then(|| format!("{} *", prefix.join(" ")))
    }

    /// A change of directory is no command but a place.
    fn enter(&mut self, name: &str, words: &[Word]) {
        let is_second = self.scan.places.iter().any(|place| place.usage == Usage::Enter);
        if is_second || name == "popd" {
            self.scan.has_unknown_place = true;
        }
        let operand = words.iter().find(|word| {
            !word.literal().is_some_and(|text| matches!(text, "-L" | "-P" | "-e" | "-@" | "-q" | "-s" | "--"))
        });
        match operand {
            None if name == "popd" || name == "pushd" => self.scan.has_unknown_place = true,
            None => {
                let home = Word { form: "~".to_owned(), range: 0..0, has_tilde: true };
                self.place(&home, Usage::Enter);
            }
            Some(word) if word.literal().is_some_and(|text| text.starts_with(['-', '+'])) => {
                self.scan.has_unknown_place = true;
            }
            Some(word) => self.place(word, Usage::Enter),
        }
    }

    fn builtins(&mut self, name: &str, words: &[Word]) {
        let takes_names = matches!(
            name,
            "read"
                | "printf"
                | "unset"
                | "export"
                | "readonly"
                | "declare"
                | "typeset"
                | "local"
                | "test"
                | "["
                | "getopts"
                | "mapfile"
                | "readarray"
                | "wait"
        );
        if takes_names && words.iter().any(|word| word.form.contains(['[', HOLE]) && word.form.contains(['$', '`'])) {
            self.opaque("the index of a variable may run commands");
        }
        let has = |option: &str| words.iter().skip(1).any(|word| word.form.starts_with(option));
        let reason = match name {
            // Behind a wrapper these are words, not syntax.
            "export" | "readonly" | "declare" | "typeset" | "local" | "unset" => "variables are set by a builtin",
            "test" | "[" if has("-v") || has("-R") => "a test looks at a variable by name",
            "mapfile" | "readarray" if has("-C") || has("-c") => "a builtin calls back",
            "set" if has("-a") || has("-o") || has("-k") => "later variables change what runs",
            "shopt" | "setopt" | "unsetopt" => "the meaning of words is changed",
            "print" if has("-z") || has("-s") || has("-v") => "a builtin keeps text to run",
            _ => return,
        };
        self.opaque(reason);
    }

    /// Adds operands that are places: best effort.
    fn operands(&mut self, name: &str, words: &[Word]) {
        if name == "git" || name == "make" {
            let chdir = words.iter().position(|word| word.form == "-C");
            if let Some(directory) = chdir.and_then(|at| words.get(at + 1)) {
                self.place(directory, Usage::Operand);
            }
            return;
        }
        if !takes_paths(name) {
            return;
        }
        if puts_files(name) && words.iter().skip(1).any(|word| is_of_git(&word.form)) {
            self.opaque("git looks for commands in the place that it writes");
        }
        for word in words.iter().skip(1) {
            let mut word = word.clone();
            if let Some(rest) = self.home_form(&word) {
                word = Word { form: format!("~{rest}"), range: word.range.clone(), has_tilde: true };
            }
            if let Some((option, value)) = word.form.split_once('=')
                && (option.starts_with('-') || matches!(option, "if" | "of"))
            {
                word = Word { form: value.to_owned(), range: word.range.clone(), has_tilde: value.starts_with('~') };
            }
            let Some(path) = word.literal() else { continue };
            if path.starts_with('/') || word.has_tilde || path.split('/').any(|part| part == "..") {
                self.place(&word, Usage::Operand);
            }
        }
    }

    /// Returns what follows `$HOME` in a word that starts with it and is literal otherwise.
    fn home_form(&self, word: &Word) -> Option<String> {
        let raw = self.source.get(word.range.clone())?.replace('"', "");
        let rest = raw.strip_prefix("$HOME").or_else(|| raw.strip_prefix("${HOME}"))?;
        (!rest.contains(['$', '`', '*', '?', '[', '\'', '\\']) && (rest.is_empty() || rest.starts_with('/')))
            .then(|| rest.to_owned())
    }

    fn wrapper(&mut self, wrapper: &super::programs::Wrapper, call: &Call<'_>) {
        let unknown = format!("what {:?} runs cannot be followed", wrapper.name);
        let inner = match code::unwrap(wrapper, call.words) {
            Ok(inner) => inner,
            Err(reason) => {
                self.opaque(reason.unwrap_or(unknown));
                return;
            }
        };
        for (_option, value) in &inner.places {
            self.place(value, Usage::Enter);
        }
        if let Some(name) = inner.variables.iter().find(|name| is_loaded_variable(name)) {
            self.opaque(format!("the variable {name} changes what runs"));
        }
        let (Some(first), Some(last)) = (inner.words.first(), call.words.last()) else { return };
        let text = self.source.get(first.range.start..last.range.end).unwrap_or_default().trim().to_owned();
        let form = join(&inner.words, false);
        self.call(Call { words: &inner.words, text, form, is_inner: true, depth: call.depth + 1 });
    }

    /// A shell: its script is a line of its own.
    fn shell(&mut self, name: &str, words: &[Word]) {
        match code::shell_script(words) {
            Err(reason) => self.opaque(format!("{name:?} {reason}")),
            Ok(None) => {}
            Ok(Some(script)) => {
                let dialect = match name {
                    "zsh" => Dialect::Zsh,
                    "bash" | "rbash" | "ksh" | "mksh" => Dialect::Bash,
                    _ => Dialect::Posix,
                };
                let inner = super::read(&script, dialect, self.nesting + 1);
                if let Some(reason) = inner.opaque {
                    self.opaque(reason);
                }
                self.scan.has_unknown_place |= inner.has_unknown_place;
                for place in inner.places {
                    if !self.scan.places.contains(&place) {
                        self.scan.places.push(place);
                    }
                }
                let inner = inner.commands.into_iter();
                self.scan.commands.extend(inner.map(|command| Command { save: None, is_inner: true, ..command }));
            }
        }
    }

    fn programs(&mut self, name: &str, words: &[Word]) {
        let texts: Vec<&str> = words.iter().skip(1).map(|word| word.form.as_str()).collect();
        if let Some(option) = exec_option(name, &texts) {
            self.opaque(format!("{name:?} may run commands by {option:?}"));
        }
        let checked = match name {
            "git" => code::git(words),
            "sed" | "gsed" => code::sed(words),
            "awk" | "gawk" | "mawk" | "nawk" => code::awk(words),
            "find" | "fd" | "fdfind" | "rg" | "tar" | "ssh" | "scp" | "sftp" | "rsync" | "make" | "gmake" | "go"
            | "npm" | "cargo" | "sort" | "split" | "man" | "zip" => {
                match words.iter().skip(1).find(|word| word.form.starts_with(HOLE)) {
                    Some(_) => Err(format!("an operand of {name:?} may be an option that runs commands")),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        };
        if let Err(reason) = checked.and_then(|()| code::texts(name, &texts)) {
            self.opaque(reason);
        }
        if is_runner(name, &texts) {
            self.runner(name, words);
        }
    }

    /// A runner: each of its words may be the command.
    fn runner(&mut self, name: &str, words: &[Word]) {
        for at in 1..words.len() {
            let Some(tail) = words.get(at..) else { return };
            let Some(first) = tail.first() else { return };
            if first.form.starts_with(HOLE) {
                self.opaque(format!("what {name:?} runs is only known when it runs"));
                return;
            }
            let Some(word) = first.base_name() else { continue };
            let is_code = is_posix_shell(word) || code_options(word).is_some() || wrapper_of(word).is_some();
            if is_code || matches!(word, "eval" | "source" | "exec") {
                self.opaque(format!("{name:?} runs {word:?}, which may run anything"));
                return;
            }
            let mut named = tail.to_vec();
            if let Some(first) = named.first_mut() {
                word.clone_into(&mut first.form);
            }
            if let Some(command) = self.scan.commands.last_mut() {
                command.spellings.push(Spelling { form: join(tail, true), is_sure: false });
                command.spellings.push(Spelling { form: join(&named, true), is_sure: false });
            }
        }
    }
}

/// Says whether a path lies in the directory where git has its hooks and settings.
fn is_of_git(path: &str) -> bool {
    path.split(['/', '=']).any(|part| part == ".git")
}

/// Adds the other forms of a command: without quotes, by the program's base name, without options before the verb.
fn spell(command: &mut Command, words: &[Word], base: Option<&str>) {
    let mut add = |form: String, is_sure: bool| {
        if form != command.form && !command.spellings.iter().any(|spelling| spelling.form == form) {
            command.spellings.push(Spelling { form, is_sure });
        }
    };
    add(join(words, false), true);
    add(join(words, true), true);
    let (Some(base), Some((first, rest))) = (base, words.split_first()) else { return };
    let mut named = vec![Word { form: base.to_owned(), ..first.clone() }];
    named.extend_from_slice(rest);
    if base != first.form {
        add(join(&named, false), true);
        add(join(&named, true), true);
    }
    for (words, is_sure) in code::without_options(&named) {
        add(join(&words, true), is_sure);
    }
}
