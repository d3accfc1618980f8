//! What admins who know kubectl, oc and Hive type: every command of `cases/kubectl.txt` works, or is
//! refused with what to type instead. The chapter about it is printed from the same table.

use crate::architecture::root;
use crate::cases::{assert_all_hold, columns, rows};
use crate::sandbox::{POOLCTL, Sandbox, has_program};

/// Files that the commands name.
const FILES: &str = "
    ln -s \"$POOLCTL\" oc
    printf 'apiVersion: hive.openshift.io/v1\\nkind: ClusterClaim\\nmetadata: {name: ci-2}\\nspec: {clusterPoolName: lab}\\n' > claim.yaml
    printf 'apiVersion: v1\\nkind: Service\\nmetadata: {name: a}\\n' > svc.yaml
    printf 'apiVersion: hive.openshift.io/v1\\nkind: ClusterClaim\\nmetadata: {generateName: ci-}\\nspec: {clusterPoolName: lab}\\n' > generated.yaml
    printf 'apiVersion: v1\\nkind: Namespace\\nmetadata: {name: team}\\n' > ns.yaml
    mkdir -p kust kdir/sub
    cp claim.yaml kust && cp claim.yaml kdir/sub
    printf 'resources: [claim.yaml]\\n' > kust/kustomization.yaml";

/// A pool with ready clusters, one of them claimed.
fn prepared() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL", POOLCTL);
    sandbox.set_variable("EDITOR", "true");
    sandbox.ok("apply -f examples/pool -q");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab ci-1 -q");
    sandbox.ok("reconcile --wait -q");
    sandbox
}

/// What does not hold of a row: nothing if all is as expected.
fn problem_of(prepared: &Sandbox, row: &str) -> Option<String> {
    let [command, code, words] = columns(row)[..] else { panic!("{row}") };
    let sandbox = prepared.copy();
    // A command that watches does not end by itself.
    let script =
        format!("cd \"$HOME\"; {FILES}\n    export PATH=\"$HOME:$PATH\"; timeout 3 {command}");
    let ran = sandbox.shell(&script);
    let printed = format!("{}{}", ran.out, ran.err);
    let has_words = words == "-" || words.split(" & ").all(|word| printed.contains(word));
    let is_as_expected = ran.code.to_string() == code && has_words;
    (!is_as_expected).then(|| format!("{row}\n  exit {}: {printed}", ran.code))
}

#[test]
fn what_admins_type_works_or_is_refused_with_the_right_word() {
    let prepared = prepared();
    let cases = std::fs::read_to_string(root().join("tests/cases/kubectl.txt")).unwrap();
    let mut tried = 0;
    let mut failures = Vec::new();
    for row in rows(&cases) {
        tried += 1;
        failures.extend(problem_of(&prepared, row));
    }
    assert_all_hold(tried, 140, &failures);
}

#[test]
fn the_namespace_of_config_is_used_until_another_is_named() {
    let sandbox = Sandbox::new();
    sandbox.ok("config set-context --current --namespace=team");
    sandbox.ok("pool create lab --fake --size 1");
    assert!(sandbox.ok("get pool -n team").contains("lab"));
    assert!(sandbox.ok("config get-contexts").contains("team"));
    sandbox.refused(3, "get pool lab -n default", "it is in namespace `team`");
}

#[test]
fn the_default_namespace_is_in_every_state() {
    let sandbox = Sandbox::new();
    sandbox.ok("create namespace team");
    assert_eq!(sandbox.ok("get ns -o name"), "namespace/default\nnamespace/team\n");
    assert!(sandbox.ok("get ns -o yaml").contains("name: default"));
    sandbox.refused(4, "label ns default a=b", "first: poolctl create namespace default");
    // It is not meant by "all", because nobody has created it.
    assert_eq!(sandbox.ok("label ns --all a=b"), "namespace/team labeled\n");
    sandbox.ok("create namespace default");
    sandbox.ok("label ns default a=b");
    sandbox.ok("delete ns --all");
    assert_eq!(sandbox.ok("get ns -o name"), "namespace/default\n");
}

#[test]
fn a_name_is_completed_when_an_object_is_created() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0");
    let claim = "---\napiVersion: hive.openshift.io/v1\nkind: ClusterClaim\n\
        metadata: {generateName: ci-}\nspec: {clusterPoolName: lab}\n";
    let file = sandbox.path().join("claims.yaml").display().to_string();
    std::fs::write(&file, claim.repeat(2)).unwrap();
    sandbox.ok(&format!("create -f {file}"));
    sandbox.ok(&format!("create -f {file}"));
    let names = sandbox.ok("get claim -o name");
    assert_eq!(names.lines().collect::<std::collections::HashSet<_>>().len(), 4, "{names}");
    for name in names.lines() {
        assert!(name.starts_with("claim/ci-") && name.len() == "claim/ci-12345".len(), "{names}");
    }
    sandbox.refused(1, &format!("apply -f {file}"), "only `create` makes one of `generateName`");
}

