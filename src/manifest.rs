//! Reads manifests: files, folders and standard input become objects, checked and in the spelling
//! of today. It never changes a state, and knows nothing of the objects that a state has.

mod chained_records;
mod cluster_api;
mod cluster_install;
pub mod editor_schema;
mod generated_name;
mod hive_config;
mod kustomization;
mod large_text;
mod moved_state;
mod parts;
mod places;
mod records;
pub mod schema;
mod spelling;
mod spool;
mod spooled_clusters;
mod spooled_leases;
mod texts;
mod unmodelled;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::model::cluster::RESTORED_LABEL;
use crate::model::event::Event;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::rules;
use crate::yaml::{self, Node, Tree};

use crate::manifest::large_text::{LARGE, LargeText, read_large_text};

pub use crate::manifest::cluster_install::ClusterInstall;
pub use crate::manifest::hive_config::HiveConfig;
pub use crate::manifest::kustomization::{read_kustomization, read_kustomized};
pub use crate::manifest::moved_state::StateText;
pub use crate::manifest::places::{ObjectPlaces, RepeatedObject};
pub use crate::manifest::spool::{Spool, SpoolReader, SpoolReaders};
pub use crate::manifest::spooled_clusters::{ClusterPart, SpooledClusters};
pub use crate::manifest::texts::{folders_below, read_texts, refuse_unreadable};
pub use crate::manifest::unmodelled::ForeignLease;

/// Fields of metadata that Kubernetes keeps, and that mean nothing here.
const SERVER_FIELDS: [&str; 5] =
    ["resourceVersion", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName"];
/// Fields of metadata that poolctl writes itself: taken from a manifest only when a state is moved.
const OWN_FIELDS: [&str; 5] =
    ["uid", "generation", "creationTimestamp", "deletionTimestamp", "status"];

/// What finalizers of upstream's programs contain. These programs do not run here, so nobody would
/// ever take such a finalizer away.
const UPSTREAM_FINALIZERS: [&str; 7] = [
    "hive.openshift.io/",
    "ipam.metal3.io",
    "baremetalhost.metal3.io",
    "agent-install.openshift.io/",
    "metal3data.infrastructure.cluster.x-k8s.io",
    "metal3dataclaim.infrastructure.cluster.x-k8s.io",
    "metal3datatemplate.infrastructure.cluster.x-k8s.io",
];

/// The largest text of a whole state that is read into memory, in bytes.
const LARGEST_STATE: usize = 1 << 30;
/// The largest file of a whole state that is read object by object, in bytes. What is read is put
/// aside on the disk.
const LARGEST_SPOOLED_STATE: usize = 16 << 30;

/// How manifests are to be read.
#[derive(Default)]
pub struct ReadOptions<'a> {
    /// The namespace of objects that name none.
    pub namespace: &'a str,
    /// Whether unknown fields are warned of, not refused.
    pub is_lenient: bool,
    /// Whether a whole state is moved here: then identity, times and status of objects are taken as
    /// they are, and jobs and events come along. Otherwise they are left out.
    pub moves_state: bool,
    /// What makes names of objects that say only how theirs begins. Without it they are refused.
    pub name_maker: Option<&'a Tick>,
}

impl ReadOptions<'_> {
    /// How many bytes one text may have.
    fn limit(&self) -> usize {
        if self.moves_state { LARGEST_STATE } else { yaml::MAX_BYTES }
    }
}

