//! Words that are declared and are no fields: annotations, conditions with their reasons, reasons of
//! events, exit codes and metrics. `explain` prints one of them, and the reference of the book all of
//! them. It reads no state.

use serde_json::{Map, Value};

use crate::model::annotations::{ANNOTATIONS, Annotation, PREFIX};
use crate::model::condition::{ConditionReason, ConditionType};
use crate::model::declared::Mender;
use crate::model::event_reason::EventReason;
use crate::model::foreign_annotations::FOREIGN_ANNOTATIONS;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name, join_lines};

use crate::commands::metrics::describe_metrics;
use crate::commands::suggest;

/// What a word is a word of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Annotation,
    Condition,
    Event,
    ExitCode,
    Metric,
}

/// A word with what is declared of it.
#[derive(Clone, Debug)]
pub struct Word {
    /// What the word is: `annotation`, `condition`, `reason`, `event`, `exit code` or `metric`.
    pub sort: &'static str,
    pub name: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What else is declared, each with its label.
    pub facts: Vec<(&'static str, String)>,
}

impl Word {
    /// Its name, without the prefix that all annotations have.
    fn short_name(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }
}

impl Topic {
    /// The topic that people mean by a word, singular or plural.
    fn from_word(word: &str) -> Option<Self> {
        match word.to_lowercase().as_str() {
            "annotation" | "annotations" => Some(Self::Annotation),
            "condition" | "conditions" => Some(Self::Condition),
            "event" | "events" => Some(Self::Event),
            "exit-code" | "exit-codes" => Some(Self::ExitCode),
            "metric" | "metrics" => Some(Self::Metric),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Condition => "condition",
            Self::Event => "event",
            Self::ExitCode => "exit-code",
            Self::Metric => "metric",
        }
    }

    /// Its words, in the order in which they are declared.
    pub fn words(self) -> Vec<Word> {
        match self {
            Self::Annotation => {
                ANNOTATIONS.iter().chain(FOREIGN_ANNOTATIONS).map(annotation_word).collect()
            }
            Self::Condition => {
                let conditions = ConditionType::all().map(condition_word);
                conditions.chain(ConditionReason::all().map(reason_word)).collect()
            }
            Self::Event => EventReason::all().map(event_word).collect(),
            Self::ExitCode => {
                let success = plain_word("exit code", "0", "Success.");
                let failures = Exit::ALL
                    .iter()
                    .map(|exit| plain_word("exit code", exit.digits(), exit.meaning()));
                std::iter::once(success).chain(failures).collect()
            }
            Self::Metric => describe_metrics().into_iter().map(metric_word).collect(),
        }
    }

