//! `agent delete`: deletes agents by their names, or all that nobody has approved. A machine that
//! is still booted from the discovery image registers again.

use clap::Args;

use crate::model::agent::Agent;
use crate::model::infra_env::InfraEnv;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::{Filter, Store};

use crate::commands::delete::{confirm_deletion, delete_objects};
use crate::commands::{Context, RunCommand};

/// Arguments of `agent delete`. Agents are chosen by name or by what they lack.
#[derive(Args)]
pub struct Delete {
    /// Agents to delete
    #[arg(value_name = "AGENT", required_unless_present = "unapproved")]
    names: Vec<String>,
    /// Delete all agents of the namespace that nobody has approved and that have no cluster
    #[arg(long, conflicts_with = "names")]
    unapproved: bool,
    /// Only agents of this InfraEnv
    #[arg(long, value_name = "INFRAENV", requires = "unapproved")]
    infraenv: Option<String>,
}

impl RunCommand for Delete {
    const NAME: &'static str = "delete";
    const ABOUT: &'static str = "Delete agents, such as all that nobody has approved";
    const EXAMPLE: &'static str = "poolctl agent delete --unapproved --infraenv rack";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let agents = self.find_agents(context, &store)?;
        if agents.is_empty() {
            context.hint("nothing to delete");
            return Ok(());
        }
        let objects: Vec<Object> =
            agents.into_iter().map(|agent| Object::Agent(Box::new(agent))).collect();
        for object in &objects {
            confirm_deletion(context, &store, object)?;
        }
        delete_objects(context, &store, &objects, |_, _| "deleted")
    }
}

impl Delete {
    /// The agents that are named, or those that nobody has approved.
    fn find_agents(&self, context: &Context, store: &Store) -> Result<Vec<Agent>, Refusal> {
        if !self.unapproved {
            return self.names.iter().map(|name| context.find::<Agent>(store, name)).collect();
        }
        let infra_env_key = match &self.infraenv {
            Some(name) => Some(context.find::<InfraEnv>(store, name)?.key()),
            None => None,
        };
        let filter = Filter { namespace: context.namespace_filter()?, ..Filter::default() };
        let mut agents = store.list::<Agent>(&filter)?;
        agents.retain(|agent| {
            let is_of_infra_env = infra_env_key.is_none() || agent.infra_env_key() == infra_env_key;
            let has_cluster =
                agent.bound_cluster().is_some() || agent.requested_cluster().is_some();
            is_of_infra_env && !agent.spec.approved && !has_cluster
        });
        Ok(agents)
    }
}
