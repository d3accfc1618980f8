//! `kubeconfig` and `credentials`: how to get into a cluster.

use clap::Args;
use serde_json::json;

use crate::model::cluster::Cluster;
use crate::model::documents::SecretValue;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name};
use crate::rules::access::Deed;
use crate::store::{Filter, Store, copies};

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Kubeconfig {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Kubeconfig {
    const NAME: &'static str = "kubeconfig";
    const ABOUT: &'static str = "Write the kubeconfig of a cluster to a file and print its path; \
                                 behind sudo, print it";
    const EXAMPLE: &'static str = "export KUBECONFIG=$(poolctl kubeconfig ci-17)";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let cluster = cluster(context, &store, &self.name)?;
        if context.world.is_behind_sudo() {
            // The file would be the account's: no use to anybody else.
            return context.print_value(content(&store, &cluster)?.reveal());
        }
        let path = kubeconfig(&store, &cluster)?;
        let document = json!({"cluster": cluster.name, "kubeconfig": path});
        let answer = Answer::text(format!("{path}\n")).with_document(document);
        context.answer(answer.with_name(Name::plain(path)))
    }
}

#[derive(Args)]
pub struct Credentials {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Credentials {
    const NAME: &'static str = "credentials";
    const ABOUT: &'static str = "Print how to log in to a cluster";
    const EXAMPLE: &'static str = "poolctl credentials ci-17";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let cluster = cluster(context, &store, &self.name)?;
        let metadata = cluster.body.as_ref().and_then(|body| body.spec.cluster_metadata.clone());
        let password = metadata.and_then(|metadata| metadata.admin_password_secret_ref);
        let username = value(&store, &cluster, password.as_ref(), "username")?;
        let password = value(&store, &cluster, password.as_ref(), "password")?;
        let path = if context.world.is_behind_sudo() {
            format!("poolctl kubeconfig {} prints it", self.name)
        } else {
            kubeconfig(&store, &cluster)?
        };
        let document = json!({
            "api": cluster.api_url(),
            "console": cluster.console_url(),
            "username": username.reveal(),
            "password": password.reveal(),
            "kubeconfig": path,
        });
        let line = |name: &str| {
            format!("{:<12}{}\n", format!("{name}:"), document[name].as_str().unwrap_or_default())
        };
        let lines = ["api", "console", "username", "password", "kubeconfig"].map(line);
        let name = Name::of(Kind::ClusterDeployment, &cluster.key());
        let answer = Answer::text(lines.concat()).with_name(name).with_document(document);
        context.answer(answer.verbatim())
    }
}

/// The cluster of a claim, or the one of that name; installed.
fn cluster(context: &Context, store: &Store, name: &str) -> Result<Cluster, Refusal> {
    let found = cluster_of(context, store, name, Deed::See)?;
    if found.installed() {
        return Ok(found);
    }
    Err(Refusal::conflict(format!("cluster `{}` is not installed yet", found.name))
        .next(format!("poolctl describe cluster {}", found.name)))
}

/// The cluster of a claim, or the one of that name, with which this may be done.
pub fn cluster_of(
    context: &Context,
    store: &Store,
    name: &str,
    deed: Deed,
) -> Result<Cluster, Refusal> {
    let word = name.split_once('/').and_then(|(word, _)| Kind::from_word(word));
    let find = |kind| context.find_object(store, kind, name);
    let absent = |refusal: &Refusal| refusal.exit == Exit::NotFound;
    let found = match word {
        Some(Kind::ClusterDeployment) => find(Kind::ClusterDeployment)?,
        Some(_) => find(Kind::ClusterClaim)?,
        None => match (find(Kind::ClusterClaim), find(Kind::ClusterDeployment)) {
            (Ok(_), Ok(_)) => {
                // Who claims may have chosen the name to be taken for the cluster.
                let what = format!("`{name}` is the name of a claim and of a cluster");
                return Err(Refusal::usage(what).advise(format!("cluster/{name}, or claim/{name}")));
            }
            (Ok(claim), _) => claim,
            (Err(no_claim), Err(no_cluster)) if absent(&no_claim) && absent(&no_cluster) => {
                let what = format!("there is no claim and no cluster `{name}`");
                return Err(Refusal { what, ..no_claim });
            }
            (Err(no_claim), _) if !absent(&no_claim) => return Err(no_claim),
            (_, cluster) => cluster?,
        },
    };
    let found = match found {
        Object::ClusterClaim(claim) => {
            let name = &claim.name;
            let cluster = claim.cluster.clone().ok_or_else(|| {
                Refusal::conflict(format!("claim `{name}` has no cluster yet"))
                    .next(format!("poolctl why claim/{name}"))
            })?;
            let filter = Filter { namespace: None, name: Some(cluster), whole: true };
            let cluster = store.list::<Cluster>(&filter)?.into_iter().next();
            let gone = || Refusal::not_found(format!("the cluster of claim `{name}` is gone"));
            Object::ClusterDeployment(Box::new(cluster.ok_or_else(gone)?))
        }
        cluster => cluster,
    };
    context.permit(store, deed, &found)?;
    match found {
        Object::ClusterDeployment(cluster) => Ok(*cluster),
        other => Err(Refusal::not_found(format!("`{}` is no cluster", other.key().name))),
    }
}

/// The path of the kubeconfig of a claim's or cluster's name.
pub fn kubeconfig_of(context: &Context, store: &Store, name: &str) -> Result<String, Refusal> {
    kubeconfig(store, &cluster(context, store, name)?)
}

fn content(store: &Store, cluster: &Cluster) -> Result<SecretValue, Refusal> {
    let metadata = cluster.body.as_ref().and_then(|body| body.spec.cluster_metadata.as_ref());
    let reference = metadata.map(|metadata| &metadata.admin_kubeconfig_secret_ref);
    value(store, cluster, reference, "kubeconfig")
}

fn kubeconfig(store: &Store, cluster: &Cluster) -> Result<String, Refusal> {
    let value = content(store, cluster)?;
    let path = copies::write(store.path(), &cluster.name, "kubeconfig", &value)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(path.display().to_string())
}

fn value(
    store: &Store,
    cluster: &Cluster,
    secret: Option<&LocalRef>,
    key: &str,
) -> Result<SecretValue, Refusal> {
    let missing = || Refusal::not_found(format!("cluster `{}` has no {key}", cluster.name));
    let secret = Key::new(&*cluster.namespace, &*secret.ok_or_else(missing)?.name);
    store.secret_value(&secret, key)?.ok_or_else(missing)
}
