//! A state of its own, and poolctl run on it as a user would.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub const POOLCTL: &str = env!("CARGO_BIN_EXE_poolctl");
pub const NOON: &str = "2026-03-02T12:00:00Z";

/// A folder that goes away, with `state.db` in it.
pub struct Sandbox {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Sandbox {
    /// The clock stands at noon, and chance is always the same.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let variables =
            vec![("POOLCTL_SEED".into(), "1".into()), ("POOLCTL_NOW".into(), NOON.into())];
        Self { folder, variables }
    }

    /// Another one with the same state.
    pub fn copy(&self) -> Self {
        let copy = Self { variables: self.variables.clone(), ..Self::new() };
        for end in ["", "-wal"] {
            let name = format!("state.db{end}");
            std::fs::copy(self.path().join(&name), copy.path().join(&name)).unwrap();
        }
        copy
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state.db")
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
    }

    #[expect(clippy::disallowed_methods, reason = "tests run programs")]
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
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
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(POOLCTL, arguments).spawn().unwrap()
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(POOLCTL, arguments).spawn().unwrap())
    }

    /// Runs and expects success; returns stdout.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    pub fn shell(&self, script: &str) -> Ran {
        finish(self.command("/bin/sh", &["-c", script]).spawn().unwrap())
    }

    /// Starts all at once and waits for all.
    pub fn together(&self, all: &[Vec<String>]) -> Vec<Ran> {
        let start = |arguments: &Vec<String>| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.command(POOLCTL, &arguments).spawn().unwrap()
        };
        let children: Vec<Child> = all.iter().map(start).collect();
        children.into_iter().map(finish).collect()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A fake pool with everything installed.
    pub fn ready_pool(&self, name: &str, size: usize) {
        let (size, running) = (size.to_string(), size.to_string());
        self.ok(&["pool", "create", name, "--fake", "--size", &size, "--running-count", &running]);
        self.ok(&["reconcile", "--wait", "-q"]);
    }

    /// The state as everybody can see it: every object, whole.
    pub fn objects(&self) -> String {
        self.ok(&["get", "pool,claim,cluster,cdc,imgset,secret,ns", "-A", "-o", "yaml"])
    }
}

pub fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Whether a program is there.
#[expect(clippy::disallowed_methods, reason = "tests run programs")]
pub fn has(program: &str) -> bool {
    met(
        Command::new(program).arg("--version").output().is_ok(),
        &format!("{program} is not installed"),
    )
}

/// Says SKIP and why when something is missing; where all is required, that is a failure.
#[expect(clippy::disallowed_methods, reason = "tests read the environment")]
pub fn met(there: bool, why: &str) -> bool {
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

/// A customization that sets the name in DNS.
pub fn customization(sandbox: &Sandbox, name: &str, dns: &str) {
    let text = format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\nmetadata: {{name: {name}}}\n\
         spec: {{installConfigPatches: [{{op: replace, path: /metadata/name, value: {dns}}}]}}\n"
    );
    apply(sandbox, &text);
}

pub fn apply(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.file("applied.yaml", text);
    sandbox.ok(&["apply", "-f", &path])
}

pub fn jsonpath(sandbox: &Sandbox, what: &str, path: &str) -> String {
    sandbox.ok(&["get", what, "-A", "-o", &format!("jsonpath={path}")])
}

pub fn steady(sandbox: &Sandbox) {
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    let ran = sandbox.run(&["plan"]);
    assert_eq!(ran.code, 0, "a second pass acts: {}{}", ran.out, ran.err);
}

/// A cluster without a pool.
pub const BY_HAND: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: c, namespace: mine, annotations: {hive.openshift.io/fake-cluster: 'true'}}
spec: {clusterName: c, baseDomain: example.com, platform: {none: {}}}
";
