//! Hive's own scenarios as planner tests: one round of the plan does what Hive does in one pass,
//! under the pool's scope and under the whole, and a settled plan stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use poolctl::model::claim::Claim;
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::condition::ConditionType;
use poolctl::model::meta::Key;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::{Span, Time};
use poolctl::plan::{self, buckets::SortedPool};

use crate::cases::{columns, first_word, rows};
use crate::fixture::{NAMESPACE, Names, noon, parse_state};

struct Case {
    id: String,
    /// The state before, as `fixture` reads it.
    before: String,
    /// What is expected, by its subject.
    expected: BTreeMap<String, String>,
}

/// The rows of `cases/pools.txt`. What a decision departs from replaces what Hive does.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in rows(include_str!("cases/pools.txt")) {
        let columns = columns(row);
        let mut expectations: Vec<&str> = columns[2].split("; ").collect();
        if let Some((_, departure)) = columns.get(3).and_then(|column| column.split_once(": ")) {
            expectations.extend(departure.split("; "));
        }
        let mut expected = BTreeMap::new();
        for expectation in expectations {
            let (subject, value) = split_expectation(expectation);
            expected.insert(subject, value);
        }
        cases.push(Case { id: columns[0].into(), before: columns[1].into(), expected });
    }
    cases
}

/// The subject of an expectation, which is its first word or one of a few pairs of words, and the
/// value that is expected.
fn split_expectation(expectation: &str) -> (String, String) {
    for subject in [
        "assigned claims",
        "claimed clusters",
        "waiting claims",
        "Pending reason",
        "ApplySucceeded reason",
    ] {
        if let Some(value) = expectation.strip_prefix(subject) {
            return (subject.into(), value.trim().into());
        }
    }
    let (subject, value) = first_word(expectation);
    (subject.into(), value.into())
}

fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}

/// A round of the plan: the states before and after it.
struct Round {
    before: State,
    after: State,
}

impl Round {
    fn play(line: &str, whole: bool) -> Self {
        let (before, _) = parse_state(line, whole);
        let (mut after, names) = parse_state(line, whole);
        // Another pool is there only to be left alone; its own clusters are not looked at.
        if whole {
            let other_pool = after.pools.find(&key("other")).unwrap();
            after.pools.update(other_pool, |pool| pool.spec.size = 0);
        }
        plan::round(&mut after, &noon(), &names);
        Self { before, after }
    }

    /// The clusters of the pool before the round, sorted as the plan sorts them.
    fn buckets(&self) -> SortedPool {
        let pool = self.before.pools.by_key(&key("p")).unwrap();
        plan::buckets::sort_pool(&self.before, pool, noon().now)
    }

    /// Names of the clusters that were created in the round, in order.
    fn created(&self) -> Vec<&str> {
        let before: BTreeSet<&str> =
            self.before.clusters.rows().map(|cluster| cluster.name.as_str()).collect();
        let after = self.after.clusters.rows().map(|cluster| cluster.name.as_str());
        after.filter(|name| !before.contains(name)).collect()
    }

    /// Names of the clusters whose deletion began in the round.
    fn deleted(&self) -> BTreeSet<&str> {
        let mut deleted = BTreeSet::new();
        for cluster in self.before.clusters.rows().filter(|cluster| cluster.deleting.is_none()) {
            let id = self.after.find_cluster(&cluster.name);
            let after = id.and_then(|id| self.after.clusters.get(id));
            if after.is_none_or(|cluster| cluster.deleting.is_some()) {
                deleted.insert(cluster.name.as_str());
            }
        }
        deleted
    }

    fn count_left(&self, is_counted: impl Fn(&Cluster) -> bool) -> String {
        let deleted = self.deleted();
        let left = self
            .after
            .clusters
            .rows()
            .filter(|cluster| is_counted(cluster) && !deleted.contains(cluster.name.as_str()));
        left.count().to_string()
    }

    fn count_claims(&self, is_counted: impl Fn(&Claim) -> bool) -> String {
        self.after.claims.rows().filter(|claim| is_counted(claim)).count().to_string()
    }

    /// Status of a condition of the pool.
    fn pool_condition(&self, kind: &str) -> String {
        let pool = self.after.pools.by_key(&key("p"));
        let condition = pool.and_then(|pool| pool.condition(ConditionType::named(kind)?));
        let Some(condition) = condition else {
            // A pool whose deletion is possible is gone.
            return if kind == "DeletionPossible" { "True" } else { "gone" }.into();
        };
        let status = condition.status.as_str();
        if kind == "DeletionPossible" && status == "False" {
            let names = condition.message.split(": ").nth(1).unwrap_or_default();
            return format!("False naming {names}");
        }
        status.into()
    }

