//! Tables whose rows remember what they were, so that the difference can be read at the end of a
//! pass. A table knows no kind and no rule.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::rc::Rc;

use super::meta::Key;

/// What a table holds: something that is found by its key.
pub trait Row: Clone + PartialEq {
    fn key(&self) -> Key;

    /// The number of the row in the store; 0 if it has none, or not yet.
    fn stored_id(&self) -> i64 {
        0
    }

    /// Names by which rows are looked up beside their keys, such as the cluster that an Agent is
    /// bound to. They come from no part that is loaded later than the row.
    fn links(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }
}

/// The position of a row in its table. It holds for as long as the table is loaded, even if the row
/// or another one is removed. The type parameter keeps an id of one table from being used for
/// another.
pub struct Id<T> {
    index: usize,
    table: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn new(index: usize) -> Self {
        Self { index, table: PhantomData }
    }
}

// These are not derived, because derived ones would demand the same traits of the rows.
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

/// Rows in the order in which they were loaded or inserted, found by their ids or their keys.
#[derive(Debug)]
pub struct Table<T> {
    /// The rows, each at the index that is its id. A removed row leaves None, so that no other row
    /// moves. They are boxed, because rows are large, and a list that grows is copied.
    rows: Vec<Option<Box<T>>>,
    index: HashMap<Key, Id<T>>,
    /// The rows that have a link, in their order.
    linked: HashMap<String, BTreeSet<Id<T>>>,
    /// What each changed row was before its first change, and on whose behalf it was changed last.
    /// A row that was inserted was None.
    before: BTreeMap<Id<T>, (Option<Box<T>>, Owner)>,
    /// On whose behalf rows change now.
    owner: Owner,
    changes: usize,
    /// The keys of rows that were loaded and removed. Another row may have taken the key since.
    removed: HashSet<Key>,
    /// The numbers in the store of all rows that were loaded, removed ones included.
    stored_ids: HashSet<i64>,
    /// The rows that have not changed since a plan settled them.
    settled: BTreeSet<Id<T>>,
    /// The rows that were loaded as settled.
    loaded_as_settled: HashSet<Id<T>>,
}

/// A row that was inserted, changed or removed.
#[derive(Debug)]
pub struct Change<'a, T> {
    pub owner: &'a Owner,
    pub before: Option<&'a T>,
    pub after: Option<&'a T>,
    /// Whether the row has not changed since a plan settled it.
    pub is_settled: bool,
}

impl<T> Change<'_, T> {
    /// Whether the row was changed on behalf of this owner. `None` stands for all owners,
    /// `Some(&None)` for a command.
    pub fn is_on_behalf_of(&self, owner: Option<&Owner>) -> bool {
        owner.is_none_or(|owner| self.owner == owner)
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            index: HashMap::new(),
            linked: HashMap::new(),
            before: BTreeMap::new(),
            owner: None,
            changes: 0,
            removed: HashSet::new(),
            stored_ids: HashSet::new(),
            settled: BTreeSet::new(),
            loaded_as_settled: HashSet::new(),
        }
    }
}

impl<T: Row> Table<T> {
    /// Takes a row as the store has it: no change.
    pub fn load(&mut self, row: T) -> Id<T> {
        let id = Id::new(self.rows.len());
        let stored_id = row.stored_id();
        if stored_id != 0 {
            self.stored_ids.insert(stored_id);
        }
        self.index.insert(row.key(), id);
        add_links(&mut self.linked, id, &row);
        self.rows.push(Some(Box::new(row)));
        id
    }

    /// Takes a row as the store has it, and as a plan has left it.
    pub fn load_settled(&mut self, row: T) -> Id<T> {
        let id = self.load(row);
        self.settled.insert(id);
        self.loaded_as_settled.insert(id);
        id
    }

    /// Puts a part into a row that is loaded later than the row, such as its body: no change.
    pub fn fill_part(&mut self, id: Id<T>, put: impl FnOnce(&mut T)) {
        if let Some(row) = self.rows.get_mut(id.index).and_then(Option::as_deref_mut) {
            put(row);
        }
    }

    /// How many rows were loaded or inserted so far, removed ones included.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The place of the row with this key.
    pub fn find(&self, key: &Key) -> Option<Id<T>> {
        self.index.get(key).copied()
    }

