//! Bugs that were found: each has a test of the rule that it broke.

use poolctl::model::kinds::Kind;
use poolctl::model::object::Object;
use poolctl::model::schemas::schema_of_kind;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use serde_json::{Value, json};

use crate::migrations::earlier;
use crate::sandbox::{
    BY_HAND, Sandbox, apply, assert_settled, condition_field, has_program, jsonpath,
};

#[test]
fn a_kill_during_a_checkpoint_leaves_a_usable_state() {
    if !has_program("strace") {
        return;
    }
    let mut kills = 0;
    // The file itself is written by a checkpoint alone, when the change is in the log already.
    for call in [1, 2, 3, 8, 20, 60] {
        let sandbox = Sandbox::new();
        sandbox.ok("pool create lab --fake --size 1 -q");
        let script = format!(
            "strace -f -qq -o /dev/null -P {} -e trace=pwrite64 \
             -e inject=pwrite64:signal=KILL:when={call} poolctl pool scale lab --size 300",
            sandbox.state().display()
        );
        kills += usize::from(sandbox.shell(&script).code == 137);
        assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 300, "{call}");
        sandbox.ok("claim lab c -q");
    }
    assert!(kills > 3, "{kills}");
}

#[test]
fn a_limit_of_no_install_attempts_counts_as_one() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create z --fake --size 0");
    // Taken by its word, nothing would ever be installed.
    sandbox.ok("patch pool z -p '{spec: {installAttemptsLimit: 0, size: 1}}'");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "pool", "{.items[0].status.standby}"), "1");
}

#[test]
fn fields_that_poolctl_filled_in_and_protection_survive_a_second_apply() {
    let sandbox = Sandbox::new();
    let protected = BY_HAND.replace("'true'", "'true', hive.openshift.io/protected-delete: 'true'");
    apply(&sandbox, &protected);
    sandbox.ok("reconcile --wait -q");
    // This manifest has neither the protection nor what the installation filled in.
    apply(&sandbox, BY_HAND);
    sandbox.ok("kubeconfig c -n mine");
    sandbox.ok("delete cluster c -n mine -y");
    assert_settled(&sandbox);
    let reason = condition_field(&sandbox, "cluster/c", "Provisioned", "reason");
    assert_eq!(reason, "DeletionBlocked");
}

#[test]
fn a_cluster_made_by_hand_leaves_nothing_and_deletes_no_secret_of_its_namespace() {
    let sandbox = Sandbox::new();
    // Twice the same: what the first left behind would be in the way of the second.
    let named_like_its_namespace = BY_HAND.replace("namespace: mine", "namespace: c");
    for (manifest, namespace) in
        [(BY_HAND, "mine"), (BY_HAND, "mine"), (named_like_its_namespace.as_str(), "c")]
    {
        apply(&sandbox, manifest);
        apply(
            &sandbox,
            &format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: {namespace}}}\nstringData: {{a: b}}\n"
            ),
        );
        sandbox.ok("reconcile --wait -q");
        // Beside `s`, the cluster has its kubeconfig, its password and its metadata.
        assert_eq!(sandbox.ok(&format!("get secret -n {namespace} -o name")).lines().count(), 4);
        sandbox.refused(
            2,
            &format!("delete cluster c -n {namespace}"),
            "cluster `c` is installed and would be destroyed",
        );
        sandbox.ok(&format!("delete cluster c -n {namespace} -y"));
        sandbox.ok("reconcile --wait -q");
        assert_eq!(sandbox.ok(&format!("get secret -n {namespace} -o name")), "secret/s\n");
    }
    // A cluster that is installed already is adopted as it is.
    let installed = BY_HAND.replace("platform:", "installed: true, clusterMetadata: {infraID: i, clusterID: d, adminKubeconfigSecretRef: {name: k}}, platform:");
    apply(&sandbox, &installed);
    assert_settled(&sandbox);
    assert_eq!(
        jsonpath(
            &sandbox,
            "cluster",
            "{.items[0].spec.installed} {.items[0].spec.clusterMetadata.infraID}"
        ),
        "true i"
    );
}

