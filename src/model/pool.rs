//! ClusterPool: what a pool should be, and what it is. It says what follows from these alone, such
//! as time limits; what is done about a pool is decided in `plan`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::annotations::{DRIVER, NODES_FROM, SPREAD_BY, SSH_KEY, VIPS_FROM, WAKE_NEXT_AFTER};
use super::condition::{Condition, ConditionType};
use super::deployment::{EnvVar, config_maps_with_manifests};
use super::driver::{Driver, PROGRAM_PREFIX};
use super::failure::FailureClass;
use super::inventory::{InventoryEntry, InventoryStatus};
use super::kinds::Kind;
use super::meta::{Key, LocalRef, Meta, is_zero};
use super::platform::Platform;
use super::time::{Span, Time};

/// A pool of clusters, in Hive's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterPool {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The desired state of the pool.
    pub spec: PoolSpec,
    /// The observed state of the pool, written by poolctl.
    #[serde(default)]
    pub status: PoolStatus,
}

/// What the pool keeps, and of what its clusters are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSpec {
    /// Annotations for each new cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Base domain; a cluster's domain is NAME.BASEDOMAIN.
    pub base_domain: String,
    /// How long claims may keep their clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_lifetime: Option<ClaimLifetime>,
    /// A customization whose manifest patches apply to every cluster of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customization_ref: Option<LocalRef>,
    /// A claimed cluster hibernates after it has run this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernate_after: Option<Span>,
    /// How long clusters may take to wake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation_config: Option<HibernationConfig>,
    /// The ClusterImageSet that clusters are installed from.
    pub image_set_ref: LocalRef,
    /// Maximum number of installation attempts for a cluster; without it, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_attempts_limit: Option<u32>,
    /// A Secret whose `install-config.yaml` is the template of every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_config_secret_template_ref: Option<LocalRef>,
    /// Environment variables of the installer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installer_env: Vec<EnvVar>,
    /// Customizations, each used by at most one cluster at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Vec<InventoryEntry>>,
    /// Labels for each new cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Maximum number of clusters that are installed or destroyed at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Maximum number of clusters, including claimed clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
    /// The platform of the clusters; set exactly one.
    pub platform: Platform,
    /// A Secret with the pull secret (`.dockerconfigjson`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<LocalRef>,
    /// Number of unclaimed clusters that run; the others hibernate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub running_count: u32,
    /// Number of unclaimed clusters to keep.
    pub size: u32,
    /// Whether new clusters get no machine pools.
    #[schemars(extend("x-no-effect" = "it makes no machine pools"))]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip_machine_pools: bool,
}

/// How long claims of the pool may last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimLifetime {
    /// Lifetime of a claim that names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Span>,
    /// Longest lifetime of any claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Span>,
}

/// How long clusters may take to wake.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HibernationConfig {
    /// A cluster that takes longer to wake is broken. Without it, a cluster is broken when one step
    /// of its waking takes three times as long as the pool's clusters usually take to wake. That is
    /// at least 20 minutes, or 45 on bare metal. The time until its machines can be told to start
    /// does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_timeout: Option<Span>,
}

