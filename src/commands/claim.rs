//! `claim`: makes a claim, which takes a cluster from a pool, at once if one is ready. A claim
//! without a ready cluster waits in the queue of its pool.

pub mod extend;
pub mod queue;
pub mod release;

use clap::Args;

use crate::causes::{Evidence, QueuePosition, describe_installing, explain_strongest_trouble};
use crate::edits::{PutMode, put_object};
use crate::model::annotations::CLAIM_REASON;
use crate::model::claim::{Claim as ClaimRow, ClaimSpec, ClusterClaim, ClusterRunning};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::output::{Answer, Name};
use crate::reconcile::Answered;
use crate::rules;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::selector::Selector;
use crate::commands::waiting::stage::find_stage_of_object;
use crate::commands::waiting::{self, Observation, WaitOutcome, Waiting};
use crate::commands::{Audience, Context, RunCommand, delete, target};

/// How long `--wait` waits without a value: 45 minutes.
const DEFAULT_WAIT: Span = Span(45 * 60 * 1_000_000);

/// Arguments of `claim`. The claim is committed first, and then the command waits for its cluster.
#[derive(Args)]
pub struct Claim {
    /// Pool to take a cluster from
    #[arg(value_name = "POOL", required_unless_present = "selector")]
    pool: Option<String>,
    /// Name of the claim; by default the name of the pool and a suffix
    #[arg(value_name = "NAME")]
    positional_name: Option<String>,
    /// Use the pool with most ready clusters among the pools with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "pool")]
    selector: Option<Selector>,
    /// Name of the claim, for use with -l
    #[arg(long, value_name = "NAME", conflicts_with = "positional_name")]
    name: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// Wait until the cluster runs, at most this long (45m without a value); if the time ends or
    /// you interrupt the command, the claim is released
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = "45m")]
    wait: Option<Span>,
    /// Keep the claim in the queue if the wait ends without a cluster
    #[arg(long, requires = "wait")]
    keep: bool,
}

/// What `claim` and `run` ask for beside the pool.
#[derive(Args)]
pub struct Terms {
    /// How long you may keep the cluster, such as 8h; counted from when you get it
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub lifetime: Option<Span>,
    /// What you need the cluster for; stored as annotation poolctl.dev/reason
    #[arg(long)]
    reason: Option<String>,
}

impl RunCommand for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Take a cluster from a pool";
    const DESCRIPTION: &'static str = "\
The claim gets the oldest cluster of the pool that is ready. If none is, it waits in the queue, and \
the pool wakes or makes a cluster for it. The command waits only with --wait; passes serve the \
queue anyway.

The cluster is yours until you release the claim or its lifetime ends. Then it is destroyed, and \
the pool makes another.";
    const EXAMPLE: &'static str = "poolctl claim lab ci-17 --lifetime 8h --wait=45m";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        if self.selector.as_ref().is_some_and(Selector::is_empty) {
            // An unset variable of a script, more likely than a wish for any pool.
            return Err(Refusal::usage("the selector is empty").next(Self::EXAMPLE).into());
        }
        if self.wait == Some(DEFAULT_WAIT)
            && let Some(duration) = self.positional_name.as_deref()
            && duration.parse::<Span>().is_ok()
        {
            // `--wait` takes its value behind `=` only, so the duration became the name.
            return Err(Refusal::usage(format!("`{duration}` is no name of a claim"))
                .because("the duration of --wait is given behind `=`")
                .next(format!("poolctl claim POOL --wait={duration}"))
                .into());
        }
        let pool = match &self.selector {
            Some(selector) => find_fullest_pool(context, &store, selector)?,
            None => self.pool.unwrap_or_default(),
        };
        if self.wait.is_some() {
            context.world.catch_signals();
        }
        let name = self.positional_name.or(self.name);
        let new_claim = make_new_claim(context, &store, &pool, name.as_deref(), &self.terms)?;
        let Some(limit) = self.wait else {
            let reported = report_claim(context, &store, &new_claim.key, None);
            follow_new_claim(context, &store, &new_claim);
            return reported;
        };
        match wait_for_running_cluster(context, &store, &new_claim, limit) {
            Ok(waited) => report_claim(context, &store, &new_claim.key, Some(waited)),
            Err(refusal) if self.keep => Err(refusal.into()),
            Err(refusal) => {
                release_new_claim(context, &store, &new_claim)?;
                let consequence = "the claim was released; with --keep it stays in the queue";
                Err(refusal.because(consequence).into())
            }
        }
    }
}