#[test]
fn a_patched_secret_keeps_its_other_keys_and_no_value_is_shown() {
    let sandbox = Sandbox::new();
    // kubectl keeps a copy of the whole Secret in this annotation.
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: CANARY}}\n";
    apply(&sandbox, &format!("{secret}stringData: {{one: a, two: b}}\n"));
    sandbox.ok("patch secret s -p '{stringData: {three: c}}'");
    let shown = sandbox.ok("describe secret s");
    assert!(shown.contains("one, three, two (values are never shown)"), "{shown}");
    assert!(!sandbox.ok("get secret s -o yaml").contains("CANARY"));
    // A message quotes what is wrong in a document, but never a value of a Secret.
    for value in ["{password: 918273645}", "hunter2", "{a: [hunter2]}"] {
        let path = sandbox.write_file("wrong.yaml", &format!("{secret}stringData: {value}\n"));
        let ran = sandbox.run(&format!("apply -f {path}"));
        assert_eq!(ran.code, 1);
        assert!(!ran.err.contains("918273645") && !ran.err.contains("hunter2"), "{}", ran.err);
    }
    let template = "apiVersion: v1\nproxy: {httpProxy: 'http://user:hunter2@proxy:3128'}\nplatform: {azure: {clientSecret: hunter2}}\n";
    let path = sandbox.write_file("install-config.yaml", template);
    sandbox.ok(&format!("pool create lab --fake --install-config {path}"));
    let shown = sandbox.ok("pool render lab");
    assert!(shown.contains("@proxy:3128") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn an_edit_survives_the_job_that_is_collected_with_it() {
    let mut sandbox = Sandbox::new();
    apply(&sandbox, BY_HAND);
    // The installation is over by now, and nobody has looked: the patch and the pass that follows
    // it write the same cluster.
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:00:00Z");
    sandbox.ok("patch cluster c -n mine -p '{metadata: {labels: {a: b}}}'");
    assert_eq!(
        jsonpath(&sandbox, "cluster", "{.items[0].metadata.labels.a} {.items[0].spec.installed}"),
        "b true"
    );
}

/// What is exported from a hub has the finalizers of Hive, which nobody removes here.
#[test]
fn hives_own_finalizers_hold_nothing_and_foreign_ones_do() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/pool");
    let pool = sandbox.ok("get pool lab -o yaml");
    apply(
        &sandbox,
        &pool.replace("  name: lab", "  name: lab\n  finalizers: [hive.openshift.io/clusters]"),
    );
    sandbox.ok("delete pool lab");
    assert_settled(&sandbox);
    assert_eq!(sandbox.run("get pool lab").code, 3);
    for (kind, name) in [("cdc", "foo"), ("imgset", "ocp-4.18")] {
        sandbox.ok(&format!("patch {kind} {name} -p '{{metadata: {{finalizers: [foo/bar]}}}}'"));
        sandbox.ok(&format!("delete {kind} {name}"));
        sandbox.ok(&format!("get {kind} {name}"));
        sandbox.ok(&format!("patch {kind} {name} -p '{{metadata: {{finalizers: []}}}}'"));
        assert_eq!(sandbox.run(&format!("get {kind} {name}")).code, 3, "{kind}");
    }
}

#[test]
fn a_claim_that_is_sent_to_another_pool_finds_it() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create empty --fake --size 0 -q");
    sandbox.create_ready_pool("ready", 1);
    sandbox.ok("claim empty c -q");
    sandbox.ok("patch claim c -p '{spec: {clusterPoolName: ready}}'");
    assert_eq!(
        jsonpath(&sandbox, "claim", "{.items[0].status.conditions[0].reason}"),
        "ClusterClaimed"
    );
}

#[test]
fn a_template_that_cannot_be_read_is_a_missing_dependency() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!(
        "pool create lab --fake --install-config {}",
        sandbox.write_file("t", "a: b\n")
    ));
    // The pool was created with a good one; its Secret can be changed at any time.
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: lab-install-config}\nstringData: {install-config.yaml: '- 1'}\n";
    apply(&sandbox, secret);
    let missing = condition_field(&sandbox, "pool/lab", "MissingDependencies", "message");
    assert_eq!(missing, "install config template secret: install-config.yaml is not a mapping");
}