/// What the pool has. Hive knows size, standby, ready and conditions; the rest is poolctl's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolStatus {
    /// Unclaimed clusters, including installing and broken clusters.
    pub size: u32,
    /// Unclaimed clusters that are installed and do not run, without those that are held.
    pub standby: u32,
    /// Unclaimed clusters that are installed and run, without those that are held.
    pub ready: u32,
    /// Unclaimed clusters that are installed and paused, as a restore holds them: no claim gets one.
    #[serde(skip_serializing_if = "is_zero")]
    pub held: u32,
    /// Unclaimed clusters that are being installed, or are about to be for the first time.
    pub installing: u32,
    /// Unclaimed clusters that wait between two attempts to install them.
    pub retrying: u32,
    /// Unclaimed clusters that failed to install or to wake.
    pub broken: u32,
    /// Claimed clusters, including those that are being deleted.
    pub claimed: u32,
    /// Clusters that are being deleted, including claimed clusters.
    pub deleting: u32,
    /// Claims that wait for a cluster.
    pub pending: u32,
    /// Unclaimed clusters of an older version of the pool.
    pub stale: u32,
    /// Clusters that run, including claimed clusters.
    pub running: u32,
    /// Customizations of the inventory that are usable and free.
    pub free_customizations: u32,
    /// Random names drawn so far.
    pub ordinal: u64,
    /// Provision jobs started so far.
    pub provisions: u32,
    /// The schedule, and the last time at which it was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleStatus>,
    /// Counters since the pool was created, for `metrics`.
    #[serde(skip_serializing_if = "is_zero")]
    pub history: PoolHistory,
    /// Number of clusters that failed to install since the last one was installed. Clusters with the
    /// same customization as the first count once.
    #[serde(skip_serializing_if = "is_zero")]
    pub given_up_in_a_row: u32,
    /// The first of these clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<InstallFailure>,
    /// Why installations are paused after failures, and until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_pause: Option<InstallPause>,
    /// Wake times of the last clusters in seconds, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wakings: Vec<u32>,
    /// Each entry of spec.inventory by name, as this pool sees it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inventory: BTreeMap<String, InventoryStatus>,
    /// Hive's conditions of a pool, such as MissingDependencies and CapacityAvailable.
    pub conditions: Vec<Condition>,
}

/// Upper bounds, in seconds, of the groups in which claims are counted by the time that they waited.
/// They are those of Hive's histogram.
pub const CLAIM_DELAY_BOUNDS: [i64; 7] = [1, 30, 120, 600, 1800, 3000, 7200];

/// `status.history`: numbers that only grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PoolHistory {
    /// Claims by the time they waited: up to 1 s, 30 s, 2 min, 10 min, 30 min, 50 min, 2 h, longer.
    pub assigned: [u32; CLAIM_DELAY_BOUNDS.len() + 1],
    /// Total waiting time of these claims, in seconds.
    pub waited: i64,
    /// Number of stale clusters that were replaced.
    pub stale_deleted: u32,
}

/// How many of the last wakings are kept, to know how long one usually takes.
const WAKINGS: usize = 10;
/// A cluster may always take this long to wake, even if the pool's clusters usually take less.
const LEAST_RESUME_TIMEOUT: Span = Span::minutes(20);
/// The same for clusters on bare metal, whose machines test their memory before they boot.
const LEAST_RESUME_TIMEOUT_OF_METAL: Span = Span::minutes(45);
/// How long a claim waits for one standby alone while it is not known how long waking usually takes.
const DEFAULT_WAKE_NEXT_AFTER: Span = Span::minutes(10);
/// The longest time that a claim waits for one standby alone, unless an annotation says more.
const LONGEST_WAKE_NEXT_AFTER: Span = Span::minutes(20);
/// The time between two passes that cron starts.
const CRON_INTERVAL: Span = Span::minutes(1);

impl PoolStatus {
    /// Adds to the last wakings how long one took.
    pub fn note_waking(&mut self, duration: Span) {
        let seconds = u32::try_from(duration.0 / Span::seconds(1).0).unwrap_or(u32::MAX);
        self.wakings.push(seconds);
        let excess = self.wakings.len().saturating_sub(WAKINGS);
        self.wakings.drain(..excess);
    }

    /// Lets a pause of the installations go on in the generation after this one, which is of another
    /// size only: that mends nothing.
    pub fn keep_install_pause(&mut self, generation: i64) {
        if let Some(pause) = &mut self.install_pause
            && pause.generation == generation
        {
            pause.generation += 1;
        }
    }
}

impl PoolHistory {
    /// Counts a claim that got its cluster, by the time that it waited.
    pub fn count_assigned_claim(&mut self, waited: Span) {
        let seconds = waited.0 / Span::seconds(1).0;
        let group = CLAIM_DELAY_BOUNDS.iter().filter(|bound| seconds > **bound).count();
        self.assigned[group] += 1;
        self.waited += seconds;
    }
}

