//! What people see in a terminal with 80 columns: descriptions, plans, tables, and what is said while
//! a command waits.

use poolctl::model::kinds::Kind;
use serde_json::Value;

use crate::metal::{boot_hosts, sandbox_with_rack};
use crate::sandbox::{Sandbox, has_program, jsonpath};

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Expects that no line of an output is wider than a terminal, but for a single word, which people
/// copy and which is never cut.
fn assert_fits(command: &str, output: &str) {
    for line in output.lines() {
        let width = line.chars().count();
        let is_word = line.trim_start_matches([' ', '-']).split(' ').count() == 1;
        assert!(width <= WIDTH || is_word, "{command}: {width} columns: {line}\n{output}");
    }
}

/// Runs a command on a terminal of 80 columns, expects that its output fits, and returns it.
fn terminal_screen(sandbox: &Sandbox, command: &str) -> String {
    let script = format!("TERM=dumb script -qec 'poolctl {command}' /dev/null");
    let out = sandbox.shell(&script).out.replace('\r', "");
    assert_fits(command, &out);
    out
}

/// Runs a command that may fail, expects that its output fits a terminal, and returns it.
fn screen(sandbox: &Sandbox, command: &str) -> String {
    let out = sandbox.run(command).out;
    assert_fits(command, &out);
    out
}

#[test]
fn a_plan_begins_with_a_summary_and_tells_the_rest_with_full() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let patch = r#"{"spec": {"baseDomain": "other.example.com"}}"#;
    sandbox.ok(&format!("patch pool lab --no-reconcile -p '{patch}'"));
    let plan = screen(&sandbox, "plan");
    let first_line = plan.lines().next().unwrap();
    assert!(first_line.starts_with("1 cluster made, 1 destroyed: stale; "), "{plan}");
    assert!(plan.contains("metadata.deletionTimestamp: none -> "), "{plan}");
    assert!(plan.contains("clusterpool/lab: 2 stale, would replace "), "{plan}");
    assert!(!plan.contains("status.conditions") && !plan.contains("status.ready"), "{plan}");
    let colored_plan = sandbox.run("plan --color always").out;
    assert!(colored_plan.starts_with("\u{1b}[1m1 cluster made, "), "{colored_plan:?}");
    let full_plan = screen(&sandbox, "plan --full");
    assert!(full_plan.starts_with(first_line) && full_plan.contains("status.conditions."));
    // Programs get the same lines with and without it.
    let [document, full_document] = ["plan -o json", "plan --full -o json"]
        .map(|line| serde_json::from_str::<Value>(&sandbox.run(line).out).unwrap());
    assert_eq!(document, full_document);
    assert_eq!(document["summary"], first_line);
    let change_count = document["changes"].as_array().unwrap().len();
    assert!(change_count > plan.lines().count() - 2, "{document}");
}

#[test]
fn secrets_of_an_installed_cluster_are_details_of_a_plan() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:05:00Z");
    let plan = screen(&sandbox, "plan");
    assert!(plan.contains("job: provision of cluster/lab-") && !plan.contains("secret/"), "{plan}");
    assert!(!plan.contains("clusterMetadata") && plan.contains("spec.installed"), "{plan}");
    let full_plan = screen(&sandbox, "plan --full");
    assert!(full_plan.contains("\n+ secret/lab-"), "{full_plan}");
    assert!(screen(&sandbox, "reconcile --dry-run").contains("\n+ secret/lab-"));
}

#[test]
fn a_summary_counts_with_the_right_plurals() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 2 --no-reconcile");
    let plan = screen(&sandbox, "plan");
    assert!(plan.starts_with("2 clusters made; 2 jobs begun\n"), "{plan}");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("pool scale lab --size 1 --no-reconcile");
    let plan = screen(&sandbox, "plan");
    assert!(plan.starts_with("1 cluster destroyed: not needed; 1 job begun\n"), "{plan}");
    sandbox.ok("reconcile --wait -q");
    let ran = sandbox.run("plan");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", "nothing to do\n"));
}

/// Its values are neither in the label nor shown, so they cannot be in what is written back.
#[test]
fn only_a_manifest_of_a_secret_without_values_is_warned_about() {
    let sandbox = Sandbox::new();
    sandbox.ok("create secret generic creds --from-literal=password=CANARY");
    assert_eq!(sandbox.run("label secret creds a=b -q").err, "");
    let ran = sandbox.shell("poolctl get secret creds -o yaml | poolctl apply -qf -");
    assert!(ran.err.contains("its values in the state are kept"), "{}", ran.err);
}

