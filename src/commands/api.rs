//! `api-resources` and `api-versions`: the kinds that poolctl keeps, as kubectl lists those of a
//! server.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;

use crate::model::kinds::Kind;
use crate::output::{Answer, Name, join_lines};

use crate::commands::{Audience, Context, RunCommand};

/// `api-resources` needs no arguments. It opens no state: kinds are declared in the code.
#[derive(Args)]
pub struct Resources {}

impl RunCommand for Resources {
    const NAME: &'static str = "api-resources";
    const ABOUT: &'static str = "List the kinds of objects";
    const EXAMPLE: &'static str = "poolctl api-resources";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let mut entries = Vec::new();
        for kind in Kind::ALL {
            let words = kind.words();
            // One of the words is only what is left of a plural such as `ipaddresses`.
            let plural_stem = format!("{}e", kind.word());
            let mut short_words = words.get(1..).unwrap_or_default().to_vec();
            short_words.retain(|word| *word != plural_stem);
            let short_names = short_words.join(",");
            entries.push(context.entry(
                Some(Name::plain(kind.word())),
                || {
                    vec![
                        ("name", kind.word().to_owned()),
                        ("shortnames", short_names.clone()),
                        ("apiversion", kind.api_version().to_owned()),
                        ("namespaced", kind.is_namespaced().to_string()),
                        ("kind", kind.name().to_owned()),
                    ]
                },
                || {
                    json!({
                        "name": kind.word(),
                        "words": words,
                        "apiVersion": kind.api_version(),
                        "namespaced": kind.is_namespaced(),
                        "kind": kind.name(),
                    })
                },
            ));
        }
        context.answer(Answer::list(entries).fitted(context.table_layout()))
    }
}

/// `api-versions` needs no arguments. It opens no state: kinds are declared in the code.
#[derive(Args)]
pub struct Versions {}

impl RunCommand for Versions {
    const NAME: &'static str = "api-versions";
    const ABOUT: &'static str = "List the groups and versions of the kinds";
    const EXAMPLE: &'static str = "poolctl api-versions";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let versions: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.api_version()).collect();
        let lines: Vec<String> = versions.iter().map(|version| (*version).to_owned()).collect();
        let names = versions.iter().map(|version| Name::plain(*version));
        let documents = versions.iter().map(|version| json!({"apiVersion": version}));
        let answer = Answer::text(join_lines(&lines)).with_names(names).with_list(documents);
        context.answer(answer)
    }
}
