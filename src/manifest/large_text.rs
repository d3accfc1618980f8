//! Reads large texts object by object: as one tree of nodes a whole state would take many times the
//! memory of its text. Whatever is told of an object has its place in the text. If a text is refused,
//! its objects are forgotten, and no more than the first problems of it are told.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::manifest::parts::{is_list_of_objects, needs_places};
use crate::manifest::{Manifests, ReadOptions, add_document, refuse_at};
use crate::model::refusal::Refusal;
use crate::yaml::{self, Node, Part, PartRole, YamlError};

/// A text with more bytes is large.
pub const LARGE: usize = yaml::MAX_BYTES;

/// So many problems of a text are enough to refuse it. Nobody reads more.
const MOST_PROBLEMS: usize = 1000;

/// What an object of a large text, or a record, has been read to.
pub struct ReadObject {
    pub manifests: Manifests,
    /// What is wrong with it.
    pub refusals: Vec<Refusal>,
    /// The document itself, if it is one of those that are wanted.
    pub document: Option<Value>,
}

/// A large text, in a file or in memory.
#[derive(Clone, Copy)]
pub enum LargeText<'a> {
    File(&'a File),
    Memory(&'a str),
}

/// A way to cut a text into objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It is JSON documents, and the items of Lists.
    Json,
    /// It is YAML documents, and the items of Lists in block style.
    Yaml,
    /// It is read at once.
    Whole,
}

impl<'a> LargeText<'a> {
    /// The ways to read it. If one of them fails, the next one is tried.
    pub fn cuts(self) -> Vec<Cut> {
        let mut cuts = Vec::new();
        if self.source().is_ok_and(|mut source| begins_as_json(&mut source)) {
            cuts.push(Cut::Json);
        }
        cuts.push(Cut::Yaml);
        if self.size().is_ok_and(|size| size <= yaml::LARGEST_PART as u64) {
            cuts.push(Cut::Whole);
        }
        cuts
    }