/// A rack with hosts, clusters and claims that wait, and pools of addresses.
fn sandbox_with_many_kinds() -> Sandbox {
    let sandbox = sandbox_with_rack();
    boot_hosts(&sandbox, &[1, 2, 3, 4]);
    sandbox.ok("pool create a-pool-with-a-long-name --fake --size 2 --running-count 1");
    sandbox.ok("ippool create lan --range 10.20.0.1-10.20.0.9 --gateway 10.20.0.254");
    sandbox.ok("ip claim lan printer");
    sandbox.ok(
        "create secret generic creds --from-literal=username=admin --from-literal=password=CANARY",
    );
    sandbox.ok("host add spare --bmc ipmi://192.0.2.19 --mac 52:54:00:00:00:19 --secret creds");
    sandbox.ok("reconcile -q");
    sandbox.ok("claim a-pool-with-a-long-name ci-17 --lifetime 8h");
    sandbox
}

/// The objects of every kind, as `KIND/NAME -n NAMESPACE`.
fn all_objects(sandbox: &Sandbox) -> Vec<String> {
    let mut objects = Vec::new();
    for kind in Kind::OBJECTS {
        let word = kind.word();
        let path = "{range .items[*]}{.metadata.name} {.metadata.namespace}{\"\\n\"}{end}";
        for line in jsonpath(sandbox, word, path).lines() {
            let (name, namespace) = line.split_once(' ').unwrap();
            let namespace = if namespace.is_empty() { "default" } else { namespace };
            objects.push(format!("{word}/{name} -n {namespace}"));
        }
    }
    objects
}

#[test]
fn every_object_is_described_in_the_shape_of_kubectl() {
    let sandbox = sandbox_with_many_kinds();
    let objects = all_objects(&sandbox);
    assert!(objects.len() > 15, "{objects:?}");
    for object in objects {
        let description = screen(&sandbox, &format!("describe {object}"));
        let labels: Vec<&str> =
            description.lines().filter_map(|line| line.split_once(':')).map(|(l, _)| l).collect();
        assert_eq!(labels[0], "Name", "{object}: {description}");
        for label in ["Labels", "Annotations", "Kind", "Events", "Next"] {
            assert!(labels.contains(&label), "{object} lacks {label}: {description}");
        }
        assert!(!description.contains("CANARY"), "{object}: {description}");
        // Neither YAML nor names of fields as programs know them.
        assert!(!description.contains("\napiVersion") && !description.contains("\nmetadata:"));
    }
}

#[test]
fn a_description_lists_what_belongs_to_the_object() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci-17");
    let cluster = jsonpath(&sandbox, "claim/ci-17", "{.spec.namespace}");
    let pool = screen(&sandbox, "describe pool lab");
    let related = pool.split_once("\nRelated:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let lines: Vec<String> =
        related.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.contains(&"claim/ci-17 Running".to_owned()), "{pool}");
    assert!(lines.contains(&format!("cluster/{cluster} Installed, Running")), "{pool}");
    assert!(lines.contains(&"clusterimageset/simulated".to_owned()), "{pool}");
    let claim = screen(&sandbox, "describe claim ci-17");
    assert!(claim.contains(&format!("  cluster/{cluster}  Installed, Running\n")), "{claim}");
    assert!(claim.contains("  clusterpool/lab\n"), "{claim}");
    assert!(claim.contains("Events:\n  AGE") && claim.contains("Conditions:\n  TYPE"), "{claim}");
    // What is named and is not there is said.
    sandbox.ok("patch pool lab -p '{\"spec\": {\"pullSecretRef\": {\"name\": \"pull\"}}}'");
    let pool = screen(&sandbox, "describe pool lab");
    assert!(pool.contains("  secret/pull") && pool.contains("does not exist"), "{pool}");
    // A kind alone describes all of its objects.
    let described = screen(&sandbox, "describe cluster");
    assert!(described.matches("\nKind:         ClusterDeployment\n").count() > 1, "{described}");
    let document: Value =
        serde_json::from_str(&sandbox.ok("describe claim ci-17 -o json")).unwrap();
    assert_eq!(document["related"][0]["kind"], "ClusterPool", "{document}");
}