/// The name of the pool with most ready clusters of those with these labels. Pools that are paused
/// or being deleted give no clusters.
fn find_fullest_pool(
    context: &Context,
    store: &Store,
    selector: &Selector,
) -> Result<String, Refusal> {
    let filter = Filter { namespace: Some(context.namespace()?), ..Filter::default() };
    let mut pools = store.list::<ClusterPool>(&filter)?;
    pools.retain(|pool| {
        pool.metadata.deletion_timestamp.is_none()
            && !pool.metadata.has_true_annotation(RECONCILE_PAUSE)
            && selector.matches(&pool.metadata.labels)
    });
    // `max_by_key` takes the last of equal pools, and the first one is to be taken.
    let fullest_pool = pools.into_iter().rev().max_by_key(|pool| {
        let status = &pool.status;
        (status.ready, status.standby, std::cmp::Reverse(status.pending))
    });
    fullest_pool.map(|pool| pool.metadata.name).ok_or_else(|| {
        Refusal::not_found("no pool has these labels").next("poolctl get pool --show-labels")
    })
}

/// A claim that this command made. Another claim may have its name later, but not its uid.
pub struct NewClaim {
    pub key: Key,
    uid: String,
    /// The pool whose pass follows once the answer is given; none if there is nothing to follow.
    due_pool: Option<Key>,
    /// What it asks for and its pool does not allow, in sentences.
    limits: Vec<String>,
}

impl NewClaim {
    /// The claim as it stands, if it is still there and not being released.
    pub fn read_live_claim(&self, store: &Store) -> Result<Option<ClaimRow>, Refusal> {
        let claim = store.find_whole::<ClaimRow>(&self.key)?;
        Ok(claim.filter(|claim| {
            let body = claim.body.as_ref();
            claim.deleting.is_none() && body.is_some_and(|body| body.metadata.uid == self.uid)
        }))
    }
}

/// Makes the claim, and hands it a cluster if one is ready.
pub fn make_new_claim(
    context: &Context,
    store: &Store,
    pool: &str,
    name: Option<&str>,
    terms: &Terms,
) -> Result<NewClaim, Refusal> {
    let pool_key =
        context.key(Kind::ClusterPool, &target::without_kind(Kind::ClusterPool, pool))?;
    let mut needs = Vec::new();
    if let Some(name) = name {
        needs.push(NeededObject {
            kind: Kind::ClusterClaim,
            key: context.key(Kind::ClusterClaim, name)?,
        });
    }
    let door = context.door(store);
    let scope = if door.plans_changes {
        Scope::pool(pool_key.clone())
    } else {
        // Nobody decides now which cluster it gets, so the clusters of the pool are not read.
        needs.push(NeededObject { kind: Kind::ClusterPool, key: pool_key.clone() });
        Scope::Pools(Vec::new())
    };
    let changed = door.change_claims(
        &scope,
        &needs,
        |state, tick| {
            context.check_quota_of_guest(store)?;
            make_claim(state, &pool_key, name, terms, tick)
        },
        |state, new_claim| has_running_cluster(state, &new_claim.key),
    );
    let (mut new_claim, answered) = match changed {
        Ok(changed) => changed,
        // If the pool is not there, this refusal tells where it is, or which name is similar.
        Err(refusal) => {
            context.load_object(store, Kind::ClusterPool, pool, Filter::named)?;
            return Err(refusal);
        }
    };
    for limit in &new_claim.limits {
        context.warn(limit);
    }
    match answered {
        Answered::First => new_claim.due_pool = Some(pool_key),
        Answered::Whole(passed) => context.report_pass(&passed)?,
    }
    Ok(new_claim)
}

/// Whether a claim was handed its cluster, which runs.
fn has_running_cluster(state: &State, claim_key: &Key) -> bool {
    let claim = state.claims.by_key(claim_key);
    claim.is_some_and(|claim| claim.running == ClusterRunning::Running)
}

/// Runs the pass over the pool that follows a claim whose cluster was ready. The claim is committed
/// and told: what goes wrong now is a warning, and the next pass goes on.
pub fn follow_new_claim(context: &Context, store: &Store, new_claim: &NewClaim) {
    let Some(pool) = &new_claim.due_pool else { return };
    let followed = context.door(store).follow_answer(pool);
    if let Err(refusal) = followed.and_then(|passed| context.report_pass(&passed)) {
        context.warn(&refusal.to_string());
    }
}

