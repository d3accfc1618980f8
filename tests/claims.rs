//! Hive's scenarios of claims, lifetimes and broken clusters, as planner tests: no program runs.

use std::collections::BTreeSet;

use poolctl::model::claim::{Claim, ClusterRunning, Pending};
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::meta::{Key, LocalRef};
use poolctl::model::platform::Platform;
use poolctl::model::pool::{ClaimLifetime, ClusterPool, HibernationConfig};
use poolctl::model::state::{ClaimId, State};
use poolctl::model::tick::Tick;
use poolctl::model::time::{Span, Time};
use poolctl::plan;

use crate::fixture::{NAMESPACE, noon, parse_state};

/// A duration, or none for an empty word.
fn span(word: &str) -> Option<Span> {
    word.parse().ok()
}

fn ago(span: Span) -> Time {
    Time(noon().now.0 - span.0)
}

#[test]
fn a_claim_lives_as_long_as_it_asks_or_the_pool_says_and_never_longer_than_the_maximum() {
    // L-1 to L-9: the claim's lifetime, the pool's default, the pool's maximum, what is in force.
    for (claim, default, maximum, expected) in [
        ("", "", "", ""),
        ("1h", "", "", "1h"), // L-2
        ("", "1h", "", "1h"),
        ("3h", "1h", "", "3h"), // L-4
        ("", "", "1h", "1h"),
        ("1h", "", "2h", "1h"), // L-6
        ("3h", "", "2h", "2h"),
        ("", "2h", "1h", "1h"), // L-8
        ("3h", "2h", "1h", "1h"),
    ] {
        let mut pool = ClusterPool::default();
        let lifetimes = ClaimLifetime { default: span(default), maximum: span(maximum) };
        pool.spec.claim_lifetime = Some(lifetimes);
        let lifetime = span(claim);
        let claim = Claim { lifetime, ..Claim::default() };
        let in_force = plan::effective_lifetime(&claim, Some(&pool));
        assert_eq!(in_force, span(expected), "{lifetime:?} {default} {maximum}");
        // Without the pool the claim's own lifetime counts.
        assert_eq!(plan::effective_lifetime(&claim, None), lifetime);
    }
}

#[test]
fn clusters_that_gave_up_or_wake_for_too_long_are_broken_and_no_others() {
    let waking = Cluster {
        installed_at: Some(ago(Span::hours(2))),
        power_wanted: Power::Running,
        power: Power::Starting,
        awake_since: Some(ago(Span::minutes(1))),
        ..Cluster::default()
    };
    let minute = Span::minutes(1);
    for (case, cluster, timeout, expected) in [
        ("B-01 installing", Cluster::default(), None, false),
        ("B-05 installing, with a limit", Cluster::default(), Some(minute), false),
        ("given up", Cluster { stopped: true, ..Cluster::default() }, None, true),
        ("B-03 waking without a limit", waking.clone(), None, false),
        ("waking as long as it may", waking.clone(), Some(minute), true),
        ("B-11 waking", waking.clone(), Some(Span::minutes(2)), false),
        (
            "B-09 waking, nobody knows since when",
            Cluster { awake_since: None, ..waking.clone() },
            Some(minute),
            false,
        ),
        (
            "B-07 hibernating",
            Cluster { power: Power::Hibernating, ..waking.clone() },
            Some(minute),
            false,
        ),
        ("running", Cluster { power: Power::Running, ..waking.clone() }, Some(minute), false),
        (
            "to hibernate",
            Cluster { power_wanted: Power::Hibernating, ..waking },
            Some(minute),
            false,
        ),
    ] {
        let mut pool = ClusterPool::default();
        pool.spec.hibernation_config = Some(HibernationConfig { resume_timeout: timeout });
        assert_eq!(plan::buckets::is_broken(&pool, &cluster, noon().now), expected, "{case}");
    }
}

/// The state of a line, after an edit of claim k and a settled plan.
fn settled(line: &str, edit: impl FnOnce(&mut State, ClaimId)) -> (State, Tick) {
    let (mut state, names) = parse_state(line, true);
    let tick = noon();
    let claim_id = state.claims.find(&Key::new(NAMESPACE, "k")).unwrap();
    edit(&mut state, claim_id);
    plan::settle(&mut state, &tick, &names).unwrap();
    (state, tick)
}

/// The conditions Pending and ClusterRunning of claim k, if it is there.
fn conditions_of_claim(state: &State) -> Option<(Pending, ClusterRunning)> {
    let claim = state.claims.by_key(&Key::new(NAMESPACE, "k"))?;
    Some((claim.pending, claim.running))
}

fn cluster<'a>(state: &'a State, name: &str) -> &'a Cluster {
    state.clusters.get(state.find_cluster(name).unwrap()).unwrap()
}

