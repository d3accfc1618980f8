//! A cluster: the facts that plan reads, and how they and the wire's ClusterDeployment become
//! each other. Conditions are never stored: they follow from the facts.

use std::rc::Rc;

use super::condition::{self, Condition};
use super::deployment::{ClusterDeployment, ClusterPoolRef, DeploymentStatus, PowerState};
use super::meta::{Key, LocalRef, is_true};
use super::time::Time;

pub const REMOVE: &str = "hive.openshift.io/remove-cluster-from-pool";
const REMOVE_LEGACY: &str = "hive.openshift.io/remove-claimed-cluster-from-pool";
pub const SPEC_HASH: &str = "hive.openshift.io/cluster-pool-spec-hash";
pub const PROTECTED: &str = "hive.openshift.io/protected-delete";
pub const FAKE: &str = "hive.openshift.io/fake-cluster";

/// Secrets that an installation leaves, after the cluster's name and a dash.
pub const LEFT_BY_INSTALLATION: [&str; 3] = ["admin-kubeconfig", "admin-password", "metadata-json"];

/// What plan reads. The rest is `body`, loaded only for rows that a user edits or looks at.
#[expect(clippy::struct_excessive_bools, reason = "one column each, independent of each other")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Order of insertion; 0 for a new one.
    pub id: i64,
    pub name: String,
    pub namespace: String,
    pub created: Time,
    /// In-process, or none that this build has.
    pub driver: Driver,
    pub pool: Option<Rc<Key>>,
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
    pub body: Option<Box<ClusterDeployment>>,
}

/// Who makes, stops and destroys the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// No driver of this build serves the platform.
    #[default]
    Missing,
    Fake,
}

impl Driver {
    pub const ALL: [Self; 2] = [Self::Missing, Self::Fake];

    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "none",
            Self::Fake => "fake",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    #[default]
    Unset,
    Running,
    Hibernating,
    Starting,
    Stopping,
}

impl Power {
    pub const ALL: [Self; 5] =
        [Self::Unset, Self::Running, Self::Hibernating, Self::Starting, Self::Stopping];

    /// As `powerState` has it.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Running => "Running",
            Self::Hibernating => "Hibernating",
            Self::Starting => "StartingMachines",
            Self::Stopping => "Stopping",
        }
    }

    /// Hive has more steps on the way than are told apart here.
    pub fn from_wire(text: &str) -> Self {
        let known = Self::ALL.into_iter().find(|power| power.wire() == text);
        known.unwrap_or(match text {
            "WaitingForMachinesToStop" | "FailedToStop" => Self::Stopping,
            "Unknown" => Self::Unset,
            _ => Self::Starting,
        })
    }
}

impl From<PowerState> for Power {
    fn from(wanted: PowerState) -> Self {
        match wanted {
            PowerState::Unset => Self::Unset,
            PowerState::Running => Self::Running,
            PowerState::Hibernating => Self::Hibernating,
        }
    }
}

impl From<Power> for PowerState {
    fn from(power: Power) -> Self {
        match power {
            Power::Running => Self::Running,
            Power::Hibernating => Self::Hibernating,
            _ => Self::Unset,
        }
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

    pub fn claim_key(&self) -> Option<Key> {
        Some(Key::new(&*self.pool.as_ref()?.namespace, self.claim.as_deref()?))
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
        cluster.preserve = std::mem::take(&mut spec.preserve_on_delete);
        if let Some(pool) = spec.cluster_pool_ref.take() {
            cluster.pool = Some(Rc::new(Key::new(pool.namespace, pool.pool_name)));
            cluster.claim = Some(pool.claim_name).filter(|name| !name.is_empty());
            cluster.claimed_at = pool.claimed_timestamp;
            cluster.customization = pool.cluster_deployment_customization.map(|lease| lease.name);
        }
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
        self.power = Power::from_wire(&status.power_state);
        let find = |kind| condition::find(&status.conditions, kind);
        let holds = |kind| find(kind).filter(|one| one.status == "True");
        self.power_since = find("Hibernating").and_then(|one| one.last_transition_time);
        let (failed, stopped) = (holds("ProvisionFailed"), holds("ProvisionStopped"));
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
        self.protected = wire.metadata.annotated(PROTECTED);
        self.driver = if wire.metadata.annotated(FAKE) { Driver::Fake } else { Driver::Missing };
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
            power_state: self.power.wire().into(),
            conditions: self.conditions(),
        }
    }

