//! A cluster: the facts that plans read, and how a ClusterDeployment becomes facts and is made from
//! them again. Conditions are never stored, because they follow from the facts.

mod conditions;

use std::borrow::Cow;
use std::rc::Rc;

use super::condition::{self, Condition, ConditionReason, ConditionType, Shortage};
use super::deployment::{ClusterDeployment, ClusterPoolRef, DeploymentStatus};
use super::driver::{self, Driver};
use super::facts::facts;
use super::failure::FailureClass;
use super::ip_pool::CAPI_PAUSED;
use super::lease::{ClusterHolder, Holder, Lease, LeasedResource};
use super::meta::{Key, LocalRef, Meta, is_go_true};
use super::pool::RECONCILE_PAUSE;
use super::time::{Span, Time};
use super::wire::Wire;

pub use super::power::Power;

/// Hive's annotation that has a pool remove one of its clusters.
pub const REMOVE_FROM_POOL: &str = "hive.openshift.io/remove-cluster-from-pool";
/// The same in older versions of Hive.
const REMOVE_CLAIMED_FROM_POOL: &str = "hive.openshift.io/remove-claimed-cluster-from-pool";
/// Hive's annotation with the version of the pool that a cluster was made from.
pub const SPEC_HASH: &str = "hive.openshift.io/cluster-pool-spec-hash";
/// Hive's annotation by which a cluster is given up when its first installation fails.
pub const TRY_INSTALL_ONCE: &str = "hive.openshift.io/try-install-once";
/// Hive's annotation that keeps a cluster from being destroyed.
pub const PROTECTED_DELETE: &str = "hive.openshift.io/protected-delete";
/// Hive's annotation with how long a cluster is kept after it was made, whoever has it.
pub const DELETE_AFTER: &str = "hive.openshift.io/delete-after";
/// Hive's annotation by which the power of a cluster is left alone.
pub const POWER_PAUSED: &str = "hive.openshift.io/powerstate-pause";
/// Hive's label by which a cluster is accepted that belongs to a claim from the beginning.
pub const RESTORED_LABEL: &str = "hive.openshift.io/disable-creation-webhook-for-dr";
/// The platform of pools that pick hosts for their clusters.
const AGENT_BARE_METAL: &str = "agentBareMetal";
// Reasons of `RequirementsMet` that are about the hosts of a cluster.
/// Fewer hosts are bound than the cluster needs.
pub const INSUFFICIENT_AGENTS: ConditionReason = ConditionReason::InsufficientAgents;
/// Hosts that are bound do not have the settings of the cluster yet.
pub const UNSYNCED_AGENTS: ConditionReason = ConditionReason::UnsyncedAgents;
/// Hosts that are bound wait for somebody to approve them.
pub const UNAPPROVED_AGENTS: ConditionReason = ConditionReason::UnapprovedAgents;
const SHORTAGES_OF_HOSTS: [ConditionReason; 3] =
    [INSUFFICIENT_AGENTS, UNSYNCED_AGENTS, UNAPPROVED_AGENTS];
/// The reason of `RequirementsMet` of a cluster whose image set is not there.
pub const IMAGE_SET_NOT_FOUND: ConditionReason = ConditionReason::ClusterImageSetNotFound;

/// Secrets that an installation leaves. Their names are that of the cluster, a dash and one of these.
pub const INSTALLATION_SECRETS: [&str; 3] = ["admin-kubeconfig", "admin-password", "metadata-json"];

