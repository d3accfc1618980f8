//! `doctor --release-quarantine`: gives back what a restore holds, once a person says that nobody
//! uses it.

use crate::edits::{self, FreedObject};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::quarantine::Quarantine;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::output::Name;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::{Context, count_of};

/// So many held objects are named in a line; the rest is counted.
const MANY_NAMES: usize = 10;

/// What to type again after a refusal.
const COMMAND: &str = "poolctl doctor --release-quarantine";

/// Gives back everything that a restore holds, after a question.
pub fn release_and_report(context: &Context) -> anyhow::Result<()> {
    let store = context.open_existing_state()?;
    let objects = find_quarantined_objects(&store)?;
    if objects.is_empty() {
        context.hint("nothing is held by a restore");
        return Ok(());
    }
    let mut names = Vec::new();
    for (kind, key) in &objects {
        names.push(Name::of(*kind, key).to_string());
    }
    let loss = format!(
        "{} would be given back, which destroys clusters that were claimed after the backup, and \
         unclaimed ones that were destroyed after it: {}",
        count_of(objects.len(), "held object"),
        names.join(", ")
    );
    context.confirm(&loss, COMMAND)?;
    let needs: Vec<NeededObject> =
        objects.iter().map(|(kind, key)| NeededObject { kind: *kind, key: key.clone() }).collect();
    let (freed_objects, passed) =
        context.door(&store).change(&Scope::Whole, &needs, |state, tick| {
            Ok(edits::release_quarantine(state, &objects, tick))
        })?;
    for FreedObject { kind, key, result } in freed_objects {
        context.report_change(kind, &key, result)?;
    }
    Ok(context.report_pass(&passed)?)
}

/// Says what a restore holds. That is nothing wrong, but it stays so until somebody gives it back.
pub fn mention_quarantine(context: &Context, store: &Store) -> Result<(), Refusal> {
    let objects = find_quarantined_objects(store)?;
    let mut names = Vec::new();
    for (kind, key) in objects.iter().take(MANY_NAMES) {
        names.push(Name::of(*kind, key).to_string());
    }
    let unnamed = objects.len().saturating_sub(MANY_NAMES);
    if unnamed > 0 {
        names.push(format!("{unnamed} more"));
    }
    if !names.is_empty() {
        let list = names.join(", ");
        context.hint(&format!("held by a restore: {list}; all are given back by: {COMMAND}"));
    }
    Ok(())
}

fn is_held_by_restore(metadata: &Meta) -> bool {
    Quarantine::of(metadata).is_some()
}

/// Everything that a restore holds, of any kind, and that is not being given back already.
fn find_quarantined_objects(store: &Store) -> Result<Vec<(Kind, Key)>, Refusal> {
    store.read_snapshot(|| {
        let mut objects = Vec::new();
        for kind in Kind::OBJECTS {
            visit_metadata(store, *kind, &mut |object| {
                if object.meta().is_some_and(is_held_by_restore) && object.deletion_time().is_none()
                {
                    objects.push((*kind, object.key()));
                }
                Ok(())
            })?;
        }
        Ok(objects)
    })
}

/// Hands on the objects of a kind for their metadata. IPPools are few and are read without what is
/// kept beside their rows: as a whole they have the name of each lease.
fn visit_metadata(
    store: &Store,
    kind: Kind,
    visit: &mut dyn FnMut(Object) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if kind != Kind::IpPool {
        return store.visit_objects(kind, None, visit);
    }
    store.list_objects(kind, &Filter::default())?.into_iter().try_for_each(visit)
}
