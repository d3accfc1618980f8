//! `kubeconfig` and `credentials`: tells how to log in to a cluster. The only file that is written
//! is the copy of the kubeconfig beside the state.

use std::fmt::Write;

use clap::Args;
use serde_json::json;

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::documents::SecretValue;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name};
use crate::rules::access::AccessAction;
use crate::store::{Filter, Store, copies};

use crate::commands::{Audience, Context, RunCommand};

/// Arguments of `kubeconfig`. It prints the path of a file that only its reader may read.
#[derive(Args)]
pub struct Kubeconfig {
    /// Claim or cluster to log in to; claim/NAME or cluster/NAME if both have the name
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl RunCommand for Kubeconfig {
    const NAME: &'static str = "kubeconfig";
    const ABOUT: &'static str = "Write the kubeconfig of a cluster; with sudo, print it";
    const EXAMPLE: &'static str = "export KUBECONFIG=$(poolctl kubeconfig ci-17)";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let cluster = find_installed_cluster(context, &store, &self.name)?;
        if context.world.is_behind_sudo() {
            // The file would belong to the account, and nobody else could read it.
            return context.print_value(read_kubeconfig(&store, &cluster)?.reveal());
        }
        let path = write_kubeconfig(&store, &cluster)?;
        let document = json!({"cluster": cluster.name, "kubeconfig": path});
        let answer = Answer::text(format!("{path}\n")).with_document(document);
        context.answer(answer.with_name(Name::plain(path)))
    }
}

/// Arguments of `credentials`.
#[derive(Args)]
pub struct Credentials {
    /// Claim or cluster to log in to; claim/NAME or cluster/NAME if both have the name
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl RunCommand for Credentials {
    const NAME: &'static str = "credentials";
    const ABOUT: &'static str = "Print how to log in to a cluster";
    const EXAMPLE: &'static str = "poolctl credentials ci-17";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let cluster = find_installed_cluster(context, &store, &self.name)?;
        let metadata = cluster.body.as_ref().and_then(|body| body.spec.cluster_metadata.as_ref());
        let secret = metadata.and_then(|metadata| metadata.admin_password_secret_ref.as_ref());
        let username = read_secret(&store, &cluster, secret, "username")?;
        let password = read_secret(&store, &cluster, secret, "password")?;
        let kubeconfig = if context.world.is_behind_sudo() {
            context.spell_commands(&format!("poolctl kubeconfig {} prints it", self.name))
        } else {
            write_kubeconfig(&store, &cluster)?
        };
        let document = json!({
            "api": cluster.api_url(),
            "console": cluster.console_url(),
            "username": username.reveal(),
            "password": password.reveal(),
            "kubeconfig": kubeconfig,
        });
        let mut lines = String::new();
        for field in ["api", "console", "username", "password", "kubeconfig"] {
            let label = format!("{field}:");
            let value = document[field].as_str().unwrap_or_default();
            let _ = writeln!(lines, "{label:<12}{value}");
        }
        let name = Name::of(Kind::ClusterDeployment, &cluster.key());
        let answer = Answer::text(lines).with_name(name).with_document(document);
        context.answer(answer.verbatim())
    }
}

/// The cluster of a claim, or the cluster of this name; refused if it is not installed.
fn find_installed_cluster(
    context: &Context,
    store: &Store,
    name: &str,
) -> Result<Cluster, Refusal> {
    let cluster = find_cluster(context, store, name, AccessAction::See)?;
    if cluster.is_installed() {
        return Ok(cluster);
    }
    Err(Refusal::conflict(format!("cluster `{}` is not installed yet", cluster.name))
        .next(format!("poolctl describe cluster {}", cluster.name)))
}

/// The cluster of a claim, or the cluster of this name; refused unless whoever asks may do `action`
/// with it.
pub fn find_cluster(
    context: &Context,
    store: &Store,
    name: &str,
    action: AccessAction,
) -> Result<Cluster, Refusal> {
    let object = match find_claim_or_cluster(context, store, name)? {
        Object::ClusterClaim(claim) => find_cluster_of_claim(store, &claim)?,
        object => object,
    };
    context.check_permission(store, action, &object)?;
    match object {
        Object::ClusterDeployment(cluster) => Ok(*cluster),
        object => Err(Refusal::not_found(format!("`{}` is not a cluster", object.key().name))),
    }
}

