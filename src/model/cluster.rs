//! A cluster: the facts that plan reads, and how they and the wire's ClusterDeployment become
//! each other. Conditions are never stored: they follow from the facts.

mod conditions;

use std::borrow::Cow;
use std::rc::Rc;

use super::condition::{self, ConditionReason, ConditionType, Shortage};
use super::deployment::{ClusterDeployment, ClusterPoolRef, DeploymentStatus};
use super::driver::{self, Driver};
use super::facts::facts;
use super::ip_pool::CAPI_PAUSED;
use super::lease::{ClusterHolder, Holder, Lease, Resource};
use super::meta::{Key, LocalRef, Meta, is_true};
use super::pool::PAUSED;
use super::time::{Span, Time};
use super::wire::Wire;

pub use super::power::Power;

pub const REMOVE: &str = "hive.openshift.io/remove-cluster-from-pool";
const REMOVE_LEGACY: &str = "hive.openshift.io/remove-claimed-cluster-from-pool";
pub const SPEC_HASH: &str = "hive.openshift.io/cluster-pool-spec-hash";
/// A cluster whose first installation fails is given up.
pub const ONCE: &str = "hive.openshift.io/try-install-once";
pub const PROTECTED: &str = "hive.openshift.io/protected-delete";
pub const POWER_PAUSED: &str = "hive.openshift.io/powerstate-pause";
/// The platform of pools that pick hosts.
const AGENT_BARE_METAL: &str = "agentBareMetal";
/// Reasons of `RequirementsMet` that are about the hosts of a cluster.
pub const INSUFFICIENT_AGENTS: ConditionReason = ConditionReason::InsufficientAgents;
pub const UNSYNCED_AGENTS: ConditionReason = ConditionReason::UnsyncedAgents;
pub const UNAPPROVED_AGENTS: ConditionReason = ConditionReason::UnapprovedAgents;
const SHORTAGES_OF_HOSTS: [ConditionReason; 3] =
    [INSUFFICIENT_AGENTS, UNSYNCED_AGENTS, UNAPPROVED_AGENTS];

/// Secrets that an installation leaves, after the cluster's name and a dash.
pub const LEFT_BY_INSTALLATION: [&str; 3] = ["admin-kubeconfig", "admin-password", "metadata-json"];

facts! {
    /// What plan reads. The rest is `body`, loaded only for rows that a user edits or looks at.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Cluster in "cluster" {
        /// Order of insertion; 0 for a new one.
        pub id: i64,
        pub name: String,
        pub namespace: String,
        pub created: Time,
        /// In-process, or none that this build has.
        pub driver: Driver,
        pub pool: Option<Rc<Key>> as (pool_namespace, pool),
        /// Name of the claim, in the pool's namespace.
        pub claim: Option<String>,
        pub claimed_at: Option<Time>,
        pub customization: Option<String>,
        /// Version of the pool it was made from.
        pub version: Option<Rc<str>>,
        pub cluster_name: String,
        pub base_domain: String,
        pub power_wanted: Power,
        pub power: Power,
        /// Since when `power` is what it is.
        pub power_since: Option<Time>,
        /// Since when it does not hibernate.
        pub awake_since: Option<Time>,
        /// When another standby was woken for the claims that waited for this one; until it runs, it is
        /// woken after the others.
        pub passed_over: Option<Time>,
        /// The machines that are waited for, or what failed.
        pub power_message: Option<String>,
        /// Its driver cannot stop it.
        pub powerless: bool,
        /// Its power is left alone.
        pub power_paused: bool,
        /// Nothing at all is done with it.
        pub paused: bool,
        /// One failed installation is enough.
        pub once: bool,
        /// The customization whose manifest patches it gets, in its pool's or its own namespace.
        pub customization_ref: Option<String>,
        /// Since when that is not there, or hosts are not.
        pub unmet: Option<Time>,
        /// What its hosts lack.
        pub lacks: Option<Shortage> as (lacks_reason, lacks_message),
        /// What its installer said last.
        pub progress: Option<String>,
        /// Clusters of its platform are made of hosts.
        pub by_agents: bool,
        /// When its health was asked for last.
        pub asked_at: Option<Time>,
        /// Attempts to destroy what was made that failed, and when the last did.
        pub undo_failures: u32,
        pub undo_failed_at: Option<Time>,
        /// Hibernates after running this long, once somebody has it.
        pub hibernate_after: Option<Span>,
        /// When an installation first began: from then on there may be something to destroy.
        pub started_at: Option<Time>,
        pub installed_at: Option<Time>,
        pub attempts_limit: Option<u32>,
        /// Installations that failed.
        pub restarts: u32,
        pub failed_at: Option<Time>,
        pub failure: Option<String>,
        /// Jobs so far: makes their ids differ.
        pub ordinal: u32,
        /// Given up: ProvisionStopped.
        pub stopped: bool,
        /// An installation broke off: what it left is destroyed before the next begins.
        pub interrupted: bool,
        /// To be removed by its pool.
        pub marked: bool,
        pub protected: bool,
        pub preserve: bool,
        /// A foreign finalizer holds the object.
        pub held: bool,
        pub deleting: Option<Time>,
    }
    beside {
        pub body: Option<Box<ClusterDeployment>>,
    }
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Installing,
    /// The last installation failed; another follows.
    Retrying,
    Broken,
    Installed,
    Deprovisioning,
}

