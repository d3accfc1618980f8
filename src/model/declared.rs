//! Enums whose values are words of the wire, each declared once with its name, its meaning, who mends
//! what it says and, if there is one, a command that helps. Here is the macro that declares such an
//! enum, and no word.

/// Who mends what a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mender {
    /// Nothing is wrong.
    Nobody,
    /// poolctl tries again by itself.
    Poolctl,
    /// Whoever has the claim or the lease.
    Holder,
    /// Whoever looks after poolctl and its pools.
    Admin,
    /// Whoever looks after the machines, the network and the platform.
    Site,
}

impl Mender {
    /// Who that is, in a few words for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Nobody => "nobody: nothing is wrong",
            Self::Poolctl => "poolctl, by itself",
            Self::Holder => "whoever has the claim",
            Self::Admin => "an admin of poolctl",
            Self::Site => "an admin of the machines, the network or the platform",
        }
    }
}

/// The declaration of one value of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<T> {
    pub value: T,
    pub name: &'static str,
    /// A sentence, after the blank with which a documentation comment begins.
    pub meaning: &'static str,
    pub mender: Mender,
    pub next_step: Option<&'static str>,
}

/// Declares an enum by the list of its values. The documentation of a value is its meaning; its name
/// follows. If something may be wrong, `=>` follows: the `Mender`, the command that helps, or both.
/// A command alone is for admins.
macro_rules! declared {
    (
        $(#[$attribute:meta])*
        pub enum $Name:ident {
            $(
                $(#[doc = $meaning:literal])+
                $Value:ident = $name:literal $(=> $($mender:ident)? $($next_step:literal)?)?,
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
                    mender: $crate::model::declared::mender!($($($mender)? $($next_step)?)?),
                    next_step: $crate::model::declared::next_step!($($($next_step)?)?),
                }),*];

            fn declaration(self) -> &'static $crate::model::declared::Declaration<Self> {
                &Self::DECLARATIONS[self as usize]
            }

            /// All values, in the order in which they are declared.
            pub fn all() -> impl Iterator<Item = Self> {
                Self::DECLARATIONS.iter().map(|declaration| declaration.value)
            }

            /// The name of the value, as on the wire and in the state.
            pub fn as_str(self) -> &'static str {
                self.declaration().name
            }

            /// The value with this name. None for a name that only other programs use.
            pub fn named(name: &str) -> Option<Self> {
                Self::all().find(|value| value.as_str() == name)
            }

            /// What the value means, in a sentence.
            pub fn meaning(self) -> &'static str {
                self.declaration().meaning.trim_start()
            }

            /// Who mends it, if anything is wrong.
            pub fn mender(self) -> $crate::model::declared::Mender {
                self.declaration().mender
            }

            /// The command to type next, with NAME in place of the object's name.
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

        /// Whether a text from the wire or from the state is the name of a value.
        impl PartialEq<$Name> for String {
            fn eq(&self, value: &$Name) -> bool {
                self == value.as_str()
            }
        }
    };
}
pub(crate) use declared;

macro_rules! mender {
    () => {
        $crate::model::declared::Mender::Nobody
    };
    ($mender:ident $($next_step:literal)?) => {
        $crate::model::declared::Mender::$mender
    };
    ($next_step:literal) => {
        $crate::model::declared::Mender::Admin
    };
}
pub(crate) use mender;

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
        declaration_of: impl Fn(T) -> (&'static str, &'static str, Option<&'static str>),
        named: impl Fn(&str) -> Option<T>,
    ) {
        for value in values {
            let (name, meaning, next_step) = declaration_of(value);
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
