use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use abide_schema::json::sha256_hex;
use abide_schema::tool::Verdict;
use abide_schema::{CallId, MessageId};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::fault::Faults;
use crate::store::{MemoryStore, MutationState as State};
use crate::tool::testing::Bench;

struct Desk {
    root: TempDir,
    journal: Journal,
    store: Arc<MemoryStore>,
    edited: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let bench = Bench::new(root.path(), Vec::new());
        let store = Arc::new(MemoryStore::new(bench.world.clone()));
        let edited = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&edited);
        fs::create_dir(root.path().join("work")).unwrap();
        let journal = Journal::new(JournalOptions {
            store: Arc::clone(&store) as Arc<dyn JournalStore>,
            world: bench.world,
            blobs: root.path().join("data/blobs"),
            sync: true,
            on_edited: Arc::new(move |path| {
                heard.lock().unwrap().push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }),
        });
        Self { root, journal, store, edited }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("work").join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Every file and directory below the working directory, links not followed.
    fn tree(&self) -> BTreeMap<String, String> {
        fn walk(directory: &Path, base: &Path, out: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
                if path.is_symlink() {
                    out.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
                } else if path.is_dir() {
                    out.insert(format!("{name}/"), String::new());
                    walk(&path, base, out);
                } else {
                    out.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(&self.path(""), &self.path(""), &mut out);
        out
    }

    fn create(&self, name: &str, content: &str) -> Change {
        Change::Create { path: self.path(name), content: content.into(), mode: None }
    }

    fn change(&self, name: &str, content: &str) -> Change {
        let expected = self.read(name).map(|content| sha256_hex(content.as_bytes()));
        Change::Write { path: self.path(name), expected, content: content.into() }
    }

    fn delete(&self, name: &str) -> Change {
        Change::Delete { path: self.path(name), expected: None }
    }

    fn rename(&self, name: &str, to: &str) -> Change {
        Change::Move { path: self.path(name), to: self.path(to), expected: None }
    }

    async fn apply(&self, changes: Vec<Change>) -> Result<(), ApplyError> {
        let paths: Vec<PathBuf> = changes.iter().flat_map(Change::paths).cloned().collect();
        let guard = self.journal.lock(paths).await;
        self.journal.apply(guard, plan("call", changes)).await
    }

    async fn states(&self) -> Vec<State> {
        self.store.all_mutations().await.unwrap().into_iter().map(|mutation| mutation.state).collect()
    }

    /// Stages a batch of three files and records a state, as a crash leaves it.
    async fn crashed(&self, state: State) -> Mutation {
        self.write("change", "old");
        self.write("delete", "old");
        let plan = plan(
            "call",
            vec![self.create("new/dir/create", "new"), self.change("change", "new"), self.delete("delete")],
        );
        let (mutation, contents) = self.journal.prepare(plan).await.unwrap();
        self.store.plan_mutation(mutation.clone()).await.unwrap();
        self.batch(&mutation).stage(&contents).unwrap();
        if state != State::Planned {
            self.store.mark_mutation(&mutation.id, state, None).await.unwrap();
        }
        self.store.all_mutations().await.unwrap().remove(0)
    }

    fn batch(&self, mutation: &Mutation) -> work::Batch {
        work::Batch { files: mutation.files.clone(), blobs: self.journal.blobs().clone(), sync: true }
    }

    /// Brings one of the three files to a standing.
    fn set(&self, name: &str, standing: Standing) {
        let content = match (name, standing) {
            (_, Standing::Other) => Some("other"),
            ("new/dir/create", Standing::After) => Some("new"),
            ("new/dir/create", _) | ("delete", Standing::After) => None,
            ("change", Standing::After) => Some("new"),
            _ => Some("old"),
        };
        match content {
            Some(content) => fs::write(self.path(name), content).unwrap(),
            None => drop(fs::remove_file(self.path(name))),
        }
    }
}

const FILES: [&str; 3] = ["new/dir/create", "change", "delete"];

fn plan(call: &str, changes: Vec<Change>) -> Plan {
    let session = SessionId::from_trusted("ses_1");
    let call = CallKey { session: session.clone(), message: MessageId::from_trusted("msg_1"), call: CallId::new(call) };
    let output = json!({ "structured": { "done": true }, "content": [] });
    Plan { call: Some(call), session, tool: "patch".into(), fence: None, output, changes }
}

#[tokio::test]
async fn a_batch_of_every_kind() {
    let desk = Desk::new();
    for name in ["change", "delete", "from", "mode"] {
        desk.write(name, "old");
    }
    let chmod = Change::Chmod { path: desk.path("mode"), mode: 0o600 };
    desk.apply(vec![
        desk.create("a/b/create", "new"),
        desk.create("a/b/second", "new"),
        desk.change("change", "new"),
        desk.delete("delete"),
        desk.rename("from", "c/to"),
        chmod,
    ])
    .await
    .unwrap();
    let expect = [
        ("a/", ""),
        ("a/b/", ""),
        ("a/b/create", "new"),
        ("a/b/second", "new"),
        ("c/", ""),
        ("c/to", "old"),
        ("change", "new"),
        ("mode", "old"),
    ];
    assert_eq!(desk.tree(), expect.map(|(name, content)| (name.to_owned(), content.to_owned())).into());
    assert_eq!(fs::metadata(desk.path("mode")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(desk.states().await, [State::Applied]);
    assert_eq!(*desk.edited.lock().unwrap(), ["create", "second", "change", "delete", "from", "to", "mode"]);
    assert_eq!(desk.journal.blobs().get(&sha256_hex(b"old")).unwrap().unwrap(), b"old");
}

#[track_caller]
fn check_refused(result: Result<(), ApplyError>, expect: &str, desk: &Desk) {
    let text = result.unwrap_err().to_string().replace(desk.path("").to_str().unwrap(), "");
    assert_eq!(text, expect);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_anything_is_recorded() {
    let desk = Desk::new();
    desk.write("file", "old");
    desk.write("read-only", "old");
    fs::set_permissions(desk.path("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::create_dir(desk.path("dir")).unwrap();
    symlink("file", desk.path("link")).unwrap();
    let before = desk.tree();
    let stale = Change::Write { path: desk.path("file"), expected: Some(sha256_hex(b"older")), content: Vec::new() };
    for (changes, expect) in [
        (vec![desk.create("file", "")], "file exists already"),
        (vec![desk.create("dir", "")], "dir exists already"),
        (vec![stale], "file changed meanwhile"),
        (vec![desk.delete("none")], "none does not exist"),
        (vec![desk.change("dir", "")], "dir is not a regular file"),
        (vec![desk.change("link", "")], "link is not a regular file"),
        (vec![desk.change("read-only", "")], "read-only is read-only (mode 0444)"),
        (vec![desk.rename("file", "link")], "link exists already"),
        (vec![desk.change("file", "x"), desk.delete("file")], "file cannot be changed: it is named twice"),
    ] {
        check_refused(desk.apply(changes).await, expect, &desk);
    }
    let unlocked = plan("call", vec![desk.delete("file")]);
    let guard = desk.journal.lock([desk.path("other")]).await;
    check_refused(desk.journal.apply(guard, unlocked).await, "file cannot be changed: it is not locked", &desk);
    assert_eq!(desk.tree(), before);
    assert_eq!(desk.states().await, []);
}

#[tokio::test]
async fn a_call_applies_once() {
    let desk = Desk::new();
    desk.apply(vec![desk.create("a", "1")]).await.unwrap();
    check_refused(desk.apply(vec![desk.create("b", "1")]).await, "this call has changed files already", &desk);
    assert_eq!(desk.read("b"), None);
}

#[tokio::test]
async fn an_owner_that_lost_the_session_changes_nothing() {
    let desk = Desk::new();
    desk.write("file", "old");
    let guard = desk.journal.lock([desk.path("file"), desk.path("a/b")]).await;
    let plan = Plan { fence: Some(7), ..plan("call", vec![desk.change("file", "new"), desk.create("a/b", "")]) };
    let result = desk.journal.apply(guard, plan).await;
    assert!(matches!(result, Err(ApplyError::Fenced)), "{result:?}");
    assert_eq!(desk.tree(), BTreeMap::from([("file".to_owned(), "old".to_owned())]));
    let batch = desk.store.all_mutations().await.unwrap().remove(0);
    assert_eq!(desk.journal.recover_mutation(batch, None).await.unwrap().verdict, Verdict::NotStarted);
}

#[tokio::test]
async fn a_failure_at_any_point_undoes_everything() {
    for point in
        ["after_plan", "after_stage", "between_renames", "between_renames@2", "between_renames@4", "after_apply"]
    {
        let desk = Desk::new();
        for name in ["change", "delete", "from", "mode"] {
            desk.write(name, "old");
        }
        let (before, mode) = (desk.tree(), fs::metadata(desk.path("mode")).unwrap().mode());
        let (name, nth) = point.split_once('@').map_or((point, String::new()), |(name, nth)| (name, format!("@{nth}")));
        let faults = Faults::parse(&format!("mutation.{name}=error{nth}")).unwrap();
        let result = fault::with(
            faults,
            desk.apply(vec![
                desk.create("a/b/create", "new"),
                desk.change("change", "new"),
                desk.delete("delete"),
                desk.rename("from", "c/to"),
                Change::Chmod { path: desk.path("mode"), mode: 0o600 },
            ]),
        )
        .await;
        assert!(matches!(result, Err(ApplyError::Fault(_))), "{point}: {result:?}");
        assert_eq!(desk.tree(), before, "{point}");
        assert_eq!(fs::metadata(desk.path("mode")).unwrap().mode(), mode, "{point}");
        assert_eq!(desk.states().await, [State::RolledBack], "{point}");
        assert_eq!(*desk.edited.lock().unwrap(), Vec::<String>::new());
        let batch = desk.store.all_mutations().await.unwrap().remove(0);
        let recovered = desk.journal.recover_mutation(batch, None).await.unwrap();
        assert_eq!(recovered.verdict, Verdict::RolledBack, "{point}");
    }
}

/// What the table of spec/session.md 9.2 says.
fn expected(state: State, files: &[Standing], staged: bool) -> Verdict {
    let all = |wanted: Standing| files.iter().all(|file| *file == wanted);
    if files.contains(&Standing::Other) {
        Verdict::Diverged
    } else if all(Standing::After) {
        Verdict::Applied
    } else if all(Standing::Before) && state == State::Planned {
        Verdict::NotStarted
    } else if state == State::Applying && staged {
        Verdict::Applied
    } else if state == State::Applying && all(Standing::Before) {
        Verdict::NotStarted
    } else if state == State::Applying {
        Verdict::RolledBack
    } else {
        Verdict::Diverged
    }
}

#[tokio::test]
async fn every_mixture_that_a_crash_can_leave() {
    let standings = [Standing::Before, Standing::After, Standing::Other];
    let mut n_cases = 0;
    for state in [State::Planned, State::Applying, State::Applied] {
        for staged in [true, false] {
            for n in 0..27 {
                let mixture = [standings[n / 9], standings[n / 3 % 3], standings[n % 3]];
                let desk = Desk::new();
                let mutation = desk.crashed(state).await;
                for (name, standing) in FILES.iter().zip(mixture) {
                    desk.set(name, standing);
                }
                let needs_temp = mutation.files.iter().zip(mixture).filter(|(file, standing)| {
                    *standing == Standing::Before
                        && matches!(file.op, crate::store::FileOp::Create | crate::store::FileOp::Write)
                });
                // A staged file that is not intact is as good as none.
                let mut is_staged = true;
                if !staged {
                    for (file, _) in needs_temp {
                        is_staged = false;
                        fs::write(file.tmp_path.as_ref().unwrap(), "half").unwrap();
                    }
                }
                let case = format!("{state:?} {mixture:?} staged {is_staged}");
                let verdict = expected(state, &mixture, is_staged);
                let recovered = desk.journal.recover_mutation(mutation, None).await.unwrap();
                assert_eq!(recovered.verdict, verdict, "{case}");
                assert_eq!(recovered.output.is_some(), verdict == Verdict::Applied, "{case}");

                let after = desk.tree();
                for (name, standing) in FILES.iter().zip(mixture) {
                    let ends = match verdict {
                        Verdict::Applied => Standing::After,
                        Verdict::NotStarted | Verdict::RolledBack => Standing::Before,
                        Verdict::Diverged
                        | Verdict::Finished
                        | Verdict::Killed
                        | Verdict::Unknown
                        | Verdict::ChildInterrupted => standing,
                    };
                    let content = after.get(*name).map(String::as_str);
                    let expect = match (*name, ends) {
                        (_, Standing::Other) => Some("other"),
                        ("new/dir/create" | "change", Standing::After) => Some("new"),
                        ("new/dir/create", _) | ("delete", Standing::After) => None,
                        _ => Some("old"),
                    };
                    assert_eq!(content, expect, "{case}: {name}");
                }
                assert!(!after.keys().any(|name| name.contains("abide-tmp")), "{case}: {after:?}");
                assert_eq!(after.contains_key("new/"), after.contains_key("new/dir/create"), "{case}");

                // Again, as after a crash in the recovery.
                let batch = desk.store.all_mutations().await.unwrap().remove(0);
                let again = desk.journal.recover_mutation(batch, None).await.unwrap();
                assert_eq!((again.verdict, desk.tree()), (verdict, after), "{case}: again");
                n_cases += 1;
            }
        }
    }
    assert_eq!(n_cases, 162);
}

#[tokio::test]
async fn an_undo_that_was_cut_short_goes_on() {
    let desk = Desk::new();
    let mutation = desk.crashed(State::RolledBack).await;
    desk.set("new/dir/create", Standing::After);
    desk.set("change", Standing::After);
    let recovered = desk.journal.recover_mutation(mutation, None).await.unwrap();
    assert_eq!(recovered.verdict, Verdict::RolledBack);
    let expect = [("change", "old"), ("delete", "old")].map(|(name, content)| (name.to_owned(), content.to_owned()));
    assert_eq!(desk.tree(), expect.into());
    assert!(summary(&recovered).starts_with("Its file changes were undone completely: /"));
}

#[tokio::test]
async fn a_lost_before_image_is_reported() {
    let desk = Desk::new();
    let mutation = desk.crashed(State::Applying).await;
    desk.set("change", Standing::After);
    fs::remove_file(mutation.files[0].tmp_path.as_ref().unwrap()).unwrap();
    fs::remove_dir_all(desk.root.path().join("data/blobs")).unwrap();
    let recovered = desk.journal.recover_mutation(mutation, None).await.unwrap();
    assert_eq!(recovered.verdict, Verdict::Diverged);
    assert_eq!(desk.states().await, [State::Diverged]);
    let standings: Vec<Standing> = recovered.files.iter().map(|file| file.standing).collect();
    assert_eq!(standings, [Standing::Before, Standing::After, Standing::Before]);
}

#[tokio::test]
async fn two_unsettled_batches_of_one_file_are_both_applied() {
    let desk = Desk::new();
    desk.write("file", "1");
    for (call, content) in [("a", "2"), ("b", "3"), ("c", "1")] {
        let guard = desk.journal.lock([desk.path("file")]).await;
        desk.journal.apply(guard, plan(call, vec![desk.change("file", content)])).await.unwrap();
    }
    let batches = desk.store.all_mutations().await.unwrap();
    let recovered = desk.journal.recover(batches, None).await.unwrap();
    assert_eq!(recovered.iter().map(|one| one.verdict).collect::<Vec<_>>(), [Verdict::Applied; 3]);
    assert_eq!(desk.read("file").as_deref(), Some("1"));
    for batch in desk.store.all_mutations().await.unwrap() {
        assert_eq!(desk.journal.recover_mutation(batch, None).await.unwrap().verdict, Verdict::Applied);
    }

    desk.write("file", "foreign");
    let batches = desk.store.all_mutations().await.unwrap();
    let recovered = desk.journal.recover(batches, None).await.unwrap();
    assert_eq!(recovered.iter().map(|one| one.verdict).collect::<Vec<_>>(), [Verdict::Diverged; 3]);
}

#[tokio::test]
async fn own_changes_are_told_from_foreign_ones() {
    let desk = Desk::new();
    desk.write("file", "1");
    let hash = |text: &str| Some(sha256_hex(text.as_bytes()));
    let own = |from: &str, to: &str| {
        desk.journal.is_own_change(&desk.path("file"), hash(from).as_deref(), hash(to).as_deref())
    };
    for (call, content) in [("a", "2"), ("b", "3")] {
        let guard = desk.journal.lock([desk.path("file")]).await;
        desk.journal.apply(guard, plan(call, vec![desk.change("file", content)])).await.unwrap();
    }
    assert!(own("1", "1") && own("1", "2") && own("1", "3") && own("2", "3"));
    assert!(!own("1", "4") && !own("3", "1") && !own("4", "3"));
}

#[tokio::test]
async fn mode_links_and_hard_links_stay() {
    let desk = Desk::new();
    desk.write("run.sh", "old");
    desk.write("secret", "old");
    desk.write("one", "longer old text");
    fs::set_permissions(desk.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(desk.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(desk.path("one"), desk.path("two")).unwrap();
    desk.apply(vec![desk.change("run.sh", "new"), desk.change("secret", "new"), desk.change("one", "new")])
        .await
        .unwrap();
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("run.sh"), mode("secret")), (0o755, 0o600));
    assert_eq!((desk.read("one").as_deref(), desk.read("two").as_deref()), (Some("new"), Some("new")));
    assert_eq!(fs::metadata(desk.path("one")).unwrap().nlink(), 2);
    assert_eq!(desk.tree().len(), 4);
}

#[tokio::test]
async fn a_write_in_place_that_was_cut_short_is_completed() {
    let desk = Desk::new();
    desk.write("one", "old old old old");
    fs::hard_link(desk.path("one"), desk.path("two")).unwrap();
    let (mutation, contents) = desk.journal.prepare(plan("call", vec![desk.change("one", "new new")])).await.unwrap();
    desk.store.plan_mutation(mutation.clone()).await.unwrap();
    desk.batch(&mutation).stage(&contents).unwrap();
    desk.store.mark_mutation(&mutation.id, State::Applying, None).await.unwrap();
    for torn in ["new old old old", "new new old old", "old old old old"] {
        let mutation = desk.store.all_mutations().await.unwrap().remove(0);
        fs::write(desk.path("one"), torn).unwrap();
        assert!(desk.batch(&mutation).reports()[0].standing != Standing::Other, "{torn}");
    }
    fs::write(desk.path("one"), "new old").unwrap();
    assert_eq!(desk.batch(&mutation).reports()[0].standing, Standing::Other);
    fs::write(desk.path("one"), "new old old old").unwrap();
    let mutation = desk.store.all_mutations().await.unwrap().remove(0);
    assert_eq!(desk.journal.recover_mutation(mutation, None).await.unwrap().verdict, Verdict::Applied);
    assert_eq!(desk.read("two").as_deref(), Some("new new"));
}

#[tokio::test]
async fn names_may_be_long() {
    let desk = Desk::new();
    let names = [format!("{}a", "\u{e9}".repeat(127)), format!("{}b", "\u{e9}".repeat(127))];
    desk.apply(names.iter().map(|name| desk.create(name, name)).collect()).await.unwrap();
    assert_eq!(desk.read(&names[1]).as_deref(), Some(names[1].as_str()));
}

#[tokio::test]
async fn of_two_conditional_writes_one_wins() {
    let desk = Desk::new();
    desk.write("file", "old");
    let write = async |call: &str| {
        let change = Change::Write {
            path: desk.path("file"),
            expected: Some(sha256_hex(b"old")),
            content: call.as_bytes().to_vec(),
        };
        let guard = desk.journal.lock([desk.path("file")]).await;
        desk.journal.apply(guard, plan(call, vec![change])).await
    };
    let (a, b) = tokio::join!(write("a"), write("b"));
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    let lost = [a, b].into_iter().find_map(Result::err).unwrap();
    assert!(matches!(lost, ApplyError::Stale { .. }), "{lost:?}");
}

#[tokio::test]
async fn locks_taken_in_other_orders_do_not_wait_for_each_other() {
    let desk = Desk::new();
    let paths = || [desk.path("a"), desk.path("b")];
    let mut reversed = paths();
    reversed.reverse();
    let first = desk.journal.lock(paths()).await;
    let waiting = desk.journal.lock(reversed);
    tokio::pin!(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(first);
    assert!(waiting.await.holds(&desk.path("b")));
    assert!(futures_util::FutureExt::now_or_never(desk.journal.lock([desk.path("c")])).is_some());
}

#[tokio::test]
async fn only_forgotten_staged_files_are_swept() {
    let desk = Desk::new();
    let mutation = desk.crashed(State::Planned).await;
    desk.write(".x.mut_gone.abide-tmp", "");
    desk.write("x.mut_gone.abide-tmp", "");
    let directories = vec![desk.path(""), desk.path("new/dir"), desk.path("none")];
    assert_eq!(desk.journal.sweep(directories).await.unwrap(), 1);
    assert!(
        mutation
            .files
            .iter()
            .filter(|file| file.op != crate::store::FileOp::Delete)
            .all(|file| Path::new(file.tmp_path.as_ref().unwrap()).exists())
    );
    assert!(desk.path("x.mut_gone.abide-tmp").exists());
}

#[tokio::test]
async fn another_process_is_waited_for() {
    let desk = Desk::new();
    desk.write("file", "old");
    // Another open file is another holder, as in another process.
    let paths = std::collections::BTreeSet::from([desk.path("file")]);
    let other = locks::lock_processes(&desk.root.path().join("data/locks"), &paths).await.unwrap();
    let apply = desk.apply(vec![desk.change("file", "new")]);
    tokio::pin!(apply);
    assert!(futures_util::poll!(&mut apply).is_pending());
    assert_eq!((desk.read("file").as_deref(), desk.states().await.len()), (Some("old"), 0));
    drop(other);
    apply.await.unwrap();
    assert_eq!(desk.read("file").as_deref(), Some("new"));
}
