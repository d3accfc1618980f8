//! Conditions as Hive, metal3 and assisted-service write them, with a list of their types and one
//! of their reasons. It decides nothing: plans set conditions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::declared::declared;
use super::time::Time;

/// `status.conditions[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// Type of the condition, such as Available.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the condition: True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: String,
    /// When status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When any field of the condition last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
}

/// What a pool or a cluster is short of: a reason for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub reason: ConditionReason,
    pub message: String,
}

impl Shortage {
    /// A reason, and a sentence for people.
    pub fn new(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What a condition says that has the same words for every object.
#[derive(Clone, Copy, Debug)]
pub struct ConditionText {
    /// True, False or Unknown.
    pub status: &'static str,
    pub reason: ConditionReason,
    pub message: &'static str,
}

impl ConditionText {
    /// A text of a condition. `status` is `True`, `False` or `Unknown`.
    pub const fn new(status: &'static str, reason: ConditionReason, message: &'static str) -> Self {
        Self { status, reason, message }
    }

    /// The condition of a type that says this, without times.
    pub fn to_condition(self, kind: ConditionType) -> Condition {
        Condition::new(kind, self.status, self.reason, self.message)
    }
}

impl Condition {
    /// A condition without times. `status` is True, False or Unknown.
    pub fn new(
        kind: ConditionType,
        status: &str,
        reason: ConditionReason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Whether two conditions of one type differ at most in their times.
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.status == other.status && self.reason == other.reason && self.message == other.message
    }

    /// Sets both times.
    #[must_use]
    pub fn with_times(mut self, time: Time) -> Self {
        self.last_transition_time = Some(time);
        self.last_probe_time = Some(time);
        self
    }
}

/// The condition of a type, which may be one that only another program writes.
pub fn find_condition(conditions: &[Condition], kind: impl AsRef<str>) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.kind == kind.as_ref())
}

/// Sets a condition like `set_condition`, but without a probe time: conditions of metal3 and of
/// Agents have none.
pub fn set_condition_without_probe(
    conditions: &mut Vec<Condition>,
    condition: Condition,
    now: Time,
) {
    let kind = condition.kind.clone();
    set_condition(conditions, condition, now);
    for condition in conditions.iter_mut().filter(|condition| condition.kind == kind) {
        condition.last_probe_time = None;
    }
}

/// Whether `set_condition_without_probe` would change nothing.
pub fn is_set_without_probe(conditions: &[Condition], condition: &Condition) -> bool {
    find_condition(conditions, &condition.kind).is_some_and(|current| {
        current.says_the_same_as(condition) && current.last_probe_time.is_none()
    })
}

/// Replaces the condition of the same type, or adds it. Returns whether anything changed. The
/// transition time moves only when the status changes, the probe time when anything changes.
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition, now: Time) -> bool {
    let Some(current) = conditions.iter_mut().find(|current| current.kind == condition.kind) else {
        conditions.push(condition.with_times(now));
        return true;
    };
    if current.says_the_same_as(&condition) {
        return false;
    }
    let has_same_status = current.status == condition.status;
    let transition_time = if has_same_status { current.last_transition_time } else { Some(now) };
    *current = Condition { last_transition_time: transition_time, ..condition.with_times(now) };
    true
}

