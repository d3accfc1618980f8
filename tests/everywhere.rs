//! The example in the help of every command runs: on a state with hostile strings in it, in every
//! output format, without colours, into a closed pipe, under cron, as another user.

use poolctl::output::Format;

use crate::sandbox::{Ran, Sandbox, has_program, is_met_or_skipped, is_root};

/// Every command that help lists, as the words of its path, with its example.
fn examples() -> Vec<(Vec<String>, String)> {
    examples_of(|subcommand| !subcommand.is_hide_set())
}

/// Every command, also those that help does not list, as the words of its path, with its example.
pub fn all_examples() -> Vec<(Vec<String>, String)> {
    examples_of(|_| true)
}

fn examples_of(is_wanted: fn(&clap::Command) -> bool) -> Vec<(Vec<String>, String)> {
    let mut examples = Vec::new();
    let mut waiting: Vec<(Vec<String>, _)> = vec![(Vec::new(), poolctl::commands::tree())];
    while let Some((path, mut command)) = waiting.pop() {
        command.build();
        for subcommand in command.get_subcommands().filter(|subcommand| is_wanted(subcommand)) {
            let mut subpath = path.clone();
            subpath.push(subcommand.get_name().to_owned());
            waiting.push((subpath, subcommand.clone()));
        }
        if !command.has_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = help.split("Example:\n").nth(1);
            let example = example.unwrap_or_else(|| panic!("{path:?} has no example"));
            // A long line goes on in the next one.
            let joined = example.replace("\\\n", "");
            examples.push((path, joined.lines().next().unwrap().trim().to_owned()));
        }
    }
    examples
}

/// Sets the title and the colour of a terminal, rings, turns text around, fakes a row.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}\u{85}evil\nNAME  READY\r\u{200b}";

/// A state with an object of every kind that examples name, and with hostile strings.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let customization = "printf 'apiVersion: hive.openshift.io/v1\\nkind: ClusterDeploymentCustomization\\nmetadata: {name: foo}\\n' | poolctl apply -qf -";
    let create = "poolctl pool create lab --fake --size 2 --running-count 1 --customization foo --customization bar -q";
    let cloud = "poolctl apply -qf examples/credentials
        echo first | poolctl secret create cloud-creds --from-file=clouds.yaml=- -q";
    // Their Secret does not exist, so no controller is asked anything.
    let hosts = "for host in node-1 node-2; do
            echo ---
            echo 'apiVersion: metal3.io/v1alpha1'
            echo 'kind: BareMetalHost'
            echo \"metadata: {name: $host}\"
            echo \"spec: {online: true, bmc: {address: 'redfish://127.0.0.1:1/$host', credentialsName: bmc}}\"
        done | poolctl apply -qf - --no-reconcile";
    let addresses = "poolctl ippool create lan --range 192.168.100.0/24 --allocation sequential -q
        poolctl ip claim lan db-1 -q
        poolctl ippool create machines --range 192.168.101.0/24 -q
        poolctl apply -qf examples/addresses/template.yaml";
    let agents = "poolctl apply -qf examples/agents/rack.yaml
        poolctl apply -qf examples/agents/cluster.yaml
        for node in node-1 node-2 node-3; do
            poolctl agent register --infraenv rack --id $node -q
            sed \"s/rack-7-node-1/$node/; s/02:00:00:00:00:01/02:00:00:00:00:0${node#node-}/; s/1.2.3.4/1.2.3.${node#node-}/\" \
                examples/agents/reports/node-1.json | poolctl agent report $node --inventory - -q
        done
        poolctl agent approve node-1 node-2 node-3 -q
        poolctl agent bind node-3 --cluster edge -q";
    let end = "poolctl reconcile --wait -q";
    let script = [create, customization, cloud, hosts, addresses, agents, end].join("\n");
    let ran = sandbox.shell(&format!("set -e\n{script}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for object in ["pool/lab", "cdc/foo", "host/node-1"] {
        sandbox.ok(&format!("annotate {object} 'hostname={HOSTILE}'"));
    }
    sandbox
}

