//! The platform of a pool is not reachable, for a night or for good. No attempt is used up while
//! nothing was made, no clusters are made and destroyed in a loop, and the cause is said in the
//! installer's own words.

use poolctl::model::condition::ConditionType;
use poolctl::model::failure::{Failure, FailureClass};
use poolctl::model::inventory::EntryStatus;
use poolctl::model::job::{Installation, JobOutcome, JobReport, Verb};
use poolctl::model::meta::Key;
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;

use crate::fixture::{self, NAMESPACE, Names, noon};
use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, in_one_line, jsonpath};

const UNREACHABLE: &str = "create manifests: Post https://vcenter.example.com: connection refused";

/// So many minutes after noon.
fn tick_at(minutes: i64) -> Tick {
    let noon = noon();
    Tick { now: noon.now.plus(Span::minutes(minutes)), ..noon }
}

fn settle(state: &mut State, names: &Names, tick: &Tick) {
    plan::settle(state, tick, names).unwrap();
}

fn pool_p(state: &State) -> &ClusterPool {
    state.pools.by_key(&Key::new(NAMESPACE, "p")).unwrap()
}

/// Reports that all live jobs of a verb have ended with this outcome.
fn reports_of(state: &State, verb: Verb, outcome: &JobOutcome) -> Vec<JobReport> {
    let live = state.jobs.rows().filter(|job| job.ended.is_none() && job.verb == verb);
    live.map(|job| JobReport { job: job.id, object: job.object.clone(), outcome: outcome.clone() })
        .collect()
}

/// All running installations end with this outcome, and what they left is destroyed. Returns how
/// many there were.
fn end_installations(state: &mut State, names: &Names, tick: &Tick, outcome: &JobOutcome) -> usize {
    let installations = reports_of(state, Verb::Provision, outcome);
    let count = installations.len();
    plan::take_job_reports(state, installations, tick);
    settle(state, names, tick);
    let deprovisions = reports_of(state, Verb::Deprovision, &JobOutcome::Done);
    plan::take_job_reports(state, deprovisions, tick);
    settle(state, names, tick);
    count
}

fn nothing_made() -> JobOutcome {
    let failure = Failure::new(FailureClass::CloudAway, UNREACHABLE);
    JobOutcome::Failed(Failure { is_made: false, ..failure })
}

/// A day of failures: the state after it, and the minutes after noon at which installations failed.
fn fail_for_a_day(line: &str, outcome: &JobOutcome) -> (State, Vec<i64>) {
    let (mut state, names) = fixture::parse_state(line, false);
    settle(&mut state, &names, &tick_at(0));
    let mut minutes = Vec::new();
    for minute in 0..24 * 60 {
        settle(&mut state, &names, &tick_at(minute));
        if end_installations(&mut state, &names, &tick_at(minute), outcome) > 0 {
            minutes.push(minute);
        }
    }
    (state, minutes)
}

#[test]
fn an_outage_uses_up_no_attempt_and_is_tried_later_and_later() {
    let line = "size 3 inv[a,b,c]; cdcs a(fresh) b(fresh) c(fresh)";
    let (state, minutes) = fail_for_a_day(line, &nothing_made());
    // 1, 2, 4, 8, 16, 32 and then 60 minutes apart, all clusters of the pool together.
    assert_eq!(minutes[..8], [0, 1, 3, 7, 15, 31, 63, 123], "{minutes:?}");
    assert!(minutes.windows(2).all(|pair| pair[1] - pair[0] <= 60), "{minutes:?}");
    let pool = pool_p(&state);
    for name in ["a", "b", "c"] {
        assert_eq!(pool.status.inventory[name].attempts, 3, "{name}");
    }
    let status = &pool.status;
    assert_eq!((status.broken, status.installing, status.retrying), (0, 0, 3));
    let pause = pool.status.install_pause.as_ref().unwrap();
    assert_eq!((pause.cause.as_str(), pause.since), (UNREACHABLE, noon().now));
}