/// What manifests have been read to.
#[derive(Clone, Default)]
pub struct Manifests {
    pub objects: Vec<Object>,
    pub jobs: Vec<Job>,
    pub events: Vec<Event>,
    /// When the last of the events and jobs happened or began that are in a spool, and not among these.
    pub last_spooled_record: Option<Time>,
    /// Whether there are jobs in a spool, and not among these.
    pub has_spooled_jobs: bool,
    /// How many jobs and events are of kinds that are not kept here.
    pub records_left_out: usize,
    /// When a state is moved: objects of other programs that hold something.
    pub foreign_leases: Vec<ForeignLease>,
    /// When a state is moved: IPPools that cannot be taken. They are not among the objects.
    pub refused_pools: Vec<RefusedPool>,
    /// How many objects of kinds that are not modelled were left out, by kind and `apiVersion`.
    pub skipped: BTreeMap<(String, String), usize>,
    /// Configurations of Hives, which are to be taken into the Settings.
    pub hive_configs: Vec<HiveConfig>,
    /// AgentClusterInstalls, until the clusters that they are about have been read.
    pub cluster_installs: Vec<ClusterInstall>,
    /// The objects that a server of Kubernetes has written down, as `oc get` prints them.
    pub server_objects: HashSet<(Kind, Key)>,
    /// When a state is moved: where its objects stand, and which of them come twice.
    pub places: ObjectPlaces,
    /// What a user should know, in sentences that begin with the name of the file.
    pub warnings: Vec<String>,
}

/// An IPPool of a state that is moved, and what is wrong with it.
#[derive(Clone)]
pub struct RefusedPool {
    pub key: Key,
    pub refusals: Vec<Refusal>,
}

impl Manifests {
    /// Whether nothing is left because no kind of it is modelled.
    pub fn are_all_skipped(&self) -> bool {
        self.objects.is_empty() && self.hive_configs.is_empty() && !self.skipped.is_empty()
    }

    /// Adds what another file has been read to.
    fn append(&mut self, file_manifests: Self) {
        let Self {
            objects,
            jobs,
            events,
            last_spooled_record,
            has_spooled_jobs,
            records_left_out,
            foreign_leases,
            refused_pools,
            skipped,
            hive_configs,
            cluster_installs,
            server_objects,
            places,
            warnings,
        } = file_manifests;
        self.objects.extend(objects);
        self.jobs.extend(jobs);
        self.events.extend(events);
        self.last_spooled_record = self.last_spooled_record.max(last_spooled_record);
        self.has_spooled_jobs |= has_spooled_jobs;
        self.records_left_out += records_left_out;
        self.foreign_leases.extend(foreign_leases);
        self.refused_pools.extend(refused_pools);
        self.hive_configs.extend(hive_configs);
        self.cluster_installs.extend(cluster_installs);
        self.server_objects.extend(server_objects);
        self.places.append(places);
        for (kind, count) in skipped {
            *self.skipped.entry(kind).or_default() += count;
        }
        self.warnings.extend(warnings);
    }
}

/// Reads every document of every path, in order. `-` is standard input; a folder is its yaml, yml
/// and json files. The refusal tells all that is wrong with them, not only the first problem.
pub fn read(paths: &[PathBuf], reading: &ReadOptions<'_>) -> Result<Manifests, Refusal> {
    let mut manifests = Manifests::default();
    let mut refusals = Vec::new();
    for path in paths {
        let texts = read_texts(path, reading.limit())?;
        refusals.extend(add_texts(&mut manifests, &texts, reading));
    }
    finish_reading(manifests, refusals)
}

/// Adds what texts hold, each of which has the name of its file. Returns what is wrong with them.
fn add_texts(
    manifests: &mut Manifests,
    texts: &[(String, String)],
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (file, content) in texts {
        if content.len() > LARGE {
            let text = LargeText::Memory(content);
            let (file_manifests, file_refusals) = read_large_text(text, file, reading);
            manifests.append(file_manifests);
            refusals.extend(file_refusals);
        } else if let Some(file_manifests) = parts::read_json(file, content, reading) {
            manifests.append(file_manifests);
        } else {
            refusals.extend(add_documents(manifests, file, content, reading));
        }
    }
    refusals
}

/// What has been read, once everything is there that objects say of each other; or all that is
/// wrong with it.
fn finish_reading(
    mut manifests: Manifests,
    mut refusals: Vec<Refusal>,
) -> Result<Manifests, Refusal> {
    if !refusals.is_empty() {
        refusals.extend(manifests.refused_pools.into_iter().flat_map(|pool| pool.refusals));
        return Refusal::refuse_all(refusals).map(|()| Manifests::default());
    }
    cluster_install::complete_clusters(&mut manifests);
    unmodelled::warn_of_skipped(&mut manifests);
    Ok(manifests)
}

