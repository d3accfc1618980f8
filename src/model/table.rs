//! Rows that remember what they were: the difference is read off at the end. Knows no kind and no
//! rule.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::rc::Rc;

use super::meta::Key;

/// Something that is found by its key.
pub trait Row: Clone + PartialEq {
    fn key(&self) -> Key;
}

/// Where a row stands in its table, for as long as that is loaded. The type keeps the places of one
/// table from being taken for those of another.
pub struct Id<T> {
    index: usize,
    table: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn new(index: usize) -> Self {
        Self { index, table: PhantomData }
    }
}

// Derived, these would ask the same of the rows.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.index.cmp(&other.index)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "row {}", self.index)
    }
}

/// The pool on whose behalf a row changes; none for what a command edits itself.
pub type Owner = Option<Rc<Key>>;

/// Rows in the order in which they were loaded or inserted, found by their keys.
#[derive(Debug)]
pub struct Table<T> {
    /// A removed row leaves its place empty, so that places never move.
    rows: Vec<Option<T>>,
    index: HashMap<Key, Id<T>>,
    /// What rows were before they were first changed, none for inserted ones, and on whose behalf
    /// they were changed last.
    before: BTreeMap<Id<T>, (Option<T>, Owner)>,
    /// On whose behalf rows change now.
    owner: Owner,
    changes: usize,
}

/// A row that is not what it was.
#[derive(Debug)]
pub struct Change<'a, T> {
    pub owner: &'a Owner,
    pub before: Option<&'a T>,
    pub after: Option<&'a T>,
}

impl<T> Change<'_, T> {
    /// Whether it is one of those that are written together; without an owner all are.
    pub fn is_of(&self, owner: Option<&Owner>) -> bool {
        owner.is_none_or(|owner| self.owner == owner)
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            index: HashMap::new(),
            before: BTreeMap::new(),
            owner: None,
            changes: 0,
        }
    }
}

impl<T: Row> Table<T> {
    /// Takes a row as the store has it: no change.
    pub fn load(&mut self, row: T) -> Id<T> {
        let id = Id::new(self.rows.len());
        self.index.insert(row.key(), id);
        self.rows.push(Some(row));
        id
    }

    /// Puts a body or another lazily loaded part into a row: no change.
    pub fn fill(&mut self, id: Id<T>, put: impl FnOnce(&mut T)) {
        if let Some(row) = self.rows.get_mut(id.index).and_then(Option::as_mut) {
            put(row);
        }
    }

    /// Places so far, empty ones too.
    pub fn places(&self) -> usize {
        self.rows.len()
    }

    pub fn find(&self, key: &Key) -> Option<Id<T>> {
        self.index.get(key).copied()
    }

    /// Whether a row of this key is or was here: then loading it again would be wrong.
    pub fn knows(&self, key: &Key) -> bool {
        self.find(key).is_some() || self.was_removed(key)
    }

    pub fn by_key(&self, key: &Key) -> Option<&T> {
        self.get(self.find(key)?)
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.rows.get(id.index)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.iter_from(0)
    }

    /// Rows from a place on, as `places` counted them.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let rows = self.rows.iter().enumerate().skip(first);
        rows.filter_map(|(index, row)| Some((Id::new(index), row.as_ref()?)))
    }

    pub fn rows(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().flatten()
    }

    /// Rows that change from here on change on behalf of this owner.
    pub fn act_for(&mut self, owner: &Owner) {
        self.owner.clone_from(owner);
    }

    /// How often a row was changed so far.
    pub fn changes_made(&self) -> usize {
        self.changes
    }

    pub fn insert(&mut self, row: T) -> Id<T> {
        let id = self.load(row);
        self.before.insert(id, (None, self.owner.clone()));
        self.changes += 1;
        id
    }

    /// Edits a row. The key must stay. Says whether anything changed.
    pub fn update(&mut self, id: Id<T>, edit: impl FnOnce(&mut T)) -> bool {
        let Some(row) = self.rows.get_mut(id.index).and_then(Option::as_mut) else {
            return false;
        };
        let old = row.clone();
        edit(row);
        let changed = *row != old;
        if changed {
            self.remember(id, Some(old));
        }
        changed
    }

    pub fn remove(&mut self, id: Id<T>) {
        let Some(old) = self.rows.get_mut(id.index).and_then(Option::take) else {
            return;
        };
        self.index.remove(&old.key());
        self.remember(id, Some(old));
    }

    fn remember(&mut self, id: Id<T>, old: Option<T>) {
        let owner = self.owner.clone();
        let (_, last_owner) = self.before.entry(id).or_insert((old, None));
        *last_owner = owner;
        self.changes += 1;
    }

    /// Whether a row of this key was there and is not any more.
    pub fn was_removed(&self, key: &Key) -> bool {
        self.find(key).is_none()
            && self.before.iter().any(|(id, (old, _))| {
                self.get(*id).is_none() && old.as_ref().is_some_and(|old| old.key() == *key)
            })
    }

    pub fn is_unchanged(&self) -> bool {
        self.difference().next().is_none()
    }

    /// The rows that are not what they were, in their order.
    pub fn difference(&self) -> impl Iterator<Item = Change<'_, T>> {
        self.before.iter().filter_map(|(id, (before, owner))| {
            let before = before.as_ref();
            let after = self.get(*id);
            (before != after).then_some(Change { owner, before, after })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for (u8, u8) {
        fn key(&self) -> Key {
            Key::new("", self.0.to_string())
        }
    }

    #[test]
    fn the_difference_is_what_really_changed() {
        let mut table = Table::default();
        let [a, b, c] = [(1, 0), (2, 0), (3, 0)].map(|row| table.load(row));
        table.update(a, |row| row.1 = 5);
        table.update(a, |row| row.1 = 0);
        table.update(b, |row| row.1 = 7);
        table.remove(c);
        let passing = table.insert((4, 0));
        table.remove(passing);
        table.insert((5, 0));
        let changes: Vec<_> =
            table.difference().map(|change| (change.before, change.after)).collect();
        let expected =
            [(Some(&(2, 0)), Some(&(2, 7))), (Some(&(3, 0)), None), (None, Some(&(5, 0)))];
        assert_eq!(changes, expected);
        assert!(table.was_removed(&Key::new("", "3")) && !table.was_removed(&Key::new("", "2")));
    }
}
