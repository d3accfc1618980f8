//! Laws, over random histories of pools, claims and failures.

use std::collections::{BTreeMap, BTreeSet};

use poolctl::model::claim::{Claim, Pending};
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::documents::SecretValue;
use poolctl::model::job::{Health, Installation, Outcome, Report, Verb};
use poolctl::model::meta::Key;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;
use proptest::prelude::*;

use crate::fixture::{NAMESPACE, Names, noon, state};

#[derive(Clone, Debug)]
enum Step {
    Claim,
    Release(usize),
    Scale(u32),
    RunningCount(u32),
    MaxSize(u32),
    MaxConcurrent(u32),
    Refresh(&'static str),
    Evict(usize),
    NewVersion,
    /// Some of the live jobs end, some of them badly.
    Jobs {
        which: u8,
        fail: u8,
    },
    Time(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Claim),
        2 => (0..6_usize).prop_map(Step::Release),
        1 => (0..5_u32).prop_map(Step::Scale),
        1 => (0..5_u32).prop_map(Step::RunningCount),
        1 => (3..9_u32).prop_map(Step::MaxSize),
        1 => (1..4_u32).prop_map(Step::MaxConcurrent),
        1 => prop_oneof![Just("slow"), Just("fast"), Just("none")].prop_map(Step::Refresh),
        1 => (0..6_usize).prop_map(Step::Evict),
        1 => Just(Step::NewVersion),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(which, fail)| Step::Jobs { which, fail }),
        2 => (1..500_i64).prop_map(Step::Time),
    ]
}

fn reports(state: &State, which: u8, fail: u8) -> Vec<Report> {
    let live = state.jobs.rows().filter(|job| job.ended.is_none()).enumerate();
    let chosen = live.filter(|(at, _)| which & (1 << (at % 8)) != 0);
    let secret = || SecretValue::new("x");
    let outcome = |at: usize, verb: Verb| match verb {
        Verb::Provision if fail & (1 << (at % 8)) != 0 && fail.is_multiple_of(3) => {
            Outcome::failed("no")
        }
        Verb::Provision => Outcome::Installed(Installation {
            infra_id: "i".into(),
            cluster_id: "c".into(),
            kubeconfig: Some(secret()),
            password: Some(secret()),
            metadata: Some(secret()),
            nodes: None,
        }),
        Verb::Start | Verb::Stop if fail & (1 << (at % 8)) != 0 && fail.is_multiple_of(5) => {
            Outcome::failed("no")
        }
        _ => Outcome::Done,
    };
    chosen
        .map(|(at, job)| Report {
            job: job.id,
            object: job.object.clone(),
            outcome: outcome(at, job.verb),
        })
        .collect()
}

fn edit(state: &mut State, step: &Step, tick: &mut Tick, number: usize) -> Vec<Report> {
    let pool = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    match step {
        Step::Claim => {
            let (name, namespace) = (format!("k{number}"), NAMESPACE.to_owned());
            let pending = Pending::Initialized;
            let claim = Claim {
                name,
                namespace,
                created: tick.now,
                pool: "p".into(),
                pending,
                ..Claim::default()
            };
            state.insert_claim(claim);
        }
        Step::Release(which) => {
            let claim = state.claims.iter().nth(*which).map(|(at, _)| at);
            if let Some(at) = claim {
                state.claims.update(at, |claim| claim.deleting = Some(tick.now));
            }
        }
        Step::Scale(size) => {
            state.pools.update(pool, |pool| pool.spec.size = *size);
        }
        Step::RunningCount(count) => {
            state.pools.update(pool, |pool| pool.spec.running_count = *count);
        }
        Step::MaxSize(most) => {
            state.pools.update(pool, |pool| pool.spec.max_size = Some(*most));
        }
        Step::MaxConcurrent(most) => {
            state.pools.update(pool, |pool| pool.spec.max_concurrent = Some(*most));
        }
        Step::Refresh(policy) => {
            state.pools.update(pool, |pool| {
                pool.metadata.annotations.insert("poolctl.dev/refresh".into(), (*policy).into());
            });
        }
        Step::Evict(which) => {
            let free = |one: &Cluster| one.claim.is_none() && one.deleting.is_none();
            let cluster = state.clusters.iter().filter(|(_, one)| free(one)).nth(*which);
            if let Some(at) = cluster.map(|(at, _)| at) {
                state.clusters.update(at, |cluster| cluster.marked = true);
            }
        }
        Step::NewVersion => {
            state
                .pools
                .update(pool, |pool| pool.spec.base_domain = format!("v{number}.example.com"));
        }
        Step::Jobs { which, fail } => return reports(state, *which, *fail),
        Step::Time(minutes) => tick.now = tick.now.plus(Span::minutes(*minutes)),
    }
    Vec::new()
}

