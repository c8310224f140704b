use super::*;

fn texts(line: &str) -> Vec<String> {
    scan(line, Dialect::Bash).resources()
}

#[track_caller]
fn check(line: &str, expected: &[&str]) {
    let found = scan(line, Dialect::Bash);
    assert_eq!(found.opaque, None, "{line}");
    assert_eq!(found.resources(), expected, "{line}");
}

#[track_caller]
fn check_opaque(line: &str, dialect: Dialect) {
    let found = scan(line, dialect);
    assert!(found.opaque.is_some(), "{line}: {found:#?}");
    assert_eq!((found.resources(), found.saves()), (vec![line.trim().to_owned()], vec![]), "{line}");
}

#[test]
fn every_command_is_found_wherever_it_stands() {
    check("git status | grep x && (make; ls)", &["git status", "grep x", "make", "ls"]);
    check("echo \"$(git log)\" > out", &["echo \"$(git log)\" > out", "git log"]);
    check("for f in a b; do touch $f; done", &["touch $f"]);
    check("if true; then make; else ls; fi", &["true", "make", "ls"]);
    check("while read l; do echo $l; done < f", &["read l", "echo $l"]);
    check("case $x in a) ls;; *) pwd;; esac", &["ls", "pwd"]);
    check("cat <(git log)", &["cat <(git log)", "git log"]);
    check("{ make; } 2>&1 | tee log", &["make", "tee log"]);
    check("export V=$(git describe)", &["git describe"]);
    check("x=1; [ -f a ] && ls", &["ls"]);
    check("cd src && ls", &["ls"]);
    check("cd src", &["cd src"]);
    check("> victim", &["> victim"]);
    check("A=1 B='2 3' npm test > o", &["npm test > o"]);
    check("echo ${x:-$(rm y)}", &["echo ${x:-$(rm y)}", "rm y"]);
    check("cat <<'X'\nrm $(x)\nX", &["cat <<'X'\nrm $(x)\nX"]);
    check("ls # ; rm x", &["ls"]);
}

#[test]
fn what_wrappers_and_shells_run_is_found() {
    check("sudo -u root rm x", &["sudo -u root rm x", "rm x"]);
    check("env -i A=1 timeout -k 5 10 rm x", &["env -i A=1 timeout -k 5 10 rm x", "timeout -k 5 10 rm x", "rm x"]);
    check("nice -n 5 make", &["nice -n 5 make", "make"]);
    check("ls | xargs -0 -n1 rm -f", &["ls", "xargs -0 -n1 rm -f", "rm -f"]);
    check("command -v git", &["command -v git"]);
    check("bash -lc 'git status; rm x'", &["bash -lc 'git status; rm x'", "git status", "rm x"]);
    check("sh -c \"sh -c 'rm x'\"", &["sh -c \"sh -c 'rm x'\"", "sh -c 'rm x'", "rm x"]);
    check("bash script.sh a", &["bash script.sh a"]);
    check("python -m pytest -q", &["python -m pytest -q"]);
    check("awk '{print $1}' f", &["awk '{print $1}' f"]);
    check("sed -n '1,5p' f", &["sed -n '1,5p' f"]);
    check("sed -i 's/a/b/g' f", &["sed -i 's/a/b/g' f"]);
}

#[test]
fn what_cannot_be_followed_is_opaque() {
    for line in [
        "eval rm x",
        "source x",
        ". x",
        "exec rm x",
        "$CMD x",
        "r*m x",
        "`echo rm` x",
        "git status 'unfinished",
        "git log )",
        "if true; then",
        "bash -c \"$X\"",
        "curl x | sh",
        "bash <<X\nrm\nX",
        "python -c 'x'",
        "python - <<X\nx\nX",
        "perl -pe 's/x/y/e' f",
        "node -e x",
        "find . -exec rm {} \\;",
        "find . -delete",
        "f() { rm x; }; f",
        "trap 'rm x' EXIT",
        "alias ls='rm x'; ls",
        "PATH=/x; ls",
        "export LD_PRELOAD=x && ls",
        "xargs sh",
        "ls | xargs env",
        "sudo -s rm x",
        "time { rm x; }",
        "echo `echo \\`rm x\\``",
        "git -c alias.x='!rm' x",
        "echo ${x@P}",
        "echo ${!x}",
        "x='a[$(rm y)]'; echo $((x))",
        "r\\\nm x",
        "git\u{a0}status",
        "git\u{b}status",
        "echo \u{202e}x",
        "ls\r\nrm x",
        "cat <<X\n`rm x`\nX",
        "echo ${x:-`rm y`}",
        "echo \"${x:-'$(rm y)'}\"",
        "cat <<A <<B\nx\nA\ny\nB",
        "awk 'BEGIN{system(\"x\")}'",
        "sed '1e rm x' f",
        "set -a; X=1",
        "printf -v PATH x; ls",
        "read PATH < f; ls",
        "for PATH in x; do ls; done",
        ": ${PATH:=x}; ls",
        "unset PATH",
        "watch rm x",
        "npx sh -c x",
        "docker run i bash -c x",
    ] {
        check_opaque(line, Dialect::Bash);
    }
    let long = format!("echo {}", "x".repeat(MAX_BYTES));
    check_opaque(&long, Dialect::Bash);
    let deep = format!("echo {}x{}", "$(echo ".repeat(40), ")".repeat(40));
    check_opaque(&deep, Dialect::Bash);
}

#[test]
fn a_shell_without_extensions_reads_some_lines_otherwise() {
    for line in ["git log &>f rm x", "echo $'a\\'; rm x; echo '", "[[ a && rm x ]]", "((x))", "git log <<< x"] {
        check_opaque(line, Dialect::Posix);
    }
    check_opaque("echo =rm(x)", Dialect::Zsh);
    check_opaque("echo ${(e)x}", Dialect::Zsh);
}

#[test]
fn hostile_lines_are_read_in_bounded_time() {
    for piece in
        ["(", "$(", "{ ", "\"$(", "`", "if ", "case x in (", "<<A ", "${x:-", "a && ", "! ", "[[ (", "x=(", "'\"", "\\"]
    {
        let line = piece.repeat(MAX_BYTES / piece.len());
        let found = scan(&line, Dialect::Bash);
        assert!(found.opaque.is_some() || found.commands.len() <= MAX_COMMANDS + 1, "{piece}");
    }
}

#[test]
fn odd_bytes_never_panic() {
    for line in [
        "", " ", "\n", "\0", "é", "\"é", "${é", "a\\", "<", ">", "|", "&", ";", "# x", "$", "~", "cd", "cd ''", "''",
        "env", "sudo", "xargs", "git", "bash",
    ] {
        assert!(!texts(line).is_empty(), "{line:?}");
    }
}
