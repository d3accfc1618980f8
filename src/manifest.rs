//! Reads manifests: files, folders, stdin; what was said, checked and normalised, as objects.

pub mod schema;
mod unmodelled;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::model::data_template::NEWER_NAMES;
use crate::model::event::Event;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::rules;
use crate::yaml::{self, Node, Tree};

pub use crate::manifest::unmodelled::ForeignLease;

/// Fields of metadata that only other servers know.
const THEIRS: [&str; 5] =
    ["resourceVersion", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName"];
/// Fields of metadata that poolctl writes: kept when a state is moved.
const OURS: [&str; 5] = ["uid", "generation", "creationTimestamp", "deletionTimestamp", "status"];

/// Finalizers of programs that have nothing to do here.
const THEIR_FINALIZERS: [&str; 3] =
    ["hive.openshift.io/", "ipam.metal3.io", "agent-install.openshift.io/"];

/// The largest text of a whole state.
const LARGEST_STATE: usize = 1 << 30;

/// What manifests are read for.
pub struct Reading<'a> {
    /// Of objects that name none.
    pub namespace: &'a str,
    /// Unknown fields are warned of, not refused.
    pub lenient: bool,
    /// A state is moved: identity, times and status are taken as they are, and jobs and events
    /// come along. Else they are left out.
    pub moved: bool,
}

impl Reading<'_> {
    fn limit(&self) -> usize {
        if self.moved { LARGEST_STATE } else { yaml::LARGEST }
    }
}

/// What was read, and what is worth a word.
#[derive(Clone, Default)]
pub struct Manifests {
    pub objects: Vec<Object>,
    pub jobs: Vec<Job>,
    pub events: Vec<Event>,
    /// Jobs and events that are not kept here.
    pub left_out: usize,
    /// Of a state that is moved: what holds something and is of no kind that is modelled.
    pub foreign_leases: Vec<ForeignLease>,
    pub warnings: Vec<String>,
}

/// Reads every document of every path; `-` is stdin, a folder its yaml, yml and json files. What is
/// wrong with them is said of all at once.
pub fn read(paths: &[PathBuf], reading: &Reading<'_>) -> Result<Manifests, Refusal> {
    let (mut found, mut wrong) = (Manifests::default(), Vec::new());
    for path in paths {
        for (name, text) in texts(path, reading.limit())? {
            match yaml::documents_within(&text, reading.limit()) {
                Ok(documents) => {
                    for document in documents {
                        wrong.extend(take(&mut found, &name, document, reading));
                    }
                }
                Err(bad) => wrong.push(at(&name, bad.line, bad.column, &bad.message)),
            }
        }
    }
    Refusal::of_all(wrong)?;
    Ok(found)
}

fn at(name: &str, line: u64, column: u64, message: &str) -> Refusal {
    let place = if line > 0 { format!(":{line}:{column}") } else { String::new() };
    Refusal::invalid(format!("{name}{place}: {message}"))
}

/// The text of a file, of each manifest in a folder, or of stdin.
pub fn texts(path: &Path, most: usize) -> Result<Vec<(String, String)>, Refusal> {
    let name = path.display().to_string();
    if name == "-" {
        let mut text = Vec::new();
        let limit = most as u64 + 1;
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_end(&mut text)
            .map_err(|error| io("stdin", &error))?;
        return Ok(vec![("stdin".into(), decode("stdin", text, most)?)]);
    }
    let meta = std::fs::metadata(path).map_err(|error| io(&name, &error))?;
    if !meta.is_dir() {
        return Ok(vec![(name.clone(), file(path, &name, most)?)]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| io(&name, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| io(&name, &error))?.path();
        let manifest =
            path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if manifest && !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Refusal::invalid(format!("`{name}` has no yaml, yml or json files")));
    }
    files.sort();
    files
        .iter()
        .map(|path| {
            Ok((path.display().to_string(), file(path, &path.display().to_string(), most)?))
        })
        .collect()
}

fn file(path: &Path, name: &str, most: usize) -> Result<String, Refusal> {
    let open = std::fs::File::open(path).map_err(|error| io(name, &error))?;
    let mut text = Vec::new();
    // One byte more than is read shows that there is more.
    open.take(most as u64 + 1).read_to_end(&mut text).map_err(|error| io(name, &error))?;
    decode(name, text, most)
}

