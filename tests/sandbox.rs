//! The fixture of tests that run poolctl: a folder with a state of its own, and commands as people
//! type them.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub const POOLCTL: &str = env!("CARGO_BIN_EXE_poolctl");
pub const NOON: &str = "2026-03-02T12:00:00Z";

/// Replaces the program by a copy of itself, once in a run of tests. What a linker writes page by
/// page, the kernel keeps page by page, too, and every start maps a few hundred of them; a copy lies
/// in large pieces. A start takes half the time then, and tests start fifty thousand.
#[expect(clippy::disallowed_methods, reason = "tests run programs")]
fn keep_program_in_large_pieces() {
    static IS_COPIED: Once = Once::new();
    IS_COPIED.call_once(|| {
        let folder = tempfile::tempdir_in(Path::new(POOLCTL).parent().unwrap()).unwrap();
        let copy = folder.path().join("poolctl");
        // Not in this process: whoever starts a program meanwhile would keep the copy open, and a
        // program that is open for writing cannot be started.
        let copied = Command::new("cp").arg(POOLCTL).arg(&copy).status().unwrap();
        assert!(copied.success());
        std::fs::rename(copy, POOLCTL).unwrap();
    });
}

/// The words of a line, as a shell splits it: they end at spaces, but for those in single quotes.
/// Nothing else has a meaning, so that JSON and paths of jsonpath are written as they are.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut has_begun = false;
    let mut is_quoted = false;
    for letter in line.chars().chain([' ']) {
        if letter == '\'' {
            is_quoted = !is_quoted;
            has_begun = true;
        } else if letter != ' ' || is_quoted {
            word.push(letter);
            has_begun = true;
        } else if has_begun {
            words.push(std::mem::take(&mut word));
            has_begun = false;
        }
    }
    assert!(!is_quoted, "a quote is not closed: {line}");
    words
}

/// A folder that is removed at the end, with `state.db` in it.
pub struct Sandbox {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Sandbox {
    /// An empty state; the clock stands at noon, and the seed of all random values is fixed.
    pub fn new() -> Self {
        keep_program_in_large_pieces();
        let folder = tempfile::tempdir().unwrap();
        let variables =
            vec![("POOLCTL_SEED".into(), "1".into()), ("POOLCTL_NOW".into(), NOON.into())];
        Self { folder, variables }
    }

    /// Another sandbox with a copy of the state.
    pub fn copy(&self) -> Self {
        let copy = Self { variables: self.variables.clone(), ..Self::new() };
        for name in ["state.db", "state.db-wal"] {
            std::fs::copy(self.path().join(name), copy.path().join(name)).unwrap();
        }
        copy
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state.db")
    }

