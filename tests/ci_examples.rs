//! The snippets of `examples/ci`, tried through their shell parts: what GitHub Actions, GitLab,
//! Jenkins, Tekton and Prow would run is run here in the same order, in a checkout with a test of
//! its own, once when that test passes and once when it fails. Each time the cluster is claimed
//! before the test and released after it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::architecture::root;
use crate::pages::Page;
use crate::sandbox::{Sandbox, jsonpath};

/// What a system runs for a job.
struct Job {
    /// The names of the variables that the snippet sets.
    variables: Vec<String>,
    /// Run in this order, until one of them fails.
    steps: Vec<String>,
    /// Run at the end, whatever became of the steps.
    last_steps: Vec<String>,
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join("examples/ci").join(name)).unwrap()
}

fn read_yaml(name: &str) -> Value {
    poolctl::yaml::parse_value(&read(name)).unwrap()
}

fn words(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

/// The names of a list of variables, as Kubernetes has it.
fn names(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str()).map(str::to_owned).collect()
}

fn github_job() -> Job {
    let document = read_yaml("github.yaml");
    let job = &document["jobs"]["e2e"];
    let mut steps = Vec::new();
    let mut last_steps = Vec::new();
    for step in job["steps"].as_array().unwrap() {
        let Some(command) = step["run"].as_str() else { continue };
        let list = if step["if"] == "always()" { &mut last_steps } else { &mut steps };
        list.push(command.to_owned());
    }
    Job { variables: keys(&job["env"]), steps, last_steps }
}

fn gitlab_job() -> Job {
    let document = read_yaml("gitlab.yaml");
    let job = &document["e2e"];
    Job {
        variables: keys(&job["variables"]),
        steps: words(&job["script"]),
        last_steps: words(&job["after_script"]),
    }
}

/// The steps are the lines with `sh '...'`; those after `post` are run at the end.
fn jenkins_job() -> Job {
    let mut job = Job { variables: Vec::new(), steps: Vec::new(), last_steps: Vec::new() };
    let mut is_at_end = false;
    for line in read("Jenkinsfile").lines().map(str::trim) {
        is_at_end |= line.starts_with("post ");
        if let Some(command) = line.strip_prefix("sh '") {
            let list = if is_at_end { &mut job.last_steps } else { &mut job.steps };
            list.push(command.trim_end_matches('\'').to_owned());
        } else if let Some((name, _)) = line.split_once(" = ") {
            job.variables.push(name.to_owned());
        }
    }
    job
}

/// The tasks in the order in which the pipeline, which is the last document, names them.
fn tekton_job() -> Job {
    let text = read("tekton.yaml");
    let parts = text.split("\n---\n").map(|part| poolctl::yaml::parse_value(part).unwrap());
    let documents: Vec<Value> = parts.collect();
    let pipeline = documents.last().unwrap();
    let mut job = Job { variables: Vec::new(), steps: Vec::new(), last_steps: Vec::new() };
    for (list, is_at_end) in [("tasks", false), ("finally", true)] {
        for reference in pipeline["spec"][list].as_array().unwrap() {
            let name = &reference["taskRef"]["name"];
            let task = documents.iter().find(|task| task["metadata"]["name"] == *name).unwrap();
            let step = &task["spec"]["steps"][0];
            job.variables.extend(names(&step["env"]));
            let list = if is_at_end { &mut job.last_steps } else { &mut job.steps };
            list.push(step["script"].as_str().unwrap().to_owned());
        }
    }
    job
}

/// One script, which releases by itself.
fn prow_job() -> Job {
    let document = read_yaml("prow.yaml");
    let container = &document["presubmits"]["example/repository"][0]["spec"]["containers"][0];
    let mut variables = names(&container["env"]);
    let script = container["args"][0].as_str().unwrap().to_owned();
    for name in ["CLAIM", "KUBECONFIG"] {
        assert!(script.contains(&format!("export {name}=")), "{script}");
        variables.push(name.to_owned());
    }
    Job { variables, steps: vec![script], last_steps: Vec::new() }
}

/// Plays a job whose test ends with this exit code.
fn play(system: &str, job: &Job, code: u8) {
    for variable in ["POOLCTL", "POOL", "CLAIM", "KUBECONFIG"] {
        assert!(job.variables.iter().any(|name| name == variable), "{system} has no {variable}");
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let examples = root().join("examples");
    sandbox.write_file(
        "test.sh",
        &format!(
            "test -s \"$KUBECONFIG\" || exit 70\n\
             poolctl get claim -o name >\"$HOME/claimed\"\nexit {code}\n"
        ),
    );
    let prepare = format!(
        "ln -sfn '{}' \"$HOME/examples\"\ncd \"$HOME\"\n\
         export POOLCTL=poolctl POOL=lab CLAIM=job-7 BUILD_ID=7 KUBECONFIG=\"$HOME/kubeconfig\"",
        examples.display()
    );
    let mut last_code = 0;
    for step in &job.steps {
        let ran = sandbox.shell(&format!("{prepare}\n{step}"));
        last_code = ran.code;
        if ran.code != 0 {
            assert_eq!(ran.code, i32::from(code), "{system}: {step}: {}{}", ran.out, ran.err);
            break;
        }
    }
    assert_eq!(last_code, i32::from(code), "{system}");
    for step in &job.last_steps {
        let ran = sandbox.shell(&format!("{prepare}\n{step}"));
        assert_eq!(ran.code, 0, "{system}: {step}: {}{}", ran.out, ran.err);
    }
    let claimed = std::fs::read_to_string(sandbox.path().join("claimed")).unwrap();
    assert!(claimed.starts_with("claim/"), "{system}: {claimed}");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get claim -o name"), "", "{system} releases nothing");
    assert!(!sandbox.path().join("kubeconfig").exists(), "{system} leaves the kubeconfig");
}

#[test]
fn each_system_claims_before_the_test_and_releases_after_it() {
    let jobs = [
        ("GitHub", github_job()),
        ("GitLab", gitlab_job()),
        ("Jenkins", jenkins_job()),
        ("Tekton", tekton_job()),
        ("Prow", prow_job()),
    ];
    for (system, job) in &jobs {
        play(system, job, 0);
        play(system, job, 3);
    }
}

#[test]
fn a_job_is_told_when_no_cluster_is_free_in_time() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0");
    // A claim has a cluster made for it, unless the pool is paused.
    sandbox.ok("pool pause lab");
    let script = "POOL=lab CLAIM=job-7 WAIT=1m KUBECONFIG=$HOME/kubeconfig sh examples/ci/claim.sh";
    let ran = sandbox.shell(script);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    sandbox.ok("reconcile --wait -q");
    assert_eq!(jsonpath(&sandbox, "claim", "{.items[*].metadata.name}"), "");
}

/// The files of the snippets, but for the scripts.
const SNIPPETS: [&str; 5] =
    ["github.yaml", "gitlab.yaml", "Jenkinsfile", "tekton.yaml", "prow.yaml"];

#[test]
fn the_chapter_shows_the_snippets_that_are_tried() {
    let page = Page::read(Path::new("docs/ci.md"));
    let mut shown_files = BTreeSet::new();
    for block in page.blocks.iter().filter(|block| ["yaml", "groovy"].contains(&&*block.info)) {
        let file = SNIPPETS.into_iter().find(|file| read(file).contains(&block.text));
        let file = file.unwrap_or_else(|| panic!("no file has: {}", block.text));
        shown_files.insert(file);
    }
    assert_eq!(shown_files, BTreeSet::from(SNIPPETS));
}
