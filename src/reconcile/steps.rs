//! Changes that are too large for memory: many steps in one transaction. Each step loads, edits,
//! checks and writes what it is about, and all of them are committed together or not at all. Nothing
//! is planned: the next pass draws the consequences.

use std::cell::Cell;

use crate::model::clock::{ClockNews, PassExtent};
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::store::{self, CommitMark, NeededObject};

use super::{Door, PassStart, clock_jumped_event};

/// The steps of a change.
pub struct Steps<'a> {
    door: &'a Door<'a>,
    /// All steps have one time.
    tick: Tick,
    mark: CommitMark,
    /// What is to be told of the clock, until a step has told it.
    news: Cell<Option<ClockNews>>,
}

impl Door<'_> {
    /// Makes a change in steps. If one of them is refused, nothing has happened. Returns with the
    /// value what went wrong after the commit and is tried again by the next pass.
    pub fn change_in_steps<T>(
        &self,
        take_steps: impl FnOnce(&Steps<'_>) -> Result<T, Refusal>,
    ) -> Result<(T, Vec<String>), Refusal> {
        let value = self.run_under_write_lock(|| {
            let judged = self.judge_clock(PassExtent::Part)?;
            let news = Cell::new(judged.news);
            let PassStart { tick, mark } = self.begin_pass(judged)?;
            let value = take_steps(&Steps { door: self, tick, mark, news })?;
            self.store.commit()?;
            self.store.checkpoint();
            Ok(value)
        })?;
        let no_pool = Scope::Pools(Vec::new());
        Ok((value, self.act_after_commit(&State::default(), &no_pool)))
    }
}

impl Steps<'_> {
    /// One step: `edit` gets the scope and the objects of `needs`, as the steps before have left
    /// them.
    pub fn change<T>(
        &self,
        scope: &Scope,
        needs: &[NeededObject],
        edit: impl FnOnce(&mut State, &Tick) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let store = self.door.store;
        let mut state = store.load(scope, needs)?;
        let news = self.news.take();
        state.events.extend(news.map(|news| (clock_jumped_event(news, &self.tick), None)));
        let value = edit(&mut state, &self.tick)?;
        let edited = state.changed_kinds();
        self.door.check_edit(scope, &mut state)?;
        let due = self.door.due_changes(scope, &state, &edited, false, &self.tick)?;
        store::write(store, &state, &due, &self.mark)?;
        Ok(value)
    }
}