#[test]
fn a_claim_whose_pool_and_cluster_are_gone_expires() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c --lifetime 1h -q");
    let cluster = jsonpath(&sandbox, "claim", "{.items[0].spec.namespace}");
    sandbox.ok(&format!("delete cluster/{cluster} pool/lab -y"));
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("get claim/c");
    // Its lifetime is its own: it ends without a pool or a cluster to look at.
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T15:00:00Z");
    assert_settled(&sandbox);
    assert_eq!(sandbox.run("get claim c").code, 3);
}

#[test]
fn copies_of_a_cluster_that_was_deleted_are_removed_by_the_next_pass() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    // As a pass leaves it that is killed after its commit.
    sandbox.shell("mkdir -p $HOME/clusters/gone; touch $HOME/clusters/gone/kubeconfig");
    sandbox.shell("touch $HOME/clusters/.removing");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.shell("ls -d $HOME/clusters/gone $HOME/clusters/.removing").code, 2);
    assert!(sandbox.shell("ls $HOME/clusters/lab-*/").out.contains("install-config.yaml"));
}

/// The pool `p`, whose installations all fail, with more annotations. A pool that was created with
/// `--fake` must be there: the image set is its own.
fn failing_pool(size: u32, annotations: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: p}}\nspec:\n  \
         size: {size}\n  baseDomain: example.com\n  imageSetRef: {{name: simulated}}\n  \
         platform: {{none: {{}}}}\n  annotations: {{hive.openshift.io/fake-cluster: 'true', \
         poolctl.dev/fake-fail-every: '1'{annotations}}}\n"
    )
}

#[test]
fn a_pool_whose_installations_all_fail_can_shrink_and_go() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create other --fake --size 0 -q");
    apply(&sandbox, &failing_pool(4, ""));
    sandbox.ok("reconcile --wait -q");
    // There is one place for installations and destructions, which all who fail want again.
    sandbox.ok("patch pool p -p '{spec: {maxConcurrent: 1}}'");
    sandbox.ok("pool scale p --size 3");
    assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.baseDomain}").split(' ').count(), 3);
    sandbox.ok("delete pool p");
    assert_settled(&sandbox);
    assert_eq!(sandbox.run("get pool p").code, 3);
}

/// Clusters get the annotations of their pool, so each would be evicted as soon as it was made.
#[test]
fn an_eviction_among_the_annotations_of_a_pool_evicts_no_cluster() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create p --fake -q");
    let eviction = r#"annotations: {hive.openshift.io/remove-cluster-from-pool: "true"}"#;
    sandbox.ok(&format!("patch pool p -p '{{spec: {{size: 2, {eviction}}}}}'"));
    assert_settled(&sandbox);
    assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 2);
    // The same annotation on a cluster evicts it.
    let names = sandbox.ok("get cluster -q -o name");
    let evicted = names.lines().next().unwrap();
    sandbox.ok(&format!("patch cluster {evicted} -p '{{metadata: {{{eviction}}}}}'"));
    assert_settled(&sandbox);
    let left = sandbox.ok("get cluster -q -o name");
    assert!(left.lines().count() == 2 && !left.contains(evicted), "{left}");
}

#[test]
fn a_paused_cluster_is_left_alone_until_it_is_not() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab k -q");
    let cluster = format!("cluster/{}", jsonpath(&sandbox, "claim/k", "{.spec.namespace}"));
    sandbox.ok(&format!("annotate {cluster} hive.openshift.io/reconcile-pause=true -q"));
    sandbox.ok("cluster hibernate k -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(jsonpath(&sandbox, &cluster, "{.status.powerState}"), "Running");
    sandbox.ok("release k -q");
    sandbox.ok("reconcile --wait -q");
    let why = sandbox.ok(&format!("why {cluster}"));
    assert!(why.contains("is paused") && why.contains("reconcile-pause-"), "{why}");
    sandbox.ok(&format!("annotate {cluster} hive.openshift.io/reconcile-pause- -q"));
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.run(&format!("get {cluster}")).code, 3);
}

#[test]
fn an_installation_that_is_to_be_tried_once_is_not_tried_again() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create other --fake --size 0 -q");
    apply(&sandbox, &failing_pool(1, ", hive.openshift.io/try-install-once: 'true'"));
    let cluster = sandbox.ok("get cluster -o name").trim().to_owned();
    // The first attempt has failed by now, and after its pause another would begin.
    let ran = sandbox.shell("POOLCTL_NOW=2026-03-02T12:02:00Z poolctl reconcile");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let reason = condition_field(&sandbox, &cluster, "ProvisionStopped", "reason");
    assert_eq!(reason, "InstallOnlyOnceSet");
}

