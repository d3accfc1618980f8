//! Parts of a pass: what is planned and committed together. When much of a large lab is due, it is not
//! all in memory at once. Only pools whose clusters have hosts are, in the part without a pool. Nothing
//! here plans.

use crate::model::due::{DueNow, DueObject};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::store::NeededObject;

use super::Door;

/// How many pools are planned and committed together.
const POOLS_AT_ONCE: usize = 200;

/// What is planned and committed together.
pub(super) struct PassPart {
    pub scope: Scope,
    /// Objects that are planned although no pool of the scope has them: Agents, hosts, clusters without
    /// a pool, IPPools.
    pub needs: Vec<NeededObject>,
}

impl Door<'_> {
    /// Everything, in scopes that are looked at one after the other. What belongs to no pool comes
    /// last: with it, everything is done that was due for everything.
    pub fn scopes_of_everything(&self) -> Result<Vec<Scope>, Refusal> {
        Ok(split_everything(&self.store.list_names(Kind::ClusterPool)?))
    }

    /// The parts of what is due, in their order.
    pub(super) fn parts_of(&self, due: DueNow) -> Result<Vec<PassPart>, Refusal> {
        match due {
            DueNow::Nothing => Ok(Vec::new()),
            DueNow::Everything => {
                let mut parts = Vec::new();
                for scope in self.scopes_of_everything()? {
                    parts.push(PassPart { scope, needs: Vec::new() });
                }
                Ok(parts)
            }
            DueNow::Part { pools, objects } => Ok(split_due(&pools, objects)),
        }
    }
}

/// A small lab is one scope.
fn split_everything(pools: &[Key]) -> Vec<Scope> {
    if pools.len() <= POOLS_AT_ONCE {
        return vec![Scope::Whole];
    }
    let portions = pools.chunks(POOLS_AT_ONCE).map(|portion| Scope::Pools(portion.to_vec()));
    portions.chain([Scope::WithoutPool]).collect()
}

/// Objects come with the first pools, because pools pick hosts: hosts and Agents must be as they are
/// after this pass.
fn split_due(pools: &[Key], objects: Vec<DueObject>) -> Vec<PassPart> {
    let mut portions = pools.chunks(POOLS_AT_ONCE);
    let mut needs = Vec::new();
    for DueObject { kind, key } in objects {
        needs.push(NeededObject { kind, key });
    }
    let first_pools = portions.next().unwrap_or_default();
    let mut parts = vec![PassPart { scope: Scope::Pools(first_pools.to_vec()), needs }];
    for portion in portions {
        parts.push(PassPart { scope: Scope::Pools(portion.to_vec()), needs: Vec::new() });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_keys(count: usize) -> Vec<Key> {
        (0..count).map(|number| Key::new("default", format!("p{number}"))).collect()
    }

    /// How many pools a scope has.
    fn pool_count(scope: &Scope) -> usize {
        let Scope::Pools(pools) = scope else { panic!("{scope:?}") };
        pools.len()
    }

    /// The pools of each part, and how many objects go with them.
    fn parts_of(pools: usize, objects: usize) -> Vec<(usize, usize)> {
        let agents = (0..objects).map(|number| Key::new("default", format!("a{number}")));
        let parts = split_due(&pool_keys(pools), agents.map(DueObject::agent).collect());
        parts.iter().map(|part| (pool_count(&part.scope), part.needs.len())).collect()
    }

    #[test]
    fn what_is_due_comes_in_portions_and_objects_with_the_first() {
        assert_eq!(parts_of(0, 3), [(0, 3)]);
        assert_eq!(parts_of(200, 3), [(200, 3)]);
        assert_eq!(parts_of(401, 3), [(200, 3), (200, 0), (1, 0)]);
    }

    #[test]
    fn everything_of_a_large_lab_comes_in_portions_before_what_belongs_to_no_pool() {
        assert_eq!(split_everything(&pool_keys(200)), [Scope::Whole]);
        let scopes = split_everything(&pool_keys(201));
        assert_eq!(scopes[2], Scope::WithoutPool);
        assert_eq!(scopes[..2].iter().map(pool_count).collect::<Vec<_>>(), [200, 1]);
    }
}
