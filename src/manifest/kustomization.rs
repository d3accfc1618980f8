//! Plain kustomizations: which manifests they name, the namespace of those, and the patches that
//! change them before they are read. Whatever else kustomize would change is refused.

use std::ops::Range;
use std::path::{Path, PathBuf};

use json_patch::PatchOperation;
use serde_json::Value;

use super::{Manifests, ReadOptions};
use crate::model::refusal::Refusal;
use crate::yaml;

/// The names that kustomize looks for.
const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// How deep kustomizations may be nested, so that a circle of them ends.
const MAX_DEPTH: usize = 16;

/// What a kustomization says.
pub struct Kustomization {
    /// Files, and folders without a kustomization.
    pub resources: Vec<PathBuf>,
    pub namespace: Option<String>,
    patches: Vec<ResourcePatch>,
}

/// A patch of resources.
struct ResourcePatch {
    /// The file that has it.
    file: String,
    /// Which of the resources it may change: those of its own kustomization.
    resources: Range<usize>,
    /// The kind and the name of those it changes; none for every one.
    kind: Option<String>,
    name: Option<String>,
    change: Change,
}

enum Change {
    /// A part of a document. Lists replace lists, as with every kind that Kubernetes itself has not.
    Merge(Value),
    /// Operations of JSON Patch (RFC 6902).
    Operations(Vec<PatchOperation>),
}

/// Reads the kustomization of a folder, with those of its resources.
pub fn read_kustomization(folder: &Path) -> Result<Kustomization, Refusal> {
    read_nested(folder, MAX_DEPTH)
}

fn read_nested(folder: &Path, depth: usize) -> Result<Kustomization, Refusal> {
    let name = folder.display().to_string();
    let Some(path) = kustomization_file(folder) else {
        return Err(Refusal::not_found(format!("`{name}` has no kustomization.yaml"))
            .next(format!("poolctl apply -f {name}")));
    };
    let mut kustomization =
        Kustomization { resources: Vec::new(), namespace: None, patches: Vec::new() };
    let mut own_patches = Vec::new();
    let file_name = path.display().to_string();
    for (_, content) in super::read_texts(&path, yaml::MAX_BYTES)? {
        let document = yaml::parse_value(&content)
            .map_err(|error| Refusal::invalid(format!("{file_name}: {error}")))?;
        for (field, value) in document.as_object().into_iter().flatten() {
            match field.as_str() {
                "apiVersion" | "kind" | "metadata" => {}
                "namespace" => kustomization.namespace = value.as_str().map(str::to_owned),
                "resources" => {
                    add_resources(&mut kustomization, folder, value, depth)?;
                }
                "patches" | "patchesStrategicMerge" | "patchesJson6902" => {
                    for patch in value.as_array().into_iter().flatten() {
                        own_patches.extend(read_patch(folder, &file_name, patch)?);
                    }
                }
                _ => {
                    return Err(Refusal::usage(format!("{file_name}: `{field}` is not supported"))
                        .because("only resources, patches and namespace are")
                        .advise(format!("kubectl kustomize {name} | poolctl apply -f -")));
                }
            }
        }
    }
    // Those of nested kustomizations come first, as kustomize has it.
    for mut patch in own_patches {
        patch.resources = 0..kustomization.resources.len();
        kustomization.patches.push(patch);
    }
    Ok(kustomization)
}