/// The states that examples are run on.
pub struct PreparedStates {
    /// Pool `lab` has a cluster that nobody has claimed.
    free: Sandbox,
    claimed: Sandbox,
}

impl PreparedStates {
    pub fn new() -> Self {
        let free = prepared();
        let claimed = free.copy();
        claimed.ok(&format!("claim lab ci-17 --reason '{HOSTILE}' -q"));
        Self { free, claimed }
    }

    /// A copy of the state that the example of a command needs.
    pub fn copy_for(&self, path: &[String]) -> Sandbox {
        // These create the claim, or need the cluster that it would take. A restore replaces no
        // state while a job makes another cluster in its place.
        let without_claim = ["claim", "apply", "run", "wait", "restore"];
        let needs_free_cluster = without_claim.contains(&path[0].as_str());
        let sandbox = if needs_free_cluster { self.free.copy() } else { self.claimed.copy() };
        if path[0] == "wait" {
            sandbox.ok("claim lab ci-17 -q");
        }
        sandbox
    }
}

/// The example of a command as tests run it.
pub fn localized(example: &str) -> String {
    example
        // Controllers of examples have addresses for documentation; tests speak to nobody there.
        .replace("192.0.2.", "127.0.0.")
        .replace("CLUSTER", "$CLUSTER")
        .replace("condition=$CLUSTERR", "condition=ClusterR")
}

/// Lines that make the files that examples name.
pub const PREPARATION: &str = "CLUSTER=$(poolctl get cluster -qo name | head -1)
            [ -e $HOME/hosts ] || ssh-keygen -q -t ed25519 -N '' -f $HOME/hosts
            echo \"127.0.0.1 $(cut -d' ' -f1,2 $HOME/hosts.pub)\" > $HOME/known_hosts
            echo '{\"auths\": {}}' > $HOME/pull-secret.json";

/// Runs the example of each command, after the lines of `surroundings`, on a copy of the prepared
/// state of its own; `check` gets the path of the command, its example and how it ended.
pub fn run_examples(surroundings: &str, check: impl Fn(&[String], &str, &Ran)) {
    let states = PreparedStates::new();
    let examples = examples();
    assert!(examples.len() > 38, "{}", examples.len());
    for (path, example) in examples {
        let sandbox = states.copy_for(&path);
        let example = localized(&example);
        let script = format!("set -e\n{PREPARATION}\n{surroundings}\n{example}");
        check(&path, &example, &sandbox.shell(&script));
    }
}

/// Expects that an example succeeded, and that nothing hostile reached the terminal.
pub fn assert_succeeded(path: &[String], example: &str, ran: &Ran) {
    // These codes are answers: there are changes, there is a difference, too few hosts fit, the
    // cluster is one that can be destroyed, there is no image to boot by network.
    let is_answer = (path == ["plan"] && ran.code == 10)
        || (path == ["diff"] && ran.code == 1)
        || (path == ["agent", "match"] && ran.code == 6)
        || (path == ["cluster", "forget"] && ran.code == 4)
        || (path[1..] == ["pxe"] && ran.code == 3);
    assert!(ran.code == 0 || is_answer, "{example}: {}\n{}{}", ran.code, ran.out, ran.err);
    let printed = format!("{}{}", ran.out, ran.err);
    let hostile = ['\u{1b}', '\u{7}', '\r', '\u{202e}', '\u{85}', '\u{200b}'];
    assert!(!printed.contains(hostile), "{example}: {printed:?}");
    let has_faked_row = printed.lines().any(|line| line == "NAME  READY");
    assert!(!has_faked_row, "{example}: a faked row\n{printed}");
    assert!(!printed.contains("panicked"), "{example}: {printed}");
}

#[test]
fn every_commands_example_runs() {
    run_examples("", assert_succeeded);
}

