//! `import --from kcli`: reads what kcli keeps of the clusters that it has made, a folder for each.
//! It starts no kcli, and asks no cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::model::cluster::INSTALLATION_SECRETS;
use crate::model::documents::{Secret, SecretValue};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::yaml;

use crate::manifest;

/// What kcli writes into the folder of a cluster, and openshift-install beside it.
const PARAMETERS_FILE: &str = "kcli_parameters.yml";
const KUBECONFIG_FILE: &str = "auth/kubeconfig";
const PASSWORD_FILE: &str = "auth/kubeadmin-password";
const METADATA_FILE: &str = "metadata.json";

/// The types of clusters that are OpenShift. kcli makes other Kubernetes clusters as well.
const OPENSHIFT_TYPES: [&str; 2] = ["openshift", "hypershift"];
/// The domain of clusters whose parameters name none.
const DEFAULT_DOMAIN: &str = "karmalabs.corp";

/// A cluster that kcli has installed.
pub struct KcliCluster {
    pub name: String,
    pub base_domain: String,
    /// Its kubeconfig, its password and what openshift-install knows of it, as far as there are.
    secrets: Vec<Secret>,
    infra_id: String,
    cluster_id: String,
}

/// What is in a folder of kcli.
#[derive(Default)]
pub struct KcliFolder {
    pub clusters: Vec<KcliCluster>,
    /// Clusters that cannot be taken, and why, in sentences.
    pub left_out: Vec<String>,
}

/// The pool that a cluster belongs to, and the claim that has it.
#[derive(Clone, Copy)]
pub struct PoolPlace<'a> {
    pub namespace: &'a str,
    pub pool: &'a str,
    pub claim: Option<&'a str>,
}

/// Reads the clusters of a folder: of `~/.kcli`, of its `clusters`, or of a cluster itself.
pub fn read_kcli_folder(folder: &Path) -> Result<KcliFolder, Refusal> {
    let mut kcli_folder = KcliFolder::default();
    for cluster_folder in cluster_folders(folder)? {
        read_cluster(&cluster_folder, &mut kcli_folder)?;
    }
    if kcli_folder.clusters.is_empty() && kcli_folder.left_out.is_empty() {
        let name = folder.display();
        return Err(Refusal::invalid(format!("`{name}` has no clusters of kcli"))
            .because(format!("no folder in it has {PARAMETERS_FILE} or {KUBECONFIG_FILE}"))
            .next("poolctl import ~/.kcli --from kcli --check"));
    }
    Ok(kcli_folder)
}

/// The folders of clusters, in the order of their names.
fn cluster_folders(folder: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if is_cluster_folder(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let clusters = folder.join("clusters");
    let parent = if clusters.is_dir() { clusters } else { folder.to_owned() };
    let name = parent.display().to_string();
    let entries =
        std::fs::read_dir(&parent).map_err(|error| manifest::refuse_unreadable(&name, &error))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| manifest::refuse_unreadable(&name, &error))?.path();
        if is_cluster_folder(&path) {
            folders.push(path);
        }
    }
    folders.sort_unstable();
    Ok(folders)
}

fn is_cluster_folder(path: &Path) -> bool {
    path.join(PARAMETERS_FILE).is_file() || path.join(KUBECONFIG_FILE).is_file()
}

/// Adds the cluster of a folder, or why it is left out.
fn read_cluster(folder: &Path, kcli_folder: &mut KcliFolder) -> Result<(), Refusal> {
    let parameters = read_yaml(&folder.join(PARAMETERS_FILE))?;
    let name = match parameters["cluster"].as_str() {
        Some(name) => name.to_owned(),
        None => name_of_folder(folder)?,
    };
    if let Some(kind) = parameters["kubetype"].as_str()
        && !OPENSHIFT_TYPES.contains(&kind)
    {
        kcli_folder.left_out.push(format!("cluster {name} is left out: its type is {kind}"));
        return Ok(());
    }
    let Some(kubeconfig) = read_text(&folder.join(KUBECONFIG_FILE))? else {
        let why = format!("cluster {name} is left out: it has no {KUBECONFIG_FILE}");
        kcli_folder.left_out.push(why);
        return Ok(());
    };
    let access = parse(&folder.join(KUBECONFIG_FILE), &kubeconfig)?;
    let base_domain = domain_of_server(&access, &name)
        .or_else(|| parameters["domain"].as_str().map(str::to_owned))
        .unwrap_or_else(|| DEFAULT_DOMAIN.to_owned());
    let metadata_json = read_text(&folder.join(METADATA_FILE))?;
    let metadata = match &metadata_json {
        Some(content) => parse(&folder.join(METADATA_FILE), content)?,
        None => Value::Null,
    };
    let password = read_text(&folder.join(PASSWORD_FILE))?;
    let infra_id = metadata["infraID"].as_str().unwrap_or(&name).to_owned();
    let cluster_id = metadata["clusterID"].as_str().unwrap_or_default().to_owned();
    let secrets = make_secrets(&name, kubeconfig, password, metadata_json);
    let cluster = KcliCluster { name, base_domain, secrets, infra_id, cluster_id };
    kcli_folder.clusters.push(cluster);
    Ok(())
}