#[test]
fn half_written_pairs_are_completed_or_taken_apart() {
    fn assign(state: &mut State, claim_id: ClaimId) {
        state.claims.update(claim_id, |claim| claim.cluster = Some("c1".into()));
    }
    // C-01: the claim names a cluster that no claim holds.
    let (state, tick) = settled("size 1; c1=R; claims k", assign);
    let expected = Some((Pending::Claimed, ClusterRunning::Running));
    assert_eq!(conditions_of_claim(&state), expected);
    assert_eq!(cluster(&state, "c1").claimed_at, Some(tick.now));
    // C-03, C-15: the cluster wakes.
    let (state, _) = settled("size 1; c1=S[claimed:k]; claims k", assign);
    let expected = Some((Pending::Claimed, ClusterRunning::Resuming));
    assert_eq!(conditions_of_claim(&state), expected);
    // C-05: another claim holds the cluster.
    let (state, _) = settled("size 1; c1=R[claimed:other]; claims k", assign);
    let (pending, _) = conditions_of_claim(&state).unwrap();
    assert_eq!(pending, Pending::NoClusters);
    assert_eq!(cluster(&state, "c1").claim.as_deref(), Some("other"));
    // C-07: the cluster does not exist any more; the claim stays and says so.
    let (state, _) = settled("size 1; claims k", |state, claim_id| {
        state.claims.update(claim_id, |claim| {
            claim.cluster = Some("deleted".into());
            claim.pending = Pending::Claimed;
        });
    });
    let (_, running) = conditions_of_claim(&state).unwrap();
    assert_eq!(running, ClusterRunning::Deleted);
}

#[test]
fn a_claim_that_is_deleted_takes_its_cluster_and_waits_for_it() {
    fn delete(state: &mut State, claim_id: ClaimId) {
        state.claims.update(claim_id, |claim| claim.deleting = Some(noon().now));
    }
    fn delete_assigned(state: &mut State, claim_id: ClaimId) {
        delete(state, claim_id);
        state.claims.update(claim_id, |claim| claim.cluster = Some("c1".into()));
    }
    // C-09: the claim was never assigned a cluster.
    let (state, _) = settled("size 0; claims k", delete);
    assert_eq!(conditions_of_claim(&state), None);
    // C-11, C-13: the cluster goes first.
    let (state, _) = settled("size 0; c1=R[claimed:k]; claims k", delete_assigned);
    assert!(conditions_of_claim(&state).is_some());
    assert!(cluster(&state, "c1").deleting.is_some());
    // A cluster that another claim holds is left alone.
    let (state, _) = settled("size 0; c1=R[claimed:other]; claims k", delete_assigned);
    assert_eq!(conditions_of_claim(&state), None);
    assert!(!cluster(&state, "c1").marked);
}

#[test]
fn a_claim_ends_when_its_time_is_over_and_not_before() {
    // The claim's lifetime, the pool's default and maximum; claimed an hour ago.
    // C-19, C-21, C-23, C-25, and without any.
    for (lifetime, default, maximum, ends) in [
        ("1h", "", "", true),
        ("", "", "1h", true),
        ("", "2h", "1h", true),
        ("3h", "", "", false),
        ("", "", "", false),
    ] {
        let (state, _) = settled("size 0; c1=R[claimed:k]; claims k", |state, claim_id| {
            let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
            let lifetimes = ClaimLifetime { default: span(default), maximum: span(maximum) };
            state.pools.update(pool_id, |pool| pool.spec.claim_lifetime = Some(lifetimes));
            state.claims.update(claim_id, |claim| {
                claim.cluster = Some("c1".into());
                claim.lifetime = span(lifetime);
                claim.pending = Pending::Claimed;
                claim.pending_since = Some(ago(Span::hours(1)));
            });
        });
        let is_deleting = cluster(&state, "c1").deleting.is_some();
        assert_eq!(is_deleting, ends, "{lifetime} {default} {maximum}");
    }
}

#[test]
fn the_version_of_a_pool_changes_with_those_fields_that_hive_hashes() {
    // V-1, V-3, V-5.
    let (state, _) = parse_state("size 1", false);
    let pool = state.pools.rows().next().unwrap().clone();
    let version = |edit: fn(&mut ClusterPool)| {
        let mut pool = pool.clone();
        edit(&mut pool);
        poolctl::model::pool_versions::pool_version(&pool)
    };
    let unchanged = version(|_| ());
    let changed = [
        version(|pool| pool.spec.platform = Platform::named("gcp").unwrap_or_default()),
        version(|pool| pool.spec.base_domain = "other.example.com".into()),
        version(|pool| pool.spec.image_set_ref.name = "other".into()),
        version(|pool| pool.spec.install_config_secret_template_ref = Some(LocalRef::default())),
        version(|pool| pool.spec.customization_ref = Some(LocalRef::default())),
        version(|pool| pool.spec.inventory = Some(Vec::new())),
    ];
    let versions: BTreeSet<&String> = changed.iter().chain([&unchanged]).collect();
    assert_eq!(versions.len(), 7);
    for edit in [
        (|pool: &mut ClusterPool| pool.spec.size = 9) as fn(&mut ClusterPool),
        |pool| pool.spec.running_count = 9,
        |pool| pool.spec.max_size = Some(9),
        |pool| drop(pool.spec.labels.insert("a".into(), "b".into())),
        |pool| drop(pool.spec.annotations.insert("a".into(), "b".into())),
        |pool| pool.spec.install_attempts_limit = Some(9),
        |pool| pool.spec.skip_machine_pools = true,
        |pool| pool.spec.hibernate_after = Some(Span::hours(1)),
        |pool| pool.spec.pull_secret_ref = None,
    ] {
        assert_eq!(version(edit), unchanged);
    }
}
