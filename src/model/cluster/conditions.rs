//! Hive's conditions of a cluster. They are made from its facts whenever they are shown, and never
//! stored.

use super::{Cluster, Phase, Power};
use crate::model::condition::{Condition, ConditionReason, ConditionText, ConditionType, Shortage};
use crate::model::driver::Driver;
use crate::model::failure::FailureClass;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::power::{conditions_before_installation, conditions_of_deleted_cluster};
use crate::model::time::Time;

impl Cluster {
    /// Those of Hive's conditions whose truth is known here, with the times of their transitions. A
    /// cluster has them from birth: what has not been decided yet is Unknown.
    pub fn conditions(&self) -> Vec<Condition> {
        let begun = self.started_at.unwrap_or(self.created);
        let installed = self.installed_at.unwrap_or(begun);
        let mut conditions = vec![self.provisioned().with_times(installed)];
        conditions.push(self.requirements_met());
        conditions.extend(self.installation_on_hold());
        conditions.push(self.provision_failed());
        conditions.push(self.provision_stopped());
        conditions.extend(self.destruction_blocked());
        if let Some(since) = self.deleting {
            conditions.extend(conditions_of_deleted_cluster(since));
        } else if self.is_installed() {
            conditions.extend(self.power_conditions(installed));
        } else {
            conditions.extend(conditions_before_installation(self.created));
        }
        conditions
    }

    fn requirements_met(&self) -> Condition {
        let kind = ConditionType::RequirementsMet;
        if let Some(Shortage { reason, message }) = self.unmet_requirement() {
            let since = self.unmet.unwrap_or(self.created);
            return Condition::new(kind, "False", reason, message).with_times(since);
        }
        let Some(begun) = self.started_at.or(self.installed_at) else {
            return self.undecided(kind);
        };
        let reason = ConditionReason::AllRequirementsMet;
        let message = "All pre-provision requirements met";
        Condition::new(kind, "True", reason, message).with_times(begun)
    }

    /// What the installation of the cluster waits for.
    fn unmet_requirement(&self) -> Option<Shortage> {
        if self.shortage.is_some() {
            return self.shortage.clone();
        }
        self.unmet?;
        let name = self.customization_ref.as_ref()?;
        let message = format!("ClusterDeploymentCustomization {name} not found");
        Some(Shortage::new(ConditionReason::CustomizationRefNotAvailable, message))
    }

    /// A condition of which nothing is known yet.
    fn undecided(&self, kind: ConditionType) -> Condition {
        let reason = ConditionReason::Initialized;
        Condition::new(kind, "Unknown", reason, "Condition Initialized").with_times(self.created)
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

    /// Only for a cluster that cannot be destroyed before a person has done something.
    fn destruction_blocked(&self) -> Option<Condition> {
        let kind = ConditionType::DeprovisionLaunchError;
        let reason = ConditionReason::CannotBeDestroyed;
        let condition = Condition::new(kind, "True", reason, self.undo_blocked.as_deref()?);
        let since = self.undo_failed_at.or(self.deleting).unwrap_or(self.created);
        Some(condition.with_times(since))
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

    /// The class of the cause is the reason, if it is known. An attempt of Hive keeps Hive's reason.
    fn provision_failed(&self) -> Condition {
        let kind = ConditionType::ProvisionFailed;
        let Some(failed) = self.failed_at else { return self.undecided(kind) };
        let message = self.failure.clone().unwrap_or_default();
        let reason = match self.failure_class.unwrap_or_default() {
            FailureClass::Unclear => ConditionReason::InstallFailed,
            class => class.condition_reason(),
        };
        let mut condition = Condition::new(kind, "True", reason, message);
        if let Some(reason) = &self.failure_reason {
            condition.reason.clone_from(reason);
        }
        condition.with_times(failed)
    }

    fn provision_stopped(&self) -> Condition {
        let kind = ConditionType::ProvisionStopped;
        if self.stopped {
            let (reason, message) = if self.once {
                let message = "Deployment is set to try install only once";
                (ConditionReason::InstallOnlyOnceSet, message)
            } else if self.failure_class == Some(FailureClass::InputWrong) {
                (ConditionReason::InputWrong, "The configuration of the cluster was refused")
            } else {
                let message = "Install attempts limit reached";
                (ConditionReason::InstallAttemptsLimitReached, message)
            };
            let since = self.stopped_at.or(self.failed_at).unwrap_or(self.created);
            return Condition::new(kind, "True", reason, message).with_times(since);
        }
        let Some(begun) = self.started_at.or(self.failed_at) else {
            return self.undecided(kind);
        };
        let reason = ConditionReason::ProvisionNotStopped;
        Condition::new(kind, "False", reason, "Provision is not stopped").with_times(begun)
    }
}