    /// How many bytes it has.
    pub fn size(self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(content) => Ok(content.len() as u64),
        }
    }

    /// Hands on what each object has been read to, and the documents that `wants_document` names. An
    /// error if the text cannot be read in this way, or if `take` says by false that it takes no more.
    pub fn visit_objects(
        self,
        cut: Cut,
        file: &str,
        reading: &ReadOptions<'_>,
        wants_document: fn(&Node) -> bool,
        take: &mut dyn FnMut(ReadObject) -> bool,
    ) -> Result<(), YamlError> {
        let mut take_part = |part: Part| {
            if part.role == PartRole::RestOfList {
                return is_list_of_objects(&part.node);
            }
            let document = wants_document(&part.node).then(|| part.node.to_value());
            let (manifests, refusals) = self.read_part(part, file, reading);
            take(ReadObject { manifests, refusals, document })
        };
        let mut source = self.source().map_err(|error| YamlError::of_reading(&error))?;
        match cut {
            Cut::Json => yaml::visit_json_of(source, &mut take_part),
            Cut::Yaml => yaml::visit_yaml_of(source, &mut take_part),
            Cut::Whole => {
                let mut content = String::new();
                source
                    .read_to_string(&mut content)
                    .map_err(|error| YamlError::of_reading(&error))?;
                for node in yaml::parse_documents_within(&content, yaml::LARGEST_PART)? {
                    if !take_part(Part { role: PartRole::Document, node, byte_range: None }) {
                        return Err(YamlError::without_place("it is not read to its end".into()));
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads an object. If there is something to tell about it, it is read again with its places.
    fn read_part(
        self,
        part: Part,
        file: &str,
        reading: &ReadOptions<'_>,
    ) -> (Manifests, Vec<Refusal>) {
        let line = part.node.line;
        let column = part.node.column;
        let mut manifests = Manifests::default();
        let mut refusals = add_document(&mut manifests, file, part.node, reading);
        if (!refusals.is_empty() || needs_places(&manifests))
            && let Some(range) = part.byte_range
            && let Ok(content) = self.read_range(&range)
            && let Some(node) = yaml::parse_part_at(&content, line, column)
        {
            manifests = Manifests::default();
            refusals = add_document(&mut manifests, file, node, reading);
        }
        (manifests, refusals)
    }

    /// The text from its beginning.
    fn source(self) -> io::Result<Box<dyn BufRead + 'a>> {
        match self {
            Self::File(mut file) => {
                file.rewind()?;
                Ok(Box::new(BufReader::new(file)))
            }
            Self::Memory(content) => Ok(Box::new(content.as_bytes())),
        }
    }

    /// A range of its bytes. Where the text is being read stays as it is.
    fn read_range(self, range: &Range<u64>) -> io::Result<String> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        match self {
            Self::File(file) => file.read_exact_at(&mut bytes, range.start)?,
            Self::Memory(content) => {
                let start = usize::try_from(range.start).map_err(io::Error::other)?;
                let mut source = content.as_bytes().get(start..).unwrap_or_default();
                source.read_exact(&mut bytes)?;
            }
        }
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

fn begins_as_json(source: &mut impl BufRead) -> bool {
    source.fill_buf().is_ok_and(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
}

/// What is wrong with a text.
#[derive(Default)]
pub struct Problems(Vec<Refusal>);

impl Problems {
    /// Adds what is wrong with an object.
    pub fn add(&mut self, refusals: Vec<Refusal>) {
        self.0.extend(refusals);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no more of them are wanted beside so many others.
    pub fn are_enough(&self, others: usize) -> bool {
        self.0.len() + others >= MOST_PROBLEMS
    }

    /// The refusals of them all, after a refusal that says that the rest of the text is not known.
    pub fn into_first_refusals(self, file: &str) -> Vec<Refusal> {
        let note = format!("{file}: has {MOST_PROBLEMS} problems or more; the rest is not read");
        let mut refusals = vec![Refusal::invalid(note)];
        refusals.extend(self.0);
        refusals
    }

    /// The refusals of them all.
    pub fn into_refusals(self) -> Vec<Refusal> {
        self.0
    }
}

/// Forgets the objects of a text that is refused, but for the pools that are refused, too.
pub fn forget_objects(manifests: &mut Manifests) {
    let refused_pools = std::mem::take(&mut manifests.refused_pools);
    *manifests = Manifests { refused_pools, ..Manifests::default() };
}

/// Reads a text. Returns what it holds, or what is wrong with it.
pub fn read_large_text(
    text: LargeText<'_>,
    file: &str,
    reading: &ReadOptions<'_>,
) -> (Manifests, Vec<Refusal>) {
    let mut last_error = None;
    for cut in text.cuts() {
        let mut manifests = Manifests::default();
        let mut problems = Problems::default();
        let end = text.visit_objects(cut, file, reading, |_| false, &mut |object| {
            manifests.append(object.manifests);
            problems.add(object.refusals);
            if !problems.is_empty() {
                forget_objects(&mut manifests);
            }
            !problems.are_enough(0)
        });
        let error = match end {
            Ok(()) => return (manifests, problems.into_refusals()),
            Err(_) if problems.are_enough(0) => {
                return (manifests, problems.into_first_refusals(file));
            }
            Err(error) => error,
        };
        let is_too_much = error.is_too_much;
        // What is wrong with the text as it was meant says more than what another way to read it says.
        if cut == Cut::Whole || last_error.is_none() {
            last_error = Some(error);
        }
        if is_too_much {
            break;
        }
    }
    let refusal = last_error.map(|error| refuse_text(file, &error));
    (Manifests::default(), refusal.into_iter().collect())
}

/// Refuses a text as a whole.
pub fn refuse_text(file: &str, error: &YamlError) -> Refusal {
    refuse_at(file, error.line, error.column, &error.message)
}
