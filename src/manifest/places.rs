//! Where the objects of a state that is moved stand in its text. Nothing here refuses an object that
//! comes twice: one of the two may still be left out.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::yaml::Node;

/// The places of objects.
#[derive(Clone, Default)]
pub struct ObjectPlaces {
    /// Where each object comes first.
    first_places: HashMap<(Kind, Key), String>,
    repeated: Vec<RepeatedObject>,
}

/// An object that comes twice.
#[derive(Clone)]
pub struct RepeatedObject {
    kind: Kind,
    key: Key,
    /// Where it comes first: the file, and if they are known also the line and the column.
    pub first_place: String,
    /// Where it comes again.
    pub second_place: String,
}

impl ObjectPlaces {
    /// Notes where an object stands.
    pub fn note(&mut self, kind: Kind, key: Key, file: &str, document: &Node) {
        let line = document.line;
        let place =
            if line > 0 { format!("{file}:{line}:{}", document.column) } else { file.to_owned() };
        self.add(kind, key, place);
    }

    fn add(&mut self, kind: Kind, key: Key, place: String) {
        match self.first_places.entry((kind, key)) {
            Entry::Vacant(entry) => {
                entry.insert(place);
            }
            Entry::Occupied(entry) => {
                let (kind, key) = entry.key().clone();
                let first_place = entry.get().clone();
                self.repeated.push(RepeatedObject { kind, key, first_place, second_place: place });
            }
        }
    }

    /// Adds the places of another file.
    pub fn append(&mut self, places: Self) {
        let Self { first_places, repeated } = places;
        for ((kind, key), place) in first_places {
            self.add(kind, key, place);
        }
        self.repeated.extend(repeated);
    }

    /// Forgets where an object stands.
    pub fn forget(&mut self, object: &(Kind, Key)) {
        self.first_places.remove(object);
    }

    /// Whether an object comes twice.
    pub fn has_repeated(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// An object that comes twice, with its places.
    pub fn find_repeated(&self, kind: Kind, key: &Key) -> Option<&RepeatedObject> {
        self.repeated.iter().find(|object| object.kind == kind && object.key == *key)
    }
}