fn decode(name: &str, text: Vec<u8>, most: usize) -> Result<String, Refusal> {
    if text.len() > most {
        return Err(Refusal::invalid(format!("{name}: more than {most} bytes"))
            .advise("split it into several files"));
    }
    String::from_utf8(text).map_err(|_| Refusal::invalid(format!("{name}: is not UTF-8 text")))
}

/// Why a file cannot be read, with the exit code that fits.
pub fn io(name: &str, error: &std::io::Error) -> Refusal {
    use std::io::ErrorKind;
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::NotFound,
        ErrorKind::PermissionDenied => Exit::Denied,
        _ => Exit::Failed,
    };
    Refusal::new(exit, format!("`{name}` cannot be read")).because(error.to_string())
}

/// One document: an object, a List of them, or something of a kind that is not modelled. Returns
/// what is wrong with it.
fn take(
    found: &mut Manifests,
    name: &str,
    mut document: Node,
    reading: &Reading<'_>,
) -> Vec<Refusal> {
    let text =
        |field: &str| document.get(field).and_then(Node::text).unwrap_or_default().to_owned();
    let (version, kind_name) = (text("apiVersion"), text("kind"));
    let (line, column) = (document.line, document.column);
    let here = |message: &str| vec![at(name, line, column, message)];
    if !matches!(document.tree, Tree::Map(_)) {
        return here("the document is not an object");
    }
    if kind_name.is_empty() || version.is_empty() {
        return here("the object needs `apiVersion` and `kind`");
    }
    if kind_name == "List" {
        if let Tree::Map(entries) = document.tree {
            let items = entries.into_iter().find(|(key, _)| key.name() == "items");
            if let Some((_, Node { tree: Tree::List(items), .. })) = items {
                return items.into_iter().flat_map(|one| take(found, name, one, reading)).collect();
            }
        }
        return Vec::new();
    }
    if reading.moved {
        match record(found, &version, &kind_name, &document) {
            Ok(true) => return Vec::new(),
            Ok(false) => {}
            Err(refusal) => return vec![refusal],
        }
    }
    let Some(kind) = Kind::from_manifest(&version, &kind_name) else {
        unmodelled::leave_out(found, name, &document, reading);
        return Vec::new();
    };
    normalise(kind, &mut document, reading);
    let mut wrong = Vec::new();
    for problem in schema::check(kind, &mut document) {
        if reading.moved && problem.unknown && problem.status {
            // Others know more of what they saw.
            continue;
        }
        let refusal = at(name, problem.line, problem.column, &problem.message());
        if reading.lenient && problem.unknown {
            found.warnings.push(format!("{}; left out", refusal.what));
        } else {
            wrong.push(refusal);
        }
    }
    if !wrong.is_empty() {
        return wrong;
    }
    let object = match Object::from_wire(kind, document.value()) {
        Ok(object) => object,
        Err(error) => return here(&error.to_string()),
    };
    if let Err(refusal) = rules::check(&object) {
        return vec![refusal.within(name)];
    }
    if !reading.moved {
        let warnings = rules::warnings(&object).into_iter();
        found.warnings.extend(warnings.map(|text| format!("{name}: {text}")));
    }
    found.objects.push(object);
    Vec::new()
}

