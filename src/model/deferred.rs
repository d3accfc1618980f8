//! Long parts of objects that are decoded when they are first read. Most commands read none of them.

use std::cell::OnceCell;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first error of decoding, if there was one. All parts of one state share it.
pub type DecodeError = Rc<OnceCell<String>>;

/// A value, or the JSON that the state file has of it until somebody reads it.
#[derive(Clone, Debug)]
pub enum Deferred<T> {
    /// A value that was made or changed.
    Value(T),
    /// A value as it is stored.
    Json {
        json: String,
        /// The value, once somebody has read it.
        value: OnceCell<T>,
        error: DecodeError,
    },
}

impl<T: DeserializeOwned + Default> Deferred<T> {
    /// A value that is stored as this JSON. If the JSON is none of that type, `get` returns an empty
    /// value and puts the reason into `error`: whoever loaded the state must look there before it
    /// prints or writes anything.
    pub fn from_json(json: String, error: &DecodeError) -> Self {
        Self::Json { json, value: OnceCell::new(), error: Rc::clone(error) }
    }

    /// The value. It is decoded now if nobody has read it yet.
    pub fn get(&self) -> &T {
        match self {
            Self::Value(value) => value,
            Self::Json { json, value, error } => value.get_or_init(|| decode(json, error)),
        }
    }
}

fn decode<T: DeserializeOwned + Default>(json: &str, error: &DecodeError) -> T {
    serde_json::from_str(json).unwrap_or_else(|why| {
        error.get_or_init(|| why.to_string());
        T::default()
    })
}

impl<T> Deferred<T> {
    /// The JSON of a value as it is stored. None for one that was made or changed.
    pub fn stored_json(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Json { json, .. } => Some(json),
        }
    }
}

impl<T: Default> Default for Deferred<T> {
    fn default() -> Self {
        Self::Value(T::default())
    }
}

impl<T> From<T> for Deferred<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// Equal JSON comes first: to compare two copies of an Agent decodes nothing.
impl<T: DeserializeOwned + Default + PartialEq> PartialEq for Deferred<T> {
    fn eq(&self, other: &Self) -> bool {
        let json = self.stored_json();
        (json.is_some() && json == other.stored_json()) || self.get() == other.get()
    }
}

impl<T: DeserializeOwned + Default + Serialize> Serialize for Deferred<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Deferred<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_decoded<T>(part: &Deferred<T>) -> bool {
        match part {
            Deferred::Value(_) => true,
            Deferred::Json { value, .. } => value.get().is_some(),
        }
    }

    #[test]
    fn a_part_is_decoded_when_it_is_read() {
        let error = DecodeError::default();
        let stored: Deferred<Vec<u8>> = Deferred::from_json("[1,2]".into(), &error);
        assert_eq!(stored.stored_json(), Some("[1,2]"));
        assert_eq!(stored, stored.clone());
        assert!(!is_decoded(&stored));
        assert_eq!(stored, Deferred::from(vec![1, 2]));
        assert!(is_decoded(&stored));
        assert_eq!(Deferred::from(vec![3]).stored_json(), None);
        assert_eq!(error.get(), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_empty_and_says_why() {
        let error = DecodeError::default();
        let stored: Deferred<Vec<u8>> = Deferred::from_json("{}".into(), &error);
        assert_eq!(error.get(), None);
        assert_eq!(stored.get(), &Vec::<u8>::new());
        assert!(error.get().is_some_and(|why| why.contains("invalid type")));
    }
}
