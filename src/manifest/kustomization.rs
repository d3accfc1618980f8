//! Plain kustomizations: which manifests they name, and the namespace of those. What kustomize would
//! change in the manifests is refused. It reads no manifests.

use std::path::{Path, PathBuf};

use serde_json::Value;

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
    let mut kustomization = Kustomization { resources: Vec::new(), namespace: None };
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
                _ => {
                    return Err(Refusal::usage(format!("{file_name}: `{field}` is not supported"))
                        .because("only resources and namespace are")
                        .advise(format!("kubectl kustomize {name} | poolctl apply -f -")));
                }
            }
        }
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
        kustomization.resources.extend(nested.resources);
    }
    Ok(())
}
