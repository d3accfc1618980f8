//! `doctor --release-quarantine`: gives back what a restore holds, once a person says that nobody
//! uses it.

use crate::edits::{self, FreedObject};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::quarantine::Quarantine;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::output::Name;
use crate::store::{NeededObject, Store};

use crate::commands::{Context, count_of};

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
        "{} would be given back, and clusters that were claimed after the backup destroyed: {}",
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

/// Everything that a restore holds, of any kind.
fn find_quarantined_objects(store: &Store) -> Result<Vec<(Kind, Key)>, Refusal> {
    store.read_snapshot(|| {
        let mut objects = Vec::new();
        for kind in Kind::OBJECTS {
            store.visit_objects(*kind, None, &mut |object| {
                if object.meta().is_some_and(|meta| Quarantine::of(meta).is_some()) {
                    objects.push((*kind, object.key()));
                }
                Ok(())
            })?;
        }
        Ok(objects)
    })
}