    /// Whether a row of this key is or was in the table. If so, it must not be loaded again.
    pub fn has_or_had(&self, key: &Key) -> bool {
        self.find(key).is_some() || self.was_removed(key)
    }

    /// Whether the row with this number in the store is or was in the table. Whoever asks need not
    /// decode the row to learn its key.
    pub fn has_or_had_stored(&self, stored_id: i64) -> bool {
        self.stored_ids.contains(&stored_id)
    }

    /// The row with this key.
    pub fn by_key(&self, key: &Key) -> Option<&T> {
        self.get(self.find(key)?)
    }

    /// The row at a place; none if it was removed.
    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.rows.get(id.index)?.as_deref()
    }

    /// The rows that have a link, in the order in which they were loaded or inserted.
    pub fn linked_to(&self, link: &str) -> impl Iterator<Item = Id<T>> {
        self.linked.get(link).into_iter().flatten().copied()
    }

    /// All rows with their places, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.iter_from(0)
    }

    /// The rows that were loaded or inserted after `places` returned this number.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let rows = self.rows.iter().enumerate().skip(first);
        rows.filter_map(|(index, row)| Some((Id::new(index), row.as_deref()?)))
    }

    /// All rows, in the order in which they were added.
    pub fn rows(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().filter_map(Option::as_deref)
    }

    /// Notes that a plan has left all rows as they are, except those of which `is_done` says that
    /// something is tried again. What follows from such a row alone need not be worked out again
    /// until the row changes.
    pub fn note_settled_rows(&mut self, is_done: impl Fn(&T) -> bool) {
        let rows = self.iter().filter(|(id, row)| !self.settled.contains(id) && is_done(row));
        let newly_settled: Vec<Id<T>> = rows.map(|(id, _)| id).collect();
        self.settled.extend(newly_settled);
    }

    /// Has the next plan work out everything again.
    pub fn forget_settled_rows(&mut self) {
        self.settled.clear();
    }

    /// Whether a row has not changed since a plan settled it.
    pub fn is_settled(&self, id: Id<T>) -> bool {
        self.settled.contains(&id)
    }

    /// The rows that are settled now and were loaded as not settled. Rows that changed are not among
    /// them: the store notes it when it writes them.
    pub fn newly_settled(&self) -> impl Iterator<Item = &T> {
        let ids = self.settled.iter().filter(|id| !self.loaded_as_settled.contains(id));
        ids.filter(|id| !self.before.contains_key(id)).filter_map(|id| self.get(*id))
    }

    /// From here on, rows change on behalf of this owner.
    pub fn act_for(&mut self, owner: &Owner) {
        self.owner.clone_from(owner);
    }

    /// How often a row was inserted, changed or removed so far.
    pub fn changes_made(&self) -> usize {
        self.changes
    }

    /// Adds a new row.
    pub fn insert(&mut self, row: T) -> Id<T> {
        let id = self.load(row);
        self.before.insert(id, (None, self.owner.clone()));
        self.changes += 1;
        id
    }

    /// Edits a row, whose key must stay the same. Returns whether anything changed.
    pub fn update(&mut self, id: Id<T>, edit: impl FnOnce(&mut T)) -> bool {
        let Some(row) = self.rows.get_mut(id.index).and_then(Option::as_deref_mut) else {
            return false;
        };
        let row_before = row.clone();
        edit(row);
        let is_changed = *row != row_before;
        if is_changed {
            if row.links() != row_before.links() {
                remove_links(&mut self.linked, id, &row_before);
                add_links(&mut self.linked, id, row);
            }
            self.remember_row_before(id, Box::new(row_before));
        }
        is_changed
    }

    /// Removes a row. Its id is not used again.
    pub fn remove(&mut self, id: Id<T>) {
        let Some(row) = self.rows.get_mut(id.index).and_then(Option::take) else {
            return;
        };
        let key = row.key();
        self.index.remove(&key);
        let was_inserted = self.before.get(&id).is_some_and(|(before, _)| before.is_none());
        if !was_inserted {
            self.removed.insert(key);
        }
        remove_links(&mut self.linked, id, &row);
        self.remember_row_before(id, row);
    }

    /// Keeps what a row was before its first change; later ones only change the owner.
    fn remember_row_before(&mut self, id: Id<T>, row_before: Box<T>) {
        self.settled.remove(&id);
        let owner = self.owner.clone();
        let (_, last_owner) = self.before.entry(id).or_insert((Some(row_before), None));
        *last_owner = owner;
        self.changes += 1;
    }

    /// Whether a row of this key was loaded, and there is none any more.
    pub fn was_removed(&self, key: &Key) -> bool {
        self.find(key).is_none() && self.removed.contains(key)
    }

    /// Whether no row is changed. The store may lack notes of settled rows all the same.
    pub fn is_unchanged(&self) -> bool {
        self.difference().next().is_none()
    }

    /// The rows that are not what they were, in their order. A row that was changed back is not
    /// among them.
    pub fn difference(&self) -> impl Iterator<Item = Change<'_, T>> {
        self.before.iter().filter_map(|(id, (before, owner))| {
            let before = before.as_deref();
            let after = self.get(*id);
            let is_settled = self.is_settled(*id);
            (before != after).then_some(Change { owner, before, after, is_settled })
        })
    }
}

