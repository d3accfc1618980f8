//! Laws that hold after every pass, over random histories of pools, claims and failures.

use std::collections::{BTreeMap, BTreeSet};

use poolctl::model::claim::{Claim, Pending};
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::documents::SecretValue;
use poolctl::model::job::{ClusterHealth, Installation, JobOutcome, JobReport, Verb};
use poolctl::model::meta::Key;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;
use proptest::prelude::*;

use crate::fixture::{self, NAMESPACE, Names, noon};

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
    /// Some of the live jobs end, some of them badly: see `reports`.
    Jobs {
        ended: u8,
        failed: u8,
    },
    Time(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
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
        6 => (any::<u8>(), any::<u8>()).prop_map(|(ended, failed)| Step::Jobs { ended, failed }),
        2 => (1..500_i64).prop_map(Step::Time),
    ]
}

/// Reports that some of the live jobs have ended, some of them badly: bit n of each mask is about
/// the jobs n, n + 8 and so on.
fn reports(state: &State, ended: u8, failed: u8) -> Vec<JobReport> {
    let mut reports = Vec::new();
    let live_jobs = state.jobs.rows().filter(|job| job.ended.is_none());
    for (number, job) in live_jobs.enumerate() {
        let bit = 1 << (number % 8);
        if ended & bit == 0 {
            continue;
        }
        let fails = failed & bit != 0;
        let outcome = match job.verb {
            Verb::Provision if fails && failed.is_multiple_of(3) => JobOutcome::failed("no"),
            Verb::Provision => JobOutcome::Installed(installation()),
            Verb::Start | Verb::Stop if fails && failed.is_multiple_of(5) => {
                JobOutcome::failed("no")
            }
            _ => JobOutcome::Done,
        };
        reports.push(JobReport { job: job.id, object: job.object.clone(), outcome });
    }
    reports
}

fn installation() -> Installation {
    Installation {
        infra_id: "i".into(),
        cluster_id: "c".into(),
        kubeconfig: Some(SecretValue::new("x")),
        password: Some(SecretValue::new("x")),
        metadata: Some(SecretValue::new("x")),
        nodes: None,
    }
}

/// Does a step. Returns the reports of the jobs that have ended in it.
fn do_step(state: &mut State, step: &Step, tick: &mut Tick, number: usize) -> Vec<JobReport> {
    let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    match step {
        Step::Claim => {
            state.insert_claim(Claim {
                name: format!("k{number}"),
                namespace: NAMESPACE.into(),
                created: tick.now,
                pool: "p".into(),
                pending: Pending::Initialized,
                ..Claim::default()
            });
        }
        Step::Release(which) => {
            let claim_id = state.claims.iter().nth(*which).map(|(claim_id, _)| claim_id);
            if let Some(claim_id) = claim_id {
                state.claims.update(claim_id, |claim| claim.deleting = Some(tick.now));
            }
        }
        Step::Scale(size) => {
            state.pools.update(pool_id, |pool| pool.spec.size = *size);
        }
        Step::RunningCount(count) => {
            state.pools.update(pool_id, |pool| pool.spec.running_count = *count);
        }
        Step::MaxSize(most) => {
            state.pools.update(pool_id, |pool| pool.spec.max_size = Some(*most));
        }
        Step::MaxConcurrent(most) => {
            state.pools.update(pool_id, |pool| pool.spec.max_concurrent = Some(*most));
        }
        Step::Refresh(policy) => {
            state.pools.update(pool_id, |pool| {
                pool.metadata.annotations.insert("poolctl.dev/refresh".into(), (*policy).into());
            });
        }
        Step::Evict(which) => {
            let cluster_id = state
                .clusters
                .iter()
                .filter(|(_, cluster)| cluster.claim.is_none() && cluster.deleting.is_none())
                .map(|(cluster_id, _)| cluster_id)
                .nth(*which);
            if let Some(cluster_id) = cluster_id {
                state.clusters.update(cluster_id, |cluster| cluster.marked = true);
            }
        }
        Step::NewVersion => {
            state
                .pools
                .update(pool_id, |pool| pool.spec.base_domain = format!("v{number}.example.com"));
        }
        Step::Jobs { ended, failed } => return reports(state, *ended, *failed),
        Step::Time(minutes) => tick.now = tick.now.plus(Span::minutes(*minutes)),
    }
    Vec::new()
}