facts! {
    /// The facts that plans read of a cluster.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Cluster in "cluster" of ClusterDeployment {
        /// Order of insertion; 0 for a new one.
        pub id: i64,
        pub name: String,
        pub namespace: String,
        pub created: Time => metadata.creation_timestamp,
        pub driver: Driver,
        pub pool: Option<Rc<Key>> as (pool_namespace, pool),
        /// Name of the claim that has the cluster, in the pool's namespace.
        pub claim: Option<String>,
        pub claimed_at: Option<Time>,
        /// Name of the customization that is leased to the cluster, in the pool's namespace.
        pub customization: Option<String>,
        /// Version of the pool that the cluster was made from.
        pub version: Option<Rc<str>>,
        /// Versions of what the spec of its pool only names: the release image, the template, the
        /// pull secret and the Secrets of the platform. Unlike `version` it tells whether one was
        /// corrected in place.
        pub recipe: Option<String>,
        /// Name in DNS, below `base_domain`.
        pub cluster_name: String => spec.cluster_name,
        pub base_domain: String => spec.base_domain,
        pub power_wanted: Power => spec.power_state,
        pub power: Power,
        /// When `power` last changed.
        pub power_since: Option<Time>,
        /// Since when it has not been hibernating.
        pub awake_since: Option<Time>,
        /// When another standby was woken because this one took too long. Until this one runs, it is
        /// woken after the others.
        pub passed_over: Option<Time> => status.passed_over_timestamp,
        /// The machines that are waited for, or why they could not be started or stopped.
        pub power_message: Option<String> => status.power_detail,
        /// Since when the platform is known to start or stop machines of other clusters of its pool,
        /// while those of this one are not started yet.
        pub platform_answers_since: Option<Time>,
        /// Whether its driver cannot stop its machines.
        pub powerless: bool,
        /// Whether its power is left alone, by an annotation.
        pub power_paused: bool,
        /// Whether nothing at all is done with it, by an annotation.
        pub paused: bool,
        /// Whether it is given up after its first failed installation, by an annotation.
        pub once: bool,
        /// The customization whose manifest patches it gets, in its pool's or its own namespace.
        pub customization_ref: Option<String>,
        /// The ClusterImageSet that it is installed from.
        pub image_set: Option<String>,
        /// Since when its installation waits for that customization, for that image set or for hosts.
        pub unmet: Option<Time>,
        /// Why its hosts are not enough for its installation, or that its image set is not there.
        pub shortage: Option<Shortage> as (lacks_reason, lacks_message),
        /// The last message of its installer.
        pub progress: Option<String>,
        /// Whether it is made of Agents that are bound to it.
        pub by_agents: bool,
        /// When a job last asked for its health.
        pub asked_at: Option<Time>,
        /// How often in a row it could not be destroyed.
        pub undo_failures: u32,
        /// When it last could not be destroyed.
        pub undo_failed_at: Option<Time>,
        /// Why it could not be destroyed, and what kind of cause that had.
        pub undo_failure: Option<String>,
        pub undo_class: Option<FailureClass>,
        /// Why it cannot be destroyed before a person has done something, if so.
        pub undo_blocked: Option<String>,
        /// How long it runs before it hibernates, once a claim has it.
        pub hibernate_after: Option<Span> => spec.hibernate_after,
        /// When an installation first began. From then on there may be something to destroy.
        pub started_at: Option<Time> => status.install_started_timestamp,
        /// Since when the present attempt to install it runs; none between attempts.
        pub attempt_since: Option<Time>,
        pub installed_at: Option<Time> => status.installed_timestamp,
        pub attempts_limit: Option<u32> => spec.install_attempts_limit,
        /// How many installations failed.
        pub restarts: u32 => status.install_restarts,
        /// When the last installation failed.
        pub failed_at: Option<Time>,
        /// Why it failed.
        pub failure: Option<String>,
        /// What kind of cause that had.
        pub failure_class: Option<FailureClass>,
        /// Hive's reason for that, if Hive tried to install it.
        pub failure_reason: Option<String>,
        /// A digest of the input that the last installation refused.
        pub refused_input: Option<String>,
        /// How many installations in a row failed without using up an attempt.
        pub uncounted_failures: u32,
        /// How many jobs it had so far. It makes the ids of its jobs differ.
        pub ordinal: u32,
        /// Whether it was given up, as the condition ProvisionStopped says.
        pub stopped: bool,
        /// When it was given up.
        pub stopped_at: Option<Time>,
        /// Whether an installation broke off, so that what it left is destroyed before the next one.
        pub interrupted: bool => status.interrupted,
        /// Whether its pool is to remove it.
        pub marked: bool,
        /// Whether an annotation keeps it from being destroyed.
        pub protected: bool,
        /// Whether its machines are left running when the object is deleted.
        pub preserve: bool => spec.preserve_on_delete,
        /// Whether a finalizer of another program holds the object.
        pub held: bool,
        /// How long it is kept after it was made, by an annotation.
        pub delete_after: Option<Span>,
        /// When its deletion was asked for.
        pub deleting: Option<Time> => metadata.deletion_timestamp,
    }
    beside {
        /// The rest of the document, loaded only for rows that a user edits or looks at.
        pub body: Option<Box<ClusterDeployment>>,
    }
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its installation waits to begin, or runs.
    Installing,
    /// The last installation failed, and the next one has not begun.
    Retrying,
    /// It was given up before it was installed.
    Broken,
    /// It is installed, whether it runs or not.
    Installed,
    /// Its deletion was asked for.
    Deprovisioning,
}

