//! Facts: what plans read of clusters, claims and jobs, and lists of Agents, of which there are many. A struct that is
//! declared with `facts!` is at once the list of its columns, the way to read a row and the way to
//! write one. It never touches a database: a row is a sequence of values.

use std::borrow::Cow;
use std::rc::Rc;

use super::condition::{ConditionReason, Shortage};
use super::meta::{Key, Uid};
use super::time::{Span, Time};

/// The value of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum FactValue<'v> {
    Null,
    Integer(i64),
    Text(Cow<'v, str>),
}

/// Why a row cannot be read: its column, from 0, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableFact {
    pub column: usize,
    pub why: String,
}

/// A row whose values are read in the order of their columns.
pub trait FactRow {
    fn value(&self, column: usize) -> Result<FactValue<'_>, UnreadableFact>;
}

/// Reads a row from its first column to its last. Keys and texts that it has in common with the row
/// before are not stored twice.
pub struct FactReader<'r, R> {
    row: &'r R,
    column: usize,
    shared: &'r mut SharedTexts,
}

/// The key and the text that were read last. The next row often has the same ones.
#[derive(Debug, Default)]
pub struct SharedTexts {
    key: Option<Rc<Key>>,
    text: Option<Rc<str>>,
}

impl<'r, R: FactRow> FactReader<'r, R> {
    /// Begins at the first column of a row. `shared` is handed from row to row of one query.
    pub fn new(row: &'r R, shared: &'r mut SharedTexts) -> Self {
        Self { row, column: 0, shared }
    }

    fn next(&mut self) -> Result<FactValue<'r>, UnreadableFact> {
        self.column += 1;
        self.row.value(self.column - 1)
    }

    fn next_text(&mut self) -> Result<Option<Cow<'r, str>>, UnreadableFact> {
        match self.next()? {
            FactValue::Null => Ok(None),
            FactValue::Text(value) => Ok(Some(value)),
            FactValue::Integer(_) => Err(self.unreadable("it is a number, not a text")),
        }
    }

    fn next_integer(&mut self) -> Result<Option<i64>, UnreadableFact> {
        match self.next()? {
            FactValue::Null => Ok(None),
            FactValue::Integer(number) => Ok(Some(number)),
            FactValue::Text(_) => Err(self.unreadable("it is a text, not a number")),
        }
    }

    /// An error about the column that was read last.
    fn unreadable(&self, why: impl Into<String>) -> UnreadableFact {
        UnreadableFact { column: self.column.saturating_sub(1), why: why.into() }
    }
}

/// A value that fills one column or several.
pub trait Fact: Sized {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact>;
    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>);
}

/// A fact that a document has in a field of its own, whose type is `W`.
pub trait WireFact<W>: Sized {
    /// Takes the fact out of the field, which is empty afterwards.
    fn take_from(field: &mut W) -> Self;
    fn write_to(&self, field: &mut W);
}

/// The document has the fact as it is.
impl<T: Clone + Default> WireFact<T> for T {
    fn take_from(field: &mut T) -> Self {
        std::mem::take(field)
    }

    fn write_to(&self, field: &mut T) {
        field.clone_from(self);
    }
}

/// The document has an empty text where there is nothing.
impl WireFact<String> for Option<String> {
    fn take_from(field: &mut String) -> Self {
        if field.is_empty() { None } else { Some(std::mem::take(field)) }
    }

    fn write_to(&self, field: &mut String) {
        *field = self.clone().unwrap_or_default();
    }
}

/// A document that a person wrote has no instant yet.
impl WireFact<Option<Time>> for Time {
    fn take_from(field: &mut Option<Time>) -> Self {
        field.take().unwrap_or_default()
    }

    fn write_to(&self, field: &mut Option<Time>) {
        *field = Some(*self);
    }
}