    /// The customizations that are held, as `NAME:CLUSTER`; a cluster that was created is `new-N`.
    fn reservations(&self) -> BTreeSet<String> {
        let created = self.created();
        let mut reservations = BTreeSet::new();
        for customization in self.after.customizations.rows() {
            let Some(holder) = &customization.holder else { continue };
            let name = &customization.metadata.name;
            let cluster = match created.iter().position(|created| *created == holder.cluster) {
                Some(index) => format!("new-{index}"),
                None => holder.cluster.clone(),
            };
            reservations.insert(format!("{name}:{cluster}"));
        }
        reservations
    }

    /// `NAME:REASON` of a customization's condition ApplySucceeded, for the name in `expected`.
    fn apply_reason(&self, expected: &str) -> String {
        let (name, _) = expected.split_once(':').unwrap();
        let customization = self.after.customizations.by_key(&key(name));
        let condition =
            customization.and_then(|held| held.condition(ConditionType::ApplySucceeded));
        format!("{name}:{}", condition.map_or("", |condition| &condition.reason))
    }

    /// `NAME:REASON` of the claims' condition Pending, for the names in `expected`.
    fn pending_reasons(&self, expected: &str) -> String {
        let mut reasons = Vec::new();
        for pair in expected.split(", ") {
            let (name, _) = pair.split_once(':').unwrap();
            let claim = self.after.claims.by_key(&key(name)).unwrap();
            reasons.push(format!("{name}:{}", claim.pending.condition_words().1.as_str()));
        }
        reasons.join(", ")
    }

    /// What came of a subject, as an expectation writes it.
    fn actual(&self, subject: &str, expected: &str) -> String {
        match subject {
            "left" => self.count_left(|_| true),
            "st.size" => self.buckets().unclaimed().to_string(),
            "st.ready" => self.buckets().ready.len().to_string(),
            "power=Running" => {
                let running = self.after.clusters.rows().filter(|cluster| {
                    cluster.deleting.is_none() && cluster.power_wanted == Power::Running
                });
                running.count().to_string()
            }
            "deleted" => {
                let deleted: Vec<&str> = self.deleted().into_iter().collect();
                if deleted.is_empty() { "none".into() } else { deleted.join(",") }
            }
            "assigned claims" => self.count_claims(|claim| claim.cluster.is_some()),
            "waiting claims" => {
                assert_ne!(self.count_claims(|claim| claim.pool == *"p"), "0");
                self.count_claims(|claim| claim.cluster.is_none())
            }
            "claimed clusters" => self.count_left(|cluster| cluster.claim.is_some()),
            "reserved" => {
                let mut reservations = self.reservations();
                let listed: Vec<&str> = expected.split(", ").collect();
                reservations.retain(|reservation| listed.contains(&reservation.as_str()));
                reservations.into_iter().collect::<Vec<_>>().join(", ")
            }
            "ApplySucceeded reason" => self.apply_reason(expected),
            "Pending reason" => self.pending_reasons(expected),
            condition => self.pool_condition(condition),
        }
    }
}

/// Whether an expectation counts what the scope of the pool leaves out.
fn counts_what_is_elsewhere(case: &Case, subject: &str) -> bool {
    let elsewhere = ["pool none", "pool other", "other namespace"];
    elsewhere.iter().any(|mark| case.before.contains(mark))
        && ["left", "waiting claims", "assigned claims"].contains(&subject)
}