impl Phase {
    /// The word that tables show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Installing => "Installing",
            Self::Retrying => "Retrying",
            Self::Broken => "Broken",
            Self::Installed => "Installed",
            Self::Deprovisioning => "Deprovisioning",
        }
    }
}

impl Cluster {
    /// The namespace and the name of the cluster.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// Where the cluster is in its life. It follows from its facts and is kept nowhere.
    pub fn phase(&self) -> Phase {
        match self {
            Self { deleting: Some(_), .. } => Phase::Deprovisioning,
            Self { installed_at: Some(_), .. } => Phase::Installed,
            Self { stopped: true, .. } => Phase::Broken,
            Self { failed_at: Some(_), attempt_since: None, .. } => Phase::Retrying,
            _ => Phase::Installing,
        }
    }

    /// Whether an installation has succeeded. It stays so while the cluster is destroyed.
    pub fn is_installed(&self) -> bool {
        self.installed_at.is_some()
    }

    /// Whether it is to be destroyed, and its protection, a finalizer or a pause keeps it until a
    /// person lets it go.
    pub fn is_kept(&self) -> bool {
        self.deleting.is_some() && (self.protected || self.held || self.paused)
    }

    /// Whether a person holds it, so that no claim gets it and nothing makes it run.
    pub fn is_held_from_claims(&self) -> bool {
        self.paused || (self.power_paused && !self.power.is_running())
    }

    /// When it is deleted by itself, because its `delete-after` is over.
    pub fn expires_at(&self) -> Option<Time> {
        if self.deleting.is_some() {
            return None;
        }
        Some(self.created.plus(self.delete_after?))
    }

    /// Why its machines could not be started when that was tried last; none once they are.
    pub fn start_failure(&self) -> Option<&str> {
        if self.power.is_being_started() { self.power_message.as_deref() } else { None }
    }

    /// Whether it is to be Running or Hibernating. A cluster that does not say is to run.
    pub fn wanted_power(&self) -> Power {
        if self.power_wanted == Power::Hibernating { Power::Hibernating } else { Power::Running }
    }

    /// Whether the cluster is made of Agents. A pool's cluster is so only on the platform
    /// agentBareMetal, because only that says which Agents the pool may take.
    fn is_by_agents(&self, platform: &str) -> bool {
        driver::is_made_of_agents(platform) && (self.pool.is_none() || platform == AGENT_BARE_METAL)
    }

    /// The Secret with the cluster's install-config. Needs the body.
    pub fn install_config_secret(&self) -> Option<Key> {
        let provisioning = self.body.as_ref()?.spec.provisioning.as_ref()?;
        let name = provisioning.install_config_secret_ref.as_ref()?.name.as_str();
        if name.is_empty() { None } else { Some(Key::new(&*self.namespace, name)) }
    }

