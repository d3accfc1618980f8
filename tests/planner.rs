//! Hive's own scenarios as planner tests: each under the pool's scope and under the whole, and
//! each settled plan looked at a second time.

use std::collections::{BTreeMap, BTreeSet};

use poolctl::model::condition::ConditionType;
use poolctl::model::meta::Key;
use poolctl::model::state::State;
use poolctl::plan;

use crate::fixture::{NAMESPACE, Names, noon, state};

const CASES: &str = include_str!("cases/pools.txt");

struct Case {
    id: String,
    before: String,
    after: BTreeMap<String, String>,
}

/// Expectations by what they are about; a departure replaces what Hive does.
fn cases() -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split(" | ").collect();
            let mut after = BTreeMap::new();
            let departure = columns.get(3).and_then(|column| column.split_once(": "));
            for text in [Some(columns[2]), departure.map(|(_, text)| text)].into_iter().flatten() {
                for one in text.split("; ") {
                    let (about, what) = split(one);
                    after.insert(about, what);
                }
            }
            Case { id: columns[0].into(), before: columns[1].into(), after }
        })
        .collect()
}

/// `st.size 2` and `Pending reason k:X` are about their first words.
fn split(text: &str) -> (String, String) {
    for about in [
        "assigned claims",
        "claimed clusters",
        "waiting claims",
        "Pending reason",
        "ApplySucceeded reason",
    ] {
        if let Some(rest) = text.strip_prefix(about) {
            return (about.into(), rest.trim().into());
        }
    }
    let (about, what) = text.split_once(' ').unwrap_or((text, ""));
    (about.into(), what.into())
}

struct Seen<'a> {
    before: &'a State,
    after: &'a State,
    /// Names of clusters made in the round, in order.
    new: Vec<String>,
}

impl Seen<'_> {
    fn here(&self) -> impl Iterator<Item = &poolctl::model::cluster::Cluster> {
        self.after.clusters.rows()
    }

    /// Clusters that were not deleted in the round.
    fn left(&self) -> usize {
        let deleted = self.deleted();
        self.here().filter(|one| !deleted.contains(&one.name)).count()
    }

    fn deleted(&self) -> BTreeSet<String> {
        let before = self.before.clusters.rows().filter(|one| one.deleting.is_none());
        let names: BTreeSet<String> = before.map(|one| one.name.clone()).collect();
        let gone = |name: &&String| {
            let found = self.after.cluster(name).and_then(|at| self.after.clusters.get(at));
            found.is_none_or(|one| one.deleting.is_some())
        };
        names.iter().filter(gone).cloned().collect()
    }

    fn condition(&self, kind: &str) -> String {
        let pool = self.after.pools.by_key(&Key::new(NAMESPACE, "p"));
        let found = pool.and_then(|pool| pool.condition(ConditionType::named(kind)?));
        let status = found.map_or("gone", |one| one.status.as_str());
        match (kind, status, found) {
            ("DeletionPossible", "False", Some(one)) => {
                let names = one.message.split(": ").nth(1).unwrap_or_default();
                format!("False naming {names}")
            }
            // A pool whose deletion is possible is gone.
            ("DeletionPossible", "gone", _) => "True".into(),
            _ => status.into(),
        }
    }

    fn holders(&self) -> Vec<String> {
        let holder = |name: &str| match self.new.iter().position(|one| one == name) {
            Some(at) => format!("new-{at}"),
            None => name.to_owned(),
        };
        let all = self.after.customizations.rows();
        all.filter_map(|one| {
            let by = one.holder.as_ref()?;
            Some(format!("{}:{}", one.metadata.name, holder(&by.cluster)))
        })
        .collect()
    }

    fn look(&self, about: &str, wanted: &str) -> String {
        let count = |number: usize| number.to_string();
        let pool = self.before.pools.by_key(&Key::new(NAMESPACE, "p")).unwrap();
        let sorted = || plan::buckets::sort_pool(self.before, pool, noon().now);
        let in_pool =
            |pool: &str| self.after.claims.rows().filter(move |one| one.pool == *pool).count();
        let claims = || self.after.claims.rows();
        match about {
            "left" => count(self.left()),
            "st.size" => count(sorted().unclaimed()),
            "st.ready" => count(sorted().ready.len()),
            "power=Running" => {
                let runs = |one: &&poolctl::model::cluster::Cluster| {
                    one.deleting.is_none()
                        && one.power_wanted == poolctl::model::cluster::Power::Running
                };
                count(self.here().filter(runs).count())
            }
            "deleted" => {
                let deleted: Vec<String> = self.deleted().into_iter().collect();
                if deleted.is_empty() { "none".into() } else { deleted.join(",") }
            }
            "assigned claims" => count(claims().filter(|one| one.cluster.is_some()).count()),
            "waiting claims" => {
                assert!(in_pool("p") > 0);
                count(claims().filter(|one| one.cluster.is_none()).count())
            }
            "claimed clusters" => {
                let deleted = self.deleted();
                let claimed = self.here().filter(|one| one.claim.is_some());
                count(claimed.filter(|one| !deleted.contains(&one.name)).count())
            }
            "reserved" => {
                let wanted: BTreeSet<&str> = wanted.split(", ").collect();
                let held = self.holders();
                let held: BTreeSet<&str> = held.iter().map(String::as_str).collect();
                held.iter()
                    .filter(|one| wanted.contains(*one))
                    .copied()
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            "ApplySucceeded reason" => {
                let (name, _) = wanted.split_once(':').unwrap();
                let found = self.after.customizations.by_key(&Key::new(NAMESPACE, name));
                let reason = found.and_then(|one| one.condition("ApplySucceeded"));
                format!("{name}:{}", reason.map_or("", |one| &one.reason))
            }
            "Pending reason" => {
                let reason = |one: &str| {
                    let (name, _) = one.split_once(':').unwrap();
                    let found = self.after.claims.by_key(&Key::new(NAMESPACE, name)).unwrap();
                    format!("{name}:{}", found.pending.wire().1.as_str())
                };
                wanted.split(", ").map(reason).collect::<Vec<_>>().join(", ")
            }
            kind => self.condition(kind),
        }
    }
}

