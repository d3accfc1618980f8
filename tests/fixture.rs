//! States for planner tests, written in a line. `cases/pools.txt` explains the words: a pool `p`,
//! its clusters, `claims` and customizations (`cdcs`), separated by semicolons. No program, disk or
//! clock is involved.

use std::collections::BTreeSet;
use std::rc::Rc;

use poolctl::model::address::{Addr, IpRange};
use poolctl::model::agent::facts::{AgentFacts, HostBook};
use poolctl::model::claim::{Claim, Pending};
use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::condition::{Condition, ConditionType};
use poolctl::model::customization::Customization;
use poolctl::model::documents::{ClusterImageSet, Secret, StoredValue};
use poolctl::model::driver::{Driver, FAKE_CLUSTER};
use poolctl::model::inventory::InventoryEntry;
use poolctl::model::ip_pool::IpPool;
use poolctl::model::lease::ClusterHolder;
use poolctl::model::meta::{Key, LocalRef, Meta};
use poolctl::model::platform::Platform;
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::{AddressBook, NameBook, State};
use poolctl::model::tick::Tick;
use poolctl::model::time::{Span, Time};

pub const NAMESPACE: &str = "default";
const IMAGE_SET: &str = "test-image-set";
const PULL_SECRET: &str = "test-pull-secret";

/// The instant at which every planner test begins.
pub fn noon() -> Tick {
    let now = Time(1_790_000_000_000_000);
    Tick { now, seed: 7, actor: "test".into(), ..Tick::default() }
}

/// The names of the clusters that a line lists, and no addresses: what a plan asks the store.
#[derive(Default)]
pub struct Names(BTreeSet<String>);

impl AddressBook for Names {
    fn holder(&self, _: &str, _: Addr) -> Option<String> {
        None
    }

    fn is_address_name_given(&self, _: &str, _: &str) -> bool {
        false
    }

    fn free_ranges(&self, pool: &IpPool, after: Option<Addr>) -> Vec<IpRange> {
        if after.is_some() {
            return Vec::new();
        }
        pool.leasable_ranges().into_iter().map(|(_, range)| range).collect()
    }

    fn released_at(&self, _: &IpPool, _: Addr) -> Option<Time> {
        None
    }

    fn released_addresses(
        &self,
        _: &IpPool,
        _: Time,
        _: Option<(Addr, Time)>,
    ) -> Vec<(Addr, Time)> {
        Vec::new()
    }

    fn is_scarce(&self, _: &IpPool) -> bool {
        true
    }
}

/// Everything is in the state that a test plans.
impl HostBook for Names {
    fn agents_with_cluster(&self, _: &str) -> Vec<AgentFacts> {
        Vec::new()
    }
}

