//! Answers a claim at the price of one commit: which cluster it gets is committed first, and what
//! follows from that, such as another cluster for the pool, by a pass of its own.

use crate::model::clock::PassExtent;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::NeededObject;
use crate::{plan, rules};

use super::{Door, PassOutcome, PassStart};

/// How far a change of claims was planned.
#[derive(Debug)]
pub enum Answered {
    /// Who has which cluster is committed. The pass over the pool, which draws the consequences, is
    /// still to be run.
    First,
    /// Everything is planned and committed.
    Whole(Box<PassOutcome>),
}

impl Door<'_> {
    /// Changes a pool's claims. If the clusters that are ready answer the edit, as `is_answered`
    /// finds, that is committed at once and the pool is due; else the whole pool is planned first.
    pub fn change_claims<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
        is_answered: impl FnOnce(&State, &T) -> bool,
    ) -> Result<(T, Answered), Refusal> {
        let mut is_first = false;
        let changed = self.run_under_write_lock(|| {
            let judged = self.judge_clock(PassExtent::Part)?;
            let PassStart { tick, mark } = self.begin_pass(judged)?;
            let mut state = self.store.load(scope, needs)?;
            let value = edit(&mut state, &tick)?;
            let edited = state.changed_kinds();
            self.store.load_references(scope, &mut state)?;
            rules::check_invariants(&state)?;
            if self.plans_changes {
                plan::settle_claims(&mut state, &tick);
                is_first = is_answered(&state, &value) && rules::check_invariants(&state).is_ok();
                if !is_first {
                    self.plan_to_fixed_point(scope, &mut state, &tick)?;
                }
            }
            let is_settled = self.plans_changes && !is_first;
            let mut due = self.due_changes(scope, &state, &edited, is_settled, &tick)?;
            if is_first {
                due.answer_pool();
            }
            self.write_and_commit(&state, &due, &mark)?;
            if !is_first {
                // Otherwise the pass that follows folds in the log, when the answer is told.
                self.store.checkpoint();
            }
            Ok((value, state))
        });
        let (value, state) = changed?;
        if is_first {
            return Ok((value, Answered::First));
        }
        let mut passed = PassOutcome::new(state);
        passed.warnings = self.act_after_commit(&passed.state, scope);
        self.plan_sharing_pools(&mut passed)?;
        Ok((value, Answered::Whole(Box::new(passed))))
    }

    /// Draws the consequences of an answer. What goes wrong is tried again by the next pass.
    pub fn follow_answer(&self, pool: &Key) -> Result<PassOutcome, Refusal> {
        self.run_pass(&Scope::pool(pool.clone()))
    }
}
