//! The wrapper as a script for the system's shell, for programs that cannot run themselves as a wrapper. It does less:
//! processes that leave the session are only found by the server, and what a command leaves running is not named.

/// Arguments: spool file, directory, program, its arguments.
pub(crate) const SCRIPT: &str = r#"
spool=$1; directory=$2; shift 2
exec 3<&0 </dev/null
printf '\nabide-shell-ready\n'
exec >/dev/null 2>&1
IFS= read -r go <&3 || exit 0
[ "$go" = go ] || exit 0
set -C; : >"$spool.started" || exit 0; set +C
finish() { printf '%s' "$1" >"$spool.exit.new" && mv "$spool.exit.new" "$spool.exit"; }
cd -- "$directory" || { finish '{"error":"the directory cannot be entered"}'; exit 0; }
trap : TERM
"$@" >>"$spool" 2>&1 3<&- &
child=$!
(
  trap '' TERM
  while IFS= read -r line <&3; do [ "$line" = detach ] && exit 0; done
  finish '{"killed":true}'
  kill -TERM 0
  sleep 1
  kill -KILL 0
) &
watcher=$!
wait "$child"; code=$?
while kill -0 "$child"; do wait "$child"; code=$?; done
if [ -e "$spool.exit" ]; then wait "$watcher"; exit 0; fi
finish "{\"code\":$code}"
kill -KILL "$watcher"
"#;
