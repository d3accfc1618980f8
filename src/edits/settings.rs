//! Keeps the passwords of the Settings, which are hidden when somebody looks at them. Knows nothing
//! of other kinds.

use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;

/// Puts the passwords of the existing Settings in the place of those that were hidden when somebody
/// looked at them. One that nobody knows any more is refused: it would be taken as it is written.
pub fn restore_passwords(state: &State, object: &mut Object) -> Result<(), Refusal> {
    let Object::Settings(settings) = object else { return Ok(()) };
    let existing = state.settings.by_key(&settings.metadata.key());
    let existing_site = existing.and_then(|existing| existing.spec.site.as_ref());
    let Some(site) = &mut settings.spec.site else { return Ok(()) };
    if site.restore_passwords(existing_site) {
        return Ok(());
    }
    Err(Refusal::invalid("spec.site.proxy of the Settings has (hidden) in the place of a password")
        .because("poolctl hides passwords, so what it has shown does not contain them")
        .advise("write the password into the URL and apply the Settings again"))
}