#[test]
fn tables_of_every_kind_fit_and_wide_ones_have_the_rest() {
    let sandbox = sandbox_with_many_kinds();
    if has_program("script") {
        for kind in Kind::ALL {
            for options in ["", " -A", " --no-headers"] {
                terminal_screen(&sandbox, &format!("get {}{options}", kind.word()));
            }
        }
        for command in ["get all", "job list --all", "api-resources"] {
            terminal_screen(&sandbox, command);
        }
    }
    let pools = sandbox.ok("get pool a-pool-with-a-long-name");
    let wide_pools = sandbox.ok("get pool a-pool-with-a-long-name -o wide");
    assert!(!pools.contains("RUNNING") && wide_pools.contains("RUNNING"), "{pools}{wide_pools}");
    assert!(pools.starts_with("NAME                     SIZE  READY  STANDBY"), "{pools}");
    // Columns that are asked for are there.
    assert!(sandbox.ok("get agent -L no-such-label").contains("NO-SUCH-LABEL"));
    assert!(sandbox.ok("get agent --show-labels").contains("LABELS"));
}

#[test]
fn states_are_coloured_and_columns_stay_where_they_are() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci-17");
    let plain = sandbox.ok("get cluster,claim,pool");
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let colored = sandbox.ok("get cluster,claim,pool --color always");
    for state in ["\u{1b}[32mInstalled\u{1b}[0m", "\u{1b}[33mInstalling\u{1b}[0m"] {
        assert!(colored.contains(state), "{state}: {colored:?}");
    }
    let without_colors = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"]
        .iter()
        .fold(colored, |text, code| text.replace(code, ""));
    assert_eq!(without_colors, plain);
    assert!(sandbox.ok("get job --color always").contains("\u{1b}[32msucceeded\u{1b}[0m"));
    for command in ["describe pool lab", "why pool/lab"] {
        assert!(!sandbox.run(command).out.contains('\u{1b}'), "{command}");
        let colored = sandbox.run(&format!("{command} --color always")).out;
        assert!(colored.contains("\u{1b}["), "{command}: {colored:?}");
    }
    let description = sandbox.ok("describe pool lab");
    assert!(description.contains("\nSummary:      pool lab has size 2: "), "{description}");
    assert!(!description.contains("Wakings:"), "{description}");
    assert!(!sandbox.ok("get cluster --color always -o json").contains('\u{1b}'));
    assert!(!sandbox.ok("get cluster --color always -o name").contains('\u{1b}'));
}

#[test]
fn the_columns_of_a_table_in_a_pipe_do_not_depend_on_its_data() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let header = sandbox.ok("get pool").lines().next().unwrap().to_owned();
    assert!(header.ends_with("AGE") && !header.contains("RUNNING"), "{header}");
    sandbox.ok(&format!("pool create {} --fake --size 0", "n".repeat(40)));
    let wider_header = sandbox.ok("get pool").lines().next().unwrap().to_owned();
    let columns: [Vec<&str>; 2] =
        [&header, &wider_header].map(|line| line.split_whitespace().collect());
    assert_eq!(columns[0], columns[1]);
}

#[test]
fn a_job_is_named_by_the_beginning_of_its_id_as_tables_show_it() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let list = screen(&sandbox, "job list --all");
    let id = list.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(id.len(), 8, "{list}");
    assert!(sandbox.ok("get job -o name").contains(&format!("job/{id}")), "{list}");
    for command in ["job show", "get job"] {
        assert_eq!(sandbox.ok(&format!("{command} {id} -q")).lines().count(), 1, "{id}");
    }
}

#[test]
fn a_wait_tells_the_stage_the_usual_time_and_what_is_left() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab first");
    for command in [
        "claim lab second --wait=2h",
        "wait claim/waits --for=condition=ClusterRunning --timeout=2h",
        "reconcile --wait=2h",
    ] {
        let copy = sandbox.copy();
        if !command.starts_with("claim") {
            copy.ok("claim lab waits --no-reconcile");
        }
        // Without a terminal a line of progress is one line of a log, however long it is.
        let ran = copy.run(command);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.lines().all(|line| !line.starts_with(' ')), "{}", ran.err);
        let words = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(" is installing, 0s of about 60s; 2h left"), "{command}: {words}");
        if command.starts_with("claim") {
            assert!(words.starts_with("#1 in the queue; lab-"), "{words}");
        }
    }
}

#[test]
fn a_wait_without_a_history_tells_how_long_the_job_runs() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1");
    let ran = sandbox.run("reconcile --wait=1h");
    assert!(ran.err.starts_with("1 installing; 1 job; lab-"), "{}", ran.err);
    assert!(ran.err.contains(" is installing, for 0s; 60m left\n"), "{}", ran.err);
}
