//! The states of a host, as assisted-service names them, and what may be done in each. It does not
//! say which state follows another; `plan/agents` does.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// Registered, nothing known of it yet.
    #[default]
    DiscoveringUnbound,
    /// Too small for any role, or with a name that cannot be one.
    InsufficientUnbound,
    /// Free, and good for a cluster.
    KnownUnbound,
    /// Free, and silent.
    DisconnectedUnbound,
    /// Retired: it goes on in a cluster that was left running.
    DisabledUnbound,
    /// Has a cluster, and is to register again for it.
    Binding,
    /// Has none any more, and is to register again.
    Unbinding,
    /// Somebody has to boot it from the discovery image.
    UnbindingPendingUserAction,
    /// It is on its way back to the discovery image by itself.
    Reclaiming,
    /// It is being booted from there.
    ReclaimingRebooting,
    /// Bound, nothing known of it yet.
    Discovering,
    /// Bound, and good for its cluster.
    Known,
    /// Bound, and not good enough for its cluster.
    Insufficient,
    /// Its cluster does not say enough.
    PendingForInput,
    /// Bound, and silent.
    Disconnected,
    /// Never entered; imported states have it.
    Disabled,
    /// Looked at before the installation.
    PreparingForInstallation,
    /// That failed.
    PreparingFailed,
    /// That went well.
    PreparingSuccessful,
    /// Its cluster is being installed.
    Installing,
    /// It is being installed itself.
    InstallingInProgress,
    /// Somebody has to boot it, from the image of its cluster or then from its disk.
    InstallingPendingUserAction,
    /// Its installation is being undone.
    Resetting,
    /// Somebody has to boot it for that.
    ResettingPendingUserAction,
    /// It is a node of its cluster.
    Installed,
    /// It joined a cluster that was installed before.
    AddedToExistingCluster,
    /// Its installation failed.
    Error,
    /// Its installation was cancelled.
    Cancelled,
}

impl HostState {
    /// In the order in which they are declared.
    pub const ALL: [Self; 28] = [
        Self::DiscoveringUnbound,
        Self::InsufficientUnbound,
        Self::KnownUnbound,
        Self::DisconnectedUnbound,
        Self::DisabledUnbound,
        Self::Binding,
        Self::Unbinding,
        Self::UnbindingPendingUserAction,
        Self::Reclaiming,
        Self::ReclaimingRebooting,
        Self::Discovering,
        Self::Known,
        Self::Insufficient,
        Self::PendingForInput,
        Self::Disconnected,
        Self::Disabled,
        Self::PreparingForInstallation,
        Self::PreparingFailed,
        Self::PreparingSuccessful,
        Self::Installing,
        Self::InstallingInProgress,
        Self::InstallingPendingUserAction,
        Self::Resetting,
        Self::ResettingPendingUserAction,
        Self::Installed,
        Self::AddedToExistingCluster,
        Self::Error,
        Self::Cancelled,
    ];

    /// The state as it is spelled on the wire and in the state file.
    pub fn name(self) -> &'static str {
        match self {
            Self::DiscoveringUnbound => "discovering-unbound",
            Self::InsufficientUnbound => "insufficient-unbound",
            Self::KnownUnbound => "known-unbound",
            Self::DisconnectedUnbound => "disconnected-unbound",
            Self::DisabledUnbound => "disabled-unbound",
            Self::Binding => "binding",
            Self::Unbinding => "unbinding",
            Self::UnbindingPendingUserAction => "unbinding-pending-user-action",
            Self::Reclaiming => "reclaiming",
            Self::ReclaimingRebooting => "reclaiming-rebooting",
            Self::Discovering => "discovering",
            Self::Known => "known",
            Self::Insufficient => "insufficient",
            Self::PendingForInput => "pending-for-input",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
            Self::PreparingForInstallation => "preparing-for-installation",
            Self::PreparingFailed => "preparing-failed",
            Self::PreparingSuccessful => "preparing-successful",
            Self::Installing => "installing",
            Self::InstallingInProgress => "installing-in-progress",
            Self::InstallingPendingUserAction => "installing-pending-user-action",
            Self::Resetting => "resetting",
            Self::ResettingPendingUserAction => "resetting-pending-user-action",
            Self::Installed => "installed",
            Self::AddedToExistingCluster => "added-to-existing-cluster",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the host belongs to no cluster and is not on its way back from one. A retired host
    /// counts as free, but is not good for another cluster.
    pub fn is_free(self) -> bool {
        matches!(
            self,
            Self::DiscoveringUnbound
                | Self::InsufficientUnbound
                | Self::KnownUnbound
                | Self::DisconnectedUnbound
                | Self::DisabledUnbound
        )
    }

    /// Whether the host is on its way back from a cluster to the discovery image.
    pub fn is_returning(self) -> bool {
        matches!(
            self,
            Self::Unbinding
                | Self::UnbindingPendingUserAction
                | Self::Reclaiming
                | Self::ReclaimingRebooting
        )
    }

    /// Whether the host is in the middle of an installation, so nobody may take it away.
    pub fn is_installing(self) -> bool {
        matches!(
            self,
            Self::PreparingForInstallation
                | Self::PreparingFailed
                | Self::PreparingSuccessful
                | Self::Installing
                | Self::InstallingInProgress
                | Self::InstallingPendingUserAction
        )
    }

    /// Whether the host is bound and is checked, because its installation has not begun.
    pub fn is_bound_and_checked(self) -> bool {
        matches!(
            self,
            Self::Discovering
                | Self::Known
                | Self::Insufficient
                | Self::PendingForInput
                | Self::Disconnected
        )
    }

    /// Whether a change of role, name or disk still takes effect. It does not once the installation
    /// has begun.
    pub fn can_change_settings(self) -> bool {
        self.is_free() || self.is_bound_and_checked() || self == Self::Binding
    }

    /// Whether the host was good for its cluster when it was bound and is not any more.
    pub fn has_become_unfit(self) -> bool {
        matches!(self, Self::Disconnected | Self::Insufficient)
    }

    /// Whether data of a cluster may be on the disks of the host.
    pub fn may_have_cluster_data(self) -> bool {
        let is_installing = self.is_installing() && self != Self::PreparingForInstallation;
        self.has_ended_installation() || is_installing
    }

    /// Whether the installation of the host has ended, whatever came of it.
    pub fn has_ended_installation(self) -> bool {
        matches!(
            self,
            Self::Installed | Self::AddedToExistingCluster | Self::Error | Self::Cancelled
        )
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for HostState {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|state| state.name() == name).ok_or(())
    }
}