/// What is compared with what a pass makes of it.
struct Before {
    /// Names and claims.
    clusters: BTreeMap<String, Option<String>>,
    /// Names of the claims that wait.
    waiting: BTreeSet<String>,
    /// Clusters that are being made or destroyed.
    busy: BTreeSet<String>,
}

impl Before {
    fn of(state: &State) -> Self {
        let facts = |one: &Cluster| (one.name.clone(), one.claim.clone());
        let waits = state.claims.rows().filter(|claim| claim.waits());
        Self {
            clusters: state.clusters.rows().map(facts).collect(),
            waiting: waits.map(|claim| claim.name.clone()).collect(),
            busy: busy(state),
        }
    }
}

fn busy(state: &State) -> BTreeSet<String> {
    let makes = |verb| matches!(verb, Verb::Provision | Verb::Deprovision);
    let live = state.jobs.rows().filter(|job| job.ended.is_none() && makes(job.verb));
    live.map(|job| job.object.clone()).collect()
}

/// What must hold after every pass.
fn laws(before: &Before, state: &State) {
    ends_agree(before, state);
    let mut held = BTreeSet::new();
    for one in state.customizations.rows() {
        if let Some(holder) = &one.holder {
            assert!(held.insert(&holder.cluster), "{} holds two customizations", holder.cluster);
            let cluster =
                state.cluster(&holder.cluster).and_then(|at| state.clusters.get(at)).unwrap();
            assert_eq!(cluster.customization.as_deref(), Some(&*one.metadata.name));
        }
    }
    let pool = state.pools.by_key(&Key::new(NAMESPACE, "p")).unwrap();
    if state.clusters.rows().any(|one| !before.clusters.contains_key(&one.name)) {
        let (total, most) = (state.clusters.rows().count(), pool.spec.max_size.unwrap_or(u32::MAX));
        assert!(total <= most as usize, "{total} clusters are more than {most}");
    }
    let now = busy(state);
    if let Some(most) = pool.spec.max_concurrent.filter(|_| !now.is_subset(&before.busy)) {
        assert!(now.len() <= most as usize, "{now:?} are more than {most} in flight");
    }
    let running = |name: &str| {
        state.jobs.rows().filter(|job| job.ended.is_none() && job.object == name).count()
    };
    assert!(state.clusters.rows().all(|one| running(&one.name) <= 1), "two live jobs on a cluster");
    // First come, first served.
    let served = state.claims.rows().filter(|claim| before.waiting.contains(&claim.name));
    let served = served.filter(|claim| claim.cluster.is_some()).map(|claim| claim.created);
    let first = state.claims.rows().filter(|claim| claim.waits()).map(|claim| claim.created).min();
    assert!(served.max().zip(first).is_none_or(|(served, first)| served <= first), "not in turn");
}