/// Adds what a text holds. Returns what is wrong with it.
fn add_documents(
    manifests: &mut Manifests,
    file: &str,
    content: &str,
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    let documents = match yaml::parse_documents_within(content, reading.limit()) {
        Ok(documents) => documents,
        Err(error) => return vec![refuse_at(file, error.line, error.column, &error.message)],
    };
    let mut refusals = Vec::new();
    for document in documents {
        refusals.extend(add_document(manifests, file, document, reading));
    }
    refusals
}

/// Refuses what stands at a place in a file. Lines and columns begin at 1; line 0 is no place.
fn refuse_at(file: &str, line: u64, column: u64, message: &str) -> Refusal {
    let place = if line > 0 { format!(":{line}:{column}") } else { String::new() };
    Refusal::invalid(format!("{file}{place}: {message}"))
}

fn refuse_node(file: &str, node: &Node, message: &str) -> Refusal {
    refuse_at(file, node.line, node.column, message)
}

/// Adds what a document holds: an object, a List of them, a record of a state that is moved, or
/// something of a kind that is not modelled. Returns what is wrong with it.
fn add_document(
    manifests: &mut Manifests,
    file: &str,
    mut document: Node,
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    if !matches!(document.tree, Tree::Map(_)) {
        return vec![refuse_node(file, &document, "the document is not an object")];
    }
    let version = string_field(&document, "apiVersion");
    let kind_name = string_field(&document, "kind");
    if kind_name.is_empty() {
        return vec![refuse_node(file, &document, "the object needs `apiVersion` and `kind`")];
    }
    if kind_name == "List" {
        return add_list(manifests, file, document, reading);
    }
    if reading.moves_state {
        match records::add_record(manifests, version, kind_name, &document) {
            Ok(true) => return Vec::new(),
            Ok(false) => {}
            Err(refusal) => return vec![refusal],
        }
    }
    if version.is_empty()
        && let Some(kind) = Kind::from_name(kind_name).filter(|kind| !kind.is_record())
    {
        warn_of_missing_version(manifests, file, kind, &document);
        return add_object(manifests, file, kind, document, reading);
    }
    if let Some(kind) = Kind::from_manifest(version, kind_name) {
        return add_object(manifests, file, kind, document, reading);
    }
    if HiveConfig::is_manifest(version, kind_name) {
        return hive_config::add_hive_config(manifests, file, &document);
    }
    if ClusterInstall::is_manifest(version, kind_name) {
        return cluster_install::add_cluster_install(manifests, file, version, &document);
    }
    if let Some(kind) = cluster_api::convert_document(&mut document) {
        return add_object(manifests, file, kind, document, reading);
    }
    unmodelled::leave_out_unmodelled(manifests, file, &document, reading);
    Vec::new()
}

/// Some published examples have no `apiVersion`. They are understood, because no two kinds have the
/// same name.
fn warn_of_missing_version(manifests: &mut Manifests, file: &str, kind: Kind, document: &Node) {
    let warning = format!("{} has no apiVersion; taken as {}", kind.name(), kind.api_version());
    manifests.warnings.push(refuse_node(file, document, &warning).what);
}

/// A field of a mapping that is a string; empty if there is none.
fn string_field<'a>(document: &'a Node, name: &str) -> &'a str {
    document.get(name).and_then(Node::as_str).unwrap_or_default()
}

/// Adds the items of a List. Returns what is wrong with them.
fn add_list(
    manifests: &mut Manifests,
    file: &str,
    list: Node,
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    let Tree::Map(entries) = list.tree else { return Vec::new() };
    let items = entries.into_iter().find(|(key, _)| key.key_name() == "items");
    let Some((_, Node { tree: Tree::List(items), .. })) = items else { return Vec::new() };
    let mut refusals = Vec::new();
    for item in items {
        refusals.extend(add_document(manifests, file, item, reading));
    }
    refusals
}