/// A job or an event. Says whether it is one.
fn record(
    found: &mut Manifests,
    version: &str,
    kind: &str,
    document: &Node,
) -> Result<bool, Refusal> {
    let wrong =
        |error: serde_json::Error| at(kind, document.line, document.column, &error.to_string());
    match (version, kind) {
        ("poolctl.dev/v1", "Job") => {
            let mut document = document.clone();
            remove(&mut document, &["apiVersion", "kind"]);
            let wire = serde_json::from_value(document.value()).map_err(wrong)?;
            let job = Job::from_wire(wire);
            found.left_out += usize::from(job.is_none());
            found.jobs.extend(job);
        }
        ("v1", "Event") => {
            let wire = serde_json::from_value(document.value()).map_err(wrong)?;
            let event = Event::from_wire(wire);
            found.left_out += usize::from(event.is_none());
            found.events.extend(event);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Takes out what servers write and writes the seeds' older spellings in today's.
fn normalise(kind: Kind, document: &mut Node, reading: &Reading<'_>) {
    remove(document, &["apiVersion", "kind"]);
    if !reading.moved {
        remove(document, &["status"]);
    }
    if let Some(metadata) = field(document, "metadata") {
        remove(metadata, &THEIRS);
        if !reading.moved {
            remove(metadata, &OURS);
        }
        without_upstreams(metadata);
        let nowhere = metadata.get("namespace").is_none_or(Node::is_null);
        if nowhere && kind.namespaced() {
            insert(metadata, "namespace", reading.namespace);
        } else if !kind.namespaced() {
            remove(metadata, &["namespace"]);
        }
    }
    if matches!(kind, Kind::IpClaim | Kind::IpAddress | Kind::DataTemplate)
        && let Some(spec) = field(document, "spec")
    {
        first_spellings(spec);
    }
    if kind == Kind::ClusterPool
        && let Some(inventory) = field(document, "spec").and_then(|spec| field(spec, "inventory"))
        && let Some(listed) = inventory.get("ClusterDeploymentCustomizations")
    {
        *inventory = listed.clone();
    }
}

/// The design of metal3's addresses has some fields with capitals that the API has without.
fn first_spellings(node: &mut Node) {
    if let Tree::List(items) = &mut node.tree {
        items.iter_mut().for_each(first_spellings);
    }
    let Tree::Map(entries) = &mut node.tree else { return };
    for (key, value) in entries {
        if let Tree::Scalar(Value::String(name)) = &mut key.tree
            && let Some(first) = name.get_mut(..1)
        {
            first.make_ascii_lowercase();
            let newer = NEWER_NAMES.iter().find(|(newer, _)| newer == name);
            if let Some((_, known)) = newer {
                (*known).clone_into(name);
            } else if name == "ipAddressfromIPPool" {
                "ipAddressFromIPPool".clone_into(name);
            }
        }
        first_spellings(value);
    }
}

/// What upstream's own programs keep in the metadata: Hive's finalizers, which nobody here would
/// take away, and kubectl's copy of the manifest, secret values and all.
fn without_upstreams(metadata: &mut Node) {
    if let Some(annotations) = field(metadata, "annotations") {
        remove(annotations, &["kubectl.kubernetes.io/last-applied-configuration"]);
    }
    if let Some(Node { tree: Tree::List(finalizers), .. }) = field(metadata, "finalizers") {
        finalizers.retain(|one| {
            !one.text()
                .is_some_and(|name| THEIR_FINALIZERS.iter().any(|known| name.contains(known)))
        });
    }
}

fn field<'a>(node: &'a mut Node, name: &str) -> Option<&'a mut Node> {
    let Tree::Map(entries) = &mut node.tree else {
        return None;
    };
    entries.iter_mut().find(|(key, _)| key.name() == name).map(|(_, value)| value)
}

fn remove(node: &mut Node, names: &[&str]) {
    if let Tree::Map(entries) = &mut node.tree {
        entries.retain(|(key, _)| !names.contains(&key.name().as_str()));
    }
}

fn insert(node: &mut Node, name: &str, value: &str) {
    let (line, column) = (node.line, node.column);
    let scalar = |text: &str| Node { tree: Tree::Scalar(text.into()), line, column };
    if let Tree::Map(entries) = &mut node.tree {
        entries.retain(|(key, _)| key.name() != name);
        entries.push((scalar(name), scalar(value)));
    }
}

/// A document that was edited as JSON, checked like one that was read.
pub fn recheck(kind: Kind, document: &Value) -> Result<Object, Refusal> {
    let mut node = plain(document);
    remove(&mut node, &["apiVersion", "kind"]);
    if let Some(problem) = schema::check(kind, &mut node).into_iter().next() {
        return Err(Refusal::invalid(problem.message()));
    }
    let object = Object::from_wire(kind, node.value())
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    rules::check(&object)?;
    Ok(object)
}

fn plain(value: &Value) -> Node {
    let tree = match value {
        Value::Array(items) => Tree::List(items.iter().map(plain).collect()),
        Value::Object(fields) => {
            let key = |name: &String| Node {
                tree: Tree::Scalar(name.clone().into()),
                line: 0,
                column: 0,
            };
            Tree::Map(fields.iter().map(|(name, value)| (key(name), plain(value))).collect())
        }
        scalar => Tree::Scalar(scalar.clone()),
    };
    Node { tree, line: 0, column: 0 }
}