#[test]
fn every_example_runs_in_any_format() {
    for name in Format::names() {
        let format = match name {
            "custom-columns=" => "custom-columns=KIND:.kind".to_owned(),
            _ if name.ends_with('=') => format!("{name}{{.}}"),
            _ => name.to_owned(),
        };
        // Every other test of this file runs the examples in the default format.
        if format.parse::<Format>() == Ok(Format::default()) {
            continue;
        }
        // A row of columns is no state that could be imported.
        let is_row = name == "custom-columns=";
        let with_format = format!("poolctl() {{ command poolctl -o '{format}' \"$@\"; }}");
        run_examples(&with_format, |path, example, ran| {
            if is_row && example.contains("import -") {
                return;
            }
            assert_succeeded(path, example, ran);
            if format == "json" && ran.out.starts_with('{') {
                let documents: Result<Vec<serde_json::Value>, _> =
                    serde_json::Deserializer::from_str(&ran.out).into_iter().collect();
                assert!(documents.is_ok(), "{example}: {}", ran.out);
            }
        });
    }
}

#[test]
fn every_example_runs_without_colours() {
    run_examples("export NO_COLOR=1 TERM=xterm-256color", assert_succeeded);
    run_examples("export TERM=dumb", assert_succeeded);
}

#[test]
fn a_closed_pipe_makes_no_example_panic_or_complain() {
    run_examples("poolctl() { command poolctl \"$@\" | head -1; }", |_, example, ran| {
        assert!(
            !ran.err.contains("panicked") && !ran.err.contains("roken pipe"),
            "{example}: {}",
            ran.err
        );
    });
}

#[test]
fn every_example_runs_under_crons_environment_and_without_a_home() {
    let cron = "poolctl() { env -i PATH=/usr/bin:/bin SHELL=/bin/sh LOGNAME=root EDITOR=\"$EDITOR\" POOLCTL_NOW=$POOLCTL_NOW POOLCTL_STATE=$POOLCTL_STATE \"$(command -v poolctl)\" \"$@\"; }";
    let cron = format!("P=$(command -v poolctl)\n{}", cron.replace("$(command -v poolctl)", "$P"));
    run_examples(&cron, assert_succeeded);
}

