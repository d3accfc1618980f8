//! How objects are named on the command line: KIND NAME, KIND/NAME, or several of them. Whether
//! they exist is not asked here.

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::{kubectl, suggest};

/// The kind of a word: its name, its plural or a short name of it.
pub fn parse_kind(word: &str) -> Result<Kind, Refusal> {
    Kind::from_word(word).ok_or_else(|| {
        if let Some(refusal) = kubectl::refuse_kind(word) {
            return refusal;
        }
        let refusal = Refusal::usage(format!("there is no kind `{word}`"));
        if let Some(hint) = suggest(word, Kind::all_words()) {
            return refusal.because(hint);
        }
        let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        words.sort_unstable();
        refusal.because(format!("kinds are {}", words.join(", ")))
    })
}

/// The kind and the name of `pool/lab`.
pub fn parse_kind_and_name(word: &str) -> Result<(Kind, String), Refusal> {
    let Some((kind, name)) = word.split_once('/') else {
        return Err(
            Refusal::usage(format!("`{word}` is not KIND/NAME")).advise("write it like pool/lab")
        );
    };
    Ok((parse_kind(kind)?, name.to_owned()))
}

/// One object: `pool lab` or `pool/lab`. A refusal shows the example of the command.
pub fn parse_object(
    kind: &str,
    name: Option<&str>,
    example: &str,
) -> Result<(Kind, String), Refusal> {
    match name {
        None if kind.contains('/') => parse_kind_and_name(kind),
        Some(name) if !kind.contains('/') => {
            Ok((parse_kind(kind)?, without_kind(parse_kind(kind)?, name)))
        }
        _ => Err(Refusal::usage("a kind and a name are needed").next(example)),
    }
}

/// Several objects: `pool lab office`, or `pool/lab claim/ci-17`.
pub fn parse_objects(kind: &str, names: &[String]) -> Result<Vec<(Kind, String)>, Refusal> {
    if kind.contains('/') {
        let words = std::iter::once(kind).chain(names.iter().map(String::as_str));
        return words.map(parse_kind_and_name).collect();
    }
    let kind = parse_kind(kind)?;
    Ok(names.iter().map(|name| (kind, without_kind(kind, name))).collect())
}

/// A name without its kind, which stands before it where `get -o name` printed it.
pub fn without_kind(kind: Kind, name: &str) -> String {
    match name.split_once('/') {
        Some((word, bare_name)) if Kind::from_word(word) == Some(kind) => bare_name.to_owned(),
        _ => name.to_owned(),
    }
}