#[test]
fn a_claim_whose_cluster_was_deleted_is_reported_and_can_be_released() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab k -q");
    let cluster = format!("cluster/{}", jsonpath(&sandbox, "claim/k", "{.spec.namespace}"));
    sandbox.ok(&format!("delete {cluster} -y"));
    sandbox.ok("reconcile --wait -q");
    assert!(sandbox.ok("events claim/k").contains("ClusterGone"));
    assert!(sandbox.status().contains("poolctl release k"));
    let doctor = sandbox.run("doctor");
    assert!(doctor.code == 1 && doctor.out.contains("poolctl release k"), "{}", doctor.out);
    sandbox.ok("release k -y");
    assert_settled(&sandbox);
    sandbox.ok("doctor");
}

#[test]
fn a_name_that_a_claim_and_a_cluster_have_is_refused_as_ambiguous() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab k -q");
    let cluster = jsonpath(&sandbox, "claim/k", "{.spec.namespace}");
    // The second claim has the name of the cluster of the first: either could be meant.
    sandbox.ok(&format!("claim lab {cluster} -q"));
    for command in ["credentials", "kubeconfig"] {
        sandbox.refused(2, &format!("{command} {cluster}"), "of a claim and of a cluster");
        sandbox.ok(&format!("{command} cluster/{cluster}"));
    }
    assert_eq!(sandbox.run(&format!("cluster hibernate {cluster}")).code, 2);
}

#[test]
fn a_pool_whose_installations_keep_failing_says_so() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create other --fake --size 0 -q");
    let annotations = ", poolctl.dev/fake-install-duration: 1s, poolctl.dev/instal-timeout: 1h";
    let file = sandbox.write_file("p.yaml", &failing_pool(1, annotations));
    let applied = sandbox.run(&format!("apply -f {file}"));
    let hint = "instal-timeout has no effect here; did you mean `poolctl.dev/install-timeout`?";
    assert!(applied.err.contains(hint), "{}", applied.err);
    for minute in 1..12 {
        let pass = format!("POOLCTL_NOW=2026-03-02T12:{minute:02}:30Z poolctl reconcile -q");
        assert_eq!(sandbox.shell(&pass).code, 0);
    }
    let status = sandbox.shell("POOLCTL_NOW=2026-03-02T12:12:00Z poolctl status").out;
    let is_named = status.contains("failed to install") || status.contains("last one failed");
    assert!(is_named, "{status}");
    assert!(sandbox.ok("events").contains("InstallKeepsFailing"));
}

/// An object of a kind, made from those fields of a document that the kind has.
fn sample_object(kind: Kind, mut document: Value) -> Object {
    let properties = &schema_of_kind(kind)["properties"];
    document.as_object_mut().unwrap().retain(|name, _| properties.get(name).is_some());
    if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, _| properties["spec"]["properties"].get(name).is_some());
    }
    Object::from_wire(kind, document).unwrap()
}

#[test]
fn a_plan_prints_changes_of_every_kind() {
    let mut state = State::default();
    let mut expected = Vec::new();
    for kind in Kind::OBJECTS.iter().copied() {
        // Objects that are made from rows of another type are printed as these rows.
        if matches!(kind, Kind::IpAddress | Kind::IpClaim) {
            continue;
        }
        let document = json!({
            "metadata": {"name": "sample", "namespace": "lab"},
            "spec": {
                "baseDomain": "example.com",
                "clusterName": "sample",
                "clusterPoolName": "lab",
                "imageSetRef": {"name": "v4"},
                "online": false,
                "platform": {"none": {}},
                "releaseImage": "registry.example.com/release:4",
                "size": 1,
            },
            "roleRef": {"kind": "Role", "name": "sample"},
        });
        expected.push(format!("+ {}/sample", kind.word()));
        let object = sample_object(kind, document);
        poolctl::edits::import_object(&mut state, object, &Tick::default()).unwrap();
    }
    let lines = poolctl::output::difference_lines(&state);
    for line in expected {
        assert!(lines.iter().any(|printed| printed.text.starts_with(&line)), "{line}: {lines:#?}");
    }
}

