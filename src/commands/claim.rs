//! `claim`: takes a cluster from a pool, at once if one is ready.

use clap::Args;

use crate::model::claim::{ClaimSpec, ClusterClaim};
use crate::model::kind::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{self, Format};
use crate::rules;
use crate::store::{Filter, Need};

use super::put::put;
use super::{Context, Verb, get};

#[derive(Args)]
pub struct Claim {
    pool: String,
    /// Name of the claim; made up without one
    name: Option<String>,
    /// How long the cluster may be kept, from when it is handed over
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    lifetime: Option<Span>,
    /// What it is for; kept as annotation poolctl.dev/reason
    #[arg(long)]
    reason: Option<String>,
}

impl Verb for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Take a cluster from a pool";
    const EXAMPLE: &'static str = "poolctl claim lab ci-17 --lifetime 8h";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let pool = context.key(Kind::ClusterPool, &self.pool)?;
        let mut needs = Vec::new();
        if let Some(name) = &self.name {
            needs.push(Need {
                kind: Kind::ClusterClaim,
                key: context.key(Kind::ClusterClaim, name)?,
            });
        }
        let scope = Scope::pool(pool.clone());
        let claimed = context
            .door(&store)
            .change(&scope, &needs, |state, tick| self.make(state, &pool, tick));
        let (name, passed) = match claimed {
            Ok(done) => done,
            // The pool was not in the transaction: say where it is, or what is called alike.
            Err(refusal) => {
                context.find(&store, Kind::ClusterPool, &self.pool)?;
                return Err(refusal.into());
            }
        };
        context.finish(&passed)?;
        report(context, &store, &Key::new(&*pool.namespace, name))
    }
}

impl Claim {
    fn make(&self, state: &mut State, pool: &Key, tick: &Tick) -> Result<String, Refusal> {
        let missing = || Refusal::not_found(format!("there is no pool `{}`", pool.name));
        let at = state.pools.find(pool).ok_or_else(missing)?;
        let found = state.pools.get(at).ok_or_else(missing)?;
        if found.metadata.deletion_timestamp.is_some() {
            return Err(Refusal::conflict(format!("pool `{}` is being deleted", pool.name))
                .next("poolctl get pool"));
        }
        let name = if let Some(name) = &self.name {
            name.clone()
        } else {
            let uid = found.metadata.uid.clone();
            let ordinal = found.status.ordinal + 1;
            state.pools.update(at, |pool| pool.status.ordinal = ordinal);
            let most = pool.name.len().min(57);
            format!("{}-{}", &pool.name[..most], tick.suffix("claim", &uid, ordinal))
        };
        if state.claims.find(&Key::new(&*pool.namespace, &*name)).is_some() {
            return Err(Refusal::conflict(format!("there is a claim `{name}` already"))
                .next(format!("poolctl get claim {name}")));
        }
        let mut metadata =
            Meta { name: name.clone(), namespace: pool.namespace.clone(), ..Meta::default() };
        if let Some(reason) = &self.reason {
            metadata.annotations.insert("poolctl.dev/reason".into(), reason.clone());
        }
        let spec = ClaimSpec {
            cluster_pool_name: pool.name.clone(),
            lifetime: self.lifetime,
            ..ClaimSpec::default()
        };
        let wire = ClusterClaim { metadata, spec, ..ClusterClaim::default() };
        let claim = crate::model::claim::Claim::from_wire(wire);
        let claim = Object::Claim(Box::new(claim));
        rules::check(&claim)?;
        put(state, claim, true, tick)?;
        Ok(name)
    }
}

/// Says what came of it: a cluster, or a place in the queue and why.
fn report(context: &Context, store: &crate::store::Store, key: &Key) -> anyhow::Result<()> {
    let whole = context.globals.output.whole();
    let filter =
        Filter { namespace: Some(key.namespace.clone()), name: Some(key.name.clone()), whole };
    let found = store.objects(Kind::ClusterClaim, &filter)?.into_iter().next();
    let Some(Object::Claim(claim)) = found else {
        return context.changed(Kind::ClusterClaim, &key.name, "created");
    };
    if whole {
        let document = Object::Claim(claim).to_wire();
        return context.print(&output::document_text(&context.globals.output, &document)?);
    }
    if let Some(cluster) = &claim.cluster {
        context.changed(
            Kind::ClusterClaim,
            &key.name,
            &format!("bound to cluster/{cluster} (running)"),
        )?;
        if context.globals.output == Format::Table {
            let at = context.in_namespace(&key.namespace);
            context
                .hint(&format!("next: export KUBECONFIG=$(poolctl kubeconfig {}{at})", key.name));
        }
        return Ok(());
    }
    let place = get::queue(store)?.get(key).copied().unwrap_or(1);
    context.changed(
        Kind::ClusterClaim,
        &key.name,
        &format!("waits for a cluster of pool {} (#{place} in the queue)", claim.pool),
    )?;
    let pool = Filter {
        namespace: Some(key.namespace.clone()),
        name: Some(claim.pool.clone()),
        whole: false,
    };
    if let Some(Object::Pool(pool)) = store.objects(Kind::ClusterPool, &pool)?.into_iter().next() {
        let status = &pool.status;
        context.hint(&format!(
            "no cluster is ready in pool `{}` (size {}: {} installing, {} standby, {} broken)",
            claim.pool, pool.spec.size, status.installing, status.standby, status.broken
        ));
        let at = context.in_namespace(&key.namespace);
        context.hint(&format!("next: poolctl describe claim {}{at}", key.name));
    }
    Ok(())
}