declared! {
    /// What a condition is about. Some types mean different things on different kinds.
    pub enum ConditionType {
        // ClusterPools.
        /// Something that the pool refers to is missing.
        MissingDependencies = "MissingDependencies" => "poolctl why pool/NAME",
        /// The pool may have more clusters.
        CapacityAvailable = "CapacityAvailable" => "poolctl why pool/NAME",
        /// All unclaimed clusters have the current version of the pool.
        AllClustersCurrent = "AllClustersCurrent" => Poolctl,
        /// All customizations of the inventory exist and are usable.
        InventoryValid = "InventoryValid" => "poolctl describe pool NAME",
        /// The inventory has enough customizations for the pool's size.
        InventorySufficient = "InventorySufficient" => "poolctl describe pool NAME",
        /// The pool that is being deleted has no clusters left.
        DeletionPossible = "DeletionPossible" => Holder "poolctl get claim",
        /// The driver of the pool can stop machines.
        HibernationSupported = "HibernationSupported" => "poolctl describe pool NAME",
        /// Installations of the pool fail one after another, so it pauses between them.
        Degraded = "Degraded" => Site "poolctl why pool/NAME",

        // ClusterDeployments.
        /// The cluster is installed.
        Provisioned = "Provisioned",
        /// The last installation failed.
        ProvisionFailed = "ProvisionFailed" => "poolctl cluster logs NAME",
        /// No installation is tried any more.
        ProvisionStopped = "ProvisionStopped" => "poolctl why cluster/NAME",
        /// The cluster cannot be destroyed before a person has done something.
        DeprovisionLaunchError = "DeprovisionLaunchError" => "poolctl why cluster/NAME",
        /// The installation of the cluster or the Agent may begin.
        RequirementsMet = "RequirementsMet" => "poolctl why cluster/NAME",
        /// The installation on hosts has ended.
        Completed = "Completed",
        /// The cluster is stopped.
        Hibernating = "Hibernating",
        /// The cluster runs.
        Ready = "Ready",

        // ClusterClaims.
        /// The claim waits for a cluster.
        Pending = "Pending" => "poolctl why claim/NAME",
        /// The cluster of the claim runs.
        ClusterRunning = "ClusterRunning",

        // ClusterDeploymentCustomizations.
        /// No cluster has the customization.
        Available = "Available",
        /// The last cluster with the customization was installed.
        ApplySucceeded = "ApplySucceeded" => "poolctl customization test NAME --pool POOL",

        // Agents.
        /// The host has reported recently.
        Connected = "Connected" => Site "poolctl why agent/NAME",
        /// The host passes its checks.
        Validated = "Validated" => Site "poolctl why agent/NAME",
        /// The host is installed.
        Installed = "Installed",
        /// The host belongs to a cluster.
        Bound = "Bound",
        /// The Agent's spec was applied.
        SpecSynced = "SpecSynced" => "poolctl why agent/NAME",
        /// Another Agent is the same machine.
        Duplicate = "Duplicate",
        /// The node of the host is removed from its cluster.
        Cleanup = "Cleanup" => "poolctl why agent/NAME",

        // BareMetalHosts.
        /// The host's controller accepts the credentials.
        Registered = "Registered" => Site "poolctl why host/NAME",
        /// The host's hardware was inspected.
        Inspected = "Inspected",
        /// The host is on.
        PoweredOn = "PoweredOn",
        /// The disks of the host were wiped after its last cluster.
        Wiped = "Wiped" => Site "poolctl why host/NAME",
        /// The host follows the cluster that its annotation names.
        ClusterReference = "ClusterReference" => "poolctl why host/NAME",

        // InfraEnvs.
        /// There is a discovery image.
        ImageCreated = "ImageCreated" => "poolctl why infraenv/NAME",

        // IPPools.
        /// A claim of an address would get one.
        AddressesAvailable = "AddressesAvailable" => "poolctl ippool map NAME",
    }
}

impl ConditionType {
    /// The status of a pool's condition that says that something is wrong.
    pub fn bad_status(self) -> &'static str {
        match self {
            Self::MissingDependencies | Self::Degraded => "True",
            _ => "False",
        }
    }
}

