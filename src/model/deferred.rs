//! Long parts of objects that are decoded when they are first read. Most commands read none of them.

use std::cell::OnceCell;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a part cannot be decoded, once one could not. All parts that were loaded together share it.
pub type Undecodable = Rc<OnceCell<String>>;

/// A value, or the JSON that it is kept as until somebody reads it.
#[derive(Clone, Debug, Default)]
pub struct Deferred<T> {
    value: OnceCell<T>,
    kept: Option<Kept>,
}

/// What the state file has of a value.
#[derive(Clone, Debug)]
struct Kept {
    json: String,
    undecodable: Undecodable,
}

impl<T: DeserializeOwned + Default> Deferred<T> {
    /// The value that the state file keeps as this JSON. If that turns out not to be one, the reason
    /// is put into `undecodable`, and the value is an empty one: nothing that follows from it may be
    /// written.
    pub fn from_kept(json: String, undecodable: &Undecodable) -> Self {
        let kept = Kept { json, undecodable: Rc::clone(undecodable) };
        Self { value: OnceCell::new(), kept: Some(kept) }
    }

    /// The value. It is decoded now if nobody has read it yet.
    pub fn get(&self) -> &T {
        self.value.get_or_init(|| self.kept.as_ref().map(Kept::decode).unwrap_or_default())
    }
}

impl<T> Deferred<T> {
    /// The JSON that the state file keeps as the value, if the value comes from there.
    pub fn kept_json(&self) -> Option<&str> {
        self.kept.as_ref().map(|kept| kept.json.as_str())
    }
}

impl Kept {
    fn decode<T: DeserializeOwned + Default>(&self) -> T {
        serde_json::from_str(&self.json).unwrap_or_else(|error| {
            self.undecodable.get_or_init(|| error.to_string());
            T::default()
        })
    }
}

impl<T> From<T> for Deferred<T> {
    fn from(value: T) -> Self {
        Self { value: value.into(), kept: None }
    }
}

impl<T: DeserializeOwned + Default + PartialEq> PartialEq for Deferred<T> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            (Some(kept), Some(other_kept)) if kept.json == other_kept.json => true,
            _ => self.get() == other.get(),
        }
    }
}

impl<T: DeserializeOwned + Default + Serialize> Serialize for Deferred<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Deferred<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_decoded_when_it_is_read() {
        let undecodable = Undecodable::default();
        let kept: Deferred<Vec<u8>> = Deferred::from_kept("[1,2]".into(), &undecodable);
        assert!(kept.value.get().is_none());
        assert_eq!(kept.kept_json(), Some("[1,2]"));
        assert!(kept.value.get().is_none());
        assert_eq!(kept, Deferred::from(vec![1, 2]));
        assert_eq!(kept.value.get(), Some(&vec![1, 2]));
        assert_eq!(Deferred::from(vec![3]).kept_json(), None);
        assert_eq!(undecodable.get(), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_empty_and_says_why() {
        let undecodable = Undecodable::default();
        let kept: Deferred<Vec<u8>> = Deferred::from_kept("{}".into(), &undecodable);
        assert_eq!(undecodable.get(), None);
        assert_eq!(kept.get(), &Vec::<u8>::new());
        assert!(undecodable.get().is_some_and(|why| why.contains("invalid type")));
    }
}
