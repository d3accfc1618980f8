//! The end of a history: the troubles that pass are over, and time goes by until nothing happens any
//! more. Then every claim is served, or people are told truly what to mend; they mend it, and the
//! claim is served.

use poolctl::causes::{self, Chain, Evidence};
use poolctl::model::annotations::FAKE_HEALTH;
use poolctl::model::claim::Claim;
use poolctl::model::cluster::Cluster;
use poolctl::model::job::{Job, Verb};
use poolctl::model::object::Object;
use poolctl::model::pool::{ClusterPool, RECONCILE_PAUSE};
use poolctl::model::refusal::Refusal;
use poolctl::model::state::{Scope, State};
use poolctl::model::time::{Span, Time};

use super::canary::Canary;
use super::healing::find_unhealed_pool;
use super::law::{Law, Violation, clusters_of};
use super::referee::{Referee, accepted, accepted_or_refused};
use super::remedy::Remedy;
use super::step::Health;
use super::world::SimWorld;

/// How many passes there are at most until a world is at rest: ten days, because the steps grow.
const PASSES: u32 = 120;
/// The longest time between two passes.
const LONGEST_STEP: Span = Span::hours(6);
/// After so many passes in a row that leave nothing due, nothing will happen any more.
const IDLE_PASSES: u32 = 3;
/// How often people follow the advice of `why` until all claims must be served.
const REMEDIES: usize = 20;

/// Whether a world has come to where the time need not go on.
type Goal = fn(&SimWorld) -> Result<bool, Refusal>;

/// Brings a world to rest and judges it.
pub fn come_to_rest(world: &mut SimWorld, referee: &mut Referee) -> Result<(), Violation> {
    world.troubles.end_all();
    serve_all_claims(world, referee)?;
    if !referee.judges(Law::Healed) {
        return Ok(());
    }
    let_time_pass(world, referee, has_healed)?;
    match accepted(find_unhealed_pool(world))? {
        Some(problem) => Err(Violation::new(Law::Healed, problem)),
        None => Ok(()),
    }
}

fn has_healed(world: &SimWorld) -> Result<bool, Refusal> {
    Ok(find_unhealed_pool(world)?.is_none())
}

fn has_served_all_claims(world: &SimWorld) -> Result<bool, Refusal> {
    Ok(world.waiting_claims()?.is_empty())
}

/// Serves all claims that wait, with the help of people who do what `why` says.
fn serve_all_claims(world: &mut SimWorld, referee: &mut Referee) -> Result<(), Violation> {
    let mut advice = String::new();
    for _ in 0..REMEDIES {
        let_time_pass(world, referee, has_served_all_claims)?;
        let waiting_claims = accepted(world.waiting_claims())?;
        let Some(claim) = waiting_claims.first() else { return Ok(()) };
        referee.enforce(Law::Served, || check_nothing_idles(world, claim))?;
        let mut chain = accepted(explain(world, claim))?;
        if referee.canary == Some(Canary::FalseCause) {
            "poolctl pool resume p".clone_into(&mut chain.next);
        }
        advice = format!("{}. Next: {}", chain.causes.join(", because "), chain.next);
        let Some(remedy) = Remedy::named(&chain.next) else {
            let message = format!("nobody can mend this at rest: {advice}");
            return referee.enforce(Law::NamedCause, || Err(message));
        };
        referee.enforce(Law::NamedCause, || {
            remedy.check_cause(world, claim).map_err(|problem| format!("{problem}: {advice}"))
        })?;
        accepted_or_refused(remedy.apply(world, claim))?;
        referee.judge(world)?;
    }
    let message = format!("a claim is not served though people did what they were told: {advice}");
    referee.enforce(Law::Served, || Err(message))
}

/// Lets days go by, until a goal is reached or nothing is due any more. The time between two passes
/// grows, so that what is retried every minute does not take for ever.
fn let_time_pass(
    world: &mut SimWorld,
    referee: &mut Referee,
    is_reached: Goal,
) -> Result<(), Violation> {
    let mut idle_passes = 0;
    for number in 0..PASSES {
        referee.run_pass(world)?;
        let due = accepted(world.time_until_due())?;
        idle_passes = if due.is_none() { idle_passes + 1 } else { 0 };
        if accepted(is_reached(world))? || idle_passes == IDLE_PASSES {
            break;
        }
        let least = match number {
            0..40 => Span::seconds(1),
            40..70 => Span::minutes(5),
            70..90 => Span::hours(1),
            _ => LONGEST_STEP,
        };
        world.clock.advance(due.map_or(LONGEST_STEP, |due| due.max(least)));
    }
    // What is tried again and again is not tried again at once.
    referee.run_pass(world)?;
    referee.check_quiet(world, &Scope::Whole)
}

