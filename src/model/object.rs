//! An object of any kind, for code that treats all kinds alike. It knows nothing of a single kind,
//! but that the passwords in the Settings are not shown.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::kinds::{Kind, every_kind};
use super::meta::{Key, Meta};
use super::site;
use super::time::Time;
use super::typed::read_value;
use super::wire::Wire;

macro_rules! declare_objects {
    (
        {}
        objects { $($Kind:ident($Type:ty) { $($declared:tt)* })* }
        records { $($records:tt)* }
    ) => {
        /// An object of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object { $($Kind(Box<$Type>),)* }

        $(impl Resource for $Type {
            const KIND: Kind = Kind::$Kind;

            fn into_object(self) -> Object {
                Object::$Kind(Box::new(self))
            }

            fn from_object(object: Object) -> Option<Self> {
                if let Object::$Kind(resource) = object { Some(*resource) } else { None }
            }
        })*
    };
}
every_kind!(declare_objects);

/// Runs an expression for whatever resource an object is: `match_object!(object, r => r.key())`.
macro_rules! match_object {
    (
        { ($object:expr) $resource:ident $body:expr }
        objects { $($Kind:ident($Type:ty) { $($declared:tt)* })* }
        records { $($records:tt)* }
    ) => {
        match $object { $($crate::model::object::Object::$Kind($resource) => $body,)* }
    };
    ($object:expr, $resource:ident => $body:expr) => {
        $crate::model::kinds::every_kind! { match_object ($object) $resource $body }
    };
}
pub(crate) use match_object;

/// Runs an expression with the type of a kind: `match_kind!(kind, R => load::<R>(), None)`. For
/// records it runs the last expression.
macro_rules! match_kind {
    (
        { ($kind:expr) $Resource:ident $body:expr; $record:expr }
        objects { $($Kind:ident($Type:ty) { $($declared:tt)* })* }
        records { $($Record:ident($Document:ty) { $($ignored:tt)* })* }
    ) => {
        match $kind {
            $($crate::model::kinds::Kind::$Kind => {
                type $Resource = $Type;
                $body
            })*
            $($crate::model::kinds::Kind::$Record)|* => $record,
        }
    };
    ($kind:expr, $Resource:ident => $body:expr, $record:expr) => {
        $crate::model::kinds::every_kind! { match_kind ($kind) $Resource $body; $record }
    };
}
pub(crate) use match_kind;

/// The type of a kind's objects.
pub trait Resource: Wire + PartialEq {
    const KIND: Kind;

    fn into_object(self) -> Object;
    fn from_object(object: Object) -> Option<Self>;
}

impl Object {
    /// Reads a document that was checked against the schema of its kind.
    pub fn from_wire(kind: Kind, mut document: Value) -> Result<Self, String> {
        fn read<R: Resource>(fields: &Value) -> Result<Object, String> {
            read_value(fields).map(|document| R::from_document(document).into_object())
        }
        if let Some(fields) = document.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        let record = Err("is made by poolctl, not applied".to_owned());
        match_kind!(kind, R => read::<R>(&document), record)
    }

    /// The whole document, as people see it. Clusters and claims need their bodies.
    pub fn to_wire(&self) -> Value {
        let kind = self.kind();
        let mut document =
            match_object!(self, resource => document_with_kind(kind, &*resource.to_document()));
        if kind == Kind::Settings {
            site::hide_passwords(&mut document);
        }
        document
    }

    /// The kind that the object is declared with.
    pub fn kind(&self) -> Kind {
        fn kind_of<R: Resource>(_: &R) -> Kind {
            R::KIND
        }
        match_object!(self, resource => kind_of(&**resource))
    }

    /// The namespace and the name. The namespace is empty for kinds without namespaces.
    pub fn key(&self) -> Key {
        match_object!(self, resource => Wire::key(&**resource))
    }

    /// The metadata that the object itself has. For clusters and claims it is that of the body,
    /// without what they keep as facts, and none if the body was not loaded.
    pub fn meta(&self) -> Option<&Meta> {
        match_object!(self, resource => Wire::meta(&**resource))
    }

    /// The metadata, to be changed; none for kinds that are kept as columns.
    pub fn meta_mut(&mut self) -> Option<&mut Meta> {
        match_object!(self, resource => Wire::meta_mut(&mut **resource))
    }

    /// When its deletion was asked for. Until it is gone, something holds it.
    pub fn deletion_time(&self) -> Option<Time> {
        match_object!(self, resource => Wire::deletion_time(&**resource))
    }

    /// The labels, empty for kinds that have none.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.meta().map(|meta| meta.labels.clone()).unwrap_or_default()
    }
}

/// A document with `apiVersion` and `kind` before its other fields.
pub fn document_with_kind(kind: Kind, body: &impl Serialize) -> Value {
    let mut wire = json!({"apiVersion": kind.api_version(), "kind": kind.name()});
    if let (Some(wire), Ok(Value::Object(body))) =
        (wire.as_object_mut(), serde_json::to_value(body))
    {
        wire.extend(body);
    }
    wire
}
