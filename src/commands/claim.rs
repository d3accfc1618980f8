//! `claim`: takes a cluster from a pool, at once if one is ready.

pub mod extend;
pub mod queue;
pub mod release;

use clap::Args;

use crate::edits::put;
use crate::model::annotations::CLAIM_REASON;
use crate::model::claim::{Claim as Facts, ClaimSpec, ClusterClaim, ClusterRunning};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::output::{self, Answer};
use crate::rules;
use crate::store::{Filter, Need, Store};

use crate::commands::selector::Selector;
use crate::commands::waiting::{Ended, Look, Waiting};
use crate::commands::{Context, Verb, delete};

#[derive(Args)]
pub struct Claim {
    #[arg(value_name = "POOL", required_unless_present = "selector")]
    pool: Option<String>,
    /// Name of the claim; made up without one
    #[arg(value_name = "NAME")]
    called: Option<String>,
    /// From the pool with most ready clusters among those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "pool")]
    selector: Option<Selector>,
    /// Name of the claim, for -l
    #[arg(long, value_name = "NAME", conflicts_with = "called")]
    name: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// Wait until the cluster runs, at most this long; then, or when interrupted, the claim is
    /// released
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "45m")]
    wait: Option<Span>,
    /// Leave the claim in the queue when the waiting ends
    #[arg(long, requires = "wait")]
    keep: bool,
}

/// What is asked for beside the pool.
#[derive(Args)]
pub struct Terms {
    /// How long the cluster may be kept, from when it is handed over
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub lifetime: Option<Span>,
    /// What it is for; kept as annotation poolctl.dev/reason
    #[arg(long)]
    reason: Option<String>,
}

impl Verb for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Take a cluster from a pool";
    const EXAMPLE: &'static str = "poolctl claim lab ci-17 --lifetime 8h --wait=45m";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        if self.selector.as_ref().is_some_and(Selector::is_empty) {
            // An unset variable of a script, more likely than a wish for any pool.
            return Err(Refusal::usage("the selector is empty").next(Self::EXAMPLE).into());
        }
        let pool = match &self.selector {
            Some(selector) => fullest(context, &store, selector)?,
            None => self.pool.unwrap_or_default(),
        };
        if self.wait.is_some() {
            context.world.catch_signals();
        }
        let name = self.called.or(self.name);
        let made = take(context, &store, &pool, name.as_deref(), &self.terms)?;
        let Some(limit) = self.wait else {
            return report(context, &store, &made.key, None);
        };
        match wait(context, &store, &made, limit) {
            Ok(waited) => report(context, &store, &made.key, Some(waited)),
            Err(refusal) if self.keep => Err(refusal.into()),
            Err(refusal) => {
                give_back(context, &store, &made)?;
                let said = "the claim was released; --keep leaves it in the queue";
                Err(refusal.because(said).into())
            }
        }
    }
}

/// The pool with most ready clusters of those with these labels.
fn fullest(context: &Context, store: &Store, selector: &Selector) -> Result<String, Refusal> {
    let filter = Filter { namespace: Some(context.namespace()?), ..Filter::default() };
    let mut pools = store.list::<ClusterPool>(&filter)?;
    pools.retain(|pool| {
        pool.metadata.deletion_timestamp.is_none()
            && !pool.metadata.annotated(PAUSED)
            && selector.matches(&pool.metadata.labels)
    });
    // The first of equals.
    let fullest = pools.into_iter().rev().max_by_key(|pool| {
        let status = &pool.status;
        (status.ready, status.standby, std::cmp::Reverse(status.pending))
    });
    fullest.map(|pool| pool.metadata.name).ok_or_else(|| {
        Refusal::not_found("no pool has these labels").next("poolctl get pool --show-labels")
    })
}

/// A claim that this command made. Another may have its name later.
pub struct Made {
    pub key: Key,
    uid: String,
}