/// A claim does not wait beside a cluster that could serve it. What holds a pool or a cluster by a
/// person's wish is no cluster that could.
fn check_nothing_idles(world: &SimWorld, claim: &Claim) -> Result<(), String> {
    let state = world.load().map_err(|refusal| refusal.to_string())?;
    let Some(pool) = state.pools.by_key(&claim.pool_key()) else { return Ok(()) };
    let is_held = pool.metadata.has_true_annotation(RECONCILE_PAUSE)
        || pool.metadata.deletion_timestamp.is_some();
    if is_held {
        return Ok(());
    }
    for cluster in clusters_of(&state, &pool.key()) {
        if could_serve(world, pool, cluster).map_err(|refusal| refusal.to_string())? {
            let power = cluster.power.describe();
            return Err(format!(
                "claim {} waits beside cluster {}, which is {power}",
                claim.name, cluster.name
            ));
        }
    }
    Ok(())
}

/// Whether a cluster is installed, free and healthy.
fn could_serve(world: &SimWorld, pool: &ClusterPool, cluster: &Cluster) -> Result<bool, Refusal> {
    let is_free = cluster.claim.is_none() && cluster.deleting.is_none() && !cluster.marked;
    let is_held = cluster.paused || cluster.power_paused || cluster.stopped;
    let is_unlisted = cluster.customization.as_ref().is_some_and(|name| {
        let listed = pool.spec.inventory.as_ref();
        listed.is_some_and(|entries| entries.iter().all(|entry| entry.name != *name))
    });
    if !cluster.is_installed() || !is_free || is_held || is_unlisted {
        return Ok(false);
    }
    let steering = world.store().read_steering(&cluster.name)?;
    let health = steering.annotations.get(FAKE_HEALTH).and_then(|word| Health::named(word));
    Ok(matches!(health, None | Some(Health::Healthy | Health::StopFails)))
}

/// What `why claim/NAME` says.
fn explain(world: &SimWorld, claim: &Claim) -> Result<Chain, Refusal> {
    let store = world.store();
    let object = Object::ClusterClaim(Box::new(claim.clone()));
    let state = store.load(&Scope::pool(claim.pool_key()), &[])?;
    let now = world.now()?;
    let queue_position = "1st".to_owned();
    let mut evidence = Evidence { state, now, queue_position, ..Evidence::default() };
    evidence.last_deprovision = last_deprovision(world, &evidence.state, &object)?;
    if let Some(pool) = causes::pool_explained_by_history(&evidence.state, &object) {
        let pool_key = pool.key();
        evidence.provisions =
            store.last_jobs_of_pool(&pool_key, Verb::Provision, causes::RECENT_JOBS)?;
        evidence.events = store.replacements_since(Time(now.0 - causes::RECENT_SPAN.0))?;
    }
    let chain = causes::explain(&evidence, &object);
    check_words(&evidence, claim, &chain)?;
    Ok(chain)
}

/// Refuses if `status`, `claim` and `metrics` would name another cause for a claim that waits than
/// `why` does.
fn check_words(evidence: &Evidence, claim: &Claim, chain: &Chain) -> Result<(), Refusal> {
    let Some(pool) = evidence.state.pools.by_key(&claim.pool_key()) else { return Ok(()) };
    let Some(trouble) = causes::explain_strongest_trouble(evidence, pool) else { return Ok(()) };
    if chain.causes.ends_with(&trouble.causes) && chain.next == trouble.next {
        return Ok(());
    }
    let shown = trouble.causes.join(", because ");
    let explained = chain.causes.join(", because ");
    Err(Refusal::invalid(format!("status says `{shown}`, and why says `{explained}`")))
}

/// The last attempt to destroy the cluster that the explanation leads to.
fn last_deprovision(
    world: &SimWorld,
    state: &State,
    object: &Object,
) -> Result<Option<Job>, Refusal> {
    let Some(cluster) = causes::explained_cluster(state, object) else { return Ok(None) };
    if cluster.deleting.is_none() {
        return Ok(None);
    }
    let mut jobs = world.store().jobs_of_object(&cluster.name)?;
    jobs.retain(|job| job.ended.is_some() && job.verb == Verb::Deprovision);
    Ok(jobs.pop())
}
