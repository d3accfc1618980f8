//! What every word that admins of kubectl, oc and Hive type means here: declared once. Refusals,
//! and the chapter `docs/oc-to-poolctl.md`, are made from it. It parses nothing.

/// What a word of kubectl or oc means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Same,
    /// It works, and this sentence says how it differs.
    Differs(&'static str),
    /// Another spelling of a command of poolctl.
    Alias(&'static str),
    /// An option that is read and has no effect, with the reason.
    Ignored(OptionValue, &'static str),
    Refused {
        cause: &'static str,
        /// What to type instead.
        next: &'static str,
    },
}

/// What follows an option that is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// Nothing, or a value behind `=`.
    Attached,
    /// A number, or a value behind `=`.
    Number,
    /// A value, behind `=` or as the next word.
    Word,
}

/// A verb, or an option of a verb.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// One word or two, such as `auth can-i`; empty for an option of every command.
    pub verb: &'static str,
    /// The spellings of the option, separated by a comma; empty for the verb itself.
    pub option: &'static str,
    pub meaning: Meaning,
}

/// A kind of Kubernetes or OpenShift that is not kept here, in the words that people type.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    pub words: &'static [&'static str],
    pub cause: &'static str,
    pub next: &'static str,
}

const fn same(verb: &'static str, option: &'static str) -> Row {
    Row { verb, option, meaning: Meaning::Same }
}

const fn differs(verb: &'static str, option: &'static str, how: &'static str) -> Row {
    Row { verb, option, meaning: Meaning::Differs(how) }
}

const fn alias(verb: &'static str, command: &'static str) -> Row {
    Row { verb, option: "", meaning: Meaning::Alias(command) }
}

const fn ignored(
    verb: &'static str,
    option: &'static str,
    value: OptionValue,
    reason: &'static str,
) -> Row {
    Row { verb, option, meaning: Meaning::Ignored(value, reason) }
}

const fn refused(
    verb: &'static str,
    option: &'static str,
    cause: &'static str,
    next: &'static str,
) -> Row {
    Row { verb, option, meaning: Meaning::Refused { cause, next } }
}

const KUBECONFIG: &str = "poolctl kubeconfig CLAIM > kubeconfig";
const NO_SERVER: &str = "there is no API server, only a state file";
const IN_CLUSTER: &str = "nothing runs in pods here; kubectl does it in a claimed cluster";
const ONE_PROCESS: &str = "a change is one transaction in the state file";

