//! Edits templates of the metadata and network data of hosts. Refuses to change a template once it
//! exists: hosts have been installed with it.

use crate::model::data_template::Metal3DataTemplate;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::outcome::PutOutcome;
use super::put_mode::PutMode;

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