impl Phase {
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
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self { deleting: Some(_), .. } => Phase::Deprovisioning,
            Self { installed_at: Some(_), .. } => Phase::Installed,
            Self { stopped: true, .. } => Phase::Broken,
            Self { failed_at: Some(_), .. } => Phase::Retrying,
            _ => Phase::Installing,
        }
    }

    pub fn installed(&self) -> bool {
        self.installed_at.is_some()
    }

    /// Unset means Running.
    pub fn wants(&self) -> Power {
        if self.power_wanted == Power::Hibernating { Power::Hibernating } else { Power::Running }
    }

    /// Pools say which hosts they take; other clusters have whatever is bound to them.
    fn is_by_agents(&self, platform: &str) -> bool {
        driver::is_by_agents(platform) && (self.pool.is_none() || platform == AGENT_BARE_METAL)
    }

    /// The Secret with its install-config. Needs the body.
    pub fn install_config(&self) -> Option<Key> {
        let provisioning = self.body.as_ref()?.spec.provisioning.as_ref()?;
        let name = &provisioning.install_config_secret_ref.as_ref()?.name;
        Some(Key::new(&*self.namespace, &**name)).filter(|_| !name.is_empty())
    }

    /// It is installed on the hosts that are bound to it, and not before.
    pub fn takes_hosts(&self) -> bool {
        self.by_agents
    }

    pub fn claim_key(&self) -> Option<Key> {
        Some(Key::new(&*self.pool.as_ref()?.namespace, self.claim.as_deref()?))
    }

    /// Its own lease of its name in DNS.
    pub fn lease_of_name(&self) -> Lease {
        let dns_name = format!("{}.{}", self.cluster_name, self.base_domain);
        let holder = ClusterHolder::new(&*self.name);
        Lease::new(Resource::DnsName(dns_name), Holder::Cluster(holder))
    }

    /// The lease of the claim that has it. Its end is kept with the claim.
    pub fn lease(&self) -> Option<Lease> {
        let holder = Holder::Claim(self.claim_key()?);
        Some(Lease::new(Resource::Cluster(self.name.clone()), holder))
    }

    /// The customization that it needs before it can be installed.
    pub fn required(&self) -> Option<Key> {
        let name = self.customization_ref.as_ref()?;
        let namespace = self.pool.as_ref().map_or(&self.namespace, |pool| &pool.namespace);
        Some(Key::new(&**namespace, &**name))
    }

    pub fn api_url(&self) -> String {
        format!("https://api.{}.{}:6443", self.cluster_name, self.base_domain)
    }

    pub fn console_url(&self) -> String {
        let apps = format!("apps.{}.{}", self.cluster_name, self.base_domain);
        format!("https://console-openshift-console.{apps}")
    }

    /// Takes the facts out of a document; what is left of it becomes the body.
    pub fn from_wire(mut wire: ClusterDeployment) -> Self {
        let mut cluster = Self::default();
        cluster.take_annotations(&mut wire);
        let (meta, spec) = (&mut wire.metadata, &mut wire.spec);
        cluster.name.clone_from(&meta.name);
        cluster.namespace.clone_from(&meta.namespace);
        cluster.created = meta.creation_timestamp.take().unwrap_or_default();
        cluster.deleting = meta.deletion_timestamp.take();
        cluster.cluster_name = std::mem::take(&mut spec.cluster_name);
        cluster.base_domain = std::mem::take(&mut spec.base_domain);
        cluster.power_wanted = std::mem::take(&mut spec.power_state).into();
        cluster.attempts_limit = spec.install_attempts_limit.take();
        cluster.hibernate_after = spec.hibernate_after.take();
        cluster.preserve = std::mem::take(&mut spec.preserve_on_delete);
        if let Some(pool) = spec.cluster_pool_ref.take() {
            cluster.pool = Some(Rc::new(Key::new(pool.namespace, pool.pool_name)));
            cluster.claim = Some(pool.claim_name).filter(|name| !name.is_empty());
            cluster.claimed_at = pool.claimed_timestamp;
            cluster.customization = pool.cluster_deployment_customization.map(|lease| lease.name);
        }
        cluster.by_agents = cluster.is_by_agents(wire.spec.platform.name());
        let provisioning = wire.spec.provisioning.as_ref();
        cluster.customization_ref = provisioning
            .and_then(|one| one.customization_ref.as_ref())
            .map(|one| one.name.clone())
            .filter(|name| !name.is_empty());
        let status = std::mem::take(&mut wire.status);
        // `installed: true` without a time: it was installed elsewhere.
        let elsewhere = wire.spec.installed.then(Time::default);
        cluster.installed_at = status.installed_timestamp.or(elsewhere);
        cluster.take_status(&status);
        wire.spec.installed = false;
        cluster.body = Some(Box::new(wire));
        cluster
    }

    fn take_status(&mut self, status: &DeploymentStatus) {
        self.started_at = status.install_started_timestamp;
        self.restarts = status.install_restarts;
        self.interrupted = status.interrupted;
        self.passed_over = status.passed_over_timestamp;
        let requirements = condition::find(&status.conditions, ConditionType::RequirementsMet);
        let unmet = requirements.filter(|one| one.status == "False");
        self.unmet = unmet.map(|one| one.last_transition_time.unwrap_or(self.created));
        self.lacks = unmet.and_then(|one| {
            let reason = SHORTAGES_OF_HOSTS.into_iter().find(|reason| one.reason == *reason)?;
            Some(Shortage::new(reason, &*one.message))
        });
        let find = |kind| condition::find(&status.conditions, kind);
        let holds = |kind| find(kind).filter(|one| one.status == "True");
        let (hibernating, ready) = (find(ConditionType::Hibernating), find(ConditionType::Ready));
        let reason = hibernating.map(|one| one.reason.as_str());
        self.power = Power::from_wire(&status.power_state, reason);
        self.power_since = ready.and_then(|one| one.last_probe_time.or(one.last_transition_time));
        let awake = hibernating.filter(|one| one.status == "False");
        self.awake_since = awake.and_then(|one| one.last_transition_time);
        self.power_message = Some(status.power_detail.clone()).filter(|text| !text.is_empty());
        let (failed, stopped) =
            (holds(ConditionType::ProvisionFailed), holds(ConditionType::ProvisionStopped));
        self.stopped = stopped.is_some();
        if let Some(one) = failed.or(stopped).filter(|_| !self.installed()) {
            self.failed_at = Some(one.last_transition_time.unwrap_or(self.created));
            self.failure = failed.map(|one| one.message.clone());
        }
    }

    fn take_annotations(&mut self, wire: &mut ClusterDeployment) {
        let annotations = &mut wire.metadata.annotations;
        for name in [REMOVE, REMOVE_LEGACY] {
            let marked = annotations.get(name).is_some_and(|value| is_true(value));
            if marked {
                annotations.remove(name);
            }
            self.marked |= marked;
        }
        self.version = annotations.remove(SPEC_HASH).map(Rc::from);
        self.held = !wire.metadata.finalizers.is_empty();
        self.take_steering(&wire.metadata, wire.spec.platform.name());
    }

    /// What annotations say of who looks after it, and how.
    pub fn take_steering(&mut self, meta: &Meta, platform: &str) {
        self.driver = Driver::of(&meta.annotations, platform);
        self.power_paused = meta.annotated(POWER_PAUSED);
        self.paused = meta.annotated(PAUSED) || meta.annotated_at_all(CAPI_PAUSED);
        self.once = meta.annotated(ONCE);
        self.powerless = self.driver.powerless(&meta.annotations);
        self.protected = meta.annotated(PROTECTED);
        self.by_agents = self.is_by_agents(platform);
    }

    /// The whole document. Needs the body.
    pub fn to_wire(&self) -> ClusterDeployment {
        let mut wire = self.body.as_deref().cloned().unwrap_or_default();
        let (meta, spec) = (&mut wire.metadata, &mut wire.spec);
        meta.name.clone_from(&self.name);
        meta.namespace.clone_from(&self.namespace);
        meta.creation_timestamp = Some(self.created);
        meta.deletion_timestamp = self.deleting;
        meta.id = self.id;
        if self.marked {
            meta.annotations.insert(REMOVE.into(), "true".into());
        }
        if let Some(version) = &self.version {
            meta.annotations.insert(SPEC_HASH.into(), version.to_string());
        }
        spec.cluster_name.clone_from(&self.cluster_name);
        spec.base_domain.clone_from(&self.base_domain);
        spec.power_state = self.power_wanted.into();
        spec.install_attempts_limit = self.attempts_limit;
        spec.hibernate_after = self.hibernate_after;
        spec.preserve_on_delete = self.preserve;
        spec.installed = self.installed();
        spec.cluster_pool_ref = self.pool.as_ref().map(|pool| ClusterPoolRef {
            namespace: pool.namespace.clone(),
            pool_name: pool.name.clone(),
            claim_name: self.claim.clone().unwrap_or_default(),
            claimed_timestamp: self.claimed_at,
            cluster_deployment_customization: self.customization.clone().map(LocalRef::to),
        });
        wire.status = self.status();
        wire
    }

    fn status(&self) -> DeploymentStatus {
        let url = |url: String| if self.installed() { url } else { String::new() };
        DeploymentStatus {
            api_url: url(self.api_url()),
            web_console_url: url(self.console_url()),
            install_restarts: self.restarts,
            install_started_timestamp: self.started_at,
            interrupted: self.interrupted,
            installed_timestamp: self.installed_at,
            passed_over_timestamp: self.passed_over,
            power_state: self.power_state().into(),
            power_detail: self.power_message.clone().unwrap_or_default(),
            conditions: self.conditions(),
        }
    }

    /// `status.powerState`.
    pub fn power_state(&self) -> &'static str {
        if self.deleting.is_some() { "Unknown" } else { self.power.wire() }
    }
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
}
