//! Edits of templates of what hosts are told. A template is fixed once it is made: hosts were told
//! what it says.

use crate::model::data_template::Metal3DataTemplate;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::verdict::Verdict;

impl EditedDocument for Metal3DataTemplate {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        new.status.clone_from(&old.status);
        old.spec != new.spec
    }

    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        if let Some(old) = state.data_templates.by_key(&new.metadata.key()) {
            rules::data_templates::check_change(old, &new).map_err(|causes| {
                let name = &new.metadata.name;
                let what = format!("Metal3DataTemplate `{name}` is fixed once it is made");
                let mut refusal = Refusal::conflict(what);
                refusal.causes = causes;
                refusal.advise("apply it under another name")
            })?;
        }
        put_and_finish_deletion(state, new, merge, tick)
    }
}