/// Adds an object of a kind that is modelled. Returns what is wrong with it. An IPPool of a state
/// that is moved is noted instead, because the rest of the state can do without it.
fn add_object(
    manifests: &mut Manifests,
    file: &str,
    kind: Kind,
    mut document: Node,
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    let ordinal = manifests.objects.len();
    if let Err(refusal) = generated_name::complete_name(&mut document, file, ordinal, reading) {
        return vec![refusal];
    }
    let metadata = document.get("metadata");
    let is_of_server = metadata.is_some_and(|metadata| metadata.get("resourceVersion").is_some());
    normalise_document(kind, &mut document, reading);
    let key = document.get("metadata").map(|metadata| {
        Key::new(string_field(metadata, "namespace"), string_field(metadata, "name"))
    });
    if is_of_server && let Some(key) = &key {
        manifests.server_objects.insert((kind, key.clone()));
    }
    let refusals = add_checked_object(manifests, file, kind, document, reading);
    if reading.moves_state
        && kind == Kind::IpPool
        && !refusals.is_empty()
        && let Some(key) = key
    {
        manifests.refused_pools.push(RefusedPool { key, refusals });
        return Vec::new();
    }
    refusals
}

/// Adds an object in the spelling of today, unless something is wrong with it, which is returned.
fn add_checked_object(
    manifests: &mut Manifests,
    file: &str,
    kind: Kind,
    mut document: Node,
    reading: &ReadOptions<'_>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for problem in schema::check(kind, &mut document) {
        if reading.moves_state && problem.is_unknown && problem.is_in_status() {
            // Other programs may report more than poolctl does.
            continue;
        }
        let refusal = refuse_at(file, problem.line, problem.column, &problem.message());
        if reading.is_lenient && problem.is_unknown {
            manifests.warnings.push(format!("{}; left out", refusal.what));
        } else {
            refusals.push(refusal);
        }
    }
    if !refusals.is_empty() {
        return refusals;
    }
    let object = match Object::from_wire(kind, document.to_value()) {
        Ok(object) => object,
        Err(message) => return vec![refuse_node(file, &document, &message)],
    };
    if let Err(refusal) = rules::check_object(&object) {
        return vec![refusal.in_place(file)];
    }
    if let Some(problem) = rules::find_hive_problem(&object) {
        let refusal = Refusal::invalid(problem).in_place(file);
        if !reading.moves_state {
            return vec![refusal];
        }
        // Hive passes over what it cannot read, and its objects are taken as they are.
        manifests.warnings.push(format!("{}; it has no effect", refusal.what));
    }
    let warnings: Vec<String> = if reading.moves_state {
        rules::describe_kept_problems(&object).into_iter().collect()
    } else {
        rules::manifest_warnings(&object)
    };
    for warning in warnings {
        manifests.warnings.push(format!("{file}: {warning}"));
    }
    if reading.moves_state {
        manifests.places.note(kind, object.key(), file, &document);
    }
    manifests.objects.push(object);
    Vec::new()
}

/// Takes out what servers write, and replaces older spellings of fields by those of today.
fn normalise_document(kind: Kind, document: &mut Node, reading: &ReadOptions<'_>) {
    remove_fields(document, &["apiVersion", "kind"]);
    if !reading.moves_state {
        remove_fields(document, &["status"]);
    }
    if let Some(metadata) = field_mut(document, "metadata") {
        remove_fields(metadata, &SERVER_FIELDS);
        if !reading.moves_state {
            remove_fields(metadata, &OWN_FIELDS);
        }
        remove_upstream_marks(metadata);
        let lacks_namespace = metadata.get("namespace").is_none_or(Node::is_null);
        if lacks_namespace && kind.is_namespaced() {
            set_field(metadata, "namespace", reading.namespace);
        } else if !kind.is_namespaced() {
            remove_fields(metadata, &["namespace"]);
        }
    }
    if spelling::is_kind_of_metal3(kind)
        && let Some(spec) = field_mut(document, "spec")
    {
        spelling::rename_metal3_fields(spec);
    }
    // The first design of inventories has the list inside of a mapping.
    if kind == Kind::ClusterPool
        && let Some(spec) = field_mut(document, "spec")
        && let Some(inventory) = field_mut(spec, "inventory")
        && let Some(customizations) = inventory.get("ClusterDeploymentCustomizations")
    {
        *inventory = customizations.clone();
    }
}