    /// Sets a variable of the environment for every command that follows.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.retain(|(variable, _)| variable != name);
        self.variables.push((name.into(), value.into()));
    }

    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    fn command<Word: AsRef<OsStr>>(&self, program: &str, arguments: &[Word]) -> Command {
        let mut command = Command::new(program);
        let bin = Path::new(POOLCTL).parent().unwrap().display().to_string();
        let path = format!("{bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(arguments).env_clear().env("PATH", path).env("HOME", self.path());
        command.env("POOLCTL_STATE", self.state()).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a command; `finish` waits for it.
    pub fn start(&self, line: &str) -> Child {
        self.command(POOLCTL, &split_words(line)).spawn().unwrap()
    }

    /// Runs a command, which may succeed or fail.
    pub fn run(&self, line: &str) -> Ran {
        finish(self.start(line))
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// What `status` shows, in one line: it breaks its lines where they fit a terminal.
    pub fn status(&self) -> String {
        in_one_line(&self.ok("status"))
    }

    /// Runs a command that must be refused with this exit code and a message that contains this
    /// text; returns its standard error.
    pub fn refused(&self, code: i32, line: &str, message: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, code, "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        ran.err
    }

    /// Runs a script in which `poolctl` is this build.
    pub fn shell(&self, script: &str) -> Ran {
        finish(self.command("/bin/sh", &["-c", script]).spawn().unwrap())
    }

    /// Starts all commands at once and waits for all of them.
    pub fn run_together(&self, lines: &[impl AsRef<str>]) -> Vec<Ran> {
        let children: Vec<Child> = lines.iter().map(|line| self.start(line.as_ref())).collect();
        children.into_iter().map(finish).collect()
    }

    /// Writes a file and returns its path.
    pub fn write_file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Writes a script that can be run, and returns its path.
    pub fn write_script(&self, name: &str, text: &str) -> String {
        let path = self.write_file(name, text);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Creates a fake pool and waits until all its clusters are installed and running.
    pub fn create_ready_pool(&self, name: &str, size: usize) {
        self.ok(&format!("pool create {name} --fake --size {size} --running-count {size}"));
        self.ok("reconcile --wait -q");
    }

    /// Every object of the kinds that pools consist of, as YAML.
    pub fn all_objects(&self) -> String {
        self.ok("get pool,claim,cluster,cdc,imgset,secret,ns -A -o yaml")
    }
}

/// A text with a single space where it has spaces and ends of lines.
pub fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until a command that was started has ended.
pub fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits so many milliseconds for a program that was started.
#[expect(clippy::disallowed_methods, reason = "a real program is waited for")]
pub fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Whether a program is installed; the test that needs it is skipped otherwise.
#[expect(clippy::disallowed_methods, reason = "tests run programs")]
pub fn has_program(program: &str) -> bool {
    is_met_or_skipped(
        Command::new(program).arg("--version").output().is_ok(),
        &format!("{program} is not installed"),
    )
}

/// Says SKIP and why when something is missing; where all is required, that is a failure.
#[expect(clippy::disallowed_methods, reason = "tests read the environment")]
pub fn is_met_or_skipped(there: bool, why: &str) -> bool {
    if !there {
        assert!(std::env::var_os("POOLCTL_REQUIRE_ALL").is_none(), "required: {why}");
        note_skip(why);
    }
    there
}

/// Tells that the test of this thread is skipped, at once and in the list that ends `cargo test`.
fn note_skip(reason: &str) {
    // The harness names each thread after its test, and runs a single thread's tests in `main`.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread of a test");
    // Unlike `println!`, this is not captured.
    let line = format!("SKIP {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    // Where the tests were not built there may be no such folder; then the line above must do.
    let list = OpenOptions::new().create(true).append(true).open(crate::skips::list());
    if let Ok(mut list) = list {
        let _ = list.write_all(format!("{reason}\t{test}\n").as_bytes());
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Creates a customization that sets the cluster's name in DNS.
pub fn create_customization(sandbox: &Sandbox, name: &str, dns: &str) {
    let manifest = format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\nmetadata: {{name: {name}}}\n\
         spec: {{installConfigPatches: [{{op: replace, path: /metadata/name, value: {dns}}}]}}\n"
    );
    apply(sandbox, &manifest);
}

/// Applies a manifest, which is YAML or JSON; returns what the command printed.
pub fn apply(sandbox: &Sandbox, manifest: &str) -> String {
    let path = sandbox.write_file("applied.yaml", manifest);
    sandbox.ok(&format!("apply -f {path}"))
}

/// What `get -o jsonpath=...` prints of objects in any namespace: `KIND` or `KIND/NAME`.
pub fn jsonpath(sandbox: &Sandbox, objects: &str, path: &str) -> String {
    sandbox.ok(&format!("get {objects} -A -o 'jsonpath={path}'"))
}

/// The status, reason or message of a condition of an object, `KIND/NAME`; empty if it has none.
pub fn condition_field(sandbox: &Sandbox, object: &str, kind: &str, field: &str) -> String {
    jsonpath(sandbox, object, &format!("{{.status.conditions[?(@.type==\"{kind}\")].{field}}}"))
}

/// Changes the database behind poolctl's back. Returns how many rows the last statement changed.
pub fn execute_sql(sandbox: &Sandbox, statements: &str) -> rusqlite::Result<u64> {
    let connection = rusqlite::Connection::open(sandbox.state())?;
    connection.pragma_update(None, "foreign_keys", 1)?;
    connection.execute_batch(statements)?;
    Ok(connection.changes())
}

/// The power state of a cluster.
pub fn power_of(sandbox: &Sandbox, cluster: &str) -> String {
    jsonpath(sandbox, &format!("cluster/{cluster}"), "{.status.powerState}")
}

/// Exports everything, changes the objects, and imports them into a new state, which the sandbox
/// uses from then on. Returns the warnings of the import.
pub fn move_state(sandbox: &mut Sandbox, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let file = sandbox.path().join("moved.json").display().to_string();
    sandbox.ok(&format!("export {file} --include-secrets -o json"));
    let mut list: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    change(list["items"].as_array_mut().unwrap());
    sandbox.write_file("moved.json", &list.to_string());
    let state = sandbox.path().join("moved.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    let ran = sandbox.run(&format!("import {file}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.err
}

/// Waits until nothing is left to do, and expects that a further pass would change nothing.
pub fn assert_settled(sandbox: &Sandbox) {
    sandbox.ok("reconcile --wait -q");
    let ran = sandbox.run("plan");
    assert_eq!(ran.code, 0, "a second pass acts: {}{}", ran.out, ran.err);
}

/// A cluster without a pool.
pub const BY_HAND: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c, namespace: mine, annotations: {hive.openshift.io/fake-cluster: 'true'}}
spec: {clusterName: c, baseDomain: example.com, platform: {none: {}}}
";

#[test]
fn a_line_is_split_at_spaces_outside_single_quotes() {
    assert_eq!(
        split_words("claim  lab --reason 'bad fan'"),
        ["claim", "lab", "--reason", "bad fan"]
    );
    assert_eq!(split_words("-o 'jsonpath={.a} {.b}'"), ["-o", "jsonpath={.a} {.b}"]);
    assert_eq!(split_words("--id ''"), ["--id", ""]);
}