/// Adds a claim to the state, under a made-up name if `name` is None. Refused if the pool is gone
/// or is being deleted, or if the name is taken. The claim gets its cluster from the pass that
/// follows.
fn make_claim(
    state: &mut State,
    pool_key: &Key,
    name: Option<&str>,
    terms: &Terms,
    tick: &Tick,
) -> Result<NewClaim, Refusal> {
    let Some(pool) = state.pools.by_key(pool_key) else {
        return Err(Refusal::not_found(format!("there is no pool `{}`", pool_key.name)));
    };
    if pool.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::conflict(format!("pool `{}` is being deleted", pool_key.name))
            .next("poolctl get pool"));
    }
    let name = match name {
        Some(name) => name.to_owned(),
        None => make_up_name(pool, tick),
    };
    let key = Key::new(&*pool_key.namespace, &*name);
    if state.claims.find(&key).is_some() {
        return Err(Refusal::conflict(format!("there is a claim `{name}` already"))
            .next(format!("poolctl get claim {name}")));
    }
    let mut metadata = Meta { name, namespace: pool_key.namespace.clone(), ..Meta::default() };
    if let Some(reason) = &terms.reason {
        metadata.annotations.insert(CLAIM_REASON.into(), reason.clone());
    }
    let spec = ClaimSpec {
        cluster_pool_name: pool_key.name.clone(),
        lifetime: terms.lifetime,
        ..ClaimSpec::default()
    };
    let document = ClusterClaim { metadata, spec, ..ClusterClaim::default() };
    let claim = Object::ClusterClaim(Box::new(ClaimRow::from_wire(document)));
    rules::check_object(&claim)?;
    put_object(state, claim, PutMode::Apply, tick)?;
    let body = state.claims.by_key(&key).and_then(|claim| claim.body.as_ref());
    let uid = body.map(|body| body.metadata.uid.clone()).unwrap_or_default();
    let limits = rules::find_limited_values(state);
    Ok(NewClaim { key, uid, due_pool: None, limits })
}

/// A new name for a claim: that of its pool, shortened so that it fits into a label, and a suffix. It
/// follows from the number of the commit, so that the pool need not be written to count its claims.
fn make_up_name(pool: &ClusterPool, tick: &Tick) -> String {
    let Meta { name, uid, .. } = &pool.metadata;
    let prefix = &name[..name.len().min(57)];
    format!("{prefix}-{}", tick.random_suffix("claim", uid, tick.revision))
}

/// Waits until the cluster of a claim runs; returns how long that took.
pub fn wait_for_running_cluster(
    context: &Context,
    store: &Store,
    new_claim: &NewClaim,
    limit: Span,
) -> Result<Span, Refusal> {
    let start = context.world.now();
    let door = context.door(store);
    let pool_key = new_claim
        .read_live_claim(store)?
        .ok_or_else(|| refuse_released(&new_claim.key))?
        .pool_key();
    let waiting = Waiting { context, door: &door, pool: Some(&pool_key), limit };
    let ended = waiting.wait_until(|_| {
        let claim =
            new_claim.read_live_claim(store)?.ok_or_else(|| refuse_released(&new_claim.key))?;
        if claim.cluster.is_some() && claim.running == ClusterRunning::Running {
            return Ok(Observation::Met(()));
        }
        let mut progress = waiting::count_clusters(store, Some(&pool_key))?;
        let now = context.world.now();
        let mut place = 1;
        let own_part = if let Some(cluster) = &claim.cluster {
            format!("cluster {cluster} is assigned")
        } else {
            let position = queue_position(store, now, &new_claim.key)?;
            place = position.number;
            progress.estimate = position.moving_estimate();
            format!("{} in the queue", position.to_lasting_text())
        };
        let claim = Object::ClusterClaim(Box::new(claim));
        progress.stage = find_stage_of_object(store, &claim, now)?;
        progress.description = if progress.stage.sentence().is_empty() {
            format!("{own_part}; {}", progress.description)
        } else {
            if place == 1 {
                // The stage is that of its own cluster, and tells how long such a job takes.
                progress.estimate.clear();
            }
            own_part
        };
        Ok(Observation::NotYet(progress))
    })?;
    let (exit, problem) = match ended {
        WaitOutcome::Met(()) => return Ok(context.world.now().since(start)),
        WaitOutcome::Late => (Exit::Timeout, format!("after {}", limit.to_short_text())),
        WaitOutcome::Interrupted(exit) => (exit, "yet: interrupted".to_owned()),
    };
    let Key { name, namespace } = &new_claim.key;
    let namespace_option = context.namespace_option(namespace);
    // Guests may look at pools, but are not told why one has no clusters.
    let question = if context.guest().is_some() { "get" } else { "why" };
    Err(Refusal::new(exit, format!("claim `{name}` has no running cluster {problem}"))
        .advise(format!("poolctl {question} pool/{}{namespace_option}", pool_key.name)))
}

fn refuse_released(claim_key: &Key) -> Refusal {
    Refusal::not_found(format!("claim `{}` was released meanwhile", claim_key.name))
}

