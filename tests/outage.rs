//! The platform is away, over night or for good: no attempt is used up while nothing existed, no
//! cluster is made and thrown away in a loop, and its cause is said in the installer's own words.

use poolctl::model::job::{Failure, Installation, Outcome, Report, Verb};
use poolctl::model::meta::Key;
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;

use crate::fixture::{NAMESPACE, Names, noon, state};
use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, jsonpath};

const AWAY: &str = "create manifests: Post https://vcenter.example.com: connection refused";

fn at(minutes: i64) -> Tick {
    let noon = noon();
    Tick { now: noon.now.plus(Span::minutes(minutes)), ..noon }
}

fn settle(state: &mut State, names: &Names, tick: &Tick) {
    plan::settle(state, tick, names).unwrap();
}

fn the_pool(state: &State) -> &ClusterPool {
    state.pools.by_key(&Key::new(NAMESPACE, "p")).unwrap()
}

/// Live jobs of a verb, ended like this.
fn ended(state: &State, verb: Verb, outcome: &Outcome) -> Vec<Report> {
    let live = state.jobs.rows().filter(|job| job.ended.is_none() && job.verb == verb);
    live.map(|job| Report { job: job.id, object: job.object.clone(), outcome: outcome.clone() })
        .collect()
}

/// All installations that are under way end like this, and what they left is destroyed; how many
/// there were.
fn all_end(state: &mut State, names: &Names, tick: &Tick, outcome: &Outcome) -> usize {
    let installations = ended(state, Verb::Provision, outcome);
    let many = installations.len();
    plan::absorb(state, installations, tick);
    settle(state, names, tick);
    let gone = ended(state, Verb::Deprovision, &Outcome::Done);
    plan::absorb(state, gone, tick);
    settle(state, names, tick);
    many
}

fn nothing_made() -> Outcome {
    Outcome::Failed { message: AWAY.into(), how: Failure::NothingMade }
}

/// The minutes after noon at which installations begin within a day of failures.
fn attempts_in_a_day(line: &str, outcome: &Outcome) -> (State, Vec<i64>, usize) {
    let (mut state, names) = state(line, false);
    settle(&mut state, &names, &at(0));
    let (mut minutes, mut begun) = (Vec::new(), 0);
    for minute in 0..24 * 60 {
        settle(&mut state, &names, &at(minute));
        let many = all_end(&mut state, &names, &at(minute), outcome);
        if many > 0 {
            minutes.push(minute);
            begun += many;
        }
    }
    (state, minutes, begun)
}

#[test]
fn an_outage_uses_up_no_attempt_and_is_tried_later_and_later() {
    let line = "size 3 inv[a,b,c]; cdcs a(fresh) b(fresh) c(fresh)";
    let (state, minutes, _) = attempts_in_a_day(line, &nothing_made());
    // 1, 2, 4, 8, 16, 32 and then 60 minutes apart, all clusters of the pool together.
    assert_eq!(minutes[..8], [0, 1, 3, 7, 15, 31, 63, 123], "{minutes:?}");
    assert!(minutes.windows(2).all(|pair| pair[1] - pair[0] <= 60), "{minutes:?}");
    let pool = the_pool(&state);
    for name in ["a", "b", "c"] {
        assert_eq!(pool.status.inventory[name].attempts, 3, "{name}");
    }
    assert_eq!((pool.status.broken, pool.status.installing), (0, 3));
    let pause = pool.status.install_pause.as_ref().unwrap();
    assert_eq!((pause.cause.as_str(), pause.since), (AWAY, noon().now));
}

#[test]
fn a_limit_of_attempts_makes_no_loop_of_clusters() {
    for (outcome, most) in [
        (nothing_made(), 2 * 32),
        // Two in a row were given up: then the pool waits, too.
        (Outcome::Failed { message: "no".into(), how: Failure::Hopeless }, 2 * 32),
    ] {
        let (mut limited, names) = state("size 2", false);
        let pool = limited.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
        limited.pools.update(pool, |pool| pool.spec.install_attempts_limit = Some(1));
        let mut begun = 0;
        for minute in 0..24 * 60 {
            settle(&mut limited, &names, &at(minute));
            begun += all_end(&mut limited, &names, &at(minute), &outcome);
        }
        assert!(begun > 20 && begun <= most, "{begun} installations in a day: {outcome:?}");
    }
}

#[test]
fn one_success_or_a_change_of_the_pool_ends_the_pause() {
    let (mut outage, names) = state("size 1", false);
    settle(&mut outage, &names, &at(0));
    assert_eq!(all_end(&mut outage, &names, &at(1), &nothing_made()), 1);
    assert_eq!(plan::due(&outage, at(1).now), Some(at(2).now));
    let (mut changed, names) = (outage, names);
    let pool = changed.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
    settle(&mut changed, &names, &at(2));
    assert_eq!(all_end(&mut changed, &names, &at(2), &nothing_made()), 1);
    assert_eq!(ended(&changed, Verb::Provision, &Outcome::Done).len(), 0, "two minutes now");
    changed.pools.update(pool, |pool| pool.metadata.generation += 1);
    settle(&mut changed, &names, &at(3));
    assert_eq!(the_pool(&changed).status.install_pause, None);
    assert_eq!(ended(&changed, Verb::Provision, &Outcome::Done).len(), 1);
    let made = Outcome::Installed(Installation::default());
    assert_eq!(all_end(&mut changed, &names, &at(4), &made), 1);
    let pool = the_pool(&changed);
    assert_eq!((pool.status.install_pause.as_ref(), pool.status.given_up_in_a_row), (None, 0));
}

#[test]
fn what_the_installer_says_is_said_where_people_look() {
    let lab = Lab::new();
    let words = "Post vcenter.example.com: dial tcp: connection refused";
    lab.behave(&format!("create-manifests: exit 3 {words}"));
    let limited = format!("{TEMPLATED}  installAttemptsLimit: 1\n");
    apply(&lab.sandbox, &pool("lab", VSPHERE, &limited));
    lab.until("paused", |lab| lab.sandbox.ok(&["events"]).contains("InstallationsPaused"));
    assert_eq!(lab.phase(), "Retrying");
    assert_eq!(jsonpath(&lab.sandbox, "pool/lab", "{.status.inventory.foo.attempts}"), "3");
    let cluster = lab.sandbox.ok(&["get", "cluster", "-qo", "name"]);
    for command in [
        &["status"][..],
        &["why", "pool/lab"],
        &["why", &format!("cluster/{}", cluster.trim())],
        &["events", "pool/lab"],
    ] {
        let said = lab.sandbox.ok(command);
        assert!(said.contains(words), "{command:?}: {said}");
    }
    assert!(lab.sandbox.ok(&["status"]).contains("installations fail since"));
    // Nothing is begun meanwhile; who has mended it need not wait.
    lab.behave("");
    lab.sandbox.ok(&["reconcile", "-q"]);
    assert_eq!(lab.phase(), "Retrying");
    lab.sandbox.ok(&["cluster", "retry", cluster.trim(), "-q"]);
    lab.installed();
    assert_eq!(jsonpath(&lab.sandbox, "pool/lab", "{.status.installPause}"), "");
    lab.gone();
}
