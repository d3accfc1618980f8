//! Hosts that wait for somebody: a line for each kind of waiting, with what to type.

use std::collections::BTreeMap;

use crate::causes::command_to_make_image;
use crate::commands::Context;
use crate::model::agent::{Agent, HostState};
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::store::Store;

/// The most hosts that a line names.
const NAMED: usize = 3;

/// What a host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    Approval,
    /// To be booted from the discovery image.
    Image,
    /// To be booted in the middle of its installation.
    Boot,
    /// To be heard of, being bound.
    Word,
    /// To have what is asked of it.
    Hardware,
    /// For its cluster to say more.
    Input,
    /// For another try, or for somebody who looks why it failed.
    Failed,
    /// For somebody to forget it: it is retired.
    Leave,
    /// For nothing: its machine is another Agent already.
    Same,
}

/// Those that wait for the same are one line.
pub fn waiting(context: &Context, store: &Store, agents: &[Agent]) -> Result<Vec<String>, Refusal> {
    let mut alike: BTreeMap<(Wait, &str, Option<Key>), Vec<&str>> = BTreeMap::new();
    for one in agents.iter().filter(|one| one.metadata.deletion_timestamp.is_none()) {
        let same = one.is_duplicate() && one.bound_to().is_none();
        let other = if same { Some(Wait::Same) } else { wait(one.state()) };
        // What is too weak, or another Agent already, is no better when it is approved.
        let wants = !one.spec.approved && !one.is_duplicate() && other != Some(Wait::Hardware);
        let approval = wants.then_some(Wait::Approval);
        for wait in approval.into_iter().chain(other) {
            let meta = &one.metadata;
            let whose = match wait {
                Wait::Image => one.infra_env(),
                Wait::Same => Some(Key::new("", &*one.status.duplicate_of)),
                _ => None,
            };
            let key = (wait, meta.namespace.as_str(), whose);
            alike.entry(key).or_default().push(meta.name.as_str());
        }
    }
    let line = |((wait, namespace, whose), names): ((Wait, &str, Option<Key>), Vec<&str>)| {
        let at = context.in_namespace(namespace);
        let first = names.first().copied().unwrap_or_default();
        let mut says = said(wait).to_owned();
        let next = match (wait, whose) {
            (Wait::Approval, _) => {
                format!("poolctl agent approve {}{at}", names[..names.len().min(NAMED)].join(" "))
            }
            (Wait::Image, Some(key)) => match image_of(store, &key)? {
                Some(url) => format!("boot from {url}"),
                None => command_to_make_image(&key.name, &at),
            },
            (Wait::Same, Some(other)) => {
                says = format!("{says} {}", other.name);
                format!("poolctl why agent/{first}{at}")
            }
            _ => format!("poolctl why agent/{first}{at}"),
        };
        Ok::<_, Refusal>(format!("{} {says}: {next}", named(&names)))
    };
    alike.into_iter().map(line).collect()
}

fn wait(state: HostState) -> Option<Wait> {
    Some(match state {
        HostState::UnbindingPendingUserAction | HostState::ResettingPendingUserAction => {
            Wait::Image
        }
        HostState::InstallingPendingUserAction => Wait::Boot,
        HostState::Disconnected => Wait::Word,
        HostState::Insufficient | HostState::InsufficientUnbound => Wait::Hardware,
        HostState::PendingForInput => Wait::Input,
        HostState::Error => Wait::Failed,
        HostState::DisabledUnbound => Wait::Leave,
        _ => return None,
    })
}

fn said(wait: Wait) -> &'static str {
    match wait {
        Wait::Approval => "not approved",
        Wait::Image => "to be booted from the discovery image",
        Wait::Boot => "to be booted for the installation",
        Wait::Word => "bound, and not heard of for three minutes",
        Wait::Hardware => "insufficient",
        Wait::Input => "bound to a cluster that does not say enough",
        Wait::Failed => "failed to be installed",
        Wait::Leave => "retired",
        Wait::Same => "the same machine as",
    }
}

/// `4 agents (node-1, node-2, node-3, ...)`
fn named(names: &[&str]) -> String {
    let many = names.len();
    let more = if many > NAMED { ", ..." } else { "" };
    let word = if many == 1 { "agent" } else { "agents" };
    format!("{many} {word} ({}{more})", names[..many.min(NAMED)].join(", "))
}

/// Where the image of an InfraEnv is, if that is known.
fn image_of(store: &Store, key: &Key) -> Result<Option<String>, Refusal> {
    let infra_env = store.one::<InfraEnv>(key)?;
    Ok(infra_env.and_then(|infra_env| infra_env.image().map(str::to_owned)))
}