/// Releases a claim that this command made.
pub fn release_new_claim(
    context: &Context,
    store: &Store,
    new_claim: &NewClaim,
) -> Result<(), Refusal> {
    match new_claim.read_live_claim(store)? {
        Some(claim) => {
            let claim = Object::ClusterClaim(Box::new(claim));
            delete::request_deletion(context, store, &[claim], delete::refuse_with_agents).map(drop)
        }
        None => Ok(()),
    }
}

/// The place of a claim in the queue of its pool; the first, if it has just left the queue.
pub fn queue_position(store: &Store, now: Time, key: &Key) -> Result<QueuePosition, Refusal> {
    let pool = store.find::<ClaimRow>(key)?.map(|claim| claim.pool_key());
    let position = queue::queue_positions(store, pool.as_ref(), now)?.remove(key);
    Ok(position.unwrap_or_else(|| QueuePosition::at(1, now)))
}

/// Tells what the claim has got: a cluster, or a place in the queue and why it waits.
fn report_claim(
    context: &Context,
    store: &Store,
    key: &Key,
    waited: Option<Span>,
) -> anyhow::Result<()> {
    let wants_documents = context.wants_documents();
    let claim = if wants_documents {
        store.find_whole::<ClaimRow>(key)?
    } else {
        store.find::<ClaimRow>(key)?
    };
    let Some(claim) = claim else {
        return context.report_change(Kind::ClusterClaim, key, "created");
    };
    if wants_documents {
        let document = Object::ClusterClaim(Box::new(claim)).to_wire();
        let change = format!("{} created", Name::of(Kind::ClusterClaim, key));
        return context.answer(Answer::default().with_document(document).with_change(change));
    }
    if let Some(cluster) = &claim.cluster {
        let power = match waited {
            Some(waited) => format!("running, waited {}", waited.to_short_text()),
            None => "running".into(),
        };
        let result = format!("bound to cluster/{cluster} ({power})");
        context.report_change(Kind::ClusterClaim, key, &result)?;
        hint_kubeconfig(context, key);
        return Ok(());
    }
    let result = if context.globals.no_reconcile {
        format!("waits for the next pass over pool {}", claim.pool)
    } else {
        let place = queue_position(store, context.world.now(), key)?;
        format!("waits in the queue of pool {} ({place})", claim.pool)
    };
    context.report_change(Kind::ClusterClaim, key, &result)?;
    if let Some(pool) = store.find::<ClusterPool>(&claim.pool_key())? {
        explain_wait(context, store, key, &pool)?;
    }
    Ok(())
}

/// Tells people how to get the kubeconfig. Behind sudo it is printed: a file would be the account's.
fn hint_kubeconfig(context: &Context, claim_key: &Key) {
    if !context.is_for_people() {
        return;
    }
    let namespace_option = context.namespace_option(&claim_key.namespace);
    let command = format!("poolctl kubeconfig {}{namespace_option}", claim_key.name);
    if context.world.is_behind_sudo() {
        context.hint_next(&format!("{command} >kubeconfig"));
    } else {
        context.hint_next(&format!("export KUBECONFIG=$({command})"));
    }
}

/// Tells why a claim has no cluster yet, in the words of `why`, and what to type next.
fn explain_wait(
    context: &Context,
    store: &Store,
    claim_key: &Key,
    pool: &ClusterPool,
) -> Result<(), Refusal> {
    if context.globals.quiet {
        return Ok(());
    }
    let name = &pool.metadata.name;
    let status = &pool.status;
    let namespace_option = context.namespace_option(&claim_key.namespace);
    if context.globals.no_reconcile {
        // Without a pass it is not known whether a ready cluster is left for this claim.
        let clusters = if status.ready == 1 { "cluster" } else { "clusters" };
        context.hint(&format!(
            "the next pass assigns clusters; pool `{name}` has {} {clusters} ready",
            status.ready
        ));
        context.hint_next("poolctl reconcile");
        return Ok(());
    }
    let state = store.load(&Scope::pool(pool.key()), &[])?;
    let now = context.world.now();
    let evidence =
        Evidence { state, now, namespace_option: namespace_option.clone(), ..Evidence::default() };
    if let Some(trouble) = explain_strongest_trouble(&evidence, pool) {
        context.hint(&format!("pool `{name}`: {}", trouble.causes.join("; ")));
    } else {
        context.hint(&format!(
            "no cluster is ready in pool `{name}` (size {}: {}, {} standby, {} broken)",
            pool.spec.size,
            describe_installing(status.installing.into(), status.retrying.into()),
            status.standby,
            status.broken
        ));
    }
    context.hint_next(&format!("poolctl why claim/{}{namespace_option}", claim_key.name));
    Ok(())
}