impl NameBook for Names {
    fn cluster_exists(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn holder(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// The state that a line describes: with another pool and what belongs to it (`whole`), or with
/// what is in the scope of pool `p` only.
pub fn parse_state(line: &str, whole: bool) -> (State, Names) {
    let mut state = State::default();
    let mut names = Names::default();
    let parts: Vec<&str> = line.split("; ").map(str::trim).collect();
    let absent = parts.iter().find_map(|part| part.strip_prefix("absent: ")).unwrap_or("");
    let pool = pool(parts[0]);
    let version = poolctl::model::pool_versions::pool_version(&pool);
    add_dependencies(&mut state, absent);
    if let Some(reference) = &pool.spec.customization_ref
        && !absent.contains("wide")
    {
        state.customizations.load(customization(&reference.name, "fresh"));
    }
    state.pools.load(pool);
    if whole {
        let mut other_pool = self::pool("size 1");
        other_pool.metadata.name = "other".into();
        state.pools.load(other_pool);
    }
    for part in &parts[1..] {
        if let Some(claims) = part.strip_prefix("claims ") {
            add_claims(&mut state, claims, whole);
        } else if let Some(customizations) = part.strip_prefix("cdcs ") {
            add_customizations(&mut state, customizations);
        } else if !part.starts_with("absent: ") {
            for (name, marks) in items(part) {
                let cluster = cluster(&name, &marks, &version);
                names.0.insert(cluster.name.clone());
                if whole || cluster.pool.as_deref().is_some_and(|pool| pool.name == "p") {
                    state.load_cluster(cluster);
                }
            }
        }
    }
    (state, names)
}

fn add_claims(state: &mut State, claims: &str, whole: bool) {
    for (name, marks) in items(claims) {
        let claim = claim(&name, &marks);
        if claim.namespace == NAMESPACE || whole {
            state.load_claim(claim);
        }
    }
}

/// The customization of the whole pool may be listed again: it is there already.
fn add_customizations(state: &mut State, customizations: &str) {
    for (name, marks) in items(customizations) {
        if state.customizations.find(&Key::new(NAMESPACE, &*name)).is_none() {
            state.customizations.load(customization(&name, &marks));
        }
    }
}

/// Splits `a[x, y] b(z)` or `c1=R[x] c2=S` into names and what follows each name.
fn items(text: &str) -> Vec<(String, String)> {
    let mut items = Vec::new();
    let mut depth = 0;
    let mut item = String::new();
    for letter in text.chars().chain([' ']) {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        if letter == ' ' && depth == 0 {
            let end = item.find(['[', '(', '=']).unwrap_or(item.len());
            if !item.is_empty() {
                items.push((item[..end].to_owned(), item[end..].to_owned()));
            }
            item.clear();
        } else {
            item.push(letter);
        }
    }
    items
}

/// What follows a word in the marks, up to the next comma or bracket.
fn value<'a>(marks: &'a str, word: &str) -> Option<&'a str> {
    let start = marks.find(word)? + word.len();
    let rest = &marks[start..];
    let end = rest.find([',', ']', ')']).unwrap_or(rest.len());
    Some(rest[..end].trim().trim_matches('\''))
}

fn parse_span(text: &str) -> Span {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a duration"))
}

/// The number that follows a word in the description of a pool.
fn number(description: &str, word: &str) -> Option<u32> {
    let mut words = description.split(' ');
    words.find(|candidate| *candidate == word)?;
    words.next()?.parse().ok()
}

/// The customizations that `inv[a,b]` lists.
fn inventory(description: &str) -> Option<Vec<InventoryEntry>> {
    let (_, rest) = description.split_once("inv[")?;
    let (names, _) = rest.split_once(']').unwrap();
    let mut entries = Vec::new();
    for name in names.split(',') {
        entries.push(InventoryEntry { kind: String::new(), name: name.into() });
    }
    Some(entries)
}

fn pool(description: &str) -> ClusterPool {
    let mut pool = ClusterPool::default();
    let now = noon().now;
    pool.metadata = Meta {
        name: "p".into(),
        namespace: NAMESPACE.into(),
        uid: "00000000-0000-0000-0000-000000000001".into(),
        generation: 1,
        deletion_timestamp: description.contains("POOL DELETED").then_some(now),
        ..Meta::default()
    };
    let spec = &mut pool.spec;
    spec.size = number(description, "size").unwrap();
    spec.running_count = number(description, "run").unwrap_or(0);
    spec.max_size = number(description, "maxSize");
    spec.max_concurrent = number(description, "maxConc");
    spec.base_domain = "example.com".into();
    spec.image_set_ref = LocalRef::to_name(IMAGE_SET);
    spec.pull_secret_ref = Some(LocalRef::to_name(PULL_SECRET));
    spec.platform = Platform::named("aws").unwrap();
    spec.annotations.insert(FAKE_CLUSTER.into(), "true".into());
    if description.contains("customizationRef wide") {
        spec.customization_ref = Some(LocalRef::to_name("wide"));
    }
    spec.inventory = inventory(description);
    pool
}

/// The image set and the pull secret of the pool, unless they are said to be absent.
fn add_dependencies(state: &mut State, absent: &str) {
    if !absent.contains("imageset") {
        let metadata = Meta { name: IMAGE_SET.into(), ..Meta::default() };
        state.image_sets.load(ClusterImageSet { metadata, ..ClusterImageSet::default() });
    }
    if !absent.contains("pull") {
        let metadata =
            Meta { name: PULL_SECRET.into(), namespace: NAMESPACE.into(), ..Meta::default() };
        let values = [(".dockerconfigjson".to_owned(), StoredValue::Kept)].into();
        state.secrets.load(Secret { metadata, values, ..Secret::default() });
    }
}

fn cluster(name: &str, marks: &str, version: &str) -> Cluster {
    let tick = noon();
    let age = value(marks, "age ").map(parse_span).unwrap_or_default();
    let created = Time(tick.now.0 - Span::hours(6).0 - age.0);
    let kind = marks.trim_start_matches('=').chars().next().unwrap();
    let installed = matches!(kind, 'S' | 'R').then_some(created);
    let (power, power_wanted) = match kind {
        'R' => (Power::Running, Power::Running),
        'S' => (Power::Hibernating, Power::Hibernating),
        _ => (Power::Unset, Power::Unset),
    };
    let pool = match value(marks, "pool ") {
        Some("none") => None,
        Some(name) => Some(Rc::new(Key::new(NAMESPACE, name))),
        None => Some(Rc::new(Key::new(NAMESPACE, "p"))),
    };
    let claim = value(marks, "claimed:").map(str::to_owned);
    let has_mark =
        |word: &str| marks.trim_end_matches(']').split([',', '[']).any(|mark| mark.trim() == word);
    Cluster {
        name: name.into(),
        namespace: name.into(),
        created,
        driver: Driver::Fake,
        pool,
        claimed_at: claim.as_ref().map(|_| created),
        claim,
        customization: value(marks, "cdc ").map(str::to_owned),
        version: Some(value(marks, "ver ").unwrap_or(version).into()),
        cluster_name: name.into(),
        base_domain: "example.com".into(),
        power_wanted,
        power,
        power_since: installed,
        started_at: Some(created),
        installed_at: installed,
        stopped: kind == 'B',
        failed_at: match kind {
            'B' => Some(created),
            'F' => Some(tick.now),
            _ => None,
        },
        marked: has_mark("marked"),
        deleting: has_mark("deleting").then_some(created),
        ..Cluster::default()
    }
}

fn claim(name: &str, marks: &str) -> Claim {
    let age = value(marks, "age ").map(parse_span).unwrap_or_default();
    let namespace = if marks.contains("other namespace") { "elsewhere" } else { NAMESPACE };
    Claim {
        name: name.into(),
        namespace: namespace.into(),
        created: Time(noon().now.0 - age.0),
        pool: "p".into(),
        pending: Pending::Initialized,
        ..Claim::default()
    }
}

fn customization(name: &str, marks: &str) -> Customization {
    let mut customization = Customization::default();
    let now = noon().now;
    customization.metadata = Meta {
        name: name.into(),
        namespace: NAMESPACE.into(),
        generation: 1,
        deletion_timestamp: marks.contains("being deleted").then_some(now),
        ..Meta::default()
    };
    let pool = value(marks, "pool ").map(|pool| Key::new(NAMESPACE, pool));
    if marks.contains("Reserved") {
        let cluster = value(marks, "->").unwrap_or("").to_owned();
        customization.holder =
            Some(ClusterHolder { pool: pool.clone(), ..ClusterHolder::new(cluster) });
    }
    // The old status is what was written last, right or wrong.
    customization.status.cluster_deployment_ref = value(marks, "->").map(LocalRef::to_name);
    customization.status.cluster_pool_ref = pool.map(|pool| LocalRef::to_name(pool.name));
    for (reason, status) in [("Succeeded", "True"), ("BrokenByCloud", "False")] {
        if let Some(ago) = value(marks, &format!("{reason} ")) {
            let since = Time(now.0 - parse_span(ago.trim_end_matches(" ago")).0);
            let applied = Condition {
                kind: ConditionType::ApplySucceeded.into(),
                status: status.into(),
                reason: reason.into(),
                ..Condition::default()
            };
            customization.status.conditions.push(applied.with_times(since));
        }
    }
    customization
}