/// The file of a folder that has its kustomization.
fn kustomization_file(folder: &Path) -> Option<PathBuf> {
    FILE_NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// Adds the files that a list of resources names. A folder with a kustomization counts as its
/// resources.
fn add_resources(
    kustomization: &mut Kustomization,
    folder: &Path,
    resources: &Value,
    depth: usize,
) -> Result<(), Refusal> {
    for resource in resources.as_array().into_iter().flatten() {
        let name = resource.as_str().unwrap_or_default();
        if name.contains("://") {
            return Err(Refusal::usage(format!("resource `{name}` is not a file"))
                .because("poolctl reads no manifests from the network"));
        }
        let path = folder.join(name);
        if kustomization_file(&path).is_none() {
            kustomization.resources.push(path);
            continue;
        }
        if depth == 0 {
            return Err(Refusal::invalid(format!("kustomization `{name}` is nested too deep")));
        }
        let nested = read_nested(&path, depth - 1)?;
        if nested.namespace.is_some() {
            return Err(Refusal::usage(format!("kustomization `{name}` has its own namespace"))
                .because("only the outermost may name one"));
        }
        let offset = kustomization.resources.len();
        kustomization.resources.extend(nested.resources);
        for mut patch in nested.patches {
            patch.resources = patch.resources.start + offset..patch.resources.end + offset;
            kustomization.patches.push(patch);
        }
    }
    Ok(())
}

/// Reads an entry of a list of patches: a file, the text of a patch, or a mapping with one of both
/// and a target. A text may be several patches.
fn read_patch(folder: &Path, file: &str, entry: &Value) -> Result<Vec<ResourcePatch>, Refusal> {
    let path = text_at(entry, "/path");
    let inline_patch = text_at(entry, "/patch");
    let (patch_file, text) = match (entry.as_str(), path, inline_patch) {
        (Some(text), ..) if text.contains('\n') => (file.to_owned(), text.to_owned()),
        (Some(name), ..) | (None, Some(name), None) => read_patch_file(folder, name)?,
        (None, None, Some(text)) => (file.to_owned(), text.to_owned()),
        _ => {
            return Err(Refusal::invalid(format!("{file}: a patch needs `path` or `patch`")));
        }
    };
    let target = entry.get("target");
    let mut patches = Vec::new();
    let documents = yaml::parse_documents(&text)
        .map_err(|error| super::refuse_at(&patch_file, error.line, error.column, &error.message))?;
    for document in documents {
        patches.push(make_patch(&patch_file, document.to_value(), target)?);
    }
    Ok(patches)
}

/// The name and the text of a file with a patch.
fn read_patch_file(folder: &Path, name: &str) -> Result<(String, String), Refusal> {
    let path = folder.join(name);
    let texts = super::read_texts(&path, yaml::MAX_BYTES)?;
    let content = texts.into_iter().map(|(_, content)| content).collect();
    Ok((path.display().to_string(), content))
}

/// A patch without resources yet. Without a target it changes the object that it names itself.
fn make_patch(
    file: &str,
    mut document: Value,
    target: Option<&Value>,
) -> Result<ResourcePatch, Refusal> {
    let mut kind = None;
    let mut name = None;
    for (field, value) in target.and_then(Value::as_object).into_iter().flatten() {
        let wanted = value.as_str().filter(|text| *text != ".*").map(str::to_owned);
        match field.as_str() {
            "kind" => kind = wanted,
            "name" => name = wanted,
            // A kind has one group and one version here.
            "group" | "version" => {}
            _ => {
                return Err(Refusal::usage(format!(
                    "{file}: `{field}` of a target is not supported"
                ))
                .because("only kind and name are, without patterns"));
            }
        }
    }
    let resources = 0..0;
    let file = file.to_owned();
    if document.is_array() {
        if target.is_none() {
            return Err(Refusal::invalid(format!("{file}: a list of operations needs a target")));
        }
        let operations = serde_json::from_value(document)
            .map_err(|error| Refusal::invalid(format!("{file}: {error}")))?;
        return Ok(ResourcePatch {
            file,
            resources,
            kind,
            name,
            change: Change::Operations(operations),
        });
    }
    let [own_kind, own_name] =
        ["/kind", "/metadata/name"].map(|path| text_at(&document, path).map(str::to_owned));
    if target.is_none() {
        if own_kind.is_none() || own_name.is_none() {
            return Err(Refusal::invalid(format!(
                "{file}: a patch without a target needs `kind` and `metadata.name`"
            )));
        }
        kind = own_kind;
        name = own_name;
    }
    if document.get("$patch").is_some() {
        return Err(Refusal::usage(format!("{file}: `$patch` is not supported"))
            .because("patches are merged"));
    }
    // What it changes keeps its name, whatever the patch calls itself.
    if let Some(fields) = document.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("name");
    }
    Ok(ResourcePatch { file, resources, kind, name, change: Change::Merge(document) })
}