#[test]
fn a_limit_of_attempts_makes_no_loop_of_clusters() {
    let hopeless = Failure { is_hopeless: true, ..Failure::new(FailureClass::Unclear, "no") };
    for (outcome, most) in [
        (nothing_made(), 2 * 32),
        // After two clusters in a row that were given up, the pool waits, too.
        (JobOutcome::Failed(hopeless), 2 * 32),
        // The same if nothing of it is the fault of a cluster, but machines were made.
        (JobOutcome::Failed(Failure::new(FailureClass::Capacity, "quota")), 2 * 32),
    ] {
        let (mut state, names) = fixture::parse_state("size 2", false);
        let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
        state.pools.update(pool_id, |pool| pool.spec.install_attempts_limit = Some(1));
        let mut installations = 0;
        for minute in 0..24 * 60 {
            settle(&mut state, &names, &tick_at(minute));
            installations += end_installations(&mut state, &names, &tick_at(minute), &outcome);
        }
        assert!(
            installations > 20 && installations <= most,
            "{installations} installations in a day: {outcome:?}"
        );
    }
}

#[test]
fn one_success_or_a_change_of_the_pool_ends_the_pause() {
    let (mut state, names) = fixture::parse_state("size 1", false);
    settle(&mut state, &names, &tick_at(0));
    assert_eq!(end_installations(&mut state, &names, &tick_at(1), &nothing_made()), 1);
    assert_eq!(plan::next_due_at(&state, tick_at(1).now), Some(tick_at(2).now));
    let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    settle(&mut state, &names, &tick_at(2));
    assert_eq!(end_installations(&mut state, &names, &tick_at(2), &nothing_made()), 1);
    assert_eq!(reports_of(&state, Verb::Provision, &JobOutcome::Done).len(), 0, "two minutes now");
    state.pools.update(pool_id, |pool| pool.metadata.generation += 1);
    settle(&mut state, &names, &tick_at(3));
    assert_eq!(pool_p(&state).status.install_pause, None);
    assert_eq!(reports_of(&state, Verb::Provision, &JobOutcome::Done).len(), 1);
    let installed = JobOutcome::Installed(Installation::default());
    assert_eq!(end_installations(&mut state, &names, &tick_at(4), &installed), 1);
    let pool = pool_p(&state);
    assert_eq!((pool.status.install_pause.as_ref(), pool.status.given_up_in_a_row), (None, 0));
}

/// Ends all live jobs: what uses customization `a` is refused, all else succeeds. Returns how many
/// installations were refused.
fn refuse_installations_of_a(state: &mut State, names: &Names, tick: &Tick) -> usize {
    let refusal = Failure {
        is_made: false,
        input: Some("digest of a".into()),
        ..Failure::new(FailureClass::InputWrong, "unable to find network provided")
    };
    let mut reports = Vec::new();
    let mut refused = 0;
    for job in state.jobs.rows().filter(|job| job.ended.is_none()) {
        let cluster = state.clusters.get(state.find_cluster(&job.object).unwrap()).unwrap();
        let outcome = match (job.verb, cluster.customization.as_deref()) {
            (Verb::Provision, Some("a")) => {
                refused += 1;
                JobOutcome::Failed(refusal.clone())
            }
            (Verb::Provision, _) => JobOutcome::Installed(Installation::default()),
            _ => JobOutcome::Done,
        };
        reports.push(JobReport { job: job.id, object: job.object.clone(), outcome });
    }
    plan::take_job_reports(state, reports, tick);
    settle(state, names, tick);
    refused
}

#[test]
fn an_input_that_is_refused_twice_breaks_its_customization_and_no_other() {
    let line = "size 2 inv[a,b]; cdcs a(fresh) b(fresh)";
    let (mut state, names) = fixture::parse_state(line, false);
    let mut refused = 0;
    for minute in 0..60 {
        settle(&mut state, &names, &tick_at(minute));
        refused += refuse_installations_of_a(&mut state, &names, &tick_at(minute));
    }
    assert_eq!(refused, 2, "the same input is not tried for ever");
    let status = &pool_p(&state).status;
    let broken = &status.inventory["a"];
    assert_eq!((broken.status, broken.attempts), (EntryStatus::BrokenByConfiguration, 3));
    assert!(broken.message.contains("unable to find network"), "{}", broken.message);
    let healthy = &status.inventory["b"];
    assert_eq!((healthy.status, healthy.attempts), (EntryStatus::Reserved, 3));
    assert_eq!(status.install_pause, None, "others need not wait");
    // Whoever corrects it has it tried at once.
    let customization_id = state.customizations.find(&Key::new(NAMESPACE, "a")).unwrap();
    state.customizations.update(customization_id, |customization| {
        customization.metadata.generation += 1;
    });
    settle(&mut state, &names, &tick_at(61));
    assert_eq!(refuse_installations_of_a(&mut state, &names, &tick_at(61)), 1);
}