/// Takes out of the metadata what upstream's own programs keep there: finalizers, kubectl's copy of
/// the manifest, which may have the values of a Secret, and the mark of a cluster that moves to Hive.
fn remove_upstream_marks(metadata: &mut Node) {
    if let Some(annotations) = field_mut(metadata, "annotations") {
        remove_fields(annotations, &["kubectl.kubernetes.io/last-applied-configuration"]);
    }
    if let Some(labels) = field_mut(metadata, "labels") {
        remove_fields(labels, &[RESTORED_LABEL]);
    }
    if let Some(Node { tree: Tree::List(finalizers), .. }) = field_mut(metadata, "finalizers") {
        finalizers.retain(|finalizer| {
            let name = finalizer.as_str().unwrap_or_default();
            !UPSTREAM_FINALIZERS.iter().any(|upstream| name.contains(upstream))
        });
    }
}

/// The value of a field, if the node is a mapping that has it.
fn field_mut<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    let Tree::Map(entries) = &mut node.tree else {
        return None;
    };
    entries.iter_mut().find(|(key, _)| key.key_name() == name).map(|(_, value)| value)
}

fn remove_fields(node: &mut Node, names: &[&str]) {
    if let Tree::Map(entries) = &mut node.tree {
        entries.retain(|(key, _)| !names.contains(&key.key_name().as_str()));
    }
}

/// Sets a field to a string, in place of one that is there. It gets the place of the node, for
/// messages.
fn set_field(node: &mut Node, name: &str, value: &str) {
    let field = string_node(value, node.line, node.column);
    set_node(node, name, field);
}

/// Sets a field, in place of one that is there.
fn set_node(node: &mut Node, name: &str, field: Node) {
    let key = string_node(name, node.line, node.column);
    if let Tree::Map(entries) = &mut node.tree {
        entries.retain(|(key, _)| key.key_name() != name);
        entries.push((key, field));
    }
}

fn string_node(string: &str, line: u64, column: u64) -> Node {
    Node { tree: Tree::Scalar(string.into()), line, column }
}

/// The object of a document that was edited as JSON, checked like a manifest that was read.
pub fn check_edited_document(kind: Kind, document: &Value) -> Result<Object, Refusal> {
    let mut node = node_without_place(document);
    remove_fields(&mut node, &["apiVersion", "kind"]);
    if let Some(problem) = schema::check(kind, &mut node).into_iter().next() {
        return Err(Refusal::invalid(problem.message()));
    }
    let object = Object::from_wire(kind, node.to_value()).map_err(Refusal::invalid)?;
    rules::check_object(&object)?;
    match rules::find_hive_problem(&object) {
        Some(problem) => Err(Refusal::invalid(problem)),
        None => Ok(object),
    }
}

/// A JSON value as a node that came from no file: its line and its column are 0.
fn node_without_place(value: &Value) -> Node {
    let tree = match value {
        Value::Array(items) => Tree::List(items.iter().map(node_without_place).collect()),
        Value::Object(fields) => {
            let mut entries = Vec::with_capacity(fields.len());
            for (name, field) in fields {
                entries.push((string_node(name, 0, 0), node_without_place(field)));
            }
            Tree::Map(entries)
        }
        scalar => Tree::Scalar(scalar.clone()),
    };
    Node { tree, line: 0, column: 0 }
}
