//! Hive's scenarios of claims, lifetimes and broken clusters.

use poolctl::model::claim::{Claim, ClusterRunning, Pending};
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::meta::{Key, LocalRef};
use poolctl::model::platform::Platform;
use poolctl::model::pool::{ClaimLifetime, ClusterPool, HibernationConfig};
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;

use crate::fixture::{NAMESPACE, noon, state};

fn hours(text: &str) -> Option<Span> {
    text.parse().ok()
}

#[test]
fn the_lifetime_in_force() {
    // L-1 to L-9: claim, pool's default, pool's maximum, in force
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
        let (default, maximum) = (hours(default), hours(maximum));
        pool.spec.claim_lifetime = Some(ClaimLifetime { default, maximum });
        let asked = Claim { lifetime: hours(claim), ..Claim::default() };
        let found = plan::effective_lifetime(&asked, Some(&pool));
        assert_eq!(found, hours(expected), "{claim} {default:?} {maximum:?}");
        // Without the pool the claim's own counts.
        assert_eq!(plan::effective_lifetime(&asked, None), hours(claim));
    }
}

#[test]
fn what_counts_as_broken() {
    let now = noon().now;
    let ago = |span: Span| Some(poolctl::model::time::Time(now.0 - span.0));
    let waking = Cluster {
        installed_at: ago(Span::hours(2)),
        power_wanted: Power::Running,
        power: Power::Starting,
        awake_since: ago(Span::minutes(1)),
        ..Cluster::default()
    };
    let minute = Span::minutes(1);
    for (what, cluster, timeout, broken) in [
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
        assert_eq!(plan::buckets::is_broken(&pool, &cluster, now), broken, "{what}");
    }
}

/// A pool's state with claim k, after `edit` and one settled plan.
fn settled(
    line: &str,
    edit: impl FnOnce(&mut State, poolctl::model::state::ClaimId),
) -> (State, Tick) {
    let (mut found, names) = state(line, true);
    let tick = noon();
    let claim = found.claims.find(&Key::new(NAMESPACE, "k")).unwrap();
    edit(&mut found, claim);
    plan::settle(&mut found, &tick, &names).unwrap();
    (found, tick)
}

fn stand(state: &State) -> Option<(Pending, ClusterRunning)> {
    let claim = state.claims.by_key(&Key::new(NAMESPACE, "k"))?;
    Some((claim.pending, claim.running))
}

fn cluster<'a>(state: &'a State, name: &str) -> &'a Cluster {
    state.clusters.get(state.cluster(name).unwrap()).unwrap()
}

#[test]
fn half_written_pairs_are_completed_or_taken_apart() {
    // C-01: the claim names a cluster that nobody has.
    let names = |name: &'static str| {
        move |state: &mut State, at: poolctl::model::state::ClaimId| {
            state.claims.update(at, |claim| claim.cluster = Some(name.into()));
        }
    };
    let (found, tick) = settled("size 1; c1=R; claims k", names("c1"));
    assert_eq!(stand(&found), Some((Pending::Claimed, ClusterRunning::Running)));
    assert_eq!(cluster(&found, "c1").claimed_at, Some(tick.now));
    // C-03, C-15: it wakes.
    let (found, _) = settled("size 1; c1=S[claimed:k]; claims k", names("c1"));
    assert_eq!(stand(&found), Some((Pending::Claimed, ClusterRunning::Resuming)));
    // C-05: somebody else has it.
    let (found, _) = settled("size 1; c1=R[claimed:other]; claims k", names("c1"));
    assert_eq!(stand(&found).map(|both| both.0), Some(Pending::NoClusters));
    assert_eq!(cluster(&found, "c1").claim.as_deref(), Some("other"));
    // C-07: it is gone; the claim stays and says so.
    let (found, _) = settled("size 1; claims k", |state, at| {
        state.claims.update(at, |claim| {
            (claim.cluster, claim.pending) = (Some("gone".into()), Pending::Claimed);
        });
    });
    assert_eq!(stand(&found).map(|both| both.1), Some(ClusterRunning::Deleted));
}

#[test]
fn a_claim_that_goes_takes_its_cluster_and_waits_for_it() {
    let delete = |name: Option<&'static str>| {
        move |state: &mut State, at: poolctl::model::state::ClaimId| {
            state.claims.update(at, |claim| {
                claim.deleting = Some(noon().now);
                claim.cluster = name.map(str::to_owned);
            });
        }
    };
    // C-09: never assigned.
    assert_eq!(stand(&settled("size 0; claims k", delete(None)).0), None);
    // C-11, C-13: the cluster goes first.
    let (found, _) = settled("size 0; c1=R[claimed:k]; claims k", delete(Some("c1")));
    assert!(stand(&found).is_some() && cluster(&found, "c1").deleting.is_some());
    // A cluster that is another's is left alone.
    let (found, _) = settled("size 0; c1=R[claimed:other]; claims k", delete(Some("c1")));
    assert_eq!((stand(&found), cluster(&found, "c1").marked), (None, false));
}

#[test]
fn a_claim_ends_when_its_time_is_over_and_not_before() {
    // Lifetime of the claim, default and maximum of the pool; claimed an hour ago.
    // C-19, C-21, C-23, C-25, and without any.
    for (claim, default, maximum, ends) in [
        ("1h", "", "", true),
        ("", "", "1h", true),
        ("", "2h", "1h", true),
        ("3h", "", "", false),
        ("", "", "", false),
    ] {
        let (found, _) = settled("size 0; c1=R[claimed:k]; claims k", |state, at| {
            let pool = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
            let (default, maximum) = (hours(default), hours(maximum));
            state.pools.update(pool, |pool| {
                pool.spec.claim_lifetime = Some(ClaimLifetime { default, maximum });
            });
            state.claims.update(at, |one| {
                (one.cluster, one.lifetime) = (Some("c1".into()), hours(claim));
                one.pending = Pending::Claimed;
                one.pending_since =
                    Some(poolctl::model::time::Time(noon().now.0 - Span::hours(1).0));
            });
        });
        let deleting = cluster(&found, "c1").deleting.is_some();
        assert_eq!(deleting, ends, "{claim} {default} {maximum}");
    }
}

#[test]
fn the_version_follows_what_hive_hashes() {
    // V-1, V-3, V-5.
    let (found, _) = state("size 1", false);
    let pool = found.pools.rows().next().unwrap().clone();
    let version = |edit: fn(&mut ClusterPool)| {
        let mut pool = pool.clone();
        edit(&mut pool);
        plan::pool_version(&pool)
    };
    let same = version(|_| ());
    let others = [
        version(|pool| pool.spec.platform = Platform::named("gcp").unwrap_or_default()),
        version(|pool| pool.spec.base_domain = "other.example.com".into()),
        version(|pool| pool.spec.image_set_ref.name = "other".into()),
        version(|pool| pool.spec.install_config_secret_template_ref = Some(LocalRef::default())),
        version(|pool| pool.spec.customization_ref = Some(LocalRef::default())),
        version(|pool| pool.spec.inventory = Some(Vec::new())),
    ];
    let different: std::collections::BTreeSet<&String> = others.iter().chain([&same]).collect();
    assert_eq!(different.len(), 7);
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
        assert_eq!(version(edit), same);
    }
}