#[test]
fn a_refusal_after_an_outage_is_the_first_one() {
    let line = "size 1 inv[a]; cdcs a(fresh)";
    let (mut state, names) = fixture::parse_state(line, false);
    settle(&mut state, &names, &tick_at(0));
    assert_eq!(refuse_installations_of_a(&mut state, &names, &tick_at(0)), 1);
    settle(&mut state, &names, &tick_at(2));
    assert_eq!(end_installations(&mut state, &names, &tick_at(2), &nothing_made()), 1);
    let pause = pool_p(&state).status.install_pause.as_ref().unwrap();
    assert_eq!((pause.class, &*pause.cause), (FailureClass::CloudAway, UNREACHABLE));
    settle(&mut state, &names, &tick_at(10));
    assert_eq!(refuse_installations_of_a(&mut state, &names, &tick_at(10)), 1);
    assert_eq!(pool_p(&state).status.inventory["a"].status, EntryStatus::Reserved);
}

#[test]
fn a_cluster_that_cannot_be_destroyed_degrades_its_pool_until_it_is() {
    let (mut state, names) = fixture::parse_state("size 0; c1=R[deleting]", false);
    settle(&mut state, &names, &tick_at(0));
    let away = JobOutcome::Failed(Failure::new(FailureClass::CloudAway, UNREACHABLE));
    let reports = reports_of(&state, Verb::Deprovision, &away);
    assert_eq!(reports.len(), 1);
    plan::take_job_reports(&mut state, reports, &tick_at(0));
    settle(&mut state, &names, &tick_at(0));
    let degraded = pool_p(&state).condition(ConditionType::Degraded).unwrap();
    assert_eq!((&*degraded.status, &*degraded.reason), ("True", "CloudAway"));
    assert!(degraded.message.contains(UNREACHABLE), "{}", degraded.message);
    settle(&mut state, &names, &tick_at(1));
    let reports = reports_of(&state, Verb::Deprovision, &JobOutcome::Done);
    plan::take_job_reports(&mut state, reports, &tick_at(1));
    settle(&mut state, &names, &tick_at(1));
    let degraded = pool_p(&state).condition(ConditionType::Degraded).unwrap();
    assert_eq!(degraded.status, "False");
}

#[test]
fn the_message_of_the_installer_is_shown_wherever_people_look() {
    let lab = Lab::new();
    let message = "Post vcenter.example.com: dial tcp: connection refused";
    lab.set_behaviour(&format!("create-manifests: exit 3 {message}"));
    let spec = format!("{TEMPLATED}  installAttemptsLimit: 1\n");
    apply(&lab.sandbox, &pool("lab", VSPHERE, &spec));
    lab.wait_until("paused", |lab| lab.sandbox.ok("events").contains("InstallationsPaused"));
    assert_eq!(lab.phase(), "Retrying");
    assert_eq!(jsonpath(&lab.sandbox, "pool/lab", "{.status.inventory.foo.attempts}"), "3");
    let cluster = lab.sandbox.ok("get cluster -qo name");
    let why_cluster = format!("why cluster/{}", cluster.trim());
    for line in ["status", "why pool/lab", &*why_cluster, "events pool/lab"] {
        let output = in_one_line(&lab.sandbox.ok(line));
        assert!(output.contains(message), "{line}: {output}");
    }
    assert!(lab.sandbox.status().contains("installations have failed since"));
    // Nothing is started during the pause; who has repaired the platform need not wait for its end.
    lab.set_behaviour("");
    lab.sandbox.ok("reconcile -q");
    assert_eq!(lab.phase(), "Retrying");
    lab.sandbox.ok(&format!("cluster retry {} -q", cluster.trim()));
    lab.wait_until_installed();
    assert_eq!(jsonpath(&lab.sandbox, "pool/lab", "{.status.installPause}"), "");
    lab.delete_clusters();
}
