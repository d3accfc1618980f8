//! The page of the reference with the contract of driver programs: the verbs that they are run
//! with, and what they find and leave. It is declared here; tests compare what programs are given.

use std::fmt::Write;

use crate::model::driver_description::{CHECK, DESCRIBE, NEWEST_CONTRACT};
use crate::model::job::Verb;

use super::{page_head, table_cell};

/// Two cells of a table: what stands in code there, and its meaning.
type Row = (&'static str, &'static str);

const VERBS: [Row; 9] = [
    (Verb::Provision.name(), "Install the cluster."),
    (Verb::Deprovision.name(), "Destroy the cluster, even if it is incomplete."),
    (Verb::Start.name(), "Tell the machines to start."),
    (Verb::Stop.name(), "Tell the machines to stop."),
    (
        Verb::Health.name(),
        "Report the health of the cluster after start or stop. A power driver is asked only while \
         machines stop.",
    ),
    (
        Verb::AddNodes.name(),
        "Let hosts join an installed cluster, and wait until they are ready nodes.",
    ),
    (Verb::Wipe.name(), "Wipe the disks of one host, and leave it powered off."),
    (DESCRIBE, "Say which contract the program follows. It has ten seconds and makes nothing."),
    (CHECK, "Say whether it could install a cluster now. It has ten minutes and makes nothing."),
];

const VARIABLES: [Row; 17] = [
    ("POOLCTL_VERB", "The verb."),
    ("POOLCTL_CLUSTER", "The name of the cluster in poolctl."),
    ("POOLCTL_CLUSTER_NAME", "The name of the cluster in DNS."),
    ("POOLCTL_BASE_DOMAIN", "The base domain of the cluster."),
    ("POOLCTL_RELEASE_IMAGE", "The release image; empty if the cluster names no image set."),
    ("POOLCTL_ATTEMPT", "The number of the attempt, from 1."),
    ("POOLCTL_WANTED", "For health: `running` or `stopped`."),
    ("POOLCTL_HOST", "For wipe: the host, as NAMESPACE/NAME."),
    ("POOLCTL_BMC", "For wipe: the address of the management controller, as the host has it."),
    ("POOLCTL_JOB_DIR", "The directory of the job. `HOME` is the same."),
    ("POOLCTL_CLUSTER_DIR", "A directory of the driver for this cluster."),
    ("POOLCTL_LOCK_FD", "The number of a file descriptor. Leave it open."),
    ("PATH", "Where programs are."),
    ("HTTP_PROXY", "The proxy of `site` in the Settings, if it has one; also in lower case."),
    ("HTTPS_PROXY", "The same for HTTPS. `NO_PROXY` has the exceptions."),
    (
        "SSL_CERT_FILE",
        "A file with the CA certificates of the system and of the job, if the job has any.",
    ),
    ("XDG_CACHE_HOME", "The cache directory, which all jobs share."),
];

const INPUTS: [Row; 17] = [
    ("order.json", "Everything that poolctl asks for, except secrets."),
    ("input/install-config.yaml", "The install-config, without the pull secret."),
    ("input/pull-secret.json", "The pull secret."),
    ("input/credentials/KEY", "The Secret with the credentials of the platform."),
    ("input/manifests/NAME", "For provision: manifests of the cluster."),
    ("input/environment/VARIABLE", "For provision: variables whose values come from Secrets."),
    ("input/ssh-privatekey", "For provision: the private key for SSH."),
    ("input/parameters.json", "The parameters, a JSON object."),
    ("input/metadata.json", "For all verbs after provision: what it has saved."),
    ("input/kubeconfig", "For all verbs after provision: what it has saved."),
    ("input/nodes-config.yaml", "For add-nodes, as `oc adm node-image create` reads it."),
    ("input/joining.json", "For add-nodes: a list of hosts with `name` and `addresses`."),
    ("input/machines/0/username", "For wipe; beside it are `password` and `ca.crt`."),
    ("input/site/proxy.json", "The proxies of `site` in the Settings."),
    ("input/site/trust.pem", "The CA certificates of `site` in the Settings."),
    ("input/site/authorities/N.pem", "The additional CA certificates of `site`."),
    ("input/certificates/N.pem", "The certificates of `certificatesSecretRef`."),
];

const OUTPUTS: [Row; 5] = [
    ("saved/metadata.json", "Everything that deprovision needs. Save it first."),
    ("saved/kubeconfig", "The kubeconfig of an admin."),
    ("saved/kubeadmin-password", "The password of kubeadmin, if there is one."),
    ("result", "How the verb ended, or the description."),
    ("progress", "How far a long verb is, a line each time."),
];

const RESULT: [Row; 6] = [
    ("message", "Why it failed. Without it, the last line of standard error counts."),
    ("class", "The class of the failure; `Unclear` without it."),
    ("hopeless", "Whether another attempt would fail, too; false without it."),
    ("infraID", "The ID that marks the resources of the cluster."),
    ("clusterID", "The ID of the cluster."),
    (
        "health",
        "For health: `machines` that are not yet as told, `nodesReady` and `operatorsReady`.",
    ),
];

const DESCRIPTION: [Row; 3] = [
    ("contract", "The version of the contract that the program follows; 1 without it."),
    ("verbs", "The verbs that it has. Without it, it may have all, but check is not run."),
    ("parameters", "The names of its parameters. Without it, it may have any."),
];

/// The page of the contract of driver programs in Markdown.
pub fn page() -> String {
    let introduction = format!(
        "What a [driver of your own](../drivers.md) is run with, and what it leaves: contract \
         {NEWEST_CONTRACT}. Paths are below the directory of the job, in which the program starts."
    );
    let mut text = page_head("Driver contract", &introduction);
    text += &table("Verbs", "verb", &VERBS);
    text += &table("Variables", "variable", &VARIABLES);
    text += &table("Files to read", "file", &INPUTS);
    text +=
        "\nBelow `input/`, `describe` finds nothing. `wipe` finds its own files and the site's.\n";
    text += &table("Files to write", "file", &OUTPUTS);
    text += &table("Fields of a result", "field", &RESULT);
    text += &table("Fields of a description", "field", &DESCRIPTION);
    text
}

fn table(title: &str, heading: &str, rows: &[Row]) -> String {
    let mut text = format!("\n## {title}\n\n| {heading} | meaning |\n|---|---|\n");
    for (code, meaning) in rows {
        let _ = writeln!(text, "| `{code}` | {} |", table_cell(meaning));
    }
    text
}