fn add_links<T: Row>(linked: &mut HashMap<String, BTreeSet<Id<T>>>, id: Id<T>, row: &T) {
    for link in row.links() {
        linked.entry(link.into_owned()).or_default().insert(id);
    }
}

fn remove_links<T: Row>(linked: &mut HashMap<String, BTreeSet<Id<T>>>, id: Id<T>, row: &T) {
    for link in row.links() {
        if let Some(ids) = linked.get_mut(&*link) {
            ids.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for (u8, u8) {
        fn key(&self) -> Key {
            Key::new("", self.0.to_string())
        }

        fn links(&self) -> Vec<Cow<'_, str>> {
            vec![Cow::Borrowed(if self.1 == 0 { "zero" } else { "other" })]
        }
    }

    #[test]
    fn rows_are_found_by_their_links_of_now() {
        let mut table = Table::default();
        let [moved, removed, kept] = [(1, 0), (2, 0), (3, 0)].map(|row| table.load(row));
        table.update(moved, |row| row.1 = 5);
        table.remove(removed);
        let inserted = table.insert((4, 0));
        assert_eq!(table.linked_to("zero").collect::<Vec<_>>(), [kept, inserted]);
        assert_eq!(table.linked_to("other").collect::<Vec<_>>(), [moved]);
        table.update(moved, |row| row.1 = 0);
        assert_eq!(table.linked_to("zero").collect::<Vec<_>>(), [moved, kept, inserted]);
    }

    #[test]
    fn a_row_is_settled_until_it_changes() {
        let mut table = Table::default();
        let known = table.load_settled((1, 0));
        let [other, changed, undone] = [(2, 0), (3, 0), (4, 0)].map(|row| table.load(row));
        assert!(table.is_settled(known) && !table.is_settled(other));
        table.update(changed, |row| row.1 = 5);
        table.note_settled_rows(|row| row.0 != 4);
        assert!(table.is_settled(changed) && !table.is_settled(undone));
        assert!(table.difference().all(|change| change.is_settled));
        // What has changed is written anyway.
        assert_eq!(table.newly_settled().collect::<Vec<_>>(), [&(2, 0)]);
        table.update(known, |row| row.1 = 0);
        assert!(table.is_settled(known));
        table.update(known, |row| row.1 = 1);
        assert!(!table.is_settled(known));
        table.forget_settled_rows();
        assert!(!table.is_settled(other));
    }

    #[test]
    fn the_difference_is_what_really_changed() {
        let mut table = Table::default();
        let [changed_back, changed, removed] = [(1, 0), (2, 0), (3, 0)].map(|row| table.load(row));
        table.update(changed_back, |row| row.1 = 5);
        table.update(changed_back, |row| row.1 = 0);
        table.update(changed, |row| row.1 = 7);
        table.remove(removed);
        let inserted_and_removed = table.insert((4, 0));
        table.remove(inserted_and_removed);
        table.insert((5, 0));
        let changes: Vec<_> =
            table.difference().map(|change| (change.before, change.after)).collect();
        let expected =
            [(Some(&(2, 0)), Some(&(2, 7))), (Some(&(3, 0)), None), (None, Some(&(5, 0)))];
        assert_eq!(changes, expected);
        assert!(table.was_removed(&Key::new("", "3")) && !table.was_removed(&Key::new("", "2")));
    }
}
