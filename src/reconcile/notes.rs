//! Notes of what earlier plans have settled. They save work and decide nothing: a plan that does without
//! them comes to the same result.

/// Whether a plan goes by the notes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notes {
    /// What an earlier plan has settled is not worked out again.
    Trust,
    /// Everything is worked out again.
    Ignore,
}
