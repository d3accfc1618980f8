//! `host hold|unhold`: hosts that are in no cluster to come.

use clap::Args;

use crate::model::agent::Agent;
use crate::model::host::wipe::{NOBODY, WIPE};
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::store::{Filter, Need, Store};

use crate::commands::host::{Which, change_beside};
use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Hold {
    #[command(flatten)]
    which: Which,
    /// Why, for others
    #[arg(long, value_name = "TEXT", default_value = "held", hide_default_value = true)]
    reason: String,
}

impl Verb for Hold {
    const NAME: &'static str = "hold";
    const ABOUT: &'static str = "Keep hosts out of every cluster to come";
    const EXAMPLE: &'static str = "poolctl host hold node-1 --reason 'bad fan'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        held(context, &self.which, Some(&self.reason))
    }
}

#[derive(Args)]
pub struct Unhold {
    #[command(flatten)]
    which: Which,
}

impl Verb for Unhold {
    const NAME: &'static str = "unhold";
    const ABOUT: &'static str = "Let hosts be used again";
    const EXAMPLE: &'static str = "poolctl host unhold node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        held(context, &self.which, None)
    }
}

fn held(context: &Context, which: &Which, reason: Option<&str>) -> anyhow::Result<()> {
    let store = context.look()?;
    let hosts = which.hosts(context, &store)?;
    let keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
    let agents = agents_of(&store, context.namespaces()?, &keys)?;
    // They say who is held.
    let agents = agents.iter().map(|one| Need { kind: Kind::Agent, key: one.key() }).collect();
    let said = reason.map_or("It is free".to_owned(), |reason| format!("It is held: {reason}"));
    change_beside(context, &store, &keys, agents, &said, |host| match reason {
        Some(reason) => drop(host.metadata.annotations.insert(HOLD.into(), reason.into())),
        None => drop(host.metadata.annotations.remove(HOLD)),
    })?;
    let done = if reason.is_some() { "held" } else { "free" };
    for host in hosts {
        context.changed(Kind::BareMetalHost, &host.key(), done)?;
        let name = &host.metadata.name;
        if reason.is_none() && host.is_to_be_wiped() {
            let at = context.in_namespace(&host.metadata.namespace);
            context.hint(&format!(
                "host `{name}`: its disks are wiped first; to leave that: poolctl annotate host \
                 {name} {WIPE}={NOBODY} --overwrite{at}"
            ));
        }
    }
    Ok(())
}

/// The Agents that these hosts are; of one namespace, or of all.
pub fn agents_of(
    store: &Store,
    namespace: Option<String>,
    hosts: &[Key],
) -> Result<Vec<Agent>, Refusal> {
    let mut agents = store.list::<Agent>(&Filter { namespace, ..Filter::default() })?;
    agents.retain(|agent| agent.bmh().is_some_and(|key| hosts.contains(&key)));
    Ok(agents)
}