/// `status.firstFailure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstallFailure {
    /// When the cluster was given up.
    pub since: Time,
    /// Its customization, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customization: Option<String>,
    /// What kind of cause it had.
    pub class: FailureClass,
    /// The error message of its last installation.
    pub cause: String,
}

/// `status.installPause`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstallPause {
    /// Number of pauses so far. Each pause is twice as long as the one before, up to 1 hour.
    pub failures: u32,
    /// When the first of these failures happened.
    pub since: Time,
    /// End of the pause; empty while the next installation is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// What kind of cause the first failure had.
    #[serde(default)]
    pub class: FailureClass,
    /// The error message of the first failure.
    pub cause: String,
    /// The generation of the pool at that time. A change of the pool ends the pause at once, unless
    /// only its size or runningCount was changed.
    pub generation: i64,
    /// Versions of the release image, the template, the pull secret and the platform's Secrets at that
    /// time. A change of one ends the pause at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

/// `status.schedule`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleStatus {
    /// The schedule that is in effect; it is compared with the annotation.
    pub lines: String,
    /// The last time at which a line was applied, or when the schedule was set.
    pub last: Time,
}

/// Hive's annotation that pauses a pool: no cluster is made, handed over or removed, and those that
/// are there go on. On a cluster: nothing is done with it.
pub const RECONCILE_PAUSE: &str = "hive.openshift.io/reconcile-pause";

/// The JSON pointers in the value of `poolctl.dev/allowed-patch-paths`.
pub fn split_pointers(allowed_paths: &str) -> impl Iterator<Item = &str> {
    allowed_paths.split([',', ' ', '\n']).filter(|pointer| !pointer.is_empty())
}