/// A string in a document; none if there is no string at this place.
fn text_at<'a>(document: &'a Value, path: &str) -> Option<&'a str> {
    document.pointer(path).and_then(Value::as_str)
}

impl ResourcePatch {
    fn concerns(&self, index: usize, document: &Value) -> bool {
        let has_kind =
            self.kind.as_deref().is_none_or(|kind| text_at(document, "/kind") == Some(kind));
        let has_name = self
            .name
            .as_deref()
            .is_none_or(|name| text_at(document, "/metadata/name") == Some(name));
        self.resources.contains(&index) && has_kind && has_name
    }

    fn apply(&self, document: &mut Value) -> Result<(), Refusal> {
        match &self.change {
            Change::Merge(part) => json_patch::merge(document, part),
            Change::Operations(operations) => {
                json_patch::patch(document, operations)
                    .map_err(|error| Refusal::invalid(format!("{}: {error}", self.file)))?;
            }
        }
        Ok(())
    }
}

/// Reads the manifests of a kustomization as its patches leave them. A patch that changes nothing is
/// refused, because its target is misspelt.
pub fn read_kustomized(
    kustomization: &Kustomization,
    reading: &ReadOptions<'_>,
) -> Result<Manifests, Refusal> {
    if kustomization.patches.is_empty() {
        return super::read(&kustomization.resources, reading);
    }
    let mut manifests = Manifests::default();
    let mut refusals = Vec::new();
    let mut is_used = vec![false; kustomization.patches.len()];
    for (index, path) in kustomization.resources.iter().enumerate() {
        for (file, content) in super::read_texts(path, yaml::MAX_BYTES)? {
            let documents = yaml::parse_documents(&content).map_err(|error| {
                super::refuse_at(&file, error.line, error.column, &error.message)
            })?;
            for document in documents {
                let mut value = document.to_value();
                for (patch, is_used) in kustomization.patches.iter().zip(&mut is_used) {
                    *is_used |= patch_items(patch, index, &mut value)?;
                }
                let text = value.to_string();
                refusals.extend(super::add_documents(&mut manifests, &file, &text, reading));
            }
        }
    }
    let mut patches = kustomization.patches.iter().zip(is_used);
    if let Some((patch, _)) = patches.find(|(_, is_used)| !is_used) {
        return Err(Refusal::invalid(format!(
            "{}: no resource has kind `{}` and name `{}`",
            patch.file,
            patch.kind.as_deref().unwrap_or(".*"),
            patch.name.as_deref().unwrap_or(".*")
        )));
    }
    if !refusals.is_empty() {
        return Refusal::refuse_all(refusals).map(|()| Manifests::default());
    }
    super::cluster_install::complete_clusters(&mut manifests);
    super::unmodelled::warn_of_skipped(&mut manifests);
    Ok(manifests)
}

/// Applies a patch to a document, or to the items of a List. Returns whether it changed any.
fn patch_items(patch: &ResourcePatch, index: usize, document: &mut Value) -> Result<bool, Refusal> {
    let is_list = text_at(document, "/kind") == Some("List");
    if is_list && let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        let mut is_used = false;
        for item in items {
            is_used |= patch_items(patch, index, item)?;
        }
        return Ok(is_used);
    }
    let is_concerned = patch.concerns(index, document);
    if is_concerned {
        patch.apply(document)?;
    }
    Ok(is_concerned)
}
