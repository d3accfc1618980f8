//! Customizations that do not fit the templates of the pools that list them: said when one of
//! either is applied.

use std::collections::HashSet;

use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::plan;
use crate::store::Store;

use super::Context;

/// `applied`: what may have changed how patches apply.
pub fn warn(
    context: &Context,
    store: &Store,
    scope: &Scope,
    applied: &[(Kind, Key)],
) -> Result<(), Refusal> {
    let matters =
        |kind: &Kind| matches!(kind, Kind::Customization | Kind::ClusterPool | Kind::Secret);
    if !applied.iter().any(|(kind, _)| matters(kind)) {
        return Ok(());
    }
    let applied: HashSet<&(Kind, Key)> = applied.iter().collect();
    let is = |kind, pool: &ClusterPool, name: &str| {
        applied.contains(&(kind, Key::new(&*pool.metadata.namespace, name)))
    };
    let state = store.load(scope, &[])?;
    for pool in state.pools.rows() {
        let name = &pool.metadata.name;
        let template = pool.spec.install_config_secret_template_ref.as_ref();
        let other = is(Kind::ClusterPool, pool, name)
            || template.is_some_and(|secret| is(Kind::Secret, pool, &secret.name));
        for entry in pool.spec.inventory.iter().flatten() {
            let new = is(Kind::Customization, pool, &entry.name);
            let key = Key::new(&*pool.metadata.namespace, &*entry.name);
            let Some(one) = state.customizations.by_key(&key).filter(|_| new || other) else {
                continue;
            };
            let of = format!("customization `{}` on pool `{name}`", entry.name);
            match plan::trial(&state, pool, Some(&one.spec)) {
                Err(why) => context.warn(&format!("{of}: {why}")),
                Ok(tried) if new => {
                    tried.notes.iter().for_each(|note| context.warn(&format!("{of}: {note}")));
                }
                Ok(_) => {}
            }
        }
    }
    Ok(())
}