#[test]
fn a_claim_without_a_pass_does_not_say_that_no_cluster_is_ready() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let ran = sandbox.run("claim lab ci --no-reconcile");
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "claim/ci waits for the next pass over pool lab\n")
    );
    assert!(ran.err.contains("pool `lab` has 2 clusters ready"), "{}", ran.err);
    assert!(ran.err.contains("next: poolctl reconcile\n"), "{}", ran.err);
    sandbox.ok("reconcile -q");
    assert!(sandbox.ok("why claim/ci").starts_with("claim ci has cluster lab-"));
}

#[test]
fn a_secret_without_a_password_is_to_be_written_again() {
    let sandbox = Sandbox::new();
    sandbox.ok("host add n1 --bmc ipmi://192.0.2.11 --secret bmc -q");
    let create = "poolctl secret create bmc --from-file=username --from-file=password";
    let why = sandbox.ok("why host/n1");
    assert!(why.ends_with(&format!("secret bmc does not exist\nNext: {create}\n")), "{why}");
    let ran = sandbox.shell("echo root | poolctl secret create bmc --from-file=username=- -q");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let why = sandbox.ok("why host/n1");
    let next = format!("secret bmc has no password\nNext: {create} --overwrite\n");
    assert!(why.ends_with(&next), "{why}");
}

#[test]
fn a_plan_says_that_the_next_pass_only_records_a_jump_of_the_clock() {
    // The last pass over the fixture is far from the real clock.
    let mut sandbox = earlier(1);
    sandbox.set_variable("POOLCTL_NOW", "");
    let ran = sandbox.run("plan");
    assert_eq!(ran.code, 10, "{}", ran.err);
    assert!(ran.out.contains("! ClockJumped: "), "{}", ran.out);
    let ran = sandbox.run("plan -o json");
    let plan: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(plan["changes"].as_array().unwrap().len(), 1, "{plan}");
}

#[test]
fn an_object_that_is_to_be_deleted_goes_with_its_last_finalizer_whatever_its_kind() {
    let sandbox = Sandbox::new();
    let objects = [
        (
            "ipam.metal3.io/v1alpha1",
            "IPPool",
            "{pools: [{start: 10.0.0.1, end: 10.0.0.9}], prefix: 24}",
        ),
        ("agent-install.openshift.io/v1beta1", "InfraEnv", "{pullSecretRef: {name: pull}}"),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3DataTemplate", "{clusterName: none}"),
        ("v1", "Namespace", ""),
    ];
    for (api_version, kind, spec) in objects {
        let spec_line = if spec.is_empty() { String::new() } else { format!("spec: {spec}\n") };
        let manifest = format!(
            "apiVersion: {api_version}\nkind: {kind}\n\
             metadata: {{name: held, finalizers: [example.com/held]}}\n{spec_line}"
        );
        apply(&sandbox, &manifest);
        sandbox.ok(&format!("delete {kind} held -y -q"));
        let object = format!("{}/held", kind.to_lowercase());
        assert_ne!(jsonpath(&sandbox, &object, "{.metadata.deletionTimestamp}"), "", "{kind}");
        sandbox.ok(&format!("patch {kind} held -p '{{metadata: {{finalizers: null}}}}' -q"));
        assert_eq!(sandbox.run(&format!("get {kind} held")).code, 3, "{kind}");
    }
}

/// A pass was killed after its commit had removed a cluster and before it removed the copies of it. The
/// next commit that removed another cluster took the note of that for its own, and nobody ever looked.
#[test]
fn copies_that_a_killed_pass_has_left_are_removed_although_another_command_removes_others() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("pool create other --fake --size 1");
    sandbox.ok("reconcile --wait -q");
    let copies = sandbox.path().join("clusters");
    std::fs::create_dir_all(copies.join("gone-1")).unwrap();
    std::fs::write(copies.join("gone-1/kubeconfig"), "").unwrap();
    std::fs::write(copies.join(".removing"), "").unwrap();
    sandbox.ok("pool scale lab --size 0");
    sandbox.ok("reconcile --wait --pool lab -q");
    assert!(copies.join("gone-1").exists(), "a pass over a pool looks at that pool alone");
    sandbox.ok("reconcile -q");
    assert!(!copies.join("gone-1").exists());
    assert!(!copies.join(".removing").exists());
    sandbox.ok("doctor");
}
