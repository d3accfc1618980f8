//! `export --for metal3`: a folder with the addresses and hosts that metal3 on Kubernetes takes over,
//! a script that applies them in an order in which no address is leased twice, and what a
//! controller does with each. It changes nothing here, and speaks to no cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use crate::model::cluster_api::CLAIM_KIND;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::ip_lease::IpClaim;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::output::join_lines;
use crate::render::hive_objects::{PoolStart, trim_metadata};
use crate::render::metal3_objects::{HOST_PAUSED, Metal3Rendering, kubernetes_name, render_index};
use crate::store::Store;

use crate::commands::{Context, count_of};

use super::folder::{
    ExportedFile, add_namespaces, add_section, answer_with_files, prepare_folder, write_documents,
    write_file,
};
use super::{Secrets, add_secret_values};

/// The order of the files. A claim whose pool is not there waits, so pools come after all leases, and
/// templates after all indexes that machines have of them.
const ORDER: [Kind; 9] = [
    Kind::Namespace,
    Kind::Secret,
    Kind::IpClaim,
    Kind::IpAddress,
    Kind::IpPool,
    Kind::Metal3Data,
    Kind::Metal3DataClaim,
    Kind::DataTemplate,
    Kind::BareMetalHost,
];

/// Kinds whose status metal3 needs: without it, it leases something else.
const KINDS_WITH_STATUS: [Kind; 2] = [Kind::IpClaim, Kind::Metal3DataClaim];