    /// Hive's conditions, as they follow from the facts.
    pub fn conditions(&self) -> Vec<Condition> {
        let begun = self.started_at.unwrap_or(self.created);
        let mut all = vec![self.provisioned().at(self.installed_at.unwrap_or(begun))];
        if let Some(failed) = self.failed_at {
            let message = self.failure.clone().unwrap_or_default();
            all.push(
                Condition::new("ProvisionFailed", "True", "InstallFailed", message).at(failed),
            );
            all.push(self.provision_stopped().at(failed));
        }
        if self.deleting.is_some() || self.installed() {
            let since = self.power_since.or(self.installed_at).unwrap_or(begun);
            all.extend(self.power_conditions().map(|one| one.at(self.deleting.unwrap_or(since))));
        }
        all
    }

    fn provisioned(&self) -> Condition {
        let (status, reason, message) = match self.phase() {
            Phase::Deprovisioning if self.protected => {
                let by = "Annotation hive.openshift.io/protected-delete holds the cluster";
                ("False", "DeletionBlocked", by)
            }
            Phase::Deprovisioning
                if self.driver == Driver::Missing && self.started_at.is_some() =>
            {
                ("False", "DriverMissing", "No driver of this build can destroy the cluster")
            }
            Phase::Deprovisioning if self.held && self.started_at.is_none() => {
                ("False", "DeletionBlocked", "A finalizer of another program holds the object")
            }
            Phase::Deprovisioning => ("False", "Deprovisioning", "Cluster is being destroyed"),
            Phase::Installed => ("True", "Provisioned", "Cluster is provisioned"),
            Phase::Broken => ("False", "ProvisionStopped", "Provisioning failed terminally"),
            _ if self.driver == Driver::Missing => {
                ("False", "DriverMissing", "No driver of this build serves the platform")
            }
            Phase::Installing | Phase::Retrying => {
                ("False", "Provisioning", "Cluster is being provisioned")
            }
        };
        Condition::new("Provisioned", status, reason, message)
    }

    fn provision_stopped(&self) -> Condition {
        if self.stopped {
            let message = "Install attempts limit reached";
            return Condition::new(
                "ProvisionStopped",
                "True",
                "InstallAttemptsLimitReached",
                message,
            );
        }
        Condition::new(
            "ProvisionStopped",
            "False",
            "ProvisionNotStopped",
            "Provision is not stopped",
        )
    }

    fn power_conditions(&self) -> [Condition; 2] {
        let both = |hibernating: (&str, &str, &str), ready: (&str, &str, &str)| {
            [
                Condition::new("Hibernating", hibernating.0, hibernating.1, hibernating.2),
                Condition::new("Ready", ready.0, ready.1, ready.2),
            ]
        };
        let resuming = ("False", "ResumingOrRunning", "Resuming or running");
        let stopping = ("False", "StoppingOrHibernating", "Stopping or hibernating");
        let deleted = ("Unknown", "ClusterDeploymentDeleted", "ClusterDeployment is being deleted");
        match self.power {
            _ if self.deleting.is_some() => both(deleted, deleted),
            Power::Hibernating => both(("True", "Hibernating", "Cluster is stopped"), stopping),
            Power::Stopping => both(("False", "Stopping", "Stopping cluster machines"), stopping),
            Power::Starting => {
                let step = "Starting cluster machines (step 1/4)";
                both(resuming, ("False", "StartingMachines", step))
            }
            Power::Running | Power::Unset => {
                both(resuming, ("True", "Running", "All machines are started"))
            }
        }
    }
}
