//! What users get wrong is answered with a clear message and the right exit code, and changes
//! nothing.

use crate::sandbox::{Sandbox, is_root};

const POOL: &str = "apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: lab}
spec:
  size: 1
  baseDomain: example.com
  imageSetRef: {name: x}
  platform: {none: {}}
";

fn pool(more: &str) -> String {
    format!("{POOL}{more}")
}

/// Every item of a large file was once a cause of its own, which filled the terminal for minutes.
#[test]
fn of_many_problems_the_first_are_shown_and_the_rest_is_counted() {
    let sandbox = Sandbox::new();
    let items = "- {}\n".repeat(500);
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{items}");
    let file = sandbox.write_file("many.yaml", &list);
    let ran = sandbox.run(&format!("import {file}"));
    assert_ne!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("problems: 500"), "{}", ran.err);
    assert!(ran.err.matches("cause: ").count() <= 100, "{}", ran.err);
    assert!(ran.err.contains("cause: 401 more"), "{}", ran.err);
}

/// A document whose aliases expand to nine to the ninth values.
fn bomb() -> String {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
    }
    bomb
}

/// A manifest, the exit code, and a part of the message.
fn manifests() -> Vec<(String, i32, &'static str)> {
    vec![
        (pool("  inventroy: []\n"), 1, "bad.yaml:9:3: unknown field `spec.inventroy`, did you mean `inventory`?"),
        (POOL.replace("size: 1", "size: three"), 1, "bad.yaml:5:9: `spec.size` is a string, not a whole number: it holds \"three\""),
        (POOL.replace("size: 1", "size: -1"), 1, "bad.yaml:5:9: `spec.size`: -1 is less than 0"),
        (POOL.replace("size: 1", "size: 99999999999"), 1, "is more than"),
        (POOL.replace("  size: 1\n", ""), 1, "`spec.size` is missing"),
        (pool("  size: 2\n"), 1, "bad.yaml:9:3: duplicate mapping key: size"),
        (pool("  inventory: []\n"), 1, "spec.inventory is empty"),
        (pool("  inventory: {ClusterDeploymentCustomizations: []}\n"), 1, "spec.inventory is empty"),
        (pool("  inventory: [{name: a}, {name: a}]\n"), 1, "lists `a` twice"),
        (POOL.replace("name: lab", "name: ../x"), 1, "`../x` is not usable"),
        (POOL.replace("name: lab", &format!("name: {}", "a".repeat(64))), 1, "it has 64 characters; the limit is 63"),
        (POOL.replace("none: {}", "none: {}, aws: {region: x}"), 1, "exactly one platform; it has `aws`, `none`"),
        (POOL.replace("none: {}", "nome: {}"), 1, "did you mean `none`?"),
        (POOL.replace("example.com", "exa mple"), 1, "is not a domain"),
        (pool("  labels: {version: 4.18}\n"), 1, "not a string; write it in quotes"),
        (pool("  hibernateAfter: soon\n"), 1, "`soon` is not a duration like"),
        (POOL.replace("kind: ClusterPool\n", ""), 1, "needs `apiVersion` and `kind`"),
        ("just text".into(), 1, "the document is not an object"),
        ("a: [".into(), 1, "unclosed bracket"),
        ("\t- x: y: z".into(), 1, "bad.yaml:1:"),
        ("[".repeat(100_000), 1, "nested too deeply"),
        (bomb(), 1, "aliases expand"),
        ("x".repeat(2 << 20), 1, "more than 1048576 bytes"),
        (String::new(), 1, "there is nothing to apply"),
        ("apiVersion: hive.openshift.io/v1\nkind: ClusterClaim\nmetadata: {name: c}\nspec: {clusterPoolName: ready, namespace: mine}\n".into(),
         4, "is filled in by poolctl"),
        ("apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\nmetadata: {name: c}\nspec: {installConfigPatches: [{op: set, path: /a}]}\n".into(),
         1, "`set` is none of add, remove"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '%%'}\n".into(), 1, "data.a is not base64"),
    ]
}

#[test]
fn bad_manifests_are_refused_and_nothing_happens() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("ready", 1);
    let before = sandbox.all_objects();
    for (manifest, code, message) in manifests() {
        let path = sandbox.write_file("bad.yaml", &manifest);
        let ran = sandbox.run(&format!("apply -f {path}"));
        let beginning: String = manifest.chars().take(300).collect();
        assert_eq!(ran.code, code, "{beginning}\n{}", ran.err);
        assert!(ran.err.contains(message), "{beginning}\n{}\nnot: {message}", ran.err);
        assert!(ran.err.len() < 2000, "{}", ran.err);
    }
    assert_eq!(sandbox.all_objects(), before);
}