/// The part of the script that gives addresses their owners.
const OWNER_FUNCTION: &str = r#"# own NAMESPACE ADDRESS POOL CLAIM: an address goes when its claim goes.
own() {
  pool=$(oc get ippool -n "$1" "$3" -o jsonpath='{.metadata.uid}')
  claim=$(oc get ipclaim -n "$1" "$4" -o jsonpath='{.metadata.uid}')
  api='"apiVersion":"ipam.metal3.io/v1alpha1"'
  oc patch ipaddress.ipam.metal3.io -n "$1" "$2" --type=merge -p "{\"metadata\":{\"ownerReferences\":[
    {$api,\"kind\":\"IPPool\",\"name\":\"$3\",\"uid\":\"$pool\"},
    {$api,\"kind\":\"IPClaim\",\"name\":\"$4\",\"uid\":\"$claim\"}]}}"
}
# own_capi NAMESPACE ADDRESS POOL CLAIM: the same for an address of Cluster API.
own_capi() {
  pool=$(oc get ippool -n "$1" "$3" -o jsonpath='{.metadata.uid}')
  claim=$(oc get ipaddressclaim -n "$1" "$4" -o jsonpath='{.metadata.uid}')
  version=$(oc get ipaddressclaim -n "$1" "$4" -o jsonpath='{.apiVersion}')
  pool_api='"apiVersion":"ipam.metal3.io/v1alpha1"'
  claim_api="\"apiVersion\":\"$version\""
  oc patch ipaddress.ipam.cluster.x-k8s.io -n "$1" "$2" --type=merge -p "{\"metadata\":{
    \"ownerReferences\":[{$pool_api,\"kind\":\"IPPool\",\"name\":\"$3\",\"uid\":\"$pool\"},
    {$claim_api,\"kind\":\"IPAddressClaim\",\"name\":\"$4\",\"uid\":\"$claim\"}]}}"
}"#;

/// What becomes of fields, and what metal3 does with the objects.
const FIELDS: &str = "\
## What moves

| object | field | becomes | why |
|---|---|---|---|
| all | uid, creationTimestamp, annotations `poolctl.dev/...` | left out | |
| IPClaim, IPAddress | name with capitals | renamed in lower case | Kubernetes accepts no capitals |
| IPClaim | status.address | carried | metal3 leases no other address to it |
| IPAddress | one without an IPClaim | carried | metal3 leases it to nobody until it is deleted |
| IPClaim | one whose pool is of another namespace | left out, its IPAddress goes to the pool | metal3 leases within a namespace |
| IPClaim and IPAddress of Cluster API | kind | IPAddressClaim, IPAddress | they are what they were |
| IPAddress | ownerReferences | made by apply.sh | they need the uids that the server gives |
| IPPool | namePrefix | completed | metal3 requires it |
| IPPool | allocationStrategy | completed | random is the default here, sequential in metal3 |
| IPPool | reserved addresses | taken out of the ranges | metal3 has no reservations |
| IPPool | delays, history | left out | metal3 has none |
| Metal3DataTemplate | clusterName, kinds of pools | completed | metal3 requires them |
| Metal3DataTemplate | index of a host | Metal3Data, Metal3DataClaim | metal3 counts these; it renders data once a Metal3Machine owns the claim |
| BareMetalHost | a host in use | externallyProvisioned, online | metal3 does not boot or clean it |
| BareMetalHost | a free host | carried | metal3 boots it to inspect it |
| BareMetalHost | status | left out | metal3 asks the host |
";

/// Writes the folder, which must be new or empty.
pub fn export_for_metal3(
    context: &Context,
    store: &Store,
    folder: &Path,
    secrets: Secrets,
    host_start: PoolStart,
) -> anyhow::Result<()> {
    prepare_folder(folder)?;
    let claim_names = name_claims(store)?;
    let hosts_of_clusters = find_hosts_of_clusters(store)?;
    let rendering = Metal3Rendering {
        claim_names: &claim_names,
        hosts_of_clusters: &hosts_of_clusters,
        host_start,
    };
    let mut documents: BTreeMap<Kind, Vec<Value>> = BTreeMap::new();
    let mut data_claims: BTreeSet<Key> = BTreeSet::new();
    for kind in Kind::OBJECTS {
        store.visit_objects(*kind, None, &mut |object| {
            if let Object::DataTemplate(template) = &object
                && object.deletion_time().is_none()
            {
                add_indexes(template, &mut data_claims, &mut documents);
            }
            if let Some(document) = rendering.render(&object) {
                documents.entry(*kind).or_default().push(document);
            }
            Ok(())
        })?;
    }
    let credentials = credentials_of_hosts(&documents);
    if secrets == Secrets::Include {
        add_secrets(store, &credentials, &mut documents)?;
    }
    add_namespaces(&mut documents);
    store.rollback();
    let kinds: Vec<Kind> = ORDER.into_iter().filter(|kind| documents.contains_key(kind)).collect();
    let files = write_documents(folder, &kinds, &documents)?;
    let missing_secrets = if secrets == Secrets::Include { BTreeSet::new() } else { credentials };
    write_file(folder, "apply.sh", &apply_script(&files, &documents))?;
    let renamed_claims = describe_renamed_claims(&claim_names);
    let readme = describe_export(&files, &documents, &missing_secrets, renamed_claims, host_start);
    write_file(folder, "README.md", &readme)?;
    if !missing_secrets.is_empty() {
        let count = count_of(missing_secrets.len(), "secret");
        context.warn(&format!("{count} left out; `--include-secrets` exports secrets too"));
    }
    answer_with_files(context, folder, &files)
}

/// The hosts whose Agents belong to clusters.
fn find_hosts_of_clusters(store: &Store) -> Result<HashSet<Key>, Refusal> {
    let mut hosts = HashSet::new();
    store.visit_objects(Kind::Agent, None, &mut |object| {
        if let Object::Agent(agent) = &object
            && agent.requested_cluster().or_else(|| agent.bound_cluster()).is_some()
        {
            hosts.extend(agent.host_key());
        }
        Ok(())
    })?;
    Ok(hosts)
}

/// Whether a claim is of the namespace of its pool. metal3 looks at no others.
fn is_of_same_namespace(claim: &IpClaim) -> bool {
    let namespace = &claim.metadata.namespace;
    claim.spec.pool.key_from(namespace).namespace == *namespace
}

/// The names that the claims get which move: their own in lower case, made different where two
/// become the same.
fn name_claims(store: &Store) -> Result<HashMap<Key, String>, Refusal> {
    let mut keys: Vec<Key> = Vec::new();
    store.visit_objects(Kind::IpClaim, None, &mut |object| {
        if let Object::IpClaim(claim) = &object
            && object.deletion_time().is_none()
            && is_of_same_namespace(claim)
        {
            keys.push(object.key());
        }
        Ok(())
    })?;
    // Claims whose names Kubernetes accepts keep them, whatever others become.
    keys.sort_by_key(|key| key.name != kubernetes_name(&key.name));
    let mut names: HashMap<Key, String> = HashMap::new();
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    for key in keys {
        let base = kubernetes_name(&key.name);
        let mut name = base.clone();
        let mut number = 1;
        while !taken.insert((key.namespace.clone(), name.clone())) {
            number += 1;
            name = format!("{base}-{number}");
        }
        names.insert(key, name);
    }
    Ok(names)
}

/// A line for each claim that gets another name.
fn describe_renamed_claims(claim_names: &HashMap<Key, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, name) in claim_names {
        if key.name != *name {
            lines.push(format!("- {key}: {name}"));
        }
    }
    lines.sort_unstable();
    lines
}

/// Adds what tells metal3 which machine has which index of a template. A machine that has indexes of
/// several templates gets a claim for each.
fn add_indexes(
    template: &Metal3DataTemplate,
    data_claims: &mut BTreeSet<Key>,
    documents: &mut BTreeMap<Kind, Vec<Value>>,
) {
    for (number, machine) in &template.status.indexes {
        let Ok(index) = number.parse::<u64>() else { continue };
        let mut claim = Key::new(&*template.metadata.namespace, kubernetes_name(machine));
        if !data_claims.insert(claim.clone()) {
            let template_name = kubernetes_name(&template.metadata.name);
            claim.name = format!("{}-{template_name}", claim.name);
            data_claims.insert(claim.clone());
        }
        let rendered = render_index(template, index, &claim);
        documents.entry(Kind::Metal3Data).or_default().push(rendered.data);
        documents.entry(Kind::Metal3DataClaim).or_default().push(rendered.claim);
    }
}

/// The Secrets with the credentials of the controllers of the hosts.
fn credentials_of_hosts(documents: &BTreeMap<Kind, Vec<Value>>) -> BTreeSet<Key> {
    let mut credentials = BTreeSet::new();
    for host in documents.get(&Kind::BareMetalHost).into_iter().flatten() {
        let name = host["spec"]["bmc"]["credentialsName"].as_str().unwrap_or_default();
        if !name.is_empty() {
            credentials.insert(Key::new(text_at(host, "namespace"), name));
        }
    }
    credentials
}

/// A field of the metadata of a document.
fn text_at<'a>(document: &'a Value, field: &str) -> &'a str {
    document["metadata"][field].as_str().unwrap_or_default()
}