fn as_count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl ClusterPool {
    /// `spec.size`: unclaimed clusters to keep.
    pub fn size(&self) -> usize {
        as_count(self.spec.size)
    }

    /// `spec.maxSize`: the most clusters that it may have.
    pub fn max_size(&self) -> Option<usize> {
        self.spec.max_size.map(as_count)
    }

    /// `spec.maxConcurrent`: the most clusters that may be made or destroyed at a time.
    pub fn max_concurrent(&self) -> Option<usize> {
        self.spec.max_concurrent.map(as_count)
    }

    /// `spec.runningCount`: unclaimed clusters that are kept running.
    pub fn running_count(&self) -> usize {
        as_count(self.spec.running_count)
    }

    /// The IPPools that have the addresses of the API and the ingress of its clusters.
    pub fn vip_pools(&self) -> Vec<&str> {
        self.ip_pools_in(VIPS_FROM)
    }

    /// The IPPools that have the addresses of the hosts of its clusters.
    pub fn node_address_pools(&self) -> Vec<&str> {
        self.ip_pools_in(NODES_FROM)
    }

    /// The label of hosts over whose values the masters of its clusters are spread.
    pub fn spread_label(&self) -> Option<&str> {
        let of_clusters = self.spec.annotations.get(SPREAD_BY).map(String::as_str);
        self.metadata.annotation(SPREAD_BY).or(of_clusters)
    }

    /// The names in an annotation of the pool, or else in that which its clusters get.
    fn ip_pools_in(&self, annotation: &str) -> Vec<&str> {
        let of_pool = self.metadata.annotation(annotation);
        let of_clusters = self.spec.annotations.get(annotation).map(String::as_str);
        let names = of_pool.or(of_clusters).unwrap_or_default().split(',');
        names.map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    /// Whether its clusters are made of Agents.
    pub fn picks_hosts(&self) -> bool {
        self.spec.platform.agent_bare_metal.is_some()
    }

    /// `spec.hibernationConfig.resumeTimeout`, if it is set.
    pub fn resume_timeout(&self) -> Option<Span> {
        let timeout = self.spec.hibernation_config.as_ref()?.resume_timeout;
        timeout.filter(|timeout| timeout.0 > 0)
    }

    /// How long clusters of the pool usually take to wake: the median of the last ones. None while
    /// none has woken.
    fn usual_waking(&self) -> Option<Span> {
        let mut wakings = self.status.wakings.clone();
        wakings.sort_unstable();
        let median = wakings.get(wakings.len().checked_sub(1)? / 2)?;
        Some(Span::seconds(i64::from(*median)))
    }

    /// The resumeTimeout of a pool that sets none: three times as long as its clusters usually take
    /// to wake, but not less than a fixed time.
    pub fn usual_resume_timeout(&self) -> Span {
        let is_metal = self.driver() == Driver::Agent;
        let least = if is_metal { LEAST_RESUME_TIMEOUT_OF_METAL } else { LEAST_RESUME_TIMEOUT };
        self.usual_waking().map_or(least, |usual| Span(usual.0.saturating_mul(3)).max(least))
    }

    /// How long a claim waits for one standby alone. Without an annotation it is twice as long as
    /// clusters usually take to wake, but not less than cron needs to see that one runs, and not
    /// longer than a person would wait.
    pub fn wake_next_after(&self) -> Span {
        if let Some(annotation) = self.metadata.annotation(WAKE_NEXT_AFTER)
            && let Ok(wake_next_after) = annotation.parse()
        {
            return wake_next_after;
        }
        let twice_as_usual = self.usual_waking().map(|usual| Span(usual.0.saturating_mul(2)));
        let wake_next_after = twice_as_usual.unwrap_or(DEFAULT_WAKE_NEXT_AFTER);
        wake_next_after.clamp(CRON_INTERVAL, LONGEST_WAKE_NEXT_AFTER)
    }

    /// The namespace and the name.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The condition of a type, if the pool has it.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        super::condition::find_condition(&self.status.conditions, kind)
    }

    /// Whether no installation begins now, and no cluster is made, because installations failed.
    pub fn is_install_paused(&self) -> bool {
        self.status.install_pause.as_ref().is_some_and(|pause| pause.until.is_some())
    }

    /// Makes a size that was set by hand hold until the next tick of the schedule: ticks up to now
    /// count as done.
    pub fn skip_past_ticks(&mut self, now: Time) {
        if let Some(schedule) = &mut self.status.schedule {
            schedule.last = schedule.last.max(now);
        }
    }

    /// Whether the driver of its clusters cannot stop their machines.
    pub fn cannot_stop_machines(&self) -> bool {
        self.driver().cannot_stop_machines(&self.spec.annotations)
    }

    /// The driver that new clusters of the pool get.
    pub fn driver(&self) -> Driver {
        Driver::from_annotations(&self.spec.annotations, self.spec.platform.name())
    }

    /// The name of the program that is the driver of new clusters, as in `exec:NAME`; none if their
    /// driver is poolctl's own.
    pub fn driver_program(&self) -> Option<&str> {
        if self.driver() != Driver::Exec {
            return None;
        }
        self.spec.annotations.get(DRIVER)?.strip_prefix(PROGRAM_PREFIX)
    }

    /// The name of the Secret with the SSH key to the machines of its clusters, if it names one.
    pub fn ssh_key_secret(&self) -> Option<&str> {
        self.metadata.annotation(SSH_KEY).filter(|name| !name.is_empty())
    }

    /// The names of the Secrets with the values of variables of its installer.
    pub fn variable_secrets(&self) -> Vec<String> {
        self.sources_of_variables(Kind::Secret)
    }

    /// The names of the ConfigMaps that its clusters take manifests from, or variables of the
    /// installer.
    pub fn config_maps(&self) -> Vec<String> {
        let mut names = self.sources_of_variables(Kind::ConfigMap);
        names.extend(config_maps_with_manifests(&self.spec.annotations).map(str::to_owned));
        names
    }

    /// The names of the objects of a kind with the values of variables of its installer.
    fn sources_of_variables(&self, kind: Kind) -> Vec<String> {
        let sources = self.spec.installer_env.iter().filter_map(EnvVar::value_source);
        let sources_of_kind = sources.filter(|(source_kind, _)| *source_kind == kind);
        sources_of_kind.map(|(_, source)| source.name).collect()
    }

    /// The name of the Secret with the credentials of its platform, if the platform names one.
    pub fn credentials_secret(&self) -> Option<&str> {
        self.spec.platform.credentials()
    }
}
