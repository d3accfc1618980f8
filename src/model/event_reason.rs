//! The reasons of events, each declared once: its name on the wire and in the state, its meaning, and
//! the command that helps. Reasons of Hive and, in lower case, of assisted-service are spelled as
//! upstream spells them. It does not say when an event is recorded.

use super::declared::declared;

declared! {
    /// Why an event was recorded, in one word.
    pub enum EventReason {
        // Objects.
        /// The object was created.
        Created = "Created",
        /// The object was changed.
        Configured = "Configured",
        /// The deletion of the object was requested.
        DeletionRequested = "DeletionRequested",

        // Pools.
        /// A person set a pool's size or runningCount.
        Scaled = "Scaled",
        /// A pool's size or runningCount was set by its schedule.
        Scheduled = "Scheduled",
        /// The pool is deleted.
        PoolDeleted = "PoolDeleted",
        /// Something that the pool refers to is missing, or is there again.
        MissingDependencies = "MissingDependencies" => "poolctl why pool/NAME",
        /// The pool cannot have more clusters, or can again.
        CapacityAvailable = "CapacityAvailable" => "poolctl why pool/NAME",
        /// The pool has clusters of an older version, or all are current again.
        AllClustersCurrent = "AllClustersCurrent",
        /// Customizations of the inventory are missing or broken, or usable again.
        InventoryValid = "InventoryValid" => "poolctl describe pool NAME",
        /// The inventory has fewer usable customizations than the pool needs, or enough again.
        InventorySufficient = "InventorySufficient" => "poolctl describe pool NAME",
        /// The pool that is being deleted has clusters, or has none any more.
        DeletionPossible = "DeletionPossible",
        /// The driver of the pool cannot stop machines, or now it can.
        HibernationSupported = "HibernationSupported",
        /// Installations fail one after another, or succeed again.
        Degraded = "Degraded" => Site "poolctl why pool/NAME",
        /// Installations pause, because the last ones failed.
        InstallationsPaused = "InstallationsPaused" => Site "poolctl why pool/NAME",
        /// Installations begin again.
        InstallationsResumed = "InstallationsResumed",
        /// The installations of the pool fail one after another.
        InstallKeepsFailing = "InstallKeepsFailing" => Site "poolctl why pool/NAME",
        /// A change of the pool would have broken a rule, and was rolled back.
        InvariantViolated = "InvariantViolated" => "poolctl doctor",

        // Clusters.
        /// The pool created a cluster.
        ClusterCreated = "ClusterCreated",
        /// A job of a driver begins.
        JobStarted = "JobStarted",
        /// A job was cancelled, because it is not needed any more.
        JobCancelled = "JobCancelled",
        /// A job ended without a result, as after a reboot, and is tried again.
        JobInterrupted = "JobInterrupted" => Poolctl,
        /// A job failed.
        JobFailed = "JobFailed" => "poolctl job logs NAME",
        /// What a failed or interrupted job had left was destroyed.
        CleanedUp = "CleanedUp",
        /// The cluster is installed and runs.
        Installed = "Installed",
        /// The cluster was given up, because it has no attempt left.
        ProvisionStopped = "ProvisionStopped" => "poolctl cluster logs NAME",
        /// Another attempt at once was requested.
        Retry = "Retry",
        /// The cluster was given up or did not wake, and is destroyed.
        ClusterBroken = "ClusterBroken" => "poolctl events cluster/NAME",
        /// The cluster is destroyed, because its pool or customization has changed.
        ClusterStale = "ClusterStale",
        /// The pool does not need the cluster any more, or its time is over, and it is destroyed.
        ClusterDeleting = "ClusterDeleting",
        /// A person had the cluster forgotten, and has destroyed what was made of it by hand.
        Forgotten = "Forgotten",
        /// The cluster is deleted.
        ClusterDeleted = "ClusterDeleted",
        /// The cluster runs.
        Running = "Running",
        /// The cluster hibernates.
        Hibernating = "Hibernating",
        /// The machines of the cluster could not be started.
        FailedToStartMachines = "FailedToStartMachines" => Site "poolctl job logs NAME",
        /// The machines of the cluster could not be stopped.
        FailedToStop = "FailedToStop" => Site "poolctl job logs NAME",
        /// The cluster has run for its hibernateAfter, and is stopped.
        HibernateAfter = "HibernateAfter",
        /// The cluster does not wake, so another one is woken.
        PassedOver = "PassedOver" => Poolctl "poolctl why cluster/NAME",
        /// The cluster has the new credentials of its pool's platform.
        CredentialsRotated = "CredentialsRotated",

        // Claims.
        /// The cluster is reserved for a claim, which gets it when it runs.
        ClusterAssigned = "ClusterAssigned",
        /// The claim has its cluster.
        ClusterClaimed = "ClusterClaimed",
        /// The claim of the cluster is released.
        ClusterReleased = "ClusterReleased",
        /// The claim ends later than before.
        Extended = "Extended",
        /// The claim ends soon.
        ClaimExpiresSoon = "ClaimExpiresSoon" => Holder "poolctl extend NAME --for 2h",
        /// The lifetime of the claim has ended.
        ClaimExpired = "ClaimExpired",
        /// The claim is deleted.
        ClaimDeleted = "ClaimDeleted",
        /// The cluster of the claim was deleted before the claim.
        ClusterGone = "ClusterGone" => Holder "poolctl release NAME",
        /// Claim and cluster did not name each other; now they agree.
        AssignmentRepaired = "AssignmentRepaired",
        /// The cluster that the claim names belongs to another claim.
        AssignmentConflict = "AssignmentConflict" => Poolctl,

        // Customizations.
        /// A customization is leased to a cluster, or addresses are reserved.
        Reserved = "Reserved",
        /// A customization is free again.
        Released = "Released",
        /// A customization stays with a cluster that was left running.
        Preserved = "Preserved" => "poolctl customization reset NAME",
        /// The failed attempts of a customization are counted from zero again.
        Reset = "Reset",
        /// A customization does not apply to its pool, and is skipped.
        CustomizationUnusable = "CustomizationUnusable" => "poolctl describe pool NAME",
        /// A customization and its cluster did not name each other; now they do.
        LeaseRepaired = "LeaseRepaired",
        /// A customization was reserved for a cluster that does not exist.
        ReservationDropped = "ReservationDropped",

        // Hosts.
        /// An action on the host was requested.
        Asked = "Asked",
        /// The host's controller accepts the credentials.
        Registered = "Registered",
        /// The host's controller cannot be reached or refuses the credentials.
        RegistrationError = "RegistrationError" => Site "poolctl why host/NAME",
        /// The host's hardware was inspected.
        InspectionComplete = "InspectionComplete",
        /// The host is powered on.
        PowerOn = "PowerOn",
        /// The host is powered off.
        PowerOff = "PowerOff",
        /// The host was powered off and on.
        PowerCycled = "PowerCycled",
        /// The power of the host cannot be read or changed.
        PowerManagementError = "PowerManagementError" => Site "poolctl why host/NAME",
        /// An image is attached, and the host booted from it once.
        ProvisioningComplete = "ProvisioningComplete",
        /// An image could not be attached or ejected.
        ProvisioningError = "ProvisioningError" => Site "poolctl job logs host/NAME",
        /// The image is ejected.
        DeprovisioningComplete = "DeprovisioningComplete",
        /// The disks of the host were wiped.
        Wiped = "Wiped",
        /// The disks of the host could not be wiped, so the host is on hold.
        WipeFailed = "WipeFailed" => Site "poolctl why host/NAME",
        /// The host was taken from a cluster that no longer has it, and is switched off.
        HostGivenBack = "HostGivenBack",
        /// The annotation with the host's cluster cannot be followed.
        ClusterReferenceRefused = "ClusterReferenceRefused" => "poolctl why host/NAME",

        // Hosts that report themselves: as assisted-service has them, and what it has no word for.
        /// A host registered for the first time, or again.
        HostRegistrationSucceeded = "host_registration_succeeded",
        /// A host was not allowed to register.
        HostRegistrationFailed = "host_registration_failed" => "poolctl events infraenv/NAME",
        /// The state of the host changed.
        HostStatusUpdated = "host_status_updated",
        /// The host fails a check that it passed.
        HostValidationFailed = "host_validation_failed" => Site "poolctl why agent/NAME",
        /// The host passes a check that it failed.
        HostValidationFixed = "host_validation_fixed",
        /// The role of the host in its cluster changed.
        HostRoleUpdated = "host_role_updated",
        /// The host was changed by hand.
        HostConfigured = "host_configured",
        /// The host is approved, or no longer approved.
        HostApprovedUpdated = "host_approved_updated",
        /// Binding the host to a cluster was requested.
        HostBindRequested = "host_bind_requested",
        /// The host is bound to a cluster.
        HostBindSucceeded = "host_bind_succeeded",
        /// The host could not be bound.
        HostBindFailed = "host_bind_failed" => "poolctl why agent/NAME",
        /// Unbinding the host from its cluster was requested.
        HostUnbindRequested = "host_unbind_requested",
        /// The host has left its cluster.
        HostUnbindSucceeded = "host_unbind_succeeded",
        /// The host could not be taken out of its cluster.
        HostUnbindFailed = "host_unbind_failed" => "poolctl why agent/NAME",
        /// The host did not come back in time.
        HostUnbindOverdue = "host_unbind_overdue" => Site "poolctl why agent/NAME",
        /// The host could not be booted from the discovery image.
        HostReclaimFailed = "host_reclaim_failed" => Site "poolctl why agent/NAME",
        /// The host stays with a cluster left running, until its Agent is deleted.
        HostRetired = "host_retired" => "poolctl delete agent NAME",
        /// The host's Agent is deleted.
        HostDeregistered = "host_deregistered",
        /// The installation of the host has reached another stage.
        HostInstallProgressUpdated = "host_install_progress_updated",
        /// The installation of the host stays at one stage for too long.
        HostStageTimedOut = "host_stage_timed_out" => Site "poolctl why agent/NAME",
        /// The host cannot read the image that it was booted from.
        HostMediaDisconnected = "host_media_disconnected" => Site "poolctl why agent/NAME",
        /// Another Agent is the same machine.
        HostDuplicateFound = "host_duplicate_found" => "poolctl why agent/NAME",
        /// No other Agent is the same machine any more.
        HostDuplicateFixed = "host_duplicate_fixed",

        // InfraEnvs.
        /// The InfraEnv was created.
        InfraEnvRegistered = "infra_env_registered",
        /// The InfraEnv is deleted.
        InfraEnvDeregistered = "infra_env_deregistered",
        /// The InfraEnv cannot be deleted while it has hosts.
        InfraEnvDeregisterFailed = "infra_env_deregister_failed" => "poolctl get agent",
        /// The discovery image was made.
        ImageInfoUpdated = "image_info_updated",
        /// The discovery image could not be made.
        InfraEnvImageFailed = "infra_env_image_failed" => "poolctl why infraenv/NAME",
        /// A token was created, with which hosts can register.
        TokenCreated = "TokenCreated",
        /// A token was revoked, so no host can register with it any more.
        TokenRevoked = "TokenRevoked",

        // Addresses.
        /// A claim that waited for an address has one.
        Leased = "Leased",
        /// A claim has no address yet.
        AllocationFailed = "AllocationFailed" => "poolctl describe ipclaim NAME",
        /// The lease of an address ends soon.
        AddressExpiresSoon = "AddressExpiresSoon" => Holder "poolctl ip claim POOL NAME --for 8h",
        /// The lease of an address has ended.
        AddressExpired = "AddressExpired",

        /// The program of onChange could not be told of changed addresses. It is tried again.
        AddressesNotTold = "AddressesNotTold" => "poolctl get settings -o yaml",
        /// The program of onChange works again.
        AddressesTold = "AddressesTold",

        // The state.
        /// A restore kept what was leased after the backup.
        Held = "Held",
        /// What a restore held is given back.
        QuarantineEnded = "QuarantineEnded",
        /// The clock of the machine moved by more than the time that passed.
        ClockJumped = "ClockJumped" => Site "poolctl doctor",
    }
}
