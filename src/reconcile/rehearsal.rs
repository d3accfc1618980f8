//! Makes changes that are only shown: a copy of the state is edited and checked as a change would
//! be, and nothing is kept of it.

use crate::model::clock::PassExtent;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::{NeededObject, decode_all_parts};

use super::Door;

impl Door<'_> {
    /// The state and the tick that a change would start from, for an edit that is only shown.
    pub fn load_for_dry_run(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
    ) -> Result<(State, Tick), Refusal> {
        self.store.read_snapshot(|| {
            let start = self.begin_pass(self.judge_clock(PassExtent::Part)?)?;
            let state = self.store.load(scope, needs)?;
            decode_all_parts(&state)?;
            Ok((state, start.tick))
        })
    }

    /// Loads a scope with the clusters that have its customizations, and their pools.
    pub fn load_with_holders(&self, scope: &Scope) -> Result<(State, Tick), Refusal> {
        self.store.read_snapshot(|| {
            let (mut state, tick) = self.load_for_dry_run(scope, &[])?;
            self.store.load_holders(scope, &mut state)?;
            Ok((state, tick))
        })
    }

    /// Makes and checks an edit as `change` does, and keeps nothing of it. No pass follows.
    pub fn rehearse<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.store.read_snapshot(|| {
            let (mut state, tick) = self.load_for_dry_run(scope, needs)?;
            let value = edit(&mut state, &tick)?;
            self.check_edit(scope, &mut state)?;
            Ok(value)
        })
    }
}
