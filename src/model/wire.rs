//! How objects are read and written: what becomes of a document, and what a document is made of.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::meta::{HasMeta, Key, Meta};

/// How an object is read and written. Objects that are documents with metadata are their own wire
/// format; those that are kept as facts make a document of these.
pub trait Wire: Clone {
    type Document: Clone + Serialize + DeserializeOwned + JsonSchema;

    fn from_document(document: Self::Document) -> Self;
    fn to_document(&self) -> Cow<'_, Self::Document>;
    fn key(&self) -> Key;
    /// None when the body has not been loaded.
    fn meta(&self) -> Option<&Meta>;
    fn meta_mut(&mut self) -> Option<&mut Meta>;
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
}