declared! {
    /// Why a condition has its status, in one word.
    pub enum ConditionReason {
        /// Nothing is known yet.
        Initialized = "Initialized",

        // ClusterPools.
        /// Everything that the pool refers to exists.
        Verified = "Verified",
        /// Something that the pool refers to is missing.
        Missing = "Missing" => "poolctl why pool/NAME",
        /// The program that is the driver of the pool is missing, or does not fit the pool.
        DriverUnusable = "DriverUnusable" => "poolctl driver check --pool NAME",
        /// The installer or the platform refuses the configuration, or would refuse it.
        InputWrong = "InputWrong" => "poolctl pool render NAME",
        /// The pool has as many clusters as its maxSize allows.
        MaxCapacity = "MaxCapacity" => "poolctl get claim",
        /// No addresses are left for API, ingress or hosts.
        AddressesExhausted = "AddressesExhausted" => "poolctl get ippool",
        /// Too few free hosts meet the requirements.
        HostsExhausted = "HostsExhausted" => "poolctl get agent",
        /// The pool may have more clusters, or the customization is free.
        Available = "Available",
        /// Some clusters have an older version of the pool.
        SomeClusterDeploymentsStale = "SomeClusterDeploymentsStale" => Poolctl,
        /// It is not known which version of the pool some clusters have.
        SomeClusterDeploymentsUnknown = "SomeClusterDeploymentsUnknown" => Poolctl,
        /// All clusters have the current version of the pool.
        ClusterDeploymentsCurrent = "ClusterDeploymentsCurrent",
        /// All customizations of the inventory are usable.
        Valid = "Valid",
        /// Customizations of the inventory are missing or broken.
        Invalid = "Invalid" => "poolctl describe pool NAME",
        /// The inventory has fewer usable customizations than the pool's size.
        TooFewCustomizations = "TooFewCustomizations" => "poolctl describe pool NAME",
        /// The inventory has enough customizations.
        Sufficient = "Sufficient",
        /// The pool that is deleted has no clusters left.
        DeletionPossible = "DeletionPossible",
        /// The pool that is being deleted has clusters left.
        ClusterDeploymentsPendingCleanup = "ClusterDeploymentsPendingCleanup" => Holder "poolctl get claim",
        /// The driver can stop machines.
        Supported = "Supported",
        /// The driver cannot stop machines.
        Unsupported = "Unsupported" => "poolctl describe pool NAME",
        /// The platform cannot be reached.
        CloudAway = "CloudAway" => Site "poolctl why pool/NAME",
        /// The management controller of a host does not answer, or cannot now.
        ControllerAway = "ControllerAway" => Site "poolctl why pool/NAME",
        /// The platform has no room for another cluster.
        Capacity = "Capacity" => Site "poolctl why pool/NAME",
        /// A program, an image, a credential or a certificate is missing or not accepted.
        SetupMissing = "SetupMissing" => "poolctl driver check --pool NAME",
        /// Machines were made, and the bootstrap did not complete.
        BootstrapFailed = "BootstrapFailed" => Site "poolctl cluster logs CLUSTER",
        /// Machines were made, and operators did not become ready.
        OperatorsNotReady = "OperatorsNotReady" => Site "poolctl cluster logs CLUSTER",
        /// Installations fail for another cause.
        Unclear = "Unclear" => "poolctl cluster logs CLUSTER",
        /// Installations of the pool begin as usual again.
        InstallationsResumed = "InstallationsResumed",

        // ClusterDeployments.
        /// The cluster is being installed.
        Provisioning = "Provisioning",
        /// The cluster is installed.
        Provisioned = "Provisioned",
        /// The cluster is being destroyed.
        Deprovisioning = "Deprovisioning",
        /// An annotation or a finalizer keeps the cluster from being destroyed.
        DeletionBlocked = "DeletionBlocked" => "poolctl why cluster/NAME",
        /// What destroying the cluster needs is missing or broken.
        CannotBeDestroyed = "CannotBeDestroyed" => "poolctl why cluster/NAME",
        /// No driver of this build serves the platform.
        DriverMissing = "DriverMissing" => "poolctl driver check",
        /// The cluster was given up.
        ProvisionStopped = "ProvisionStopped" => "poolctl why cluster/NAME",
        /// The installation failed.
        InstallFailed = "InstallFailed" => "poolctl cluster logs NAME",
        /// The cluster is to be installed in one attempt only, which failed.
        InstallOnlyOnceSet = "InstallOnlyOnceSet" => "poolctl cluster logs NAME",
        /// All attempts failed.
        InstallAttemptsLimitReached = "InstallAttemptsLimitReached" => "poolctl cluster logs NAME",
        /// The installation is tried again.
        ProvisionNotStopped = "ProvisionNotStopped" => Poolctl,
        /// The installation may begin.
        AllRequirementsMet = "AllRequirementsMet",
        /// The customization of the cluster does not exist.
        CustomizationRefNotAvailable = "CustomizationRefNotAvailable" => "poolctl get customization",
        /// The image set of the cluster does not exist.
        ClusterImageSetNotFound = "ClusterImageSetNotFound" => "poolctl get clusterimageset",
        /// The cluster has too few hosts, or they lack something.
        InsufficientAgents = "InsufficientAgents" => "poolctl why cluster/NAME",
        /// The specs of some hosts of the cluster cannot be applied.
        UnsyncedAgents = "UnsyncedAgents" => "poolctl why cluster/NAME",
        /// Some hosts of the cluster are not approved.
        UnapprovedAgents = "UnapprovedAgents" => "poolctl agent approve AGENT",
        /// The installation waits until an annotation is removed.
        InstallationOnHold = "InstallationOnHold" => "poolctl describe cluster NAME",
        /// The cluster runs or is being started.
        ResumingOrRunning = "ResumingOrRunning",
        /// The cluster is stopped or is being stopped.
        StoppingOrHibernating = "StoppingOrHibernating",
        /// The cluster is stopped.
        Hibernating = "Hibernating",
        /// The cluster is being stopped.
        Stopping = "Stopping",
        /// The machines could not be stopped.
        FailedToStop = "FailedToStop" => Site "poolctl job logs NAME",
        /// Some machines still run.
        WaitingForMachinesToStop = "WaitingForMachinesToStop" => Poolctl,
        /// The machines are being started.
        StartingMachines = "StartingMachines",
        /// The machines could not be started.
        FailedToStartMachines = "FailedToStartMachines" => Site "poolctl job logs NAME",
        /// Some machines do not run yet.
        WaitingForMachines = "WaitingForMachines" => Poolctl,
        /// Some nodes are not ready yet.
        WaitingForNodes = "WaitingForNodes" => Poolctl,
        /// Cluster operators get time to notice that they run again.
        PausingForClusterOperatorsToSettle = "PausingForClusterOperatorsToSettle" => Poolctl,
        /// Some cluster operators are not ready yet.
        WaitingForClusterOperators = "WaitingForClusterOperators" => Poolctl,
        /// The cluster runs.
        Running = "Running",
        /// An annotation stops poolctl from changing the power of the cluster.
        PowerStatePaused = "PowerStatePaused" => "poolctl describe cluster NAME",
        /// The cluster is being deleted.
        ClusterDeploymentDeleted = "ClusterDeploymentDeleted",

        // ClusterClaims.
        /// No cluster of the pool is free.
        NoClusters = "NoClusters" => "poolctl why claim/NAME",
        /// A cluster is reserved for the claim until it runs.
        ClusterAssigned = "ClusterAssigned",
        /// The claim has its cluster.
        ClusterClaimed = "ClusterClaimed",
        /// The pool of the claim does not exist.
        ClusterPoolNotFound = "ClusterPoolNotFound" => "poolctl get pool",
        /// The pool is paused.
        ClusterPoolPaused = "ClusterPoolPaused" => "poolctl pool resume POOL",
        /// The pool is being deleted.
        ClusterPoolDeleting = "ClusterPoolDeleting",
        /// The cluster of the claim is waking.
        Resuming = "Resuming" => Poolctl,
        /// The cluster of the claim is being destroyed.
        ClusterDeleting = "ClusterDeleting" => Poolctl,
        /// The cluster of the claim is deleted.
        ClusterDeleted = "ClusterDeleted" => Holder "poolctl release NAME",

        // ClusterDeploymentCustomizations.
        /// A cluster has the customization.
        Reserved = "Reserved",
        /// The cluster with the customization was installed.
        Succeeded = "Succeeded",
        /// The cluster with the customization is being installed.
        InstallationPending = "InstallationPending",
        /// The patches do not apply.
        BrokenBySyntax = "BrokenBySyntax" => "poolctl customization test NAME --pool POOL",
        /// The cluster with the customization could not be installed.
        BrokenByCloud = "BrokenByCloud" => "poolctl customization reset NAME",

        // Agents.
        /// The host is ready to be installed.
        AgentIsReady = "AgentIsReady",
        /// The host is not ready to be installed.
        AgentNotReady = "AgentNotReady" => Site "poolctl why agent/NAME",
        /// The host is not approved.
        AgentIsNotApproved = "AgentIsNotApproved" => "poolctl agent approve NAME",
        /// The host is being installed.
        AgentAlreadyInstalling = "AgentAlreadyInstalling",
        /// The installation of the host has ended.
        AgentInstallationStopped = "AgentInstallationStopped",
        /// The host belongs to a cluster.
        Bound = "Bound",
        /// The host belongs to no cluster.
        Unbound = "Unbound",
        /// The host is on its way to a cluster.
        Binding = "Binding",
        /// The host is on its way back from a cluster.
        Unbinding = "Unbinding",
        /// A person must boot the host from the discovery image.
        UnbindingPendingUserAction = "UnbindingPendingUserAction" => Site "poolctl why agent/NAME",
        /// The host has reported recently.
        AgentIsConnected = "AgentIsConnected",
        /// The host has been silent for too long.
        AgentIsDisconnected = "AgentIsDisconnected" => Site "poolctl why agent/NAME",
        /// The host passes its checks.
        ValidationsPassing = "ValidationsPassing",
        /// The host fails some checks.
        ValidationsFailing = "ValidationsFailing" => Site "poolctl why agent/NAME",
        /// The host fails some checks until its cluster is configured further.
        ValidationsUserPending = "ValidationsUserPending" => "poolctl why agent/NAME",
        /// The host has not been checked yet.
        ValidationsUnknown = "ValidationsUnknown",
        /// The host is installed.
        InstallationCompleted = "InstallationCompleted",
        /// The installation of the host failed or was cancelled.
        InstallationFailed = "InstallationFailed" => Site "poolctl why agent/NAME",
        /// The host is being installed.
        InstallationInProgress = "InstallationInProgress",
        /// The installation of the host has not begun.
        InstallationNotStarted = "InstallationNotStarted",
        /// The state of the host says nothing about an installation.
        UnknownStatus = "UnknownStatus",
        /// The Agent's spec was applied.
        SyncOk = "SyncOK",
        /// The Agent's spec cannot be applied yet.
        BackendError = "BackendError" => Poolctl "poolctl why agent/NAME",
        /// The Agent's spec cannot be applied.
        InputError = "InputError" => "poolctl why agent/NAME",
        /// Another Agent is the same machine.
        SameMachine = "SameMachine" => "poolctl get agent",
        /// The node of the host is still in its cluster.
        CleanupFailed = "CleanupFailed" => "poolctl why agent/NAME",

        // BareMetalHosts.
        /// The host's controller accepts the credentials.
        Registered = "Registered",
        /// The host's controller cannot be reached or refuses the credentials.
        RegistrationError = "RegistrationError" => Site "poolctl why host/NAME",
        /// The Secret with the credentials is missing or incomplete.
        CredentialsMissing = "CredentialsMissing" => "poolctl why host/NAME",
        /// The hardware was inspected.
        Inspected = "Inspected",
        /// The controller does not report the hardware of the host.
        NotSupported = "NotSupported",
        /// The host is on.
        PoweredOn = "PoweredOn",
        /// The host is off.
        PoweredOff = "PoweredOff",
        /// The power of the host cannot be read.
        PowerManagementError = "PowerManagementError" => Site "poolctl why host/NAME",
        /// The disks are wiped.
        Wiped = "Wiped",
        /// The disks are wiped before a cluster gets the host.
        WipePending = "WipePending" => Poolctl,
        /// The disks could not be wiped. It is tried again.
        WipeFailed = "WipeFailed" => Site "poolctl why host/NAME",
        /// The InfraEnv of the host belongs to another cluster than an annotation says.
        InfraEnvHasCluster = "InfraEnvHasCluster" => "poolctl why host/NAME",

        // InfraEnvs.
        /// There is a discovery image.
        ImageCreated = "ImageCreated",
        /// There is no discovery image yet.
        ImageNotCreated = "ImageNotCreated" => "poolctl why infraenv/NAME",
        /// The discovery image could not be made.
        ImageCreationError = "ImageCreationError" => "poolctl why infraenv/NAME",
        /// The cluster of the InfraEnv does not exist.
        MissingClusterDeployment = "MissingClusterDeployment" => "poolctl get cluster",

        // IPPools and IPClaims.
        /// Addresses are free.
        AddressesFree = "AddressesFree",
        /// Fewer addresses are free than the pool's annotation wants.
        AddressesLow = "AddressesLow" => "poolctl ippool map NAME",
        /// No address is free before one has rested after its last use.
        AddressesResting = "AddressesResting" => Poolctl "poolctl ippool map NAME",
        /// The pool is paused, so that no claim gets an address.
        IpPoolPaused = "IPPoolPaused" => "poolctl why ippool/NAME",
        /// The claim has its address.
        Leased = "Leased",
        /// The claim has no address yet.
        AllocationFailed = "AllocationFailed" => "poolctl why ipclaim/NAME",
    }
}
