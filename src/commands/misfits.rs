//! Customizations that do not fit the templates of the pools that list them: said when one of
//! either is applied.

use std::collections::HashSet;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::plan;

use crate::commands::Context;

/// `applied`: what may have changed how patches apply. `state`: as it is now.
pub fn warn(context: &Context, state: &State, applied: &[(Kind, Key)]) {
    let applied: HashSet<&(Kind, Key)> = applied.iter().collect();
    let is = |kind, pool: &ClusterPool, name: &str| {
        applied.contains(&(kind, Key::new(&*pool.metadata.namespace, name)))
    };
    for pool in state.pools.rows().filter(|pool| plan::trial(state, pool, None).is_ok()) {
        let name = &pool.metadata.name;
        let find =
            |name: &str| state.customizations.by_key(&Key::new(&*pool.metadata.namespace, name));
        let template = pool.spec.install_config_secret_template_ref.as_ref();
        let other = is(Kind::ClusterPool, pool, name)
            || template.is_some_and(|secret| is(Kind::Secret, pool, &secret.name));
        for entry in pool.spec.inventory.iter().flatten() {
            let new = is(Kind::Customization, pool, &entry.name);
            let Some(one) = find(&entry.name).filter(|_| new || other) else { continue };
            let of = format!("customization `{}` on pool `{name}`", entry.name);
            match plan::trial(state, pool, Some(&one.spec)) {
                Err(why) => context.warn(&format!("{of}: {why}")),
                Ok(tried) if new => {
                    tried.notes.iter().for_each(|note| context.warn(&format!("{of}: {note}")));
                }
                Ok(_) => {}
            }
        }
        let wide = pool.spec.customization_ref.as_ref().map(|one| one.name.as_str());
        if let Some(wide) = wide
            && (other || is(Kind::Customization, pool, wide))
            && find(wide).is_some_and(|one| !one.spec.install_config_patches.is_empty())
        {
            context.warn(&format!(
                "customization `{wide}` is pool `{name}`'s customizationRef: only its patches of \
                 manifests apply"
            ));
        }
    }
}
