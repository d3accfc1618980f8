//! Hive's conditions of a cluster, as they follow from the facts.

use super::{Cluster, Phase, Power};
use crate::model::condition::{Condition, ConditionReason, ConditionType, Shortage};
use crate::model::driver::Driver;
use crate::model::pool::PAUSED;
use crate::model::power::{deleted, initialized};
use crate::model::time::Time;

impl Cluster {
    /// Hive's conditions, as they follow from the facts.
    pub fn conditions(&self) -> Vec<Condition> {
        let begun = self.started_at.unwrap_or(self.created);
        let mut all = vec![self.provisioned().at(self.installed_at.unwrap_or(begun))];
        all.extend(self.requirements());
        all.extend(self.on_hold());
        if let Some(failed) = self.failed_at {
            let message = self.failure.clone().unwrap_or_default();
            all.push(
                Condition::new(
                    ConditionType::ProvisionFailed,
                    "True",
                    ConditionReason::InstallFailed,
                    message,
                )
                .at(failed),
            );
            all.push(self.provision_stopped().at(failed));
        }
        if let Some(since) = self.deleting {
            all.extend(deleted(since));
        } else if self.installed() {
            all.extend(self.power_conditions(self.installed_at.unwrap_or(begun)));
        } else {
            all.extend(initialized(self.created));
        }
        all
    }

    /// Only of one that has some.
    fn requirements(&self) -> Option<Condition> {
        let kind = ConditionType::RequirementsMet;
        if let Some(Shortage { reason, message }) = &self.lacks {
            let since = self.unmet.unwrap_or(self.created);
            return Some(Condition::new(kind, "False", *reason, message.as_str()).at(since));
        }
        let name = self.customization_ref.as_ref()?;
        if let Some(since) = self.unmet {
            let message = format!("ClusterDeploymentCustomization {name} not found");
            let missing = ConditionReason::CustomizationRefNotAvailable;
            return Some(Condition::new(kind, "False", missing, message).at(since));
        }
        let begun = self.started_at.unwrap_or(self.created);
        let message = "All pre-provision requirements met";
        Some(Condition::new(kind, "True", ConditionReason::AllRequirementsMet, message).at(begun))
    }

    /// Assisted installer's, of one that is installed on hosts.
    fn on_hold(&self) -> Option<Condition> {
        let begins = match self.phase() {
            Phase::Retrying => true,
            Phase::Installing => self.started_at.is_none(),
            _ => false,
        };
        let held = self.paused && self.takes_hosts() && begins;
        held.then(|| {
            let text = format!("The installation is on hold. To unhold remove annotation {PAUSED}");
            Condition::new(
                ConditionType::Completed,
                "False",
                ConditionReason::InstallationOnHold,
                text,
            )
            .at(self.created)
        })
    }

    /// The times are those of Hive: a transition when the status changed, a probe when the reason
    /// did.
    fn power_conditions(&self, installed: Time) -> [Condition; 2] {
        let probed = self.power_since.unwrap_or(installed);
        let awake = self.awake_since.unwrap_or(installed);
        let [mut hibernating, mut ready] = self.power.conditions(self.power_message.as_deref());
        let asleep = self.power == Power::Hibernating || self.power == Power::Paused;
        hibernating.last_transition_time = Some(if asleep { probed } else { awake });
        ready.last_transition_time = Some(if self.power.waking() { awake } else { probed });
        hibernating.last_probe_time = Some(probed);
        ready.last_probe_time = Some(probed);
        [hibernating, ready]
    }

    fn provisioned(&self) -> Condition {
        if let Some(said) = self.progress.as_ref().filter(|_| self.phase() == Phase::Installing) {
            let message = format!("Cluster is being provisioned: {said}");
            return Condition::new(
                ConditionType::Provisioned,
                "False",
                ConditionReason::Provisioning,
                message,
            );
        }
        let (status, reason, message) = match self.phase() {
            Phase::Deprovisioning if self.protected => {
                let by = "Annotation hive.openshift.io/protected-delete holds the cluster";
                ("False", ConditionReason::DeletionBlocked, by)
            }
            Phase::Deprovisioning
                if self.driver == Driver::Missing && self.started_at.is_some() =>
            {
                (
                    "False",
                    ConditionReason::DriverMissing,
                    "No driver of this build can destroy the cluster",
                )
            }
            Phase::Deprovisioning if self.held && self.started_at.is_none() => (
                "False",
                ConditionReason::DeletionBlocked,
                "A finalizer of another program holds the object",
            ),
            Phase::Deprovisioning => {
                ("False", ConditionReason::Deprovisioning, "Cluster is being destroyed")
            }
            Phase::Installed => ("True", ConditionReason::Provisioned, "Cluster is provisioned"),
            Phase::Broken => {
                ("False", ConditionReason::ProvisionStopped, "Provisioning failed terminally")
            }
            _ if self.driver == Driver::Missing => (
                "False",
                ConditionReason::DriverMissing,
                "No driver of this build serves the platform",
            ),
            Phase::Installing | Phase::Retrying => {
                ("False", ConditionReason::Provisioning, "Cluster is being provisioned")
            }
        };
        Condition::new(ConditionType::Provisioned, status, reason, message)
    }

    fn provision_stopped(&self) -> Condition {
        if self.stopped {
            let (reason, message) = if self.once {
                (ConditionReason::InstallOnlyOnceSet, "Deployment is set to try install only once")
            } else {
                (ConditionReason::InstallAttemptsLimitReached, "Install attempts limit reached")
            };
            return Condition::new(ConditionType::ProvisionStopped, "True", reason, message);
        }
        Condition::new(
            ConditionType::ProvisionStopped,
            "False",
            ConditionReason::ProvisionNotStopped,
            "Provision is not stopped",
        )
    }
}