    /// The words with a name. A condition and a reason may have the same one.
    fn words_named(self, name: &str) -> Vec<Word> {
        // The prefix of poolctl's own annotations may be left out.
        if self == Self::Annotation
            && let Some(annotation) = Annotation::named(name)
        {
            return vec![annotation_word(annotation)];
        }
        let mut words = self.words();
        words.retain(|word| word.name.eq_ignore_ascii_case(name));
        words
    }
}

fn annotation_word(annotation: &'static Annotation) -> Word {
    let kinds: Vec<&str> = annotation.kinds.iter().map(|kind| kind.name()).collect();
    let mut facts = vec![("on", kinds.join(", ")), ("value", annotation.value.describe())];
    facts.extend(annotation.default.map(|value| ("default", value.to_owned())));
    facts.push(("since", annotation.since.to_owned()));
    let Annotation { name, about, .. } = *annotation;
    Word { sort: "annotation", name, meaning: about, facts }
}

fn condition_word(kind: ConditionType) -> Word {
    let facts = remedy(kind.mender(), kind.next_step());
    Word { sort: "condition", name: kind.as_str(), meaning: kind.meaning(), facts }
}

fn reason_word(reason: ConditionReason) -> Word {
    let facts = remedy(reason.mender(), reason.next_step());
    Word { sort: "reason", name: reason.as_str(), meaning: reason.meaning(), facts }
}

fn event_word(reason: EventReason) -> Word {
    let facts = remedy(reason.mender(), reason.next_step());
    Word { sort: "event", name: reason.as_str(), meaning: reason.meaning(), facts }
}

fn metric_word((name, kind, help): (&'static str, &'static str, &'static str)) -> Word {
    let facts = vec![("type", kind.to_owned())];
    Word { facts, ..plain_word("metric", name, help) }
}

/// A word of which only its meaning is declared.
fn plain_word(sort: &'static str, name: &'static str, meaning: &'static str) -> Word {
    Word { sort, name, meaning, facts: Vec::new() }
}

/// Who mends it, and what to type.
fn remedy(mender: Mender, next_step: Option<&'static str>) -> Vec<(&'static str, String)> {
    let mut facts = vec![("mended by", mender.describe().to_owned())];
    facts.extend(next_step.map(|command| ("next", command.to_owned())));
    facts
}

/// What `explain` answers to `annotation/NAME`, `exit-code/7` and the like, and to a topic alone. None
/// if something else was asked for, such as a kind.
pub fn answer_question(question: &str) -> Option<Result<Answer, Refusal>> {
    let Some((topic, name)) = question.split_once('/') else {
        let topic = Topic::from_word(question)?;
        // The kind Event has the same word, and its fields are asked for.
        return (topic != Topic::Event).then(|| Ok(list_words(topic)));
    };
    Some(explain_word(Topic::from_word(topic)?, name))
}

/// Names of the words of a topic, for completion; empty if there is no such topic. Those of
/// annotations come without the prefix that all of them have.
pub fn names_of_topic(topic: &str) -> Vec<&'static str> {
    let words = Topic::from_word(topic).map(Topic::words).unwrap_or_default();
    words.iter().map(Word::short_name).collect()
}

/// The names of a topic with their meanings.
fn list_words(topic: Topic) -> Answer {
    let mut lines = Vec::new();
    for word in topic.words() {
        lines.push(format!("{} {}", word.sort, word.name));
        lines.push(format!("  {}", word.meaning));
    }
    answer_words(&lines, &topic.words())
}

fn explain_word(topic: Topic, name: &str) -> Result<Answer, Refusal> {
    let words = topic.words_named(name);
    if words.is_empty() {
        return Err(refuse_name(topic, name));
    }
    let mut lines = Vec::new();
    for word in &words {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("{}: {}", word.sort.to_uppercase(), word.name));
        lines.push(String::new());
        lines.push("DESCRIPTION:".into());
        lines.push(format!("  {}", word.meaning));
        lines.extend(word.facts.iter().map(|(label, value)| format!("  {label}: {value}")));
    }
    Ok(answer_words(&lines, &words))
}

fn answer_words(lines: &[String], words: &[Word]) -> Answer {
    let mut answer = Answer::text(join_lines(lines));
    for word in words {
        let mut document = Map::new();
        document.insert(field_name(word.sort), word.name.into());
        document.insert("meaning".to_owned(), word.meaning.into());
        for (label, value) in &word.facts {
            document.insert(field_name(label), value.as_str().into());
        }
        answer = answer.with_names([Name::plain(word.name)]).with_document(Value::Object(document));
    }
    answer
}

/// A label as the name of a field: `mendedBy` for `mended by`.
fn field_name(label: &str) -> String {
    let mut name = String::new();
    for (index, word) in label.split(' ').enumerate() {
        let (first_letter, rest) = word.split_at(1);
        if index == 0 {
            name += word;
        } else {
            name += &first_letter.to_uppercase();
            name += rest;
        }
    }
    name
}

fn refuse_name(topic: Topic, name: &str) -> Refusal {
    let refusal = Refusal::not_found(format!("there is no {} `{name}`", topic.word()));
    let words = topic.words();
    let names = words.iter().map(Word::short_name);
    match suggest(name.strip_prefix(PREFIX).unwrap_or(name), names) {
        Some(hint) => refusal.because(hint),
        None if topic == Topic::Event => refusal.next("poolctl explain event.reason"),
        None => refusal.next(format!("poolctl explain {}", topic.word())),
    }
}