    /// Whether the cluster is installed on the Agents that are bound to it, once there are enough.
    pub fn is_made_of_agents(&self) -> bool {
        self.by_agents
    }

    /// The claim that has the cluster; none if it is free or belongs to no pool.
    pub fn claim_key(&self) -> Option<Key> {
        Some(Key::new(&*self.pool.as_ref()?.namespace, self.claim.as_deref()?))
    }

    /// The lease of its name in DNS, which the cluster holds itself.
    pub fn dns_name_lease(&self) -> Lease {
        let dns_name = format!("{}.{}", self.cluster_name, self.base_domain);
        let holder = ClusterHolder::new(&*self.name);
        Lease::new(LeasedResource::DnsName(dns_name), Holder::Cluster(holder))
    }

    /// The lease of the cluster by the claim that has it. When it ends is known to the claim only.
    pub fn lease(&self) -> Option<Lease> {
        let holder = Holder::Claim(self.claim_key()?);
        Some(Lease::new(LeasedResource::Cluster(self.name.clone()), holder))
    }

    /// Whether its hosts are what its installation waits for.
    pub fn waits_for_hosts(&self) -> bool {
        let shortage = self.shortage.as_ref();
        shortage.is_some_and(|shortage| SHORTAGES_OF_HOSTS.contains(&shortage.reason))
    }

    /// Whether its installation waits for an object that it names, and not for hosts.
    pub fn lacks_named_object(&self) -> bool {
        !self.is_installed() && self.unmet.is_some() && !self.waits_for_hosts()
    }

    /// The image set that has to be there before the cluster can be installed.
    pub fn required_image_set(&self) -> Option<Key> {
        Some(Key::new("", self.image_set.as_deref()?))
    }

    /// The image set that its document names, also if it came from a pool. Needs the body.
    pub fn named_image_set(&self) -> Option<Key> {
        let provisioning = self.body.as_ref()?.spec.provisioning.as_ref()?;
        Some(Key::new("", &*provisioning.image_set_ref.as_ref()?.name))
    }

    /// The customization that has to be there before the cluster can be installed.
    pub fn required_customization(&self) -> Option<Key> {
        let name = self.customization_ref.as_ref()?;
        let namespace = self.pool.as_ref().map_or(&self.namespace, |pool| &pool.namespace);
        Some(Key::new(&**namespace, &**name))
    }

    /// The URL of its API: as it was reported where the cluster was installed, else the usual one.
    pub fn api_url(&self) -> String {
        self.reported_url(|status| &status.api_url).unwrap_or_else(|| {
            format!("https://api.{}.{}:6443", self.cluster_name, self.base_domain)
        })
    }

    /// The URL of its console: as it was reported, else the usual one.
    pub fn console_url(&self) -> String {
        self.reported_url(|status| &status.web_console_url).unwrap_or_else(|| {
            let apps = format!("apps.{}.{}", self.cluster_name, self.base_domain);
            format!("https://console-openshift-console.{apps}")
        })
    }

    /// A URL that the program reported which installed the cluster. Needs the body.
    fn reported_url(&self, url_of: fn(&DeploymentStatus) -> &String) -> Option<String> {
        let url = url_of(&self.body.as_ref()?.status);
        if url.is_empty() { None } else { Some(url.clone()) }
    }