/// Verbs and their options, in the order of the chapter.
pub const ROWS: &[Row] = &[
    // Options of every command.
    same("", "-n, --namespace"),
    same("", "-A, --all-namespaces"),
    differs("", "-o, --output", "table, wide, json, yaml, name, jsonpath= and custom-columns="),
    refused(
        "",
        "--output go-template, --output go-template-file, --output template, --output templatefile",
        "templates of Go are not supported",
        "poolctl get KIND -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'",
    ),
    refused(
        "",
        "--output jsonpath-file",
        "templates are read from the command line only",
        "poolctl get KIND -o jsonpath=\"$(cat FILE)\"",
    ),
    refused(
        "",
        "--output custom-columns-file",
        "columns are read from the command line only",
        "poolctl get KIND -o custom-columns=NAME:.metadata.name",
    ),
    ignored("", "-v, --v", OptionValue::Number, "no requests are made that could be traced"),
    ignored("", "--request-timeout", OptionValue::Word, NO_SERVER),
    ignored("", "--warnings-as-errors", OptionValue::Attached, NO_SERVER),
    ignored("", "--insecure-skip-tls-verify", OptionValue::Attached, NO_SERVER),
    ignored("", "--cache-dir", OptionValue::Word, NO_SERVER),
    refused(
        "",
        "--kubeconfig",
        "poolctl reads a state file, not a cluster",
        "poolctl --state FILE COMMAND",
    ),
    refused(
        "",
        "--context",
        "there are no contexts; a state file takes their place",
        "poolctl --state FILE COMMAND",
    ),
    refused("", "--cluster", "there are no contexts", "poolctl --state FILE COMMAND"),
    refused("", "--user", "people are known by their account", "poolctl auth whoami"),
    refused("", "-s, --server", NO_SERVER, "poolctl --state FILE COMMAND"),
    refused("", "--token", NO_SERVER, "poolctl --state FILE COMMAND"),
    refused(
        "",
        "--as",
        "people are known by their account, which sudo changes",
        "sudo -u USER poolctl COMMAND",
    ),
    refused("", "--as-group", "groups are those of the account", "sudo -u USER poolctl COMMAND"),
    // get
    same("get", ""),
    same("get", "-l, --selector"),
    same("get", "-w, --watch"),
    same("get", "--watch-only"),
    same("get", "--field-selector"),
    same("get", "-L, --label-columns"),
    same("get", "--show-labels"),
    same("get", "--show-kind"),
    same("get", "--no-headers"),
    same("get", "--ignore-not-found"),
    differs("get", "--sort-by", "a path as with kubectl, or the name of a column"),
    same("get", "-f, --filename"),
    same("get", "-R, --recursive"),
    same("get", "-k, --kustomize"),
    ignored("get", "--chunk-size", OptionValue::Word, "a list is read at once"),
    ignored("get", "--show-managed-fields", OptionValue::Attached, "no fields have managers"),
    ignored("get", "--server-print", OptionValue::Attached, NO_SERVER),
    ignored("get", "--allow-missing-template-keys", OptionValue::Attached, "it is the default"),
    refused(
        "get",
        "--template",
        "templates of Go are not supported",
        "poolctl get KIND -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'",
    ),
    refused("get", "--raw", NO_SERVER, "poolctl get KIND -o json"),
    refused("get", "--output-watch-events", NO_SERVER, "poolctl get KIND -w -o json"),
    refused("get", "--subresource", "the status is part of the object", "poolctl get KIND -o yaml"),
    // describe
    same("describe", ""),
    same("describe", "-l, --selector"),
    same("describe", "-f, --filename"),
    ignored("describe", "--show-events", OptionValue::Attached, "events are always shown"),
    ignored("describe", "--chunk-size", OptionValue::Word, "a list is read at once"),
    // explain
    same("explain", ""),
    same("explain", "--recursive"),
    ignored("explain", "--api-version", OptionValue::Word, "each kind has one version"),
    // create
    differs(
        "create",
        "",
        "-f, namespace and secret generic; other kinds have commands of their own",
    ),
    same("create", "-f, --filename"),
    same("create", "--from-literal"),
    same("create", "--from-file"),
    same("create", "--dry-run"),
    ignored("create", "--validate", OptionValue::Attached, "fields are always validated"),
    ignored("create", "--save-config", OptionValue::Attached, "apply compares with the object"),
    ignored("create", "--field-manager", OptionValue::Word, "no fields have managers"),
    refused(
        "create secret",
        "--cert, --key",
        "only generic Secrets are created of arguments",
        "poolctl create secret generic NAME --type=kubernetes.io/tls --from-file=tls.crt=CERT \
         --from-file=tls.key=KEY",
    ),
    refused(
        "create secret",
        "--docker-server, --docker-username, --docker-password, --docker-email",
        "only generic Secrets are created of arguments",
        "poolctl create secret generic NAME --type=kubernetes.io/dockerconfigjson \
         --from-file=.dockerconfigjson=FILE",
    ),
    refused(
        "create",
        "--role, --clusterrole, --user, --group, --serviceaccount",
        "a RoleBinding is applied from a manifest",
        "poolctl explain rolebinding",
    ),
    refused("create", "--edit", "create does not open an editor", "poolctl edit KIND/NAME"),
    // replace
    differs("replace", "", "labels and annotations that the manifest leaves out stay"),
    same("replace", "-f, --filename"),
    refused(
        "replace",
        "--force",
        "an object is replaced in place; a cluster made anew is another cluster",
        "poolctl replace -f FILE",
    ),
    ignored("replace", "--validate", OptionValue::Attached, "fields are always validated"),
    ignored("replace", "--save-config", OptionValue::Attached, "apply compares with the object"),
    // apply
    same("apply", ""),
    same("apply", "-f, --filename"),
    same("apply", "-R, --recursive"),
    differs("apply", "-k, --kustomize", "kustomizations with resources, patches and a namespace"),
    differs(
        "apply",
        "--dry-run",
        "client and server are the same: the change is planned, not kept",
    ),
    ignored("apply", "--server-side", OptionValue::Attached, ONE_PROCESS),
    ignored("apply", "--force-conflicts", OptionValue::Attached, "no fields have managers"),
    ignored("apply", "--field-manager", OptionValue::Word, "no fields have managers"),
    ignored(
        "apply",
        "--validate",
        OptionValue::Attached,
        "unknown fields are refused; --lenient warns of them",
    ),
    ignored("apply", "--overwrite", OptionValue::Attached, "it is the default"),
    refused(
        "apply",
        "--prune",
        "objects that a manifest leaves out stay",
        "poolctl get KIND -l SELECTOR",
    ),
    refused(
        "apply",
        "-l, --selector",
        "all objects of a manifest are applied",
        "poolctl apply -f FILE",
    ),
    ignored("apply", "--wait", OptionValue::Attached, "apply deletes nothing"),
    ignored("apply", "--timeout", OptionValue::Word, "apply deletes nothing"),
    refused("apply", "--force", "objects are changed in place", "poolctl apply -f FILE"),
    // diff, kustomize
    same("diff", ""),
    same("diff", "-f, --filename"),
    ignored("diff", "--server-side", OptionValue::Attached, ONE_PROCESS),
    refused(
        "kustomize",
        "",
        "kustomizations are read, not printed",
        "poolctl apply -k DIR --dry-run=client -o yaml",
    ),
    // delete
    differs("delete", "", "returns at once; the next passes destroy a cluster"),
    same("delete", "-f, --filename"),
    same("delete", "-k, --kustomize"),
    same("delete", "-l, --selector"),
    same("delete", "--all"),
    same("delete", "--ignore-not-found"),
    differs("delete", "--wait", "false is the default"),
    same("delete", "--timeout"),
    differs("delete", "--force", "deletes an InfraEnv together with its agents"),
    refused(
        "delete",
        "--grace-period",
        "a cluster is destroyed before its object goes, however long that takes",
        "poolctl delete KIND/NAME",
    ),
    refused(
        "delete",
        "--now",
        "a cluster is destroyed before its object goes, however long that takes",
        "poolctl delete KIND/NAME",
    ),
    refused(
        "delete",
        "--cascade",
        "what belongs to an object goes with it; preserveOnDelete keeps the machines of a cluster",
        "poolctl explain cluster.spec.preserveOnDelete",
    ),
    refused("delete", "--dry-run", "delete has no rehearsal", "poolctl describe KIND/NAME"),
    refused(
        "delete",
        "-i, --interactive",
        "delete asks by itself where somebody loses something",
        "poolctl delete KIND/NAME",
    ),
    refused(
        "delete",
        "--field-selector",
        "objects are chosen by their labels",
        "poolctl delete KIND -l SELECTOR",
    ),
    refused("delete", "--raw", NO_SERVER, "poolctl get KIND"),
    // edit, patch, label, annotate, scale
    same("edit", ""),
    refused("edit", "-f, --filename", "edit takes an object", "poolctl edit KIND/NAME"),
    same("patch", ""),
    same("patch", "-p, --patch"),
    same("patch", "--patch-file"),
    same("patch", "--dry-run"),
    refused(
        "patch",
        "-f, --filename",
        "patch takes an object; --patch-file takes a file",
        "poolctl patch KIND/NAME --patch-file=FILE",
    ),
    differs("patch", "--type", "merge and json; merge is the default"),
    refused(
        "patch",
        "--type strategic",
        "strategic patches exist for the kinds of Kubernetes itself only, as with kubectl",
        "poolctl patch pool NAME --type merge -p '{\"spec\": {\"size\": 2}}'",
    ),
    refused(
        "patch",
        "--subresource",
        "the status of an object is written by poolctl alone",
        "poolctl patch KIND/NAME -p PATCH",
    ),
    same("label", ""),
    same("label", "--all"),
    same("label", "-l, --selector"),
    same("label", "--overwrite"),
    same("label", "-f, --filename"),
    same("label", "--dry-run"),
    ignored("label", "--field-manager", OptionValue::Word, "no fields have managers"),
    refused(
        "label",
        "--resource-version",
        "a change is one transaction in the state file",
        "poolctl label KIND/NAME KEY=VALUE",
    ),
    refused("label", "--list", "label only sets", "poolctl get KIND --show-labels"),
    same("annotate", ""),
    same("annotate", "--all"),
    same("annotate", "-l, --selector"),
    same("annotate", "--overwrite"),
    same("annotate", "-f, --filename"),
    same("annotate", "--dry-run"),
    ignored("annotate", "--field-manager", OptionValue::Word, "no fields have managers"),
    refused(
        "annotate",
        "--resource-version",
        "a change is one transaction in the state file",
        "poolctl annotate KIND/NAME KEY=VALUE",
    ),
    refused("annotate", "--list", "annotate only sets", "poolctl get KIND -o yaml"),
    differs("scale", "", "only pools have a size"),
    same("scale", "--replicas"),
    same("scale", "--current-replicas"),
    refused(
        "scale",
        "--timeout",
        "scale returns at once",
        "poolctl wait pool/NAME --for=condition=AllClustersCurrent",
    ),
    refused(
        "scale",
        "-f, --filename",
        "pools are scaled one by one",
        "poolctl scale pool NAME --replicas=N",
    ),
    refused("scale", "--dry-run", "scale has no rehearsal", "poolctl plan"),
    refused(
        "scale",
        "-l, --selector, --all",
        "pools are scaled one by one",
        "poolctl scale pool NAME --replicas=N",
    ),
    refused(
        "autoscale",
        "",
        "a pool grows with its queue between size and maxSize",
        "poolctl explain pool.spec.maxSize",
    ),
    // wait, logs, events
    same("wait", ""),
    same("wait", "--for"),
    same("wait", "--timeout"),
    same("wait", "--all"),
    same("wait", "-l, --selector"),
    refused(
        "wait",
        "-f, --filename",
        "wait takes objects",
        "poolctl wait KIND/NAME --for=condition=NAME",
    ),
    differs("logs", "", "of a cluster, a host or a job: the log of its last job"),
    same("logs", "-f, --follow"),
    differs("logs", "-p, --previous", "the attempt before the last"),
    refused("logs", "--tail", "a log is printed whole", "poolctl logs CLUSTER | tail -n 20"),
    refused("logs", "--since", "a log is printed whole", "poolctl logs CLUSTER"),
    refused("logs", "-c, --container", "a job has one log", "poolctl logs CLUSTER"),
    ignored("logs", "--timestamps", OptionValue::Attached, "lines are as the program wrote them"),
    ignored("logs", "--all-containers", OptionValue::Attached, "a job has one log"),
    refused("logs", "-l, --selector", "a log is that of one object", "poolctl logs CLUSTER"),
    same("events", ""),
    refused("events", "--no-headers", "events have no headers to leave out", "poolctl events"),
    same("events", "--for"),
    same("events", "--types"),
    same("events", "-w, --watch"),
    // about the client
    same("api-resources", ""),
    same("api-versions", ""),
    differs("auth can-i", "", "asks whether the account may run the command"),
    refused(
        "auth can-i",
        "--list",
        "an account owns the state or is a guest of it",
        "poolctl auth can-i VERB KIND",
    ),
    same("auth whoami", ""),
    refused("auth reconcile", "", "rights are RoleBindings and Settings", "poolctl apply -f FILE"),
    same("config set-context", "--current"),
    differs("config get-contexts", "", "one context, the state file"),
    refused("config use-context", "", "there are no contexts", "poolctl --state FILE COMMAND"),
    refused("config rename-context", "", "there are no contexts", "poolctl --state FILE COMMAND"),
    refused("config delete-context", "", "there are no contexts", "poolctl --state FILE COMMAND"),
    refused("config get-clusters", "", "there is no kubeconfig", "poolctl config get-contexts"),
    refused("config get-users", "", "people are known by their account", "poolctl auth whoami"),
    refused("config set-cluster", "", "there is no kubeconfig", "poolctl --state FILE COMMAND"),
    refused(
        "config set-credentials",
        "",
        "people are known by their account",
        "poolctl auth whoami",
    ),
    refused(
        "config set",
        "",
        "there is no kubeconfig",
        "poolctl config set-context --current --namespace=NAMESPACE",
    ),
    refused(
        "config unset",
        "",
        "there is no kubeconfig",
        "poolctl config set-context --current --namespace=default",
    ),
    refused("config view", "", "there is no kubeconfig", "poolctl config get-contexts"),
    refused("config current-context", "", "there are no contexts", "poolctl state path"),
    differs("version", "", "there is no server whose version could differ"),
    ignored("version", "--client", OptionValue::Attached, NO_SERVER),
    ignored("version", "--short", OptionValue::Attached, "it is short"),
    differs("run", "", "claims a cluster, and runs a command with its kubeconfig"),
    same("completion", ""),
    alias("options", "--help"),
    // oc
    alias("whoami", "auth whoami"),
    alias("new-project", "create namespace"),
    alias("projects", "get namespace"),
    alias("project", "config set-namespace"),
    refused(
        "login",
        "",
        "there is no server to log in to: the account is known from the system",
        "poolctl auth whoami",
    ),
    refused("logout", "", "there is no server to log out from", "poolctl auth whoami"),
    same("extract", ""),
    refused("set", "", "it changes Deployments", "poolctl patch KIND/NAME -p PATCH"),
    refused("adm", "", IN_CLUSTER, KUBECONFIG),
    refused("debug", "", IN_CLUSTER, KUBECONFIG),
    refused("rsh", "", IN_CLUSTER, KUBECONFIG),
    refused("exec", "", IN_CLUSTER, KUBECONFIG),
    refused("attach", "", IN_CLUSTER, KUBECONFIG),
    refused("cp", "", IN_CLUSTER, KUBECONFIG),
    refused("port-forward", "", IN_CLUSTER, KUBECONFIG),
    refused("proxy", "", NO_SERVER, "poolctl get KIND -o json"),
    refused("expose", "", IN_CLUSTER, KUBECONFIG),
    refused("cordon", "", IN_CLUSTER, "poolctl host hold HOST"),
    refused("uncordon", "", IN_CLUSTER, "poolctl host unhold HOST"),
    refused("drain", "", IN_CLUSTER, "poolctl host hold HOST"),
    refused("taint", "", IN_CLUSTER, KUBECONFIG),
    refused("top", "", "clusters measure themselves", "poolctl status"),
    refused(
        "rollout",
        "",
        "a changed pool replaces its clusters by itself",
        "poolctl wait pool/NAME --for=condition=AllClustersCurrent",
    ),
    refused("cluster-info", "", NO_SERVER, "poolctl status"),
    refused("plugin", "", "poolctl has no plugins", "poolctl driver list"),
    refused("certificate", "", "requests of nodes are approved by passes", "poolctl reconcile"),
    refused("new-app", "", IN_CLUSTER, KUBECONFIG),
    refused("process", "", "there are no Templates", "poolctl apply -f FILE"),
    refused("policy", "", "rights are RoleBindings", "poolctl apply -f FILE"),
    refused("tag", "", "there are no ImageStreams", "poolctl get clusterimageset"),
    refused("import-image", "", "there are no ImageStreams", "poolctl get clusterimageset"),
    refused("image", "", "poolctl copies no images", "poolctl get clusterimageset"),
    refused("rsync", "", IN_CLUSTER, KUBECONFIG),
    refused("idle", "", IN_CLUSTER, "poolctl cluster hibernate CLUSTER"),
    refused("inspect", "", IN_CLUSTER, "poolctl cluster logs CLUSTER --bundle DIR"),
    refused("serviceaccounts", "", "people are known by their account", "poolctl auth whoami"),
    refused("must-gather", "", IN_CLUSTER, "poolctl cluster logs CLUSTER --bundle DIR"),
    // What people guess.
    refused("list", "", "get lists", "poolctl get pool,claim,cluster"),
    refused("ls", "", "get lists", "poolctl get pool,claim,cluster"),
    refused("show", "", "describe shows one object, get lists", "poolctl describe KIND/NAME"),
    refused("info", "", "describe shows one object", "poolctl describe KIND/NAME"),
    refused("ps", "", "get lists", "poolctl get pool,claim,cluster"),
    refused("rm", "", "delete deletes", "poolctl delete KIND NAME"),
    refused("renew", "", "extend gives a claim more time", "poolctl extend CLAIM --for 2h"),
    refused("acquire", "", "claim takes a cluster of a pool", "poolctl claim POOL --wait"),
    refused("watch", "", "get watches with -w", "poolctl get pool,claim,cluster -w"),
    refused("takeover", "", "no host owns a state; restore moves it", "poolctl restore --help"),
];

