//! The states of a host, as assisted-service names them, and what may be done in each. It does not
//! say which state follows another; `plan/agents` does.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::facts::named;

named! {
    /// The states of a machine, with the names of assisted-service. Those that end in `Unbound` are of
    /// machines without a cluster.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum HostState {
        /// Free: registered, but its hardware is not known yet.
        #[default]
        DiscoveringUnbound = "discovering-unbound",
        /// Free: too small for any role, or its hostname is invalid.
        InsufficientUnbound = "insufficient-unbound",
        /// Free: suitable for a cluster.
        KnownUnbound = "known-unbound",
        /// Free: does not report any more.
        DisconnectedUnbound = "disconnected-unbound",
        /// Retired: still runs in a cluster that poolctl does not manage any more.
        DisabledUnbound = "disabled-unbound",
        /// Bound to a cluster, and must register again.
        Binding = "binding",
        /// Unbound from its cluster, and must register again.
        Unbinding = "unbinding",
        /// Unbound: a person must boot the host from the discovery image.
        UnbindingPendingUserAction = "unbinding-pending-user-action",
        /// Unbound: poolctl prepares to boot the host from the discovery image.
        Reclaiming = "reclaiming",
        /// Unbound: the host boots from the discovery image.
        ReclaimingRebooting = "reclaiming-rebooting",
        /// Bound: its hardware is not known yet.
        Discovering = "discovering",
        /// Bound: suitable for its cluster.
        Known = "known",
        /// Bound: does not meet the requirements of its cluster.
        Insufficient = "insufficient",
        /// Bound: settings of its cluster are missing.
        PendingForInput = "pending-for-input",
        /// Bound: does not report any more.
        Disconnected = "disconnected",
        /// Used only in imported objects.
        Disabled = "disabled",
        /// The host is checked before the installation.
        PreparingForInstallation = "preparing-for-installation",
        /// The check before the installation failed.
        PreparingFailed = "preparing-failed",
        /// The check before the installation passed.
        PreparingSuccessful = "preparing-successful",
        /// The installation of its cluster has begun.
        Installing = "installing",
        /// The host itself is being installed.
        InstallingInProgress = "installing-in-progress",
        /// A person must boot the host, from the image of its cluster or later from its disk.
        InstallingPendingUserAction = "installing-pending-user-action",
        /// The installation of the host is being undone.
        Resetting = "resetting",
        /// A person must boot the host to undo the installation.
        ResettingPendingUserAction = "resetting-pending-user-action",
        /// The host is a node of its cluster.
        Installed = "installed",
        /// The host joined a cluster that was already installed.
        AddedToExistingCluster = "added-to-existing-cluster",
        /// The installation of the host failed.
        Error = "error",
        /// The installation of the host was cancelled.
        Cancelled = "cancelled",
    }
}

impl HostState {
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

    /// Whether the host is a node of an installed cluster.
    pub fn is_installed(self) -> bool {
        matches!(self, Self::Installed | Self::AddedToExistingCluster)
    }

    /// Whether the installation of the host has ended, whatever came of it.
    pub fn has_ended_installation(self) -> bool {
        self.is_installed() || matches!(self, Self::Error | Self::Cancelled)
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::Role;

    #[test]
    fn states_and_roles_are_called_as_on_the_wire() {
        for state in HostState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }
}
