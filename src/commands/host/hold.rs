//! `host hold|unhold`: keeps hosts out of new clusters, or lets them be used again. A cluster that
//! has a host keeps it.

use clap::Args;

use crate::model::agent::Agent;
use crate::model::annotations::{HOLD, QUARANTINE, WIPE};
use crate::model::host::BareMetalHost;
use crate::model::host::wipe::NO_WIPE;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::store::{NeededObject, Store};

use crate::commands::host::{HostSelection, change_hosts_with};
use crate::commands::{Context, RunCommand};

/// Arguments of `host hold`. A cluster that has the host keeps it.
#[derive(Args)]
pub struct Hold {
    #[command(flatten)]
    selection: HostSelection,
    /// Reason, shown to other people
    #[arg(long, value_name = "TEXT", default_value = "held", hide_default_value = true)]
    reason: String,
}

impl RunCommand for Hold {
    const NAME: &'static str = "hold";
    const ABOUT: &'static str = "Keep hosts out of new clusters";
    const EXAMPLE: &'static str = "poolctl host hold node-1 --reason 'bad fan'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set_hold(context, &self.selection, Some(&self.reason))
    }
}

/// Arguments of `host unhold`.
#[derive(Args)]
pub struct Unhold {
    #[command(flatten)]
    selection: HostSelection,
}

impl RunCommand for Unhold {
    const NAME: &'static str = "unhold";
    const ABOUT: &'static str = "End the hold of hosts, so that new clusters may use them";
    const EXAMPLE: &'static str = "poolctl host unhold node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set_hold(context, &self.selection, None)
    }
}

/// Holds hosts for a reason, or with none lets them be used again.
fn set_hold(
    context: &Context,
    selection: &HostSelection,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let store = context.open_existing_state()?;
    let hosts = selection.find_hosts(context, &store)?;
    let host_keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
    // Their agents have a condition that says whether they are held: the pass must see them.
    let agents = list_agents_of_hosts(&store, &host_keys)?;
    let agent_needs =
        agents.iter().map(|agent| NeededObject { kind: Kind::Agent, key: agent.key() }).collect();
    let message =
        reason.map_or("The hold was removed".to_owned(), |reason| format!("It is held: {reason}"));
    change_hosts_with(context, &store, &host_keys, agent_needs, &message, |host| {
        let annotations = &mut host.metadata.annotations;
        // From now on the hold, or its end, is a person's and not that of a restore.
        annotations.remove(QUARANTINE);
        match reason {
            Some(reason) => drop(annotations.insert(HOLD.into(), reason.into())),
            None => drop(annotations.remove(HOLD)),
        }
    })?;
    let result = if reason.is_some() { "held" } else { "free" };
    for host in hosts {
        context.report_change(Kind::BareMetalHost, &host.key(), result)?;
        let name = &host.metadata.name;
        if reason.is_none() && host.is_to_be_wiped() {
            let namespace_option = context.namespace_option(&host.metadata.namespace);
            context.hint(&format!(
                "host `{name}`: its disks are wiped first; to skip the wipe: poolctl annotate host \
                 {name} {WIPE}={NO_WIPE} --overwrite{namespace_option}"
            ));
        }
    }
    Ok(())
}

/// The agents of these hosts.
pub fn list_agents_of_hosts(store: &Store, hosts: &[Key]) -> Result<Vec<Agent>, Refusal> {
    let mut agents = Vec::new();
    for host in hosts {
        agents.extend(store.list_agents_of_host(host)?);
    }
    Ok(agents)
}