/// Verbs that people type after a noun whose objects have the general verbs, with the command that
/// does it. KIND stands for the noun.
pub const VERBS_AFTER_NOUNS: &[(&[&str], &str)] = &[
    (&["list", "ls", "get"], "poolctl get KIND"),
    (&["show", "describe", "info", "status"], "poolctl describe KIND NAME"),
    (&["delete", "rm", "remove", "destroy"], "poolctl delete KIND NAME"),
    (&["edit", "update", "set"], "poolctl edit KIND NAME"),
    (&["apply", "create", "new"], "poolctl apply -f FILE"),
];

/// Kinds that are not kept here.
pub const KINDS: &[KindRow] = &[
    KindRow {
        words: &["clusterprovision"],
        cause: "an installation is a job here",
        next: "poolctl job list",
    },
    KindRow {
        words: &["clusterdeprovision"],
        cause: "a destruction is a job here",
        next: "poolctl job list",
    },
    KindRow {
        words: &["hiveconfig"],
        cause: "what it says is kept in the Settings",
        next: "poolctl get settings -o yaml",
    },
    KindRow {
        words: &["machinepool", "machine", "machineset", "node", "no", "clusteroperator", "co"],
        cause: "it is inside of a cluster, where kubectl shows it",
        next: KUBECONFIG,
    },
    KindRow {
        words: &["pod", "po", "deployment", "deploy", "service", "svc", "clusterversion"],
        cause: IN_CLUSTER,
        next: KUBECONFIG,
    },
    KindRow {
        words: &["syncset", "selectorsyncset", "clustersync"],
        cause: "nothing is synced into clusters",
        next: KUBECONFIG,
    },
    KindRow {
        words: &["dnszone", "checkpoint", "syncidentityprovider"],
        cause: "poolctl keeps no such objects",
        next: "poolctl api-resources",
    },
    KindRow {
        words: &["serviceaccount", "sa"],
        cause: "people are known by their account",
        next: "poolctl auth whoami",
    },
    KindRow {
        words: &["role", "clusterrole", "clusterrolebinding"],
        cause: "rights are RoleBindings and Settings",
        next: "poolctl get rolebinding",
    },
    KindRow {
        words: &["resourcequota", "quota", "limitrange", "limits"],
        cause: "what guests may have is in the Settings",
        next: "poolctl explain settings",
    },
    KindRow {
        words: &["clusterserviceversion", "csv", "subscription", "sub", "route", "ingress"],
        cause: IN_CLUSTER,
        next: KUBECONFIG,
    },
    KindRow {
        words: &["project"],
        cause: "a project is a namespace",
        next: "poolctl get namespace",
    },
];
