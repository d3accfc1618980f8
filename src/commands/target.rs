//! How objects are named on the command line: KIND NAME, KIND/NAME, several of them.

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::suggest;

pub fn kind_of(word: &str) -> Result<Kind, Refusal> {
    Kind::from_word(word).ok_or_else(|| {
        let refusal = Refusal::usage(format!("there is no kind `{word}`"));
        if let Some(hint) = suggest(word, Kind::all_words()) {
            return refusal.because(hint);
        }
        let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        words.sort_unstable();
        refusal.because(format!("kinds are {}", words.join(", ")))
    })
}

/// `pool/lab`.
pub fn slashed(text: &str) -> Result<(Kind, String), Refusal> {
    let Some((kind, name)) = text.split_once('/') else {
        return Err(Refusal::usage(format!("`{text}` is not KIND/NAME")).advise("like pool/lab"));
    };
    Ok((kind_of(kind)?, name.to_owned()))
}

/// One object: `pool lab` or `pool/lab`.
pub fn one(kind: &str, name: Option<&str>, example: &str) -> Result<(Kind, String), Refusal> {
    match name {
        None if kind.contains('/') => slashed(kind),
        Some(name) if !kind.contains('/') => Ok((kind_of(kind)?, bare(kind_of(kind)?, name))),
        _ => Err(Refusal::usage("a kind and a name are needed").next(example)),
    }
}

/// Several: `pool lab other`, or `pool/lab claim/c`.
pub fn several(kind: &str, names: &[String]) -> Result<Vec<(Kind, String)>, Refusal> {
    if kind.contains('/') {
        let all = std::iter::once(kind).chain(names.iter().map(String::as_str));
        return all.map(slashed).collect();
    }
    let kind = kind_of(kind)?;
    Ok(names.iter().map(|name| (kind, bare(kind, name))).collect())
}

/// A name, also when its kind stands before it as `get -o name` prints it.
pub fn bare(kind: Kind, name: &str) -> String {
    let given = name.split_once('/').filter(|(word, _)| Kind::from_word(word) == Some(kind));
    given.map_or(name, |(_, name)| name).to_owned()
}