/// The name of a folder, also of `.`.
fn name_of_folder(folder: &Path) -> Result<String, Refusal> {
    let shown = folder.display().to_string();
    let path = std::fs::canonicalize(folder)
        .map_err(|error| manifest::refuse_unreadable(&shown, &error))?;
    Ok(path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

/// The text of a file; none if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>, Refusal> {
    if !path.is_file() {
        return Ok(None);
    }
    let mut texts = manifest::read_texts(path, yaml::MAX_BYTES)?;
    Ok(texts.pop().map(|(_, content)| content))
}

/// The document in a file; null if there is no such file.
fn read_yaml(path: &Path) -> Result<Value, Refusal> {
    match read_text(path)? {
        Some(content) => parse(path, &content),
        None => Ok(Value::Null),
    }
}

fn parse(path: &Path, content: &str) -> Result<Value, Refusal> {
    yaml::parse_value(content)
        .map_err(|error| Refusal::invalid(format!("{}: {error}", path.display())))
}

/// The base domain in the address of a cluster's API, `https://api.NAME.DOMAIN:6443`; none if the
/// kubeconfig has another address.
fn domain_of_server(kubeconfig: &Value, name: &str) -> Option<String> {
    let server = kubeconfig.pointer("/clusters/0/cluster/server")?.as_str()?;
    let host = server.strip_prefix("https://")?.split([':', '/']).next()?;
    let domain = host.strip_prefix(&format!("api.{name}."))?;
    Some(domain.to_owned())
}

/// The Secrets of a cluster, which have the names and the keys of those that an installation leaves.
fn make_secrets(
    cluster: &str,
    kubeconfig: String,
    password: Option<String>,
    metadata_json: Option<String>,
) -> Vec<Secret> {
    let user = password.is_some().then(|| "kubeadmin".to_owned());
    let password = password.map(|password| password.trim().to_owned());
    let contents = [
        vec![("kubeconfig", Some(kubeconfig))],
        vec![("username", user), ("password", password)],
        vec![("metadata.json", metadata_json)],
    ];
    let mut secrets = Vec::new();
    for (suffix, content) in INSTALLATION_SECRETS.into_iter().zip(contents) {
        let mut values = BTreeMap::new();
        for (key, value) in content {
            if let Some(value) = value {
                values.insert(key.to_owned(), SecretValue::new(value));
            }
        }
        if !values.is_empty() {
            let metadata = Meta {
                name: format!("{cluster}-{suffix}"),
                namespace: cluster.to_owned(),
                generation: 1,
                ..Meta::default()
            };
            let kind = "Opaque".to_owned();
            secrets.push(Secret { metadata, kind, string_data: Some(values), ..Secret::default() });
        }
    }
    secrets
}

impl KcliCluster {
    /// The ClusterDeployment of the cluster, which is installed and keeps its machines when it is
    /// deleted: only kcli can destroy them.
    pub fn deployment(&self, place: Option<PoolPlace<'_>>) -> Result<Object, Refusal> {
        let mut document = json!({
            "metadata": {"name": self.name, "namespace": self.name},
            "spec": {
                "baseDomain": self.base_domain,
                "clusterName": self.name,
                "installed": true,
                "platform": {"none": {}},
                "preserveOnDelete": true,
                "clusterMetadata": {"infraID": self.infra_id, "clusterID": self.cluster_id},
            },
        });
        let references =
            ["adminKubeconfigSecretRef", "adminPasswordSecretRef", "metadataJSONSecretRef"];
        for (field, suffix) in references.into_iter().zip(INSTALLATION_SECRETS) {
            let name = format!("{}-{suffix}", self.name);
            if self.secrets.iter().any(|secret| secret.metadata.name == name) {
                document["spec"]["clusterMetadata"][field] = json!({"name": name});
            }
        }
        if let Some(PoolPlace { namespace, pool, claim }) = place {
            document["spec"]["clusterPoolRef"] =
                json!({"namespace": namespace, "poolName": pool, "claimName": claim.unwrap_or("")});
        }
        manifest::check_edited_document(Kind::ClusterDeployment, &document)
    }

    /// The keys of the Secrets that the folder brings, so that existing ones can be found first.
    pub fn secret_keys(&self) -> Vec<Key> {
        self.secrets.iter().map(|secret| secret.metadata.key()).collect()
    }

    /// The Secrets that the folder brings, with their values.
    pub fn into_secrets(self) -> Vec<Secret> {
        self.secrets
    }
}