fn add_secrets(
    store: &Store,
    keys: &BTreeSet<Key>,
    documents: &mut BTreeMap<Kind, Vec<Value>>,
) -> Result<(), Refusal> {
    store.visit_objects(Kind::Secret, None, &mut |object| {
        if let Object::Secret(secret) = &object
            && keys.contains(&secret.metadata.key())
        {
            let mut document = object.to_wire();
            trim_metadata(&mut document);
            add_secret_values(store, secret, &mut document)?;
            documents.entry(Kind::Secret).or_default().push(document);
        }
        Ok(())
    })
}

fn apply_script(files: &[ExportedFile], documents: &BTreeMap<Kind, Vec<Value>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in [
        "#!/bin/sh",
        "# Applies these files to the metal3 of the current context, in the order that it needs.",
        "# It stops at the first error, and may be run again.",
        "set -eu",
        "cd \"$(dirname \"$0\")\"",
        OWNER_FUNCTION,
    ] {
        lines.push(line.to_owned());
    }
    for file in files {
        lines.push(format!("oc apply --server-side -f {}", file.name));
        if KINDS_WITH_STATUS.contains(&file.kind) {
            lines.push(format!("oc replace --subresource=status -f {}", file.name));
        }
    }
    for address in list_addresses(documents) {
        let ExportedAddress { namespace, name, pool, claim, .. } = address;
        if let Some(command) = address.owner_command {
            lines.push(format!("{command} {namespace} {name} {pool} {claim}"));
        }
    }
    join_lines(&lines)
}