impl Made {
    /// The claim as it stands, if it is still there and not being released.
    pub fn look(&self, store: &Store) -> Result<Option<Facts>, Refusal> {
        let claim = store.whole::<Facts>(&self.key)?;
        Ok(claim.filter(|claim| {
            let body = claim.body.as_ref();
            claim.deleting.is_none() && body.is_some_and(|body| body.metadata.uid == self.uid)
        }))
    }
}

/// Makes the claim, and hands it a cluster if one is ready.
pub fn take(
    context: &Context,
    store: &Store,
    pool: &str,
    name: Option<&str>,
    terms: &Terms,
) -> Result<Made, Refusal> {
    let key =
        context.key(Kind::ClusterPool, &crate::commands::target::bare(Kind::ClusterPool, pool))?;
    let mut needs = Vec::new();
    if let Some(name) = name {
        needs.push(Need { kind: Kind::ClusterClaim, key: context.key(Kind::ClusterClaim, name)? });
    }
    let scope = Scope::pool(key.clone());
    let claimed = context
        .door(store)
        .change(&scope, &needs, |state, tick| make(state, &key, name, terms, tick));
    let (made, passed) = match claimed {
        Ok(done) => done,
        // The pool was not in the transaction: say where it is, or what is called alike.
        Err(refusal) => {
            context.there(store, Kind::ClusterPool, pool)?;
            return Err(refusal);
        }
    };
    context.finish(&passed)?;
    Ok(made)
}

fn make(
    state: &mut State,
    pool: &Key,
    name: Option<&str>,
    terms: &Terms,
    tick: &Tick,
) -> Result<Made, Refusal> {
    let missing = || Refusal::not_found(format!("there is no pool `{}`", pool.name));
    let at = state.pools.find(pool).ok_or_else(missing)?;
    let found = state.pools.get(at).ok_or_else(missing)?;
    if found.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::conflict(format!("pool `{}` is being deleted", pool.name))
            .next("poolctl get pool"));
    }
    let name = if let Some(name) = name {
        name.to_owned()
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
    if let Some(reason) = &terms.reason {
        metadata.annotations.insert(CLAIM_REASON.into(), reason.clone());
    }
    let spec = ClaimSpec {
        cluster_pool_name: pool.name.clone(),
        lifetime: terms.lifetime,
        ..ClaimSpec::default()
    };
    let wire = ClusterClaim { metadata, spec, ..ClusterClaim::default() };
    let claim = Object::ClusterClaim(Box::new(Facts::from_wire(wire)));
    rules::check(&claim)?;
    put(state, claim, true, tick)?;
    let key = Key::new(&*pool.namespace, name);
    let body = state.claims.by_key(&key).and_then(|one| one.body.as_ref());
    let uid = body.map(|body| body.metadata.uid.clone()).unwrap_or_default();
    Ok(Made { key, uid })
}

/// Waits until the claim's cluster runs; says how long that took.
pub fn wait(context: &Context, store: &Store, made: &Made, limit: Span) -> Result<Span, Refusal> {
    let key = &made.key;
    let start = context.world.now();
    let door = context.door(store);
    let gone = || Refusal::not_found(format!("claim `{}` was released by somebody", key.name));
    let pool = made.look(store)?.ok_or_else(gone)?.pool_key();
    let waiting = Waiting { context, door: &door, pool: Some(&pool), limit };
    let ended = waiting.until(|_| {
        let claim = made.look(store)?.ok_or_else(gone)?;
        if claim.cluster.is_some() && claim.running == ClusterRunning::Running {
            return Ok(Look::Met(()));
        }
        let (ready, size, counts) = crate::commands::waiting::counts(store, Some(&pool))?;
        let text = match &claim.cluster {
            Some(cluster) => format!("cluster {cluster} is waking; {counts}"),
            None => format!("{} in the queue; {counts}", place(store, context.world.now(), key)?),
        };
        Ok(Look::Not(ready, size, text))
    })?;
    let at = context.in_namespace(&key.namespace);
    let waits = |exit, how: &str| {
        let what = format!("claim `{}` has no running cluster {how}", key.name);
        Err(Refusal::new(exit, what).advise(format!("poolctl why pool/{}{at}", pool.name)))
    };
    match ended {
        Ended::Met(()) => Ok(context.world.now().since(start)),
        Ended::Late => waits(Exit::Timeout, &format!("after {}", limit.short())),
        Ended::Interrupted(exit) => waits(exit, "yet: interrupted"),
    }
}

