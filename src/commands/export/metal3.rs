//! `export --for metal3`: a folder with the addresses and hosts that metal3 on Kubernetes takes over,
//! a script that applies them in an order in which no address is leased twice, and what a
//! controller does with each. It changes nothing here, and speaks to no cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use crate::model::data_template::Metal3DataTemplate;
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
  oc patch ipaddress -n "$1" "$2" --type=merge -p "{\"metadata\":{\"ownerReferences\":[
    {$api,\"kind\":\"IPPool\",\"name\":\"$3\",\"uid\":\"$pool\"},
    {$api,\"kind\":\"IPClaim\",\"name\":\"$4\",\"uid\":\"$claim\"}]}}"
}"#;

/// What becomes of fields, and what metal3 does with the objects.
const FIELDS: &str = "\
## What moves

| object | field | becomes | why |
|---|---|---|---|
| all | uid, creationTimestamp, annotations `poolctl.dev/...` | left out | |
| IPClaim, IPAddress | name with capitals | renamed in lower case | Kubernetes accepts no capitals |
| IPClaim | status.address | carried | metal3 leases no other address to it |
| IPAddress | ownerReferences | made by apply.sh | they need the uids that the server gives |
| IPPool | namePrefix | completed | metal3 requires it |
| IPPool | allocationStrategy | completed | random is the default here, sequential in metal3 |
| IPPool | reserved addresses, delays, history | left out | metal3 has none; shorten the ranges |
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
    let rendering = Metal3Rendering { claim_names: &claim_names, host_start };
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
    write_file(folder, "README.md", &describe_export(&files, &missing_secrets, host_start))?;
    if !missing_secrets.is_empty() {
        let count = count_of(missing_secrets.len(), "secret");
        context.warn(&format!("{count} left out; `--include-secrets` exports secrets too"));
    }
    answer_with_files(context, folder, &files)
}

/// The names that claims get: their own in lower case, made different where two become the same.
fn name_claims(store: &Store) -> Result<HashMap<Key, String>, Refusal> {
    let mut names: HashMap<Key, String> = HashMap::new();
    let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
    store.visit_objects(Kind::IpClaim, None, &mut |object| {
        if object.deletion_time().is_some() {
            return Ok(());
        }
        let key = object.key();
        let base = kubernetes_name(&key.name);
        let mut name = base.clone();
        let mut number = 1;
        while !taken.insert((key.namespace.clone(), name.clone())) {
            number += 1;
            name = format!("{base}-{number}");
        }
        names.insert(key, name);
        Ok(())
    })?;
    Ok(names)
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
    for address in documents.get(&Kind::IpAddress).into_iter().flatten() {
        let pool = address["spec"]["pool"]["name"].as_str().unwrap_or_default();
        let claim = address["spec"]["claim"]["name"].as_str().unwrap_or_default();
        let namespace = text_at(address, "namespace");
        lines.push(format!("own {namespace} {} {pool} {claim}", text_at(address, "name")));
    }
    join_lines(&lines)
}

fn describe_export(
    files: &[ExportedFile],
    missing_secrets: &BTreeSet<Key>,
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
        "These Secrets are not in the files. metal3 needs them for its hosts:",
        missing_secrets.iter().map(|secret| format!("- {secret}")).collect(),
    );
    lines.push(String::new());
    lines.push(FIELDS.trim_end().to_owned());
    join_lines(&lines)
}