#[test]
fn as_another_user_everything_is_denied_and_nothing_breaks() {
    if !is_met_or_skipped(is_root(), "only root can be somebody else") || !has_program("setpriv") {
        return;
    }
    let as_nobody = "chmod 755 $HOME; p=$(command -v poolctl)
        ln $p $HOME/p 2>/dev/null || cp $p $HOME/p; chmod 755 $HOME/p
        poolctl() { setpriv --reuid=65534 --regid=65534 --clear-groups $HOME/p \"$@\"; }
        set +e";
    let reads_no_state = [
        vec!["version"],
        vec!["completion"],
        vec!["explain"],
        vec!["schema"],
        vec!["state", "path"],
        vec!["agent", "ssh"],
    ];
    run_examples(as_nobody, |path, example, ran| {
        if reads_no_state.iter().any(|command| path == command) {
            return assert_succeeded(path, example, ran);
        }
        // The reading half of a pipe has nothing to read.
        let is_denied = match path[0].as_str() {
            "run" => ran.code == 125,
            "import" => ran.code == 1,
            // The shell's `export` succeeds.
            "kubeconfig" => ran.code == 0,
            _ => ran.code == 9,
        };
        assert!(is_denied, "{example}: {}\n{}{}", ran.code, ran.out, ran.err);
        assert!(ran.err.contains("cannot be read"), "{example}: {}", ran.err);
    });
}

#[test]
fn a_wrong_name_is_answered_with_the_right_one() {
    let sandbox = prepared();
    sandbox.ok("claim lab ci-17 -q");
    for (line, suggestion) in [
        ("claim lba", "lab"),
        ("run lba -- true", "lab"),
        ("release ci-71", "ci-17"),
        ("extend ci-71 --for 1h", "ci-17"),
        ("kubeconfig ci-71", "ci-17"),
        ("credentials ci-71", "ci-17"),
        ("why claim/ci-71", "ci-17"),
        ("pool scale lba --size 1", "lab"),
        ("pool render lba", "lab"),
        ("pool pause lba", "lab"),
        ("pool resume lba", "lab"),
        ("get pool lba", "lab"),
        ("get pol", "pool"),
        ("describe cdc fo", "foo"),
        ("delete claim ci-71", "ci-17"),
        ("edit pool lba", "lab"),
        ("patch pool lba -p {}", "lab"),
        ("scale pool lba --replicas 1", "lab"),
        ("label pool lba a=b", "lab"),
        ("annotate pool lba a=b", "lab"),
        ("wait pool/lba --for=condition=X", "lab"),
        ("explain pool.spec.sise", "size"),
        ("events poool/lab", "pool"),
        ("extract secret/lab", "poolctl get secret"),
        ("reconcile --pool lba", "lab"),
        ("plan --pool lba", "lab"),
        ("clam lab", "claim"),
        ("completion bsh", "bash"),
        ("claim lab --lifetme 1h", "--lifetime"),
        ("pool scael lab", "scale"),
        ("get pool --sort-by sise", "size"),
    ] {
        let ran = sandbox.shell(&format!("poolctl {line}"));
        assert!([2, 3, 125].contains(&ran.code), "{line}: {}{}", ran.code, ran.err);
        assert!(ran.err.contains(suggestion), "{line}: {}", ran.err);
    }
}

/// Every code of the table but 6, which is in `addresses.rs`, 9, which is above, and 130 and 143,
/// which are in `running.rs`.
#[test]
fn every_exit_code_occurs() {
    let sandbox = prepared();
    for (line, code) in [
        ("get pool", 0),
        ("apply -f Cargo.toml", 1),
        ("diff -f examples/pool", 1),
        ("get", 2),
        ("get pool nothing", 3),
        ("pool create lab --fake", 4),
        ("wait pool/lab --for=condition=Never --timeout=0", 5),
        ("--state Cargo.toml get pool", 8),
        ("run nothing -- true", 125),
        ("run lab -- /etc/passwd", 126),
        ("run lab -- ./no-such-program", 127),
    ] {
        let ran = sandbox.shell(&format!("poolctl {line}"));
        assert_eq!(ran.code, code, "{line}: {}", ran.err);
    }
    let script = "poolctl pool create new --fake --no-reconcile -q; poolctl plan";
    assert_eq!(sandbox.shell(script).code, 10);
    let busy = "flock $POOLCTL_STATE.pass poolctl reconcile --strict";
    assert_eq!(sandbox.shell(busy).code, 7);
}

#[test]
fn behind_sudo_only_a_few_commands_are_let_in() {
    // `run` is refused with a message of its own, which `admins` tests.
    let let_in = "claim release extend kubeconfig credentials get describe why events explain \
                  schema version completion status run ip:claim ip:release cluster:hibernate cluster:resume cluster:logs";
    let let_in: Vec<&str> = let_in.split_whitespace().collect();
    let sandbox = Sandbox::new();
    for (path, example) in examples() {
        if !let_in.contains(&&*path.join(":")) {
            // POOLCTL_STATE stays set: whatever is let in by mistake finds no state but this one.
            let ran = sandbox.shell(&format!("export SUDO_UID=65534\n{example}"));
            let is_refused = ran.err.contains("is for the account's owner");
            assert!(is_refused && ran.code == 9, "{example}: {} {}", ran.out, ran.err);
        }
    }
}

#[test]
fn the_version_names_the_commit_and_the_schema_of_states() {
    let sandbox = Sandbox::new();
    let version = sandbox.ok("version");
    let (program, build) = version.trim_end().split_once(" (commit ").unwrap();
    assert_eq!(program, format!("poolctl {}", env!("CARGO_PKG_VERSION")));
    let (commit, schema) = build.split_once(", state schema ").unwrap();
    assert!(!commit.is_empty() && !commit.contains(' '), "{version}");
    assert_eq!(schema, format!("{})", poolctl::store::SCHEMA));
    for flag in ["--version", "-V"] {
        assert_eq!(sandbox.ok(flag), version, "{flag}");
    }
    let document: serde_json::Value = serde_json::from_str(&sandbox.ok("version -o json")).unwrap();
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["commit"], commit);
    assert_eq!(document["schema"], poolctl::store::SCHEMA);
}