/// What is remembered of the state before a pass, to be compared with the state after it.
struct Before {
    /// Each cluster by name, with the claim that has it.
    clusters: BTreeMap<String, Option<String>>,
    /// Names of the claims that wait.
    waiting: BTreeSet<String>,
    /// Clusters that are being made or destroyed.
    busy: BTreeSet<String>,
}

impl Before {
    fn of(state: &State) -> Self {
        let clusters = state.clusters.rows();
        let waiting_claims = state.claims.rows().filter(|claim| claim.is_waiting());
        Self {
            clusters: clusters
                .map(|cluster| (cluster.name.clone(), cluster.claim.clone()))
                .collect(),
            waiting: waiting_claims.map(|claim| claim.name.clone()).collect(),
            busy: busy_clusters(state),
        }
    }
}

fn busy_clusters(state: &State) -> BTreeSet<String> {
    let mut busy = BTreeSet::new();
    for job in state.jobs.rows().filter(|job| job.ended.is_none()) {
        if matches!(job.verb, Verb::Provision | Verb::Deprovision) {
            busy.insert(job.object.clone());
        }
    }
    busy
}

fn assert_customizations_are_leased_once(state: &State) {
    let mut holders = BTreeSet::new();
    for customization in state.customizations.rows() {
        if let Some(holder) = &customization.holder {
            let name = &holder.cluster;
            assert!(holders.insert(name), "{name} holds two customizations");
            let cluster = cluster_named(state, name).unwrap();
            assert_eq!(cluster.customization.as_deref(), Some(&*customization.metadata.name));
        }
    }
}

/// No pass makes more clusters than maxSize, begins more than maxConcurrent allows, or starts a job
/// on a cluster that has one.
fn assert_limits_are_kept(before: &Before, state: &State) {
    let pool = state.pools.by_key(&Key::new(NAMESPACE, "p")).unwrap();
    if state.clusters.rows().any(|cluster| !before.clusters.contains_key(&cluster.name)) {
        let size = state.clusters.rows().count();
        let max_size = pool.spec.max_size.unwrap_or(u32::MAX);
        assert!(size <= max_size as usize, "{size} clusters are more than {max_size}");
    }
    let busy = busy_clusters(state);
    if let Some(max) = pool.spec.max_concurrent
        && !busy.is_subset(&before.busy)
    {
        assert!(busy.len() <= max as usize, "{busy:?} are more than {max} in flight");
    }
    for cluster in state.clusters.rows() {
        let live_jobs = state.jobs.rows().filter(|job| job.ended.is_none());
        let jobs = live_jobs.filter(|job| job.object == cluster.name).count();
        assert!(jobs <= 1, "two live jobs on a cluster");
    }
}

/// First come, first served.
fn assert_claims_are_served_in_turn(before: &Before, state: &State) {
    let served = state.claims.rows().filter(|claim| before.waiting.contains(&claim.name));
    let last_served =
        served.filter(|claim| claim.cluster.is_some()).map(|claim| claim.created).max();
    let first_waiting =
        state.claims.rows().filter(|claim| claim.is_waiting()).map(|claim| claim.created).min();
    if let (Some(served), Some(waiting)) = (last_served, first_waiting) {
        assert!(served <= waiting, "not in turn");
    }
}

fn cluster_named<'a>(state: &'a State, name: &str) -> Option<&'a Cluster> {
    state.clusters.get(state.find_cluster(name)?)
}

/// A cluster and its claim name each other; the pool takes and stops nothing that is claimed.
fn assert_ends_agree(before: &Before, state: &State) {
    let mut claims = BTreeSet::new();
    for cluster in state.clusters.rows() {
        let Some(claim_name) = &cluster.claim else { continue };
        assert!(claims.insert(claim_name), "claim {claim_name} has two clusters");
        let claim = state.claims.by_key(&Key::new(NAMESPACE, &**claim_name));
        let agrees = claim.is_some_and(|claim| claim.cluster.as_deref() == Some(&cluster.name));
        assert!(agrees, "cluster {} and its claim disagree", cluster.name);
        let released = claim.is_some_and(|claim| claim.deleting.is_some());
        let kept = released || (cluster.deleting.is_none() && !cluster.marked);
        assert!(kept, "{} was deleted under its claim", cluster.name);
        assert_eq!(cluster.power_wanted, Power::Running, "{} is stopped", cluster.name);
    }
    for (name, claim) in &before.clusters {
        if let (Some(claim), Some(cluster)) = (claim, cluster_named(state, name)) {
            assert_eq!(cluster.claim.as_ref(), Some(claim), "a claimed cluster changed hands");
        }
    }
}