#[test]
fn columns_that_are_asked_for_stand_beside_the_usual_ones() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0");
    let [usual_columns, with_labels, with_team] =
        ["get pool", "get pool --show-labels", "get pool -L team"]
            .map(|command| sandbox.ok(command).lines().next().unwrap().to_owned());
    assert_eq!(with_labels, format!("{usual_columns}  LABELS"));
    assert_eq!(with_team, format!("{usual_columns}  TEAM"));
    // What may be missing is not missed.
    let ran = sandbox.run("get pool nosuch --ignore-not-found");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

#[test]
fn a_kustomization_that_changes_its_resources_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write_file("kustomization.yaml", "resources: []\nnamePrefix: a-\n");
    let folder = sandbox.path().display();
    sandbox.refused(2, &format!("apply -k {folder}"), "`namePrefix` is not supported");
}

#[test]
fn a_kustomization_patches_its_resources() {
    let sandbox = Sandbox::new();
    sandbox.write_file("pool.yaml", &sandbox.ok("pool create lab --fake --dry-run=client -o yaml"));
    sandbox.write_file("size.yaml", "- {op: replace, path: /spec/size, value: 3}\n");
    let kustomization = "resources: [pool.yaml]\npatches:\n\
        - {path: size.yaml, target: {kind: ClusterPool, name: lab}}\n\
        - patch: |\n    kind: ClusterPool\n    metadata: {name: lab, labels: {team: qe}}\n    spec: {maxSize: 5}\n";
    sandbox.write_file("kustomization.yaml", kustomization);
    let apply = format!("apply -k {} --no-reconcile", sandbox.path().display());
    sandbox.ok(&apply);
    let fields = "{.spec.size} {.spec.maxSize} {.metadata.labels.team}";
    assert_eq!(sandbox.ok(&format!("get pool lab -o 'jsonpath={fields}'")), "3 5 qe");
    sandbox.write_file("kustomization.yaml", &kustomization.replace("name: lab}", "name: lob}"));
    sandbox.refused(1, &apply, "no resource has kind `ClusterPool` and name `lob`");
}

#[test]
fn the_chapter_is_printed_from_the_table() {
    let path = root().join("docs/oc-to-poolctl.md");
    let chapter = poolctl::commands::kubectl_chapter();
    #[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
    let is_blessed = std::env::var_os("POOLCTL_BLESS").is_some();
    if is_blessed {
        std::fs::write(&path, &chapter).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), chapter, "POOLCTL_BLESS=1 writes it anew");
}

#[test]
fn hives_own_test_of_pools_passes_with_poolctl_as_oc() {
    if !has_program("jq") {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL", POOLCTL);
    // A claimed cluster is deleted only after a question, which `oc` does not ask.
    sandbox.set_variable("POOLCTL_YES", "true");
    let script = root().join("tests/cases/e2e-pool.sh").display().to_string();
    let ran = sandbox.shell(&format!(
        "mkdir \"$HOME/bin\" && ln -s \"$POOLCTL\" \"$HOME/bin/oc\" && PATH=\"$HOME/bin:$PATH\" sh {script}"
    ));
    assert!(ran.code == 0 && ran.out.ends_with("passed\n"), "{}{}", ran.out, ran.err);
}

/// What a crontab, a CI job or kubectl does by itself must not wait for an answer.
#[test]
fn only_what_takes_something_from_somebody_asks() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci-1 -q");
    sandbox.ok("claim lab ci-2 -q");
    let cluster = sandbox.ok("get claim ci-1 -o 'jsonpath={.spec.namespace}'");
    let refused = format!("delete cluster {cluster}");
    sandbox.refused(2, &refused, "there is no terminal to ask on");
    sandbox.refused(2, &refused, &format!("next: poolctl delete cluster {cluster} -y"));
    sandbox.ok("pool scale lab --size 0");
    sandbox.ok("scale pool lab --replicas=0");
    sandbox.ok("release ci-1");
    sandbox.ok("delete claim ci-2");
    sandbox.ok("delete pool lab");
    sandbox.ok("ippool create lan --range 192.168.100.0/24");
    sandbox.ok("ip claim lan db-1");
    sandbox.ok("ip release db-1");
    sandbox.ok("delete ippool lan");
}
