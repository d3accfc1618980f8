//! Hive's conditions of a cluster. They are made from its facts whenever they are shown, and never
//! stored.

use super::{Cluster, Phase, Power};
use crate::model::condition::{Condition, ConditionReason, ConditionText, ConditionType, Shortage};
use crate::model::driver::Driver;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::power::{conditions_before_installation, conditions_of_deleted_cluster};
use crate::model::time::Time;

impl Cluster {
    /// Hive's conditions, each where it applies, with the times of their transitions.
    pub fn conditions(&self) -> Vec<Condition> {
        let begun = self.started_at.unwrap_or(self.created);
        let installed = self.installed_at.unwrap_or(begun);
        let mut conditions = vec![self.provisioned().with_times(installed)];
        conditions.extend(self.requirements_met());
        conditions.extend(self.installation_on_hold());
        if let Some(failed) = self.failed_at {
            conditions.push(self.provision_failed().with_times(failed));
            conditions.push(self.provision_stopped().with_times(failed));
        }
        if let Some(since) = self.deleting {
            conditions.extend(conditions_of_deleted_cluster(since));
        } else if self.is_installed() {
            conditions.extend(self.power_conditions(installed));
        } else {
            conditions.extend(conditions_before_installation(self.created));
        }
        conditions
    }

    /// None for a cluster that needs neither hosts nor a customization.
    fn requirements_met(&self) -> Option<Condition> {
        let kind = ConditionType::RequirementsMet;
        if let Some(Shortage { reason, message }) = &self.shortage {
            let since = self.unmet.unwrap_or(self.created);
            return Some(
                Condition::new(kind, "False", *reason, message.as_str()).with_times(since),
            );
        }
        let name = self.customization_ref.as_ref()?;
        if let Some(since) = self.unmet {
            let message = format!("ClusterDeploymentCustomization {name} not found");
            let reason = ConditionReason::CustomizationRefNotAvailable;
            return Some(Condition::new(kind, "False", reason, message).with_times(since));
        }
        let begun = self.started_at.unwrap_or(self.created);
        let message = "All pre-provision requirements met";
        Some(
            Condition::new(kind, "True", ConditionReason::AllRequirementsMet, message)
                .with_times(begun),
        )
    }

    /// As assisted installer has it: only for a cluster of Agents that is paused before one of its
    /// installations begins.
    fn installation_on_hold(&self) -> Option<Condition> {
        let is_about_to_begin = match self.phase() {
            Phase::Retrying => true,
            Phase::Installing => self.started_at.is_none(),
            Phase::Broken | Phase::Installed | Phase::Deprovisioning => false,
        };
        if !self.paused || !self.is_made_of_agents() || !is_about_to_begin {
            return None;
        }
        let message =
            format!("The installation is on hold. To unhold remove annotation {RECONCILE_PAUSE}");
        let reason = ConditionReason::InstallationOnHold;
        let condition = Condition::new(ConditionType::Completed, "False", reason, message);
        Some(condition.with_times(self.created))
    }

    /// Hibernating and Ready, with the times that Hive gives them: a transition when the status
    /// changed, a probe when the reason changed.
    fn power_conditions(&self, installed: Time) -> [Condition; 2] {
        let probed = self.power_since.unwrap_or(installed);
        let awake = self.awake_since.unwrap_or(installed);
        let [mut hibernating, mut ready] = self.power.conditions(self.power_message.as_deref());
        let is_asleep = self.power == Power::Hibernating || self.power == Power::Paused;
        hibernating.last_transition_time = Some(if is_asleep { probed } else { awake });
        ready.last_transition_time = Some(if self.power.is_waking() { awake } else { probed });
        hibernating.last_probe_time = Some(probed);
        ready.last_probe_time = Some(probed);
        [hibernating, ready]
    }

    fn provisioned(&self) -> Condition {
        let kind = ConditionType::Provisioned;
        if let Some(progress) = &self.progress
            && self.phase() == Phase::Installing
        {
            let message = format!("Cluster is being provisioned: {progress}");
            return Condition::new(kind, "False", ConditionReason::Provisioning, message);
        }
        let condition_text = match self.phase() {
            Phase::Deprovisioning => self.deprovisioning(),
            Phase::Installed => {
                ConditionText::new("True", ConditionReason::Provisioned, "Cluster is provisioned")
            }
            Phase::Broken => ConditionText::new(
                "False",
                ConditionReason::ProvisionStopped,
                "Provisioning failed terminally",
            ),
            Phase::Installing | Phase::Retrying if self.driver == Driver::Missing => {
                ConditionText::new(
                    "False",
                    ConditionReason::DriverMissing,
                    "No driver of this build serves the platform",
                )
            }
            Phase::Installing | Phase::Retrying => ConditionText::new(
                "False",
                ConditionReason::Provisioning,
                "Cluster is being provisioned",
            ),
        };
        condition_text.to_condition(kind)
    }

    /// Why a cluster whose deletion was asked for is still there.
    fn deprovisioning(&self) -> ConditionText {
        let (reason, message) = if self.protected {
            (
                ConditionReason::DeletionBlocked,
                "Annotation hive.openshift.io/protected-delete holds the cluster",
            )
        } else if self.driver == Driver::Missing && self.started_at.is_some() {
            (ConditionReason::DriverMissing, "No driver of this build can destroy the cluster")
        } else if self.held && self.started_at.is_none() {
            (ConditionReason::DeletionBlocked, "A finalizer of another program holds the object")
        } else {
            (ConditionReason::Deprovisioning, "Cluster is being destroyed")
        };
        ConditionText::new("False", reason, message)
    }

    fn provision_failed(&self) -> Condition {
        let message = self.failure.clone().unwrap_or_default();
        let reason = ConditionReason::InstallFailed;
        Condition::new(ConditionType::ProvisionFailed, "True", reason, message)
    }

    fn provision_stopped(&self) -> Condition {
        let condition_text = if self.stopped && self.once {
            ConditionText::new(
                "True",
                ConditionReason::InstallOnlyOnceSet,
                "Deployment is set to try install only once",
            )
        } else if self.stopped {
            ConditionText::new(
                "True",
                ConditionReason::InstallAttemptsLimitReached,
                "Install attempts limit reached",
            )
        } else {
            ConditionText::new(
                "False",
                ConditionReason::ProvisionNotStopped,
                "Provision is not stopped",
            )
        };
        condition_text.to_condition(ConditionType::ProvisionStopped)
    }
}