/// A kind of object, what is in its spec (or its annotation), and a part of the message.
const HOSTS: [(&str, &str, &str); 18] = [
    ("InfraEnv", "clusterRef: {namespace: own}", "spec.clusterRef.name is missing"),
    ("InfraEnv", "clusterRef: {name: c}", "spec.clusterRef.namespace is missing"),
    ("InfraEnv", "proxy: {noProxy: a.b}", "spec.proxy needs httpProxy or httpsProxy"),
    ("InfraEnv", "proxy: {httpProxy: 'p:3128'}", "spec.proxy.httpProxy is not a URL like http"),
    ("InfraEnv", "proxy: {httpsProxy: 'ftp://p'}", "spec.proxy.httpsProxy is not a URL like"),
    ("InfraEnv", "proxy: {httpProxy: 'http://p', noProxy: 'a,,b'}", "noProxy: `` is not a name"),
    ("InfraEnv", "proxy: {httpProxy: 'http://p', noProxy: 'a b'}", "noProxy: `a b` is not a name"),
    ("selector", "operator: Is", "[0].operator: `Is` is none of In, NotIn, Exists, DoesNotExist"),
    ("selector", "operator: NotIn", "[0].values is empty; NotIn needs at least one value"),
    ("selector", "operator: Exists, values: [b]", "[0].values: Exists takes no values"),
    ("pool", "{matchLabels: {a: 'b c'}}", "agentSelector.matchLabels.a: `b c` is not a label"),
    ("pool", "{matchExpressions: [{key: a, operator: Is}]}", "agentSelector.matchExpressions[0]"),
    ("pool", "{matchLabel: {a: b}}", "agentSelector: unknown field `matchLabel`"),
    ("Agent", "clusterDeploymentName: {namespace: own}", "clusterDeploymentName.name is missing"),
    ("BareMetalHost", "edge", "`edge` is neither NAMESPACE/NAME of a cluster nor empty"),
    ("BareMetalHost", "lab/edge/1", "is neither NAMESPACE/NAME"),
    ("BareMetalHost", "/edge", "is neither NAMESPACE/NAME"),
    ("BareMetalHost", "lab/", "is neither NAMESPACE/NAME"),
];

fn agent_install_object(kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: agent-install.openshift.io/v1beta1\nkind: {kind}\nmetadata: {{name: e, \
         labels: {{infraenvs.agent-install.openshift.io: e}}}}\nspec: {{{spec}}}\n"
    )
}

fn infra_env(spec: &str) -> String {
    agent_install_object("InfraEnv", &format!("pullSecretRef: {{name: s}}, {spec}"))
}

fn manifest_of_host(kind: &str, part: &str) -> String {
    match kind {
        "InfraEnv" => infra_env(part),
        "selector" => infra_env(&format!(
            "nmStateConfigLabelSelector: {{matchExpressions: [{{key: a, {part}}}]}}"
        )),
        "pool" => POOL.replace("none: {}", &format!("agentBareMetal: {{agentSelector: {part}}}")),
        "BareMetalHost" => format!(
            "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {{name: b, annotations: \
             {{bmac.agent-install.openshift.io/cluster-reference: '{part}'}}}}\nspec: {{online: true}}\n"
        ),
        _ => agent_install_object(kind, part),
    }
}

#[test]
fn bad_manifests_of_hosts_are_refused_and_nothing_happens() {
    let sandbox = Sandbox::new();
    for (kind, part, message) in HOSTS {
        let path = sandbox.write_file("bad.yaml", &manifest_of_host(kind, part));
        let ran = sandbox.run(&format!("apply -f {path}"));
        assert_eq!(ran.code, 1, "{kind} {part}\n{}", ran.err);
        assert!(ran.err.contains(message), "{kind} {part}\n{}\nnot: {message}", ran.err);
    }
    assert!(!sandbox.state().exists());
}