    /// Takes the facts out of a document. What is left of the document becomes the body.
    pub fn from_wire(mut wire: ClusterDeployment) -> Self {
        let mut cluster = Self::default();
        cluster.take_annotations(&mut wire);
        cluster.take_fields(&mut wire);
        cluster.name.clone_from(&wire.metadata.name);
        cluster.namespace.clone_from(&wire.metadata.namespace);
        if let Some(pool) = wire.spec.cluster_pool_ref.take() {
            cluster.pool = Some(Rc::new(Key::new(pool.namespace, pool.pool_name)));
            cluster.claim = Some(pool.claim_name).filter(|name| !name.is_empty());
            cluster.claimed_at = pool.claimed_timestamp;
            cluster.customization = pool.cluster_deployment_customization.map(|lease| lease.name);
        }
        cluster.by_agents = cluster.is_by_agents(wire.spec.platform.name());
        if let Some(provisioning) = &wire.spec.provisioning {
            cluster.customization_ref = name_of(provisioning.customization_ref.as_ref());
            cluster.image_set = name_of(provisioning.image_set_ref.as_ref());
        }
        let status = std::mem::take(&mut wire.status);
        // A cluster that was installed elsewhere says `installed: true` and gives no time.
        if std::mem::take(&mut wire.spec.installed) {
            cluster.installed_at.get_or_insert_default();
        } else {
            cluster.installed_at = None;
        }
        cluster.take_conditions(&status);
        if cluster.is_installed() {
            wire.status = status.into_installers_part();
        }
        cluster.body = Some(Box::new(wire));
        cluster
    }

    /// Takes the facts that the document has in the form of conditions.
    fn take_conditions(&mut self, status: &DeploymentStatus) {
        self.take_requirements(&status.conditions);
        self.take_power(status);
        let blocked =
            find_with_status(&status.conditions, ConditionType::DeprovisionLaunchError, "True");
        self.undo_blocked = blocked.map(|condition| condition.message.clone());
        self.undo_failed_at = blocked.and_then(|condition| condition.last_transition_time);
        let failed = find_with_status(&status.conditions, ConditionType::ProvisionFailed, "True");
        let stopped = find_with_status(&status.conditions, ConditionType::ProvisionStopped, "True");
        self.stopped = stopped.is_some();
        // What failed before a cluster was installed after all is of no interest any more.
        if let Some(condition) = failed.or(stopped)
            && !self.is_installed()
        {
            self.failed_at = Some(condition.last_transition_time.unwrap_or(self.created));
            self.failure = failed.map(|condition| condition.message.clone());
            let reason = failed.map(|condition| condition.reason.clone());
            self.failure_class = reason.as_deref().and_then(FailureClass::named);
            self.failure_reason = reason.filter(|reason| {
                !reason.is_empty()
                    && *reason != ConditionReason::InstallFailed
                    && self.failure_class.is_none()
            });
            self.stopped_at =
                stopped.map(|stopped| stopped.last_transition_time.unwrap_or(self.created));
        }
    }

    fn take_requirements(&mut self, conditions: &[Condition]) {
        let unmet = find_with_status(conditions, ConditionType::RequirementsMet, "False");
        self.unmet = unmet.map(|unmet| unmet.last_transition_time.unwrap_or(self.created));
        self.shortage = unmet.and_then(|unmet| {
            let mut reasons = SHORTAGES_OF_HOSTS.into_iter().chain([IMAGE_SET_NOT_FOUND]);
            let reason = reasons.find(|reason| unmet.reason == *reason)?;
            Some(Shortage::new(reason, &*unmet.message))
        });
    }

    fn take_power(&mut self, status: &DeploymentStatus) {
        let hibernating = condition::find_condition(&status.conditions, ConditionType::Hibernating);
        let reason = hibernating.map(|condition| condition.reason.as_str());
        self.power = Power::from_wire(&status.power_state, reason);
        let ready = condition::find_condition(&status.conditions, ConditionType::Ready);
        self.power_since =
            ready.and_then(|ready| ready.last_probe_time.or(ready.last_transition_time));
        let awake = hibernating.filter(|condition| condition.status == "False");
        self.awake_since = awake.and_then(|condition| condition.last_transition_time);
    }

