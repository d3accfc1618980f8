//! Imports a state that is too large for memory. Its clusters, leases and events are written in
//! portions, all in one transaction: if one of them is refused, nothing has happened. It imports only
//! into a state that has nothing yet.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use crate::commands::Context;
use crate::edits;
use crate::manifest::{
    ClusterPart, Manifests, ReadOptions, Spool, SpoolReader, SpoolReaders, SpooledClusters,
};
use crate::model::event::{Event, EventDocument};
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::job::{Job, JobDocument};
use crate::model::kinds::Kind;
use crate::model::object::Resource;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::reconcile::{Door, Steps};
use crate::store::{NeededObject, Store};
use crate::{plan, rules};

use super::fill::{describe_repairs, fill_state, insert_manifests};
use super::warnings::is_empty_secret;

/// How many leases, events or past jobs are in memory at once.
const PORTION: usize = 1000;

/// Whether a state has no object, no job and no event.
pub fn is_empty_state(store: &Store) -> Result<bool, Refusal> {
    for kind in Kind::OBJECTS {
        if !store.list_names(*kind)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(!store.has_jobs()? && store.last_event_number()? == 0)
}

/// Whether the clusters in a spool can be imported, each portion by itself. It counts what is to be
/// told of them. If they cannot, the state is read whole, and then it can be told why.
pub fn rehearse_parts(context: &Context, spool: &mut Spool, reading: &ReadOptions<'_>) -> bool {
    let mut empty_secret_count = 0;
    let rehearsed = spool.clusters.visit_parts(reading, &mut |part| {
        let objects = part.manifests.objects.iter();
        empty_secret_count += objects.filter(|object| is_empty_secret(object)).count();
        let tick = Tick { now: context.world.now(), ..Tick::default() };
        let mut state = State::default();
        fill_state_with_part(&mut state, part, &tick)?;
        rules::check_invariants(&state)
    });
    spool.clusters.empty_secret_count = empty_secret_count;
    rehearsed.is_ok()
}

/// Imports what is in memory and what is in the spool, and says which links were completed.
pub fn import_in_portions(
    context: &Context,
    manifests: Manifests,
    spool: Spool,
    reading: &ReadOptions<'_>,
) -> Result<Vec<String>, Refusal> {
    let SpoolReaders { mut clusters, mut jobs, mut addresses, mut claims, mut events } =
        spool.into_readers()?;
    let store = context.open_or_create_state()?;
    let door = Door { store: &store, world: &context.world, plans_changes: false };
    let (repairs, warnings) = door.change_in_steps(|steps| {
        if !is_empty_state(&store)? {
            let problem = "the state has got objects while the file was read";
            return Err(Refusal::conflict(problem).advise("run the command again"));
        }
        // What is recorded about the objects below comes after what the file has recorded.
        import_events(steps, &mut events)?;
        let mut repairs =
            steps.change(&Scope::Whole, &[], |state, tick| fill_state(state, manifests, tick))?;
        repairs.extend(import_clusters(steps, &mut clusters, reading)?);
        import_jobs(steps, &mut jobs)?;
        // Addresses first: a claim that has one must not wait for another.
        import_addresses(steps, &mut addresses)?;
        import_claims(steps, &mut claims)?;
        Ok(repairs)
    })?;
    for warning in warnings {
        context.warn(&warning);
    }
    Ok(repairs)
}

/// Reads the records of a spool in portions, and imports each portion before the next is read.
fn import_each_portion<T: DeserializeOwned>(
    records: &mut SpoolReader<T>,
    import_portion: impl Fn(Vec<T>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    loop {
        let portion = records.read_portion(PORTION)?;
        if portion.is_empty() {
            return Ok(());
        }
        import_portion(portion)?;
    }
}

/// Imports the clusters of pools, and says which of their links were completed.
fn import_clusters(
    steps: &Steps<'_>,
    clusters: &mut SpooledClusters,
    reading: &ReadOptions<'_>,
) -> Result<Vec<String>, Refusal> {
    let mut repairs = Vec::new();
    clusters.visit_parts(reading, &mut |part| {
        let needs = [NeededObject { kind: Kind::ClusterPool, key: part.pool.clone() }];
        let scope = if part.is_last { Scope::pool(part.pool.clone()) } else { no_pool() };
        repairs.extend(
            steps.change(&scope, &needs, |state, tick| fill_state_with_part(state, part, tick))?,
        );
        Ok(())
    })?;
    Ok(repairs)
}

/// Puts clusters of a pool into the state, and says which of their links were completed. That is done
/// with the last of them, when all are there, and the claims of the pool. Other links are not looked
/// at: the cluster that holds a customization of the pool, say, need not be in the scope of the pool.
fn fill_state_with_part(
    state: &mut State,
    part: ClusterPart,
    tick: &Tick,
) -> Result<Vec<String>, Refusal> {
    insert_manifests(state, part.manifests, tick)?;
    let imported_count = state.events.len();
    if part.is_last {
        plan::complete_pairs(state, &part.pool, tick);
        plan::restore_counts(state, tick);
    }
    Ok(describe_repairs(state, imported_count))
}

fn import_jobs(steps: &Steps<'_>, jobs: &mut SpoolReader<JobDocument>) -> Result<(), Refusal> {
    import_each_portion(jobs, |portion| {
        steps.change(&no_pool(), &[], |state, _| {
            for job in portion.into_iter().filter_map(Job::from_wire) {
                state.jobs.insert(job);
            }
            Ok(())
        })
    })
}

fn import_events(
    steps: &Steps<'_>,
    events: &mut SpoolReader<EventDocument>,
) -> Result<(), Refusal> {
    import_each_portion(events, |portion| {
        steps.change(&no_pool(), &[], |state, _| {
            for event in portion.into_iter().filter_map(Event::from_wire) {
                state.record_event(event);
            }
            Ok(())
        })
    })
}

fn import_addresses(
    steps: &Steps<'_>,
    addresses: &mut SpoolReader<IpAddress>,
) -> Result<(), Refusal> {
    import_each_portion(addresses, |portion| {
        // The name of an address follows from its pool.
        let mut pools = BTreeSet::new();
        for address in &portion {
            pools.insert(address.spec.pool.key_from(&address.metadata.namespace));
        }
        let needs: Vec<NeededObject> =
            pools.into_iter().map(|key| NeededObject { kind: Kind::IpPool, key }).collect();
        steps.change(&no_pool(), &needs, |state, tick| {
            for address in portion {
                edits::import_object(state, address.into_object(), tick)?;
            }
            Ok(())
        })
    })
}

fn import_claims(steps: &Steps<'_>, claims: &mut SpoolReader<IpClaim>) -> Result<(), Refusal> {
    import_each_portion(claims, |portion| {
        let mut needs = Vec::new();
        for claim in &portion {
            needs.push(NeededObject { kind: Kind::IpClaim, key: claim.metadata.key() });
        }
        steps.change(&no_pool(), &needs, |state, tick| {
            for claim in portion {
                import_claim(state, claim, tick)?;
            }
            Ok(())
        })
    })
}

/// Imports a claim after its address. A claim whose address is not in the file must not get another.
fn import_claim(state: &mut State, claim: IpClaim, tick: &Tick) -> Result<(), Refusal> {
    let key = claim.metadata.key();
    let names_address =
        claim.status.address.as_ref().is_some_and(|address| !address.name.is_empty());
    if names_address && state.ip_leases.find(&key).is_none() {
        let problem = format!("the file has IPClaim `{key}`, and not its address");
        return Err(Refusal::conflict(problem));
    }
    edits::import_object(state, claim.into_object(), tick)
}

/// A step loads no pool with all that belongs to it, only what it needs.
fn no_pool() -> Scope {
    Scope::Pools(Vec::new())
}