/// A struct whose fields are columns of a table.
pub trait Facts: Sized {
    const TABLE: &'static str;
    /// The columns of each field, in the order in which they are read and written.
    const COLUMNS: &'static [&'static [&'static str]];

    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact>;
    fn write(&self) -> Vec<FactValue<'_>>;
}

/// Declares a struct of facts. A field fills the column of its own name, or the columns after `as`,
/// and the field of the document that is after `=>`. What a document does not have as it is, such as
/// a fact that makes a condition, has no `=>`. Fields after `beside` are no facts: they have their
/// default when a row is read. Without `of`, the struct says itself how it follows from a document.
macro_rules! facts {
    (
        $(#[$attribute:meta])*
        pub struct $Name:ident in $table:literal of $Document:ty {
            $(
                $(#[$field_attribute:meta])*
                pub $field:ident: $Type:ty $(as ($($column:ident),+))? $(=> $($path:ident).+)?,
            )*
        }
        beside { $($beside:tt)* }
    ) => {
        $crate::model::facts::facts! {
            $(#[$attribute])*
            pub struct $Name in $table {
                $( $(#[$field_attribute])* pub $field: $Type $(as ($($column),+))?, )*
            }
            beside { $($beside)* }
        }

        impl $Name {
            /// Takes the facts that the document has in fields of their own.
            fn take_fields(&mut self, document: &mut $Document) {
                $($(
                    self.$field = $crate::model::facts::WireFact::take_from(
                        &mut document.$($path).+,
                    );
                )?)*
            }

            /// Writes the facts that the document has in fields of their own.
            fn write_fields(&self, document: &mut $Document) {
                $($(
                    $crate::model::facts::WireFact::write_to(
                        &self.$field,
                        &mut document.$($path).+,
                    );
                )?)*
            }
        }
    };
    (
        $(#[$attribute:meta])*
        pub struct $Name:ident in $table:literal {
            $(
                $(#[$field_attribute:meta])*
                pub $field:ident: $Type:ty $(as ($($column:ident),+))?,
            )*
        }
        beside {
            $( $(#[$beside_attribute:meta])* pub $beside:ident: $BesideType:ty, )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $Name {
            $( $(#[$field_attribute])* pub $field: $Type, )*
            $( $(#[$beside_attribute])* pub $beside: $BesideType, )*
        }

        impl $crate::model::facts::Facts for $Name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static [&'static str]] =
                &[$($crate::model::facts::columns!($field $($($column)+)?)),*];

            fn read<R: $crate::model::facts::FactRow>(
                reader: &mut $crate::model::facts::FactReader<'_, R>,
            ) -> Result<Self, $crate::model::facts::UnreadableFact> {
                Ok(Self {
                    $($field: $crate::model::facts::Fact::read(reader)?,)*
                    $($beside: Default::default(),)*
                })
            }

            fn write(&self) -> Vec<$crate::model::facts::FactValue<'_>> {
                let mut values = Vec::with_capacity(Self::COLUMNS.len() + 4);
                $($crate::model::facts::Fact::write(&self.$field, &mut values);)*
                values
            }
        }
    };
}
pub(crate) use facts;

/// The columns of a field: those that it names, else one of its own name.
macro_rules! columns {
    ($field:ident) => {
        &[stringify!($field)]
    };
    ($field:ident $($column:ident)+) => {
        &[$(stringify!($column)),+]
    };
}
pub(crate) use columns;

/// Declares an enum whose values have names, which columns hold and people see. `ALL` has the values
/// in the order in which they are declared.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        pub enum $Name:ident {
            $( $(#[$value_attribute:meta])* $Value:ident = $name:literal, )*
        }
    ) => {
        $(#[$attribute])*
        pub enum $Name {
            $( $(#[$value_attribute])* $Value, )*
        }

        impl $Name {
            /// All values, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$Value),*];

            /// The name of the value, as columns hold it and people see it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)*
                }
            }

            /// The value of a name, as `name` writes it.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$Value),)*
                    _ => None,
                }
            }
        }

        impl $crate::model::facts::Fact for $Name {
            fn read<R: $crate::model::facts::FactRow>(
                reader: &mut $crate::model::facts::FactReader<'_, R>,
            ) -> Result<Self, $crate::model::facts::UnreadableFact> {
                $crate::model::facts::read_named(reader, Self::named)
            }

            fn write<'v>(&'v self, values: &mut Vec<$crate::model::facts::FactValue<'v>>) {
                values.push($crate::model::facts::FactValue::Text(self.name().into()));
            }
        }
    };
}
pub(crate) use named;

/// Reads a name as the value that it stands for.
pub fn read_named<T, R: FactRow>(
    reader: &mut FactReader<'_, R>,
    value_of: impl Fn(&str) -> Option<T>,
) -> Result<T, UnreadableFact> {
    let name = String::read(reader)?;
    value_of(&name).ok_or_else(|| reader.unreadable(format!("unknown name `{name}`")))
}

/// Reads a name that may be absent as the value that it stands for.
pub fn read_optional_named<T, R: FactRow>(
    reader: &mut FactReader<'_, R>,
    value_of: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, UnreadableFact> {
    let Some(name) = reader.next_text()? else { return Ok(None) };
    let value = value_of(&name);
    value.map(Some).ok_or_else(|| reader.unreadable(format!("unknown name `{name}`")))
}

/// Declares how a type fills one column: the method of the reader that reads the column, the value
/// that is made from it, and the value that is written. An empty column stands for `None`.
macro_rules! scalar {
    ($Type:ty, $next:ident, |$column:ident| $read:expr, |$scalar:ident| $write:expr) => {
        impl Fact for $Type {
            fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
                let value = Option::<Self>::read(reader)?;
                value.ok_or_else(|| reader.unreadable("it is empty"))
            }

            fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
                let $scalar = self;
                values.push($write);
            }
        }

        impl Fact for Option<$Type> {
            fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
                let Some($column) = reader.$next()? else { return Ok(None) };
                let value: Result<$Type, String> = $read;
                value.map(Some).map_err(|error| reader.unreadable(error))
            }

            fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
                match self {
                    Some(value) => value.write(values),
                    None => values.push(FactValue::Null),
                }
            }
        }
    };
}

scalar!(String, next_text, |column| Ok(column.into_owned()), |value| FactValue::Text(value.into()));
scalar!(i64, next_integer, |column| Ok(column), |value| FactValue::Integer(*value));
scalar!(bool, next_integer, |column| Ok(column != 0), |value| {
    FactValue::Integer(i64::from(*value))
});
scalar!(
    u32,
    next_integer,
    |column| u32::try_from(column).map_err(|error| error.to_string()),
    |value| FactValue::Integer(i64::from(*value))
);
scalar!(
    u64,
    next_integer,
    |column| u64::try_from(column).map_err(|error| error.to_string()),
    |value| FactValue::Integer(i64::try_from(*value).unwrap_or(i64::MAX))
);
// Instants in microseconds since 1970, lengths of time in microseconds.
scalar!(Time, next_integer, |micros| Ok(Time(micros)), |time| FactValue::Integer(time.0));
scalar!(Span, next_integer, |micros| Ok(Span(micros)), |span| FactValue::Integer(span.0));
scalar!(
    Uid,
    next_text,
    |column| column.parse().map_err(|_| format!("`{column}` is not a UUID")),
    |uid| FactValue::Text(uid.to_string().into())
);

impl Fact for Option<Rc<str>> {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
        let Some(value) = reader.next_text()? else { return Ok(None) };
        if reader.shared.text.as_deref() != Some(&value) {
            reader.shared.text = Some(value.into());
        }
        Ok(reader.shared.text.clone())
    }

    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
        values.push(optional_text(self.as_deref()));
    }
}

/// Two columns: the namespace and the name.
impl Fact for Option<Rc<Key>> {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
        let namespace = reader.next_text()?;
        let name = reader.next_text()?;
        let (Some(namespace), Some(name)) = (namespace, name) else { return Ok(None) };
        let shared_key = &mut reader.shared.key;
        if !shared_key.as_ref().is_some_and(|key| key.name == *name && key.namespace == *namespace)
        {
            *shared_key = Some(Rc::new(Key::new(namespace, name)));
        }
        Ok(shared_key.clone())
    }

    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
        values.push(optional_text(self.as_deref().map(|key| key.namespace.as_str())));
        values.push(optional_text(self.as_deref().map(|key| key.name.as_str())));
    }
}

/// Two columns: the reason and the message.
impl Fact for Option<Shortage> {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
        let reason = reader.next_text()?;
        let message = reader.next_text()?;
        // A reason of an earlier version that is not declared any more counts as none. The next plan
        // finds out again what is short.
        let reason = reason.and_then(|reason| ConditionReason::named(&reason));
        Ok(reason.zip(message).map(|(reason, message)| Shortage::new(reason, message)))
    }

    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
        values.push(optional_text(self.as_ref().map(|shortage| shortage.reason.as_str())));
        values.push(optional_text(self.as_ref().map(|shortage| shortage.message.as_str())));
    }
}

fn optional_text(value: Option<&str>) -> FactValue<'_> {
    value.map_or(FactValue::Null, |value| FactValue::Text(value.into()))
}

/// One column: the names with a space between two, or nothing if there are none. So the names may
/// not have spaces in them.
impl Fact for Vec<String> {
    fn read<R: FactRow>(reader: &mut FactReader<'_, R>) -> Result<Self, UnreadableFact> {
        let names = reader.next_text()?.unwrap_or_default();
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    fn write<'v>(&'v self, values: &mut Vec<FactValue<'v>>) {
        let value =
            if self.is_empty() { FactValue::Null } else { FactValue::Text(self.join(" ").into()) };
        values.push(value);
    }
}