/// An address in the folder.
struct ExportedAddress<'a> {
    namespace: &'a str,
    name: &'a str,
    address: &'a str,
    pool: &'a str,
    claim: &'a str,
    /// The function of the script that gives it its owners; none if its claim is not there.
    owner_command: Option<&'static str>,
}

fn list_addresses(documents: &BTreeMap<Kind, Vec<Value>>) -> Vec<ExportedAddress<'_>> {
    let mut moved_claims = BTreeSet::new();
    for claim in documents.get(&Kind::IpClaim).into_iter().flatten() {
        let is_of_cluster_api = claim["kind"] == CLAIM_KIND;
        moved_claims.insert((
            is_of_cluster_api,
            text_at(claim, "namespace"),
            text_at(claim, "name"),
        ));
    }
    let mut addresses = Vec::new();
    for document in documents.get(&Kind::IpAddress).into_iter().flatten() {
        let spec = &document["spec"];
        let is_of_cluster_api = spec.get("claimRef").is_some();
        let claim_field = if is_of_cluster_api { "claimRef" } else { "claim" };
        let pool_field = if is_of_cluster_api { "poolRef" } else { "pool" };
        let claim = spec[claim_field]["name"].as_str().unwrap_or_default();
        let namespace = text_at(document, "namespace");
        let has_claim = moved_claims.contains(&(is_of_cluster_api, namespace, claim));
        let command = if is_of_cluster_api { "own_capi" } else { "own" };
        addresses.push(ExportedAddress {
            namespace,
            name: text_at(document, "name"),
            address: spec["address"].as_str().unwrap_or_default(),
            pool: spec[pool_field]["name"].as_str().unwrap_or_default(),
            claim,
            owner_command: has_claim.then_some(command),
        });
    }
    addresses
}

/// The addresses that nobody's claim releases, as lines of a list.
fn addresses_without_claim(documents: &BTreeMap<Kind, Vec<Value>>) -> Vec<String> {
    let mut lines = Vec::new();
    for address in list_addresses(documents) {
        if address.owner_command.is_none() {
            let ExportedAddress { namespace, name, address, claim, .. } = address;
            lines.push(format!("- `{namespace}/{name}`: {address}, for `{claim}`"));
        }
    }
    lines
}

fn describe_export(
    files: &[ExportedFile],
    documents: &BTreeMap<Kind, Vec<Value>>,
    missing_secrets: &BTreeSet<Key>,
    renamed_claims: Vec<String>,
    host_start: PoolStart,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in [
        "# Files for metal3",
        "",
        "`sh apply.sh` applies these files with `oc`, in their order. Before that, stop poolctl:",
        "remove it from cron, so that two programs do not lease the same addresses and hosts.",
        "",
    ] {
        lines.push(line.to_owned());
    }
    for file in files {
        lines.push(format!("- `{}`: {}", file.name, count_of(file.object_count, "object")));
    }
    if host_start == PoolStart::Paused {
        let resume = format!("    oc annotate baremetalhost -n NAMESPACE NAME {HOST_PAUSED}-");
        let paused = "The hosts are paused. When everything is there, resume each of them:";
        add_section(&mut lines, paused, vec![resume]);
    }
    add_section(
        &mut lines,
        "These IPClaims have other names in the files. What names them must name these:",
        renamed_claims,
    );
    add_section(
        &mut lines,
        "These Secrets are not in the files. metal3 needs them for its hosts:",
        missing_secrets.iter().map(|secret| format!("- {secret}")).collect(),
    );
    add_section(
        &mut lines,
        "These addresses have no claim. metal3 keeps them until somebody deletes the IPAddress:",
        addresses_without_claim(documents),
    );
    lines.push(String::new());
    lines.push(FIELDS.trim_end().to_owned());
    join_lines(&lines)
}