#[test]
fn one_bad_document_keeps_the_good_ones_out_too() {
    let sandbox = Sandbox::new();
    // The good one comes first, and must not be written before the other is read.
    let bad_pool = POOL.replace("size: 1", "size: x").replace("lab", "other");
    let path = sandbox.write_file("two.yaml", &format!("{POOL}---\n{bad_pool}"));
    let ran = sandbox.run(&format!("apply -f {path}"));
    assert!(ran.err.contains("two.yaml:14:9: `spec.size`"), "{}", ran.err);
    assert!(!sandbox.state().exists());
    // Fields that are not known are left out on request.
    let path = sandbox.write_file("lenient.yaml", &format!("{POOL}  colour: red\n"));
    let ran = sandbox.run(&format!("apply --lenient -f {path}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("unknown field `spec.colour`; left out"), "{}", ran.err);
}

/// A command line, the exit code, and a part of the message.
const COMMANDS: [(&str, i32, &str); 33] = [
    ("claim raedy", 3, "did you mean `ready`?"),
    (
        "claim nothing-like-it",
        3,
        "there is no clusterpool `nothing-like-it` in namespace `default`",
    ),
    ("claim ready -n other", 3, "poolctl get clusterpool ready -n default"),
    ("claim ready mine", 4, "there is a claim `mine` already"),
    ("claim ready ../x", 2, "`../x` is not usable"),
    ("claim ready --lifetime soon", 2, "is not a duration like"),
    (
        "pool create aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa --fake",
        2,
        "the limit is 63",
    ),
    ("pool create ready --fake", 4, "there is a pool `ready` already"),
    ("pool create x --fake --size=-1", 2, "invalid value '-1'"),
    ("pool create x --fake --platform openstck", 2, "did you mean `openstack`?"),
    ("pool create x", 2, "--base-domain"),
    ("pool scale ready", 2, "--size"),
    ("scale claim mine --replicas 2", 2, "only pools can be scaled"),
    ("get poool", 2, "did you mean `pool`?"),
    ("get pool reedy", 3, "did you mean `ready`?"),
    ("get pool -o xml", 2, "jsonpath"),
    ("get pool -o jsonpath={.a", 2, "a `{` is not closed"),
    ("get pool -o jsonpath={.items[5]}", 1, "array index out of bounds: index 5, length 1"),
    ("get pool -l a(b", 2, "is not a label selector"),
    ("describe job", 2, "a kind and a name are needed"),
    ("release mien", 3, "did you mean `mine`?"),
    ("patch pool ready -p {", 2, "the patch cannot be read"),
    ("patch pool ready -p {\"spec\":{\"sise\":2}}", 1, "did you mean `size`?"),
    ("patch pool ready -p {\"spec\":{\"replicas\":2}}", 1, "did you mean `size`?"),
    ("patch pool ready -p {\"metadata\":{\"name\":\"x\"}}", 4, "cannot be changed"),
    (
        "patch pool ready --type json -p [{\"op\":\"remove\",\"path\":\"/spec/nope\"}]",
        1,
        "does not apply",
    ),
    ("patch cluster x -p {}", 3, "there is no cluster `x`"),
    ("kubeconfig nobody", 3, "there is no claim and no cluster `nobody`"),
    ("job show nobody", 3, "there is no job `nobody`"),
    ("apply -f nowhere.yaml", 3, "`nowhere.yaml` cannot be read"),
    ("--namespace ../x get pool", 2, "`../x` is not usable as a namespace"),
    ("reconcile --pool x", 3, "there is no clusterpool `x`"),
    ("reconcile --wait=never", 2, "is not a duration like"),
];

#[test]
fn bad_commands_are_refused_and_nothing_happens() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("ready", 1);
    sandbox.ok("claim ready mine -q");
    let before = sandbox.all_objects();
    for (line, code, message) in COMMANDS {
        sandbox.refused(code, line, message);
    }
    assert_eq!(sandbox.all_objects(), before);
}

#[test]
fn a_claimed_cluster_is_not_deleted_unasked_and_its_claim_says_so() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab mine -q");
    let cluster = sandbox.ok("get claim mine -o jsonpath={.spec.namespace}");
    let delete = format!("delete cluster {cluster}");
    sandbox.refused(2, &delete, &format!("next: poolctl {delete} -y"));
    sandbox.ok(&format!("{delete} -y"));
    let claim = sandbox.ok("get claim mine");
    assert!(claim.contains("ClusterDeleting"), "{claim}");
    sandbox.ok("reconcile --wait -q");
    assert!(sandbox.ok("get claim mine").contains("ClusterDeleted"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 40);
    for command in ["get cluster", "get cluster -o yaml", "events", "describe pool lab", "--help"] {
        // `head` closes the pipe after the first line, while the command prints the others.
        let ran = sandbox.shell(&format!("{{ poolctl {command}; echo $? >&2; }} | head -1"));
        assert_eq!(ran.err, "0\n", "{command}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_denied() {
    let sandbox = Sandbox::new();
    sandbox.shell("mkdir $HOME/closed $HOME/empty; chmod 0 $HOME/closed");
    let closed = format!("{}/closed", sandbox.path().display());
    if is_root() {
        // Root reads everything; somebody else does not.
        if !crate::sandbox::has_program("setpriv") {
            return;
        }
        sandbox.shell("chmod 755 $HOME; chmod -R go+rX $HOME");
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let ran = sandbox.shell(&format!(
            "chmod 0 {closed}; cp $(command -v poolctl) $HOME/p; chmod 755 $HOME/p
             {nobody} $HOME/p apply -f {closed}"
        ));
        assert_eq!(ran.code, 9, "{}", ran.err);
    } else {
        let ran = sandbox.run(&format!("apply -f {closed}"));
        assert_eq!(ran.code, 9, "{}", ran.err);
    }
    let ran = sandbox.run(&format!("apply -f {}/empty", sandbox.path().display()));
    assert_eq!(ran.code, 1, "{}", ran.err);
}

#[test]
fn hostile_strings_do_not_reach_the_terminal() {
    let sandbox = Sandbox::new();
    let manifest = POOL.replace(
        "metadata: {name: lab}",
        "metadata: {name: lab, annotations: {note: \"\\e]0;owned\\a\\u202e\\n x\"}}",
    );
    let path = sandbox.write_file("hostile.yaml", &manifest);
    sandbox.ok(&format!("apply -f {path}"));
    sandbox.run("claim lab c --reason \u{1b}[31m");
    for command in ["get pool", "describe pool lab", "describe claim c", "events", "status", "plan"]
    {
        let ran = sandbox.shell(&format!("poolctl {command}"));
        let printed = ran.out + &ran.err;
        assert!(!printed.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{command}: {printed:?}");
    }
}