/// Takes in what drivers report of jobs, and that all clusters that start are healthy.
fn absorb_reports(state: &mut State, reports: Vec<JobReport>, tick: &Tick) {
    plan::take_job_reports(state, reports, tick);
    let healthy =
        ClusterHealth { nodes_ready: true, operators_ready: true, ..ClusterHealth::default() };
    let waiting = state.clusters.rows().filter(|cluster| cluster.power.is_waiting());
    let health_reports = waiting.map(|cluster| (cluster.name.clone(), healthy.clone())).collect();
    plan::take_healths(state, health_reports, tick);
}

/// Plays a history from a state, checks the laws after every step, and at the end that the pool
/// becomes steady when nothing fails any more.
fn play(line: &str, steps: &[Step]) {
    let (mut state, _) = fixture::parse_state(line, false);
    let mut tick = noon();
    for (number, step) in steps.iter().enumerate() {
        let reports = do_step(&mut state, step, &mut tick, number);
        absorb_reports(&mut state, reports, &tick);
        let before = Before::of(&state);
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
        assert_ends_agree(&before, &state);
        assert_customizations_are_leased_once(&state);
        assert_limits_are_kept(&before, &state);
        assert_claims_are_served_in_turn(&before, &state);
        let changes = (state.changes_made(), state.events.len());
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
        assert_eq!(
            (state.changes_made(), state.events.len()),
            changes,
            "a second pass acts: {step:?}"
        );
    }
    // When the faults stop, a steady state is reached.
    let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    state.pools.update(pool_id, |pool| (pool.spec.size, pool.spec.max_size) = (2, None));
    for _ in 0..60 {
        tick.now = tick.now.plus(Span::hours(25));
        let reports = reports(&state, u8::MAX, 0);
        absorb_reports(&mut state, reports, &tick);
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
    }
    let running = state.jobs.rows().filter(|job| job.ended.is_none()).count();
    assert_eq!(running, 0, "never steady");
    let waiting = state.claims.rows().filter(|claim| claim.is_waiting()).count();
    let has_inventory = line.contains("inv[");
    assert!(has_inventory || waiting == 0, "{waiting} claims wait for ever");
}

/// Sizes of the pool after each step of a history: size, ready, claimed, deleting, pending.
fn statuses_with_seed(seed: u128, steps: &[Step]) -> Vec<[u32; 5]> {
    let (mut state, _) = fixture::parse_state("size 2 run 1", false);
    let mut tick = Tick { seed, ..noon() };
    let mut statuses = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let reports = do_step(&mut state, step, &mut tick, number);
        absorb_reports(&mut state, reports, &tick);
        plan::settle(&mut state, &tick, &Names::default()).unwrap();
        let status = &state.pools.rows().next().unwrap().status;
        statuses.push([status.size, status.ready, status.claimed, status.deleting, status.pending]);
    }
    statuses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_held_twice_and_claims_are_kept(
        size in 0..5_u32,
        run in 0..5_u32,
        most in 1..9_u32,
        at_once in 1..5_u32,
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        play(&format!("size {size} run {run} maxSize {most} maxConc {at_once}"), &steps);
        play(&format!("size {size} run {run}"), &steps);
    }

    #[test]
    fn nothing_is_held_twice_and_claims_are_kept_with_an_inventory(
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        play("size 2 run 1 maxConc 3 inv[a,b,c,d]; cdcs a(fresh) b(fresh) c(fresh) d(fresh)", &steps);
    }

    #[test]
    fn a_seed_changes_names_only(
        steps in prop::collection::vec(any_step(), 1..15),
        seed in 1..1000_u128,
    ) {
        prop_assert_eq!(statuses_with_seed(0, &steps), statuses_with_seed(seed, &steps));
    }
}