/// Releases a claim that this command made.
pub fn give_back(context: &Context, store: &Store, made: &Made) -> Result<(), Refusal> {
    match made.look(store)? {
        Some(claim) => {
            let claim = Object::ClusterClaim(Box::new(claim));
            delete::request(context, store, &[claim], delete::refused).map(drop)
        }
        None => Ok(()),
    }
}

/// The place of a claim in its queue; the first, when it has just left it.
pub fn place(store: &Store, now: Time, key: &Key) -> Result<output::Place, Refusal> {
    let known = queue::places(store, now)?.get(key).copied();
    Ok(known.unwrap_or(output::Place { number: 1, wait: None }))
}

/// Says what came of it: a cluster, or a place in the queue and why.
fn report(context: &Context, store: &Store, key: &Key, waited: Option<Span>) -> anyhow::Result<()> {
    let is_whole = context.wants_documents();
    let claim = if is_whole { store.whole::<Facts>(key)? } else { store.one::<Facts>(key)? };
    let Some(claim) = claim else {
        return context.changed(Kind::ClusterClaim, key, "created");
    };
    if is_whole {
        let document = Object::ClusterClaim(Box::new(claim)).to_wire();
        return context.answer(Answer::default().with_document(document));
    }
    let at = context.in_namespace(&key.namespace);
    if let Some(cluster) = &claim.cluster {
        let how = match waited {
            Some(waited) => format!("running, waited {}", waited.short()),
            None => "running".into(),
        };
        let what = format!("bound to cluster/{cluster} ({how})");
        context.changed(Kind::ClusterClaim, key, &what)?;
        if context.is_for_people() {
            let next = if context.world.is_behind_sudo() {
                let account = context.world.account();
                format!("sudo -u {account} poolctl kubeconfig {}{at} >kubeconfig", key.name)
            } else {
                format!("export KUBECONFIG=$(poolctl kubeconfig {}{at})", key.name)
            };
            context.hint(&format!("next: {next}"));
        }
        return Ok(());
    }
    let what = if context.globals.no_reconcile {
        format!("waits for the next pass over pool {}", claim.pool)
    } else {
        let place = place(store, context.world.now(), key)?;
        format!("waits in the queue of pool {} ({place})", claim.pool)
    };
    context.changed(Kind::ClusterClaim, key, &what)?;
    if let Some(pool) = store.one::<ClusterPool>(&claim.pool_key())? {
        explain_wait(context, key, &pool);
    }
    Ok(())
}

/// Says why a claim has no cluster yet, and what to type next.
fn explain_wait(context: &Context, claim: &Key, pool: &ClusterPool) {
    let (name, status) = (&pool.metadata.name, &pool.status);
    let mut next =
        format!("poolctl why claim/{}{}", claim.name, context.in_namespace(&claim.namespace));
    if pool.metadata.annotated(PAUSED) {
        context.hint(&format!("pool `{name}` is paused: it gives no clusters until it is resumed"));
    } else if context.globals.no_reconcile {
        // Without a pass nobody has looked whether a cluster is ready.
        let clusters = if status.ready == 1 { "cluster" } else { "clusters" };
        context.hint(&format!(
            "the next pass assigns clusters; pool `{name}` has {} {clusters} ready",
            status.ready
        ));
        "poolctl reconcile".clone_into(&mut next);
    } else {
        context.hint(&format!(
            "no cluster is ready in pool `{name}` (size {}: {} installing, {} standby, {} broken)",
            pool.spec.size, status.installing, status.standby, status.broken
        ));
    }
    context.hint(&format!("next: {next}"));
}