/// The claim or the cluster of a name, which may be `claim/NAME` or `cluster/NAME`; refused if
/// there are both.
fn find_claim_or_cluster(context: &Context, store: &Store, name: &str) -> Result<Object, Refusal> {
    let kind = name.split_once('/').and_then(|(word, _)| Kind::from_word(word));
    if let Some(kind) = kind {
        let is_cluster = kind == Kind::ClusterDeployment;
        let kind = if is_cluster { kind } else { Kind::ClusterClaim };
        return context.find_object(store, kind, name);
    }
    let claim = find_stored(context, store, Kind::ClusterClaim, name)?;
    let cluster = find_stored(context, store, Kind::ClusterDeployment, name);
    match (claim, cluster) {
        (Some(_), Ok(Some(_))) => {
            // Whoever made the claim may have chosen its name to be taken for the cluster.
            let problem = format!("`{name}` is the name of a claim and of a cluster");
            let advice = format!("cluster/{name}, or claim/{name}");
            Err(Refusal::usage(problem).advise(advice))
        }
        (Some(claim), _) => Ok(claim),
        (None, Ok(Some(cluster))) => Ok(cluster),
        (None, Err(refusal)) => Err(refusal),
        // Only now it is worth reading all names, to find the one that was meant.
        (None, Ok(None)) => {
            context.find_object(store, Kind::ClusterClaim, name).map_err(|no_claim| {
                let what = format!("there is no claim and no cluster `{name}`");
                Refusal { what, ..no_claim }
            })
        }
    }
}

/// The object of a name, if there is one that whoever asks may know of.
fn find_stored(
    context: &Context,
    store: &Store,
    kind: Kind,
    name: &str,
) -> Result<Option<Object>, Refusal> {
    if store.list_objects(kind, &Filter::named(&context.key(kind, name)?))?.is_empty() {
        return Ok(None);
    }
    match context.find_object(store, kind, name) {
        Ok(object) => Ok(Some(object)),
        Err(refusal) if refusal.exit == Exit::NotFound => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// The cluster that a claim has. Refused while it has none, and if the cluster is gone.
fn find_cluster_of_claim(store: &Store, claim: &Claim) -> Result<Object, Refusal> {
    let name = &claim.name;
    let Some(cluster_name) = claim.cluster.clone() else {
        return Err(Refusal::conflict(format!("claim `{name}` has no cluster yet"))
            .next(format!("poolctl why claim/{name}")));
    };
    let filter = Filter { namespace: None, name: Some(cluster_name), whole: true };
    match store.list::<Cluster>(&filter)?.into_iter().next() {
        Some(cluster) => Ok(Object::ClusterDeployment(Box::new(cluster))),
        None => Err(Refusal::not_found(format!("the cluster of claim `{name}` is gone"))),
    }
}

/// Writes the kubeconfig of a claim or cluster to its file, and returns the path.
pub fn write_kubeconfig_of(
    context: &Context,
    store: &Store,
    name: &str,
) -> Result<String, Refusal> {
    write_kubeconfig(store, &find_installed_cluster(context, store, name)?)
}

fn read_kubeconfig(store: &Store, cluster: &Cluster) -> Result<SecretValue, Refusal> {
    let metadata = cluster.body.as_ref().and_then(|body| body.spec.cluster_metadata.as_ref());
    let secret = metadata.map(|metadata| &metadata.admin_kubeconfig_secret_ref);
    read_secret(store, cluster, secret, "kubeconfig")
}

/// Writes the kubeconfig of a cluster to its file beside the state, and returns the absolute path.
fn write_kubeconfig(store: &Store, cluster: &Cluster) -> Result<String, Refusal> {
    let kubeconfig = read_kubeconfig(store, cluster)?;
    let path = copies::write_cluster_copy(store.path(), &cluster.name, "kubeconfig", &kubeconfig)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(path.display().to_string())
}

/// The value under a key of a Secret of a cluster. Refused if the cluster names no such Secret, as
/// before it is installed, or if the Secret has no such key.
fn read_secret(
    store: &Store,
    cluster: &Cluster,
    secret: Option<&LocalRef>,
    key: &str,
) -> Result<SecretValue, Refusal> {
    let mut value = None;
    if let Some(secret) = secret {
        value = store.read_secret_value(&Key::new(&*cluster.namespace, &*secret.name), key)?;
    }
    value.ok_or_else(|| Refusal::not_found(format!("cluster `{}` has no {key}", cluster.name)))
}
