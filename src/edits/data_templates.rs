//! Edits templates of the metadata and network data of hosts. Refuses to change a template once it
//! exists: hosts have been installed with it.

use crate::model::data_template::Metal3DataTemplate;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::outcome::PutOutcome;
use super::put_mode::PutMode;

/// Gives machines the indexes that their Metal3Data say, where the template has lost its status, as
/// in a dump of another program. An index that somebody has stays where it is.
pub fn restore_indexes(state: &mut State, tick: &Tick) {
    let mut indexes: Vec<(Key, String, u64)> = Vec::new();
    for data in state.metal3_data.rows() {
        if let Ok(index) = u64::try_from(data.spec.index) {
            indexes.push((data.template_key(), data.machine().to_owned(), index));
        }
    }
    for (template_key, machine, index) in indexes {
        let Some(template_id) = state.data_templates.find(&template_key) else { continue };
        state.data_templates.update(template_id, |template| {
            if template.holder_of(index).is_none() && template.index_of(&machine).is_none() {
                let last_updated = template.status.last_updated;
                template.assign_index(&machine, index, tick.now);
                // Nothing has changed now: it was forgotten before.
                template.status.last_updated = last_updated;
            }
        });
    }
}

impl EditedDocument for Metal3DataTemplate {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        template: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        if let Some(existing) = state.data_templates.by_key(&template.metadata.key()) {
            rules::data_templates::check_change(existing, &template).map_err(|causes| {
                let name = &template.metadata.name;
                let message = format!("Metal3DataTemplate `{name}` cannot be changed");
                let mut refusal = Refusal::conflict(message);
                refusal.causes = causes;
                refusal.advise("apply it under another name")
            })?;
        }
        put_and_finish_deletion(state, template, mode, tick)
    }
}