/// A cluster and its claim name each other; the pool takes and stops nothing that is claimed.
fn ends_agree(before: &Before, state: &State) {
    let mut claims = BTreeSet::new();
    for cluster in state.clusters.rows() {
        let Some(claim) = &cluster.claim else { continue };
        assert!(claims.insert(claim.clone()), "claim {claim} has two clusters");
        let claim = state.claims.by_key(&Key::new(NAMESPACE, &**claim));
        let agrees = claim.is_some_and(|claim| claim.cluster.as_deref() == Some(&cluster.name));
        assert!(agrees, "cluster {} and its claim disagree", cluster.name);
        let released = claim.is_some_and(|claim| claim.deleting.is_some());
        let kept = released || (cluster.deleting.is_none() && !cluster.marked);
        assert!(kept, "{} was deleted under its claim", cluster.name);
        assert_eq!(cluster.power_wanted, Power::Running, "{} is stopped", cluster.name);
    }
    for (name, claim) in &before.clusters {
        let now = state.cluster(name).and_then(|at| state.clusters.get(at));
        if let (Some(claim), Some(now)) = (claim, now) {
            assert_eq!(now.claim.as_ref(), Some(claim), "a claimed cluster changed hands");
        }
    }
}

/// What drivers say of jobs, and of clusters that are healthy.
fn take(state: &mut State, reports: Vec<Report>, tick: &Tick) {
    plan::absorb(state, reports, tick);
    let waiting = state.clusters.rows().filter(|one| one.power.waits());
    let healthy = Health { nodes_ready: true, operators_ready: true, ..Health::default() };
    let seen = waiting.map(|one| (one.name.clone(), healthy.clone())).collect();
    plan::look(state, seen, tick);
}

fn play(line: &str, steps: &[Step]) {
    let (mut state, _) = state(line, false);
    let mut tick = noon();
    for (number, step) in steps.iter().enumerate() {
        let reports = edit(&mut state, step, &mut tick, number);
        take(&mut state, reports, &tick);
        let before = Before::of(&state);
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
        laws(&before, &state);
        let changes = (state.changes_made(), state.events.len());
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
        assert_eq!(
            (state.changes_made(), state.events.len()),
            changes,
            "a second pass acts: {step:?}"
        );
    }
    // When the faults stop, a steady state is reached.
    let pool = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    state.pools.update(pool, |pool| (pool.spec.size, pool.spec.max_size) = (2, None));
    for _ in 0..60 {
        tick.now = tick.now.plus(Span::hours(25));
        let done = reports(&state, 255, 0);
        take(&mut state, done, &tick);
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
    }
    let running = state.jobs.rows().filter(|job| job.ended.is_none()).count();
    assert_eq!(running, 0, "never steady");
    let waiting = state.claims.rows().filter(|claim| claim.waits()).count();
    let limited = line.contains("inv[");
    assert!(limited || waiting == 0, "{waiting} claims wait for ever");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_held_twice_and_claims_are_kept(
        size in 0..5_u32,
        run in 0..5_u32,
        most in 1..9_u32,
        at_once in 1..5_u32,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        play(&format!("size {size} run {run} maxSize {most} maxConc {at_once}"), &steps);
        play(&format!("size {size} run {run}"), &steps);
    }

    #[test]
    fn nor_with_an_inventory(steps in prop::collection::vec(step(), 1..40)) {
        play("size 2 run 1 maxConc 3 inv[a,b,c,d]; cdcs a(fresh) b(fresh) c(fresh) d(fresh)", &steps);
    }

    #[test]
    fn a_seed_changes_names_only(steps in prop::collection::vec(step(), 1..15), seed in 1..1000_u128) {
        let run = |seed: u128| {
            let (mut found, _) = state("size 2 run 1", false);
            let mut tick = Tick { seed, ..noon() };
            let mut shape = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                let reports = edit(&mut found, step, &mut tick, number);
                take(&mut found, reports, &tick);
                plan::settle(&mut found, &tick, &Names::default()).unwrap();
                let status = found.pools.rows().next().map(|pool| pool.status.clone()).unwrap();
                shape.push((status.size, status.ready, status.claimed, status.deleting, status.pending));
            }
            shape
        };
        prop_assert_eq!(run(0), run(seed));
    }
}