#[test]
fn one_round_does_what_hive_does_in_one_pass() {
    let mut wrong = Vec::new();
    for case in cases() {
        for whole in [false, true] {
            let round = Round::play(&case.before, whole);
            let scope = if whole { "whole" } else { "pool" };
            for (subject, expected) in &case.expected {
                if subject == "error" || expected == "-" {
                    continue;
                }
                if !whole && counts_what_is_elsewhere(&case, subject) {
                    continue;
                }
                let actual = round.actual(subject, expected);
                if actual != *expected {
                    let id = &case.id;
                    wrong.push(format!("{id} ({scope}): {subject} is {actual}, not {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn is_of_pool(pool: Option<&Key>) -> bool {
    pool.is_some_and(|pool| pool.name == "p")
}

/// What belongs to the pool, in a form that can be compared.
fn objects_of_pool(state: &State) -> Vec<String> {
    let mut objects = Vec::new();
    for pool in state.pools.rows().filter(|pool| pool.metadata.name == "p") {
        objects.push(format!("{pool:?}"));
    }
    for cluster in state.clusters.rows().filter(|cluster| is_of_pool(cluster.pool.as_deref())) {
        objects.push(format!("{cluster:?}"));
    }
    for claim in state.claims.rows().filter(|claim| claim.namespace == NAMESPACE) {
        objects.push(format!("{claim:?}"));
    }
    for customization in state.customizations.rows() {
        objects.push(format!("{customization:?}"));
    }
    for job in state.jobs.rows().filter(|job| is_of_pool(job.pool.as_deref())) {
        objects.push(format!("{job:?}"));
    }
    objects
}

/// The state that a line describes after a settled plan.
fn settle(line: &str, whole: bool) -> (State, Names) {
    let (mut state, names) = parse_state(line, whole);
    plan::settle(&mut state, &noon(), &names).unwrap_or_else(|_| panic!("{line}"));
    (state, names)
}

#[test]
fn the_whole_and_the_pools_scope_come_to_the_same_and_a_second_pass_is_silent() {
    for case in cases() {
        let (mut of_pool, names) = settle(&case.before, false);
        let (whole, _) = settle(&case.before, true);
        assert_eq!(objects_of_pool(&of_pool), objects_of_pool(&whole), "{}", case.id);
        let changes = of_pool.changes_made();
        let events = of_pool.events.len();
        plan::settle(&mut of_pool, &noon(), &names).unwrap();
        assert_eq!(of_pool.changes_made(), changes, "{}", case.id);
        assert_eq!(of_pool.events.len(), events, "{}", case.id);
    }
}

/// A pass looks at a pool only when something is due: until then there must be nothing to do.
#[test]
fn until_something_is_due_planning_changes_nothing() {
    let mut due_instants = 0;
    for case in cases() {
        let (mut state, names) = settle(&case.before, true);
        let due = plan::next_due_at(&state, noon().now);
        due_instants += u32::from(due.is_some());
        let changes = state.changes_made();
        // The last instant before it is due; without one, after years.
        let before_due = due.map_or(noon().now.plus(Span::hours(24 * 1000)), |due| Time(due.0 - 1));
        for instant in [noon().now.plus(Span(1)), before_due] {
            let tick = Tick { now: instant.max(noon().now), ..noon() };
            plan::settle(&mut state, &tick, &names).unwrap();
            assert_eq!(state.changes_made(), changes, "{} at {instant}, due {due:?}", case.id);
        }
    }
    assert!(due_instants > 0, "{due_instants}");
}

/// Names of the clusters that are being deleted after a settled plan.
fn deleted_after(line: &str) -> Vec<String> {
    let (state, _) = settle(line, true);
    let deleted = state.clusters.rows().filter(|cluster| cluster.deleting.is_some());
    deleted.map(|cluster| cluster.name.clone()).collect()
}

///
#[test]
fn a_broken_cluster_gives_its_customization_to_what_waits_for_it() {
    let line = "size 1 inv[a]; c1=B[cdc a]; claims k; cdcs a(Reserved, ->c1, pool p)";
    assert_eq!(deleted_after(line), ["c1"]);
    let line = "size 3 inv[a,b]; c1=B[cdc a] c2=B[cdc b]; \
                cdcs a(Reserved, ->c1, pool p) b(Reserved, ->c2, pool p)";
    assert_eq!(deleted_after(line), ["c1", "c2"]);
}

///
#[test]
fn a_size_that_cannot_be_reached_keeps_no_stale_cluster_for_ever() {
    let line = "size 5 maxSize 3; c1=S[ver 'x'] c2=S[ver 'x'] c3=S[ver 'x']";
    assert_eq!(deleted_after(line), ["c1"]);
}

///
#[test]
fn a_stale_cluster_that_is_claimed_in_this_pass_is_kept() {
    for line in ["size 0; c1=R[ver 'x']; claims k", "size 1; c1=R[ver 'x'] c2=S[ver 'x']; claims k"]
    {
        let (state, _) = settle(line, true);
        let cluster = state.clusters.get(state.find_cluster("c1").unwrap()).unwrap();
        assert_eq!(cluster.claim.as_deref(), Some("k"), "{line}");
        assert_eq!(cluster.deleting, None, "{line}");
    }
}

///
#[test]
fn all_installing_clusters_that_are_too_many_go_in_one_pass() {
    assert_eq!(deleted_after("size 0; c1=I c2=I c3=I").len(), 3);
}

#[test]
fn what_has_failed_goes_before_what_is_healthy() {
    let cases: [(&str, &[&str]); 4] = [
        // At maxSize it leaves the room for its successor, and the healthy one waits for that.
        ("size 2 maxSize 2; c1=F[ver 'x'] c2=S[ver 'x', age 3600s]", &["c1"]),
        ("size 3; c1=F[ver 'x'] c2=B[ver 'x'] c3=F", &["c1", "c2"]),
        // What the pool makes now fails, so what it made before stays.
        ("size 2; c1=F c2=S[ver 'x']", &[]),
        // An attempt that has not failed yet may succeed.
        ("size 2; c1=I[ver 'x'] c2=S[ver 'x']", &[]),
    ];
    for (line, deleted) in cases {
        assert_eq!(deleted_after(line), deleted, "{line}");
    }
}

#[test]
fn what_waits_for_its_next_attempt_takes_no_place_of_max_concurrent() {
    let (state, _) = settle("size 2 maxConc 1; c1=F", true);
    assert_eq!(state.members(&key("p")).clusters.len(), 2);
    assert!(state.live_job("c1").is_none());
}
