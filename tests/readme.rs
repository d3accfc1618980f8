//! What README, help and examples promise, tried.

use crate::sandbox::Sandbox;

const README: &str = include_str!("../README.md");

#[test]
fn the_readmes_commands_work() {
    let sandbox = Sandbox::new();
    let start = README.find("poolctl apply -f examples/pool").unwrap();
    let block = &README[start..README[start..].find("```").unwrap() + start];
    let ran = sandbox.shell(&format!("set -e\n{block}"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("claim/ci-17 bound to cluster/lab-"), "{}", ran.out);
    assert!(ran.out.contains("claim/ci-17 released"));
    let rendered = sandbox.ok(&["pool", "render", "lab", "--customization", "foo"]);
    assert!(rendered.contains("name: foo"), "{rendered}");
}

#[test]
fn the_quickstart_does_its_job() {
    let text = std::fs::read_to_string("examples/quickstart/run.sh").unwrap();
    let steps: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("say ")).collect();
    assert!(steps.len() > 5);
    let sandbox = Sandbox::new();
    let ran = sandbox.shell(&format!("set -e\n{}", steps.join("\n")));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in ["/kubeconfig\n", "my-cluster  demo  Running", "claim/my-cluster released"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn the_crontab_line_of_the_readme_is_the_examples() {
    let crontab = std::fs::read_to_string("examples/pool/crontab").unwrap();
    let line = crontab.lines().find(|line| !line.starts_with('#')).unwrap();
    assert!(README.contains(line));
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "demo", "--fake"]);
    // cron has no HOME of ours, no terminal and hardly a PATH.
    let state = sandbox.state();
    let cron =
        format!("env -i POOLCTL_STATE={} {} reconcile", state.display(), crate::sandbox::POOLCTL);
    let ran = sandbox.shell(&cron);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

/// Every command of the tree, with its example.
pub fn examples() -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut nodes = vec![(Vec::new(), poolctl::commands::tree())];
    while let Some((path, mut node)) = nodes.pop() {
        node.build();
        if node.has_subcommands() {
            let below = node.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
            nodes.extend(below.map(|one| {
                (path.iter().cloned().chain([one.get_name().to_owned()]).collect(), one)
            }));
        } else {
            let help = node.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = help.split("Example:\n").nth(1);
            let example = example.unwrap_or_else(|| panic!("{path:?} has no example"));
            found.push((path, example.lines().next().unwrap().trim().to_owned()));
        }
    }
    found
}

#[test]
fn every_commands_example_runs() {
    let all = examples();
    assert!(all.len() > 18, "{}", all.len());
    for (path, example) in all {
        let sandbox = Sandbox::new();
        let ready = "
            poolctl pool create lab --fake --size 2 --running-count 1 --customization foo --customization bar -q
            printf 'apiVersion: hive.openshift.io/v1\\nkind: ClusterDeploymentCustomization\\nmetadata: {name: foo}\\n' | poolctl apply -qf -
            poolctl reconcile --wait -q";
        let claimed = "poolctl claim lab ci-17 -q";
        let cluster = "CLUSTER=$(poolctl get cluster -qo name)";
        let needs_claim = !["claim", "apply", "run"].contains(&path[0].as_str());
        let claimed = if needs_claim { claimed } else { "" };
        let example = example.replace("CLUSTER", "$CLUSTER");
        let script = format!("set -e\n{ready}\n{claimed}\n{cluster}\n{example}");
        let ran = sandbox.shell(&script);
        let changes = (path == ["plan"] && ran.code == 10) || (path == ["diff"] && ran.code == 1);
        let fine = ran.code == 0 || changes;
        assert!(fine, "{path:?}: {example}\n{}{}", ran.out, ran.err);
    }
}

#[test]
fn help_fits_one_screen() {
    let help = Sandbox::new().ok(&["--help"]);
    assert!(help.lines().count() <= 40, "{help}");
}