    fn take_annotations(&mut self, wire: &mut ClusterDeployment) {
        let annotations = &mut wire.metadata.annotations;
        for name in [REMOVE_FROM_POOL, REMOVE_CLAIMED_FROM_POOL] {
            if annotations.get(name).is_some_and(|value| is_go_true(value)) {
                annotations.remove(name);
                self.marked = true;
            }
        }
        self.version = annotations.remove(SPEC_HASH).map(Rc::from);
        self.held = !wire.metadata.finalizers.is_empty();
        self.take_steering(&wire.metadata, wire.spec.platform.name());
    }

    /// Sets the facts that follow from annotations and the platform: the driver, and what it may do.
    pub fn take_steering(&mut self, meta: &Meta, platform: &str) {
        self.driver = Driver::from_annotations(&meta.annotations, platform);
        self.power_paused = meta.has_true_annotation(POWER_PAUSED);
        self.paused = meta.has_true_annotation(RECONCILE_PAUSE) || meta.has_annotation(CAPI_PAUSED);
        self.once = meta.has_true_annotation(TRY_INSTALL_ONCE);
        self.powerless = self.driver.cannot_stop_machines(&meta.annotations);
        self.protected = meta.has_true_annotation(PROTECTED_DELETE);
        let delete_after = meta.annotations.get(DELETE_AFTER);
        self.delete_after = delete_after.and_then(|duration| duration.parse().ok());
        self.by_agents = self.is_by_agents(platform);
    }

    /// The whole document. Needs the body.
    pub fn to_wire(&self) -> ClusterDeployment {
        let mut wire = self.body.as_deref().cloned().unwrap_or_default();
        self.write_fields(&mut wire);
        let meta = &mut wire.metadata;
        meta.name.clone_from(&self.name);
        meta.namespace.clone_from(&self.namespace);
        meta.id = self.id;
        if self.marked {
            meta.annotations.insert(REMOVE_FROM_POOL.into(), "true".into());
        }
        if let Some(version) = &self.version {
            meta.annotations.insert(SPEC_HASH.into(), version.to_string());
        }
        wire.spec.installed = self.is_installed();
        wire.spec.cluster_pool_ref = self.pool.as_ref().map(|pool| ClusterPoolRef {
            namespace: pool.namespace.clone(),
            pool_name: pool.name.clone(),
            claim_name: self.claim.clone().unwrap_or_default(),
            claimed_timestamp: self.claimed_at,
            cluster_deployment_customization: self.customization.clone().map(LocalRef::to_name),
        });
        if self.is_installed() {
            wire.status.api_url = self.api_url();
            wire.status.web_console_url = self.console_url();
        }
        wire.status.power_state = self.power_state().into();
        wire.status.conditions = self.conditions();
        wire
    }

    /// The value of `status.powerState`.
    pub fn power_state(&self) -> &'static str {
        if self.deleting.is_some() { "Unknown" } else { self.power.to_wire() }
    }
}

/// The name in a reference, unless that is empty.
fn name_of(reference: Option<&LocalRef>) -> Option<String> {
    let name = &reference?.name;
    if name.is_empty() { None } else { Some(name.clone()) }
}

fn find_with_status<'a>(
    conditions: &'a [Condition],
    kind: ConditionType,
    status: &str,
) -> Option<&'a Condition> {
    condition::find_condition(conditions, kind).filter(|condition| condition.status == status)
}

impl Wire for Cluster {
    type Document = ClusterDeployment;

    fn from_document(document: ClusterDeployment) -> Self {
        Self::from_wire(document)
    }

    fn to_document(&self) -> Cow<'_, ClusterDeployment> {
        Cow::Owned(self.to_wire())
    }

    fn key(&self) -> Key {
        Self::key(self)
    }

    fn meta(&self) -> Option<&Meta> {
        self.body.as_ref().map(|body| &body.metadata)
    }

    fn meta_mut(&mut self) -> Option<&mut Meta> {
        self.body.as_mut().map(|body| &mut body.metadata)
    }

    fn deletion_time(&self) -> Option<Time> {
        self.deleting
    }
}