#[test]
fn one_round_does_what_hive_does_in_one_pass() {
    let mut wrong = Vec::new();
    for case in cases() {
        for whole in [false, true] {
            let (before, _) = state(&case.before, whole);
            let (mut after, names) = state(&case.before, whole);
            // Another pool is there only to be left alone; its own round is not looked at.
            if whole {
                let other = after.pools.find(&Key::new(NAMESPACE, "other")).unwrap();
                after.pools.update(other, |pool| pool.spec.size = 0);
            }
            plan::round(&mut after, &noon(), &names);
            let known: BTreeSet<String> =
                before.clusters.rows().map(|one| one.name.clone()).collect();
            let new = after.clusters.rows().filter(|one| !known.contains(&one.name));
            let new = new.map(|one| one.name.clone()).collect();
            let seen = Seen { before: &before, after: &after, new };
            for (about, wanted) in &case.after {
                if about == "error" || wanted == "-" {
                    continue;
                }
                let elsewhere = case.before.contains("pool none")
                    || case.before.contains("pool other")
                    || case.before.contains("other namespace");
                // What the pool's scope leaves out is not there to be counted.
                if elsewhere
                    && !whole
                    && ["left", "waiting claims", "assigned claims"].contains(&about.as_str())
                {
                    continue;
                }
                let found = seen.look(about, wanted);
                if found != *wanted {
                    let scope = if whole { "whole" } else { "pool" };
                    wrong.push(format!("{} ({scope}): {about} is {found}, not {wanted}", case.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What belongs to the pool, in a form that can be compared.
fn objects(state: &State) -> Vec<String> {
    let mut all = Vec::new();
    let mine = |pool: &Option<std::rc::Rc<Key>>| pool.as_ref().is_some_and(|pool| pool.name == "p");
    all.extend(
        state.pools.rows().filter(|one| one.metadata.name == "p").map(|one| format!("{one:?}")),
    );
    all.extend(state.clusters.rows().filter(|one| mine(&one.pool)).map(|one| format!("{one:?}")));
    let claims = state.claims.rows().filter(|one| one.namespace == NAMESPACE);
    all.extend(claims.map(|one| format!("{one:?}")));
    all.extend(state.customizations.rows().map(|one| format!("{one:?}")));
    all.extend(state.jobs.rows().filter(|one| mine(&one.pool)).map(|one| format!("{one:?}")));
    all
}

#[test]
fn the_whole_and_the_pools_scope_come_to_the_same_and_a_second_pass_is_silent() {
    for case in cases() {
        let settle = |whole: bool| -> (State, Names) {
            let (mut found, names) = state(&case.before, whole);
            plan::settle(&mut found, &noon(), &names).unwrap_or_else(|_| panic!("{}", case.id));
            (found, names)
        };
        let (mut small, names) = settle(false);
        let (whole, _) = settle(true);
        assert_eq!(objects(&small), objects(&whole), "{}", case.id);
        let (changes, events) = (small.changes_made(), small.events.len());
        plan::settle(&mut small, &noon(), &names).unwrap();
        assert_eq!((small.changes_made(), small.events.len()), (changes, events), "{}", case.id);
    }
}

/// X rows: what Hive gets wrong.
#[test]
fn what_starves_in_hive_does_not_starve() {
    let settled = |line: &str| {
        let (mut found, names) = state(line, true);
        plan::settle(&mut found, &noon(), &names).unwrap();
        found
    };
    let deleting = |state: &State| -> Vec<String> {
        let gone = state.clusters.rows().filter(|one| one.deleting.is_some());
        gone.map(|one| one.name.clone()).collect()
    };
    // the broken cluster holds what the claim waits for.
    let one = settled("size 1 inv[a]; c1=B[cdc a]; claims k; cdcs a(Reserved, ->c1, pool p)");
    assert_eq!(deleting(&one), ["c1"]);
    //
    let two = settled(
        "size 3 inv[a,b]; c1=B[cdc a] c2=B[cdc b]; cdcs a(Reserved, ->c1, pool p) b(Reserved, ->c2, pool p)",
    );
    assert_eq!(deleting(&two), ["c1", "c2"]);
    // a size that cannot be reached does not keep stale clusters for ever.
    let three = settled("size 5 maxSize 3; c1=S[ver 'x'] c2=S[ver 'x'] c3=S[ver 'x']");
    assert_eq!(deleting(&three), ["c1"]);
    // a stale cluster that is claimed in this pass is kept.
    for line in ["size 0; c1=R[ver 'x']; claims k", "size 1; c1=R[ver 'x'] c2=S[ver 'x']; claims k"]
    {
        let kept = settled(line);
        let c1 = kept.clusters.get(kept.cluster("c1").unwrap()).unwrap();
        assert_eq!((c1.claim.as_deref(), c1.deleting), (Some("k"), None), "{line}");
    }
    // three installing clusters go in one pass.
    assert_eq!(deleting(&settled("size 0; c1=I c2=I c3=I")).len(), 3);
}
