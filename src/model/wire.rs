//! How an object is read from a document of its wire format and made into one again.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::meta::{HasMeta, Key, Meta};
use super::time::Time;

/// An object that can be read and written. A document with metadata is its own wire format; an
/// object that is kept as facts makes a document from these.
pub trait Wire: Clone {
    type Document: Clone + Serialize + DeserializeOwned + JsonSchema;

    fn from_document(document: Self::Document) -> Self;
    fn to_document(&self) -> Cow<'_, Self::Document>;
    fn key(&self) -> Key;
    /// None if the object has a body that was not loaded.
    fn meta(&self) -> Option<&Meta>;
    fn meta_mut(&mut self) -> Option<&mut Meta>;
    /// When its deletion was asked for.
    fn deletion_time(&self) -> Option<Time>;
}

impl<T: HasMeta + Clone + Serialize + DeserializeOwned + JsonSchema> Wire for T {
    type Document = Self;

    fn from_document(document: Self) -> Self {
        document
    }

    fn to_document(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }

    fn key(&self) -> Key {
        HasMeta::meta(self).key()
    }

    fn meta(&self) -> Option<&Meta> {
        Some(HasMeta::meta(self))
    }

    fn meta_mut(&mut self) -> Option<&mut Meta> {
        Some(HasMeta::meta_mut(self))
    }

    fn deletion_time(&self) -> Option<Time> {
        HasMeta::meta(self).deletion_timestamp
    }
}
