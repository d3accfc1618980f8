//! Words of the wire that are declared once: an enum of which each value has a name, a meaning and,
//! if there is one, a command that helps. Knows none of them itself.

/// What is declared of one value of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<T> {
    pub value: T,
    pub name: &'static str,
    /// With the blank that a documentation comment begins with.
    pub meaning: &'static str,
    pub next_step: Option<&'static str>,
}

/// Declares an enum by the list of its values: what each means as its documentation, its name, and
/// what helps, if that is known before one looks.
macro_rules! declared {
    (
        $(#[$attribute:meta])*
        pub enum $Name:ident {
            $(
                $(#[doc = $meaning:literal])+
                $Value:ident = $name:literal $(=> $next_step:literal)?,
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name { $( $(#[doc = $meaning])+ $Value, )* }

        impl $Name {
            const DECLARATIONS: &'static [$crate::model::declared::Declaration<Self>] =
                &[$($crate::model::declared::Declaration {
                    value: Self::$Value,
                    name: $name,
                    meaning: concat!($($meaning),+),
                    next_step: $crate::model::declared::next_step!($($next_step)?),
                }),*];

            fn declaration(self) -> &'static $crate::model::declared::Declaration<Self> {
                &Self::DECLARATIONS[self as usize]
            }

            /// All of them, in the order in which they are declared.
            pub fn all() -> impl Iterator<Item = Self> {
                Self::DECLARATIONS.iter().map(|declaration| declaration.value)
            }

            /// As on the wire and in the state.
            pub fn as_str(self) -> &'static str {
                self.declaration().name
            }

            /// The value of a name. None of one that another program has given.
            pub fn named(name: &str) -> Option<Self> {
                Self::all().find(|value| value.as_str() == name)
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                self.declaration().meaning.trim_start()
            }

            /// The command to type next, NAME standing for the object.
            pub fn next_step(self) -> Option<&'static str> {
                self.declaration().next_step
            }
        }

        impl AsRef<str> for $Name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl From<$Name> for String {
            fn from(value: $Name) -> Self {
                value.as_str().to_owned()
            }
        }

        /// Whether what is on the wire or in the state is this value.
        impl PartialEq<$Name> for String {
            fn eq(&self, value: &$Name) -> bool {
                self == value.as_str()
            }
        }
    };
}
pub(crate) use declared;

macro_rules! next_step {
    () => {
        None
    };
    ($next_step:literal) => {
        Some($next_step)
    };
}
pub(crate) use next_step;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::model::condition::{ConditionReason, ConditionType};
    use crate::model::event_reason::EventReason;

    fn check<T: Copy + Debug + PartialEq>(
        values: impl Iterator<Item = T>,
        declared_of: impl Fn(T) -> (&'static str, &'static str, Option<&'static str>),
        named: impl Fn(&str) -> Option<T>,
    ) {
        for value in values {
            let (name, meaning, next_step) = declared_of(value);
            assert_eq!(named(name), Some(value), "{name} is declared twice");
            assert!(meaning.ends_with('.'), "{name}: {meaning}");
            assert!(next_step.is_none_or(|command| command.starts_with("poolctl ")), "{name}");
        }
    }

    #[test]
    fn each_word_is_declared_once_and_says_what_it_means() {
        check(
            EventReason::all(),
            |reason| (reason.as_str(), reason.meaning(), reason.next_step()),
            EventReason::named,
        );
        check(
            ConditionType::all(),
            |kind| (kind.as_str(), kind.meaning(), kind.next_step()),
            ConditionType::named,
        );
        check(
            ConditionReason::all(),
            |reason| (reason.as_str(), reason.meaning(), reason.next_step()),
            ConditionReason::named,
        );
    }
}
