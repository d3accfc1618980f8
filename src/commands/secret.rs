//! `secret create`: values from files, stdin or the keyboard, never from the command line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::edits::{Verdict, put};
use crate::model::documents::{Secret, SecretValue};
use crate::model::kinds::Kind;
use crate::model::meta::Meta;
use crate::model::object::Resource;
use crate::model::refusal::{Exit, Refusal};
use crate::rules;
use crate::yaml::LARGEST;

use crate::commands::{Context, Verb, scope};
use crate::manifest;

#[derive(Args)]
#[command(group = clap::ArgGroup::new("values").required(true).multiple(true))]
pub struct Create {
    #[arg(value_name = "NAME")]
    name: String,
    /// The content of a file, under its name or KEY; - is stdin
    #[arg(long, value_name = "[KEY=]FILE", group = "values")]
    from_file: Vec<String>,
    /// Ask for the value of KEY, without showing it
    #[arg(long, value_name = "KEY", group = "values")]
    prompt: Vec<String>,
    /// Opaque, kubernetes.io/dockerconfigjson, ...
    #[arg(long = "type", value_name = "TYPE", default_value = "Opaque")]
    kind: String,
    /// Replace one that is there, all its values
    #[arg(long)]
    overwrite: bool,
}

impl Verb for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Make a Secret of files, stdin or what is typed";
    const EXAMPLE: &'static str =
        "poolctl secret create pull-secret --from-file=.dockerconfigjson=/dev/null";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::Secret, &self.name)?;
        let metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let secret = Secret {
            metadata,
            kind: self.kind.clone(),
            string_data: Some(self.values(context)?),
            ..Secret::default()
        };
        let object = secret.into_object();
        rules::check(&object)?;
        let what = [(Kind::Secret, key.clone(), None)];
        let store = context.open()?;
        let scope = scope::scope_of(&store, &what)?;
        let change = context.door(&store).change(&scope, &scope::needs_of(&what), |state, tick| {
            if state.secrets.find(&key).is_some() && !self.overwrite {
                return Err(Refusal::conflict(format!("there is a secret `{}` already", key.name))
                    .because("--overwrite replaces it"));
            }
            put(state, object, true, tick)
        });
        let (verdict, passed) = change?;
        let done = if verdict == Verdict::Created { "created" } else { "replaced" };
        context.changed(Kind::Secret, &key, done)?;
        Ok(context.finish(&passed)?)
    }
}

impl Create {
    fn values(&self, context: &Context) -> Result<BTreeMap<String, SecretValue>, Refusal> {
        let mut values = BTreeMap::new();
        if self.from_file.iter().filter(|one| *one == "-" || one.ends_with("=-")).count() > 1 {
            return Err(Refusal::usage("stdin can be read only once"));
        }
        for given in &self.from_file {
            let (key, path) = if let Some((key, path)) = given.split_once('=') {
                (key.to_owned(), PathBuf::from(path))
            } else {
                let path = PathBuf::from(given);
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                (name.filter(|_| given != "-").unwrap_or_default(), path)
            };
            put_in(&mut values, &key, content(&path)?)?;
        }
        for key in &self.prompt {
            put_in(
                &mut values,
                key,
                context.ask_hidden(&format!("{key}: "), "--from-file=KEY=-")?,
            )?;
        }
        let docker = ".dockerconfigjson";
        if self.kind == "kubernetes.io/dockerconfigjson" && !values.contains_key(docker) {
            return Err(Refusal::usage(format!("a Secret of this type needs the key {docker}"))
                .advise(format!("--from-file={docker}=FILE")));
        }
        Ok(values)
    }
}

fn put_in(
    values: &mut BTreeMap<String, SecretValue>,
    key: &str,
    value: SecretValue,
) -> Result<(), Refusal> {
    let usable = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if key.is_empty() || key == "." || key.starts_with("..") || !key.chars().all(usable) {
        return Err(Refusal::usage(format!("`{key}` is not usable as a key of a Secret"))
            .because("letters, digits, dots, dashes and underscores make one")
            .advise("--from-file=KEY=FILE names it"));
    }
    if values.insert(key.to_owned(), value).is_some() {
        return Err(Refusal::usage(format!("key `{key}` is given twice")));
    }
    Ok(())
}

/// The text of a file, or of stdin.
pub fn content(path: &Path) -> Result<SecretValue, Refusal> {
    let name = path.display().to_string();
    let mut text = Vec::new();
    let limit = LARGEST as u64 + 1;
    let read = if name == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    read.map_err(|error| manifest::io(&name, &error))?;
    if text.len() > LARGEST {
        return Err(Refusal::invalid(format!("{name}: more than {LARGEST} bytes")));
    }
    let text = String::from_utf8(text);
    text.map(SecretValue::new)
        .map_err(|_| Refusal::new(Exit::Failed, format!("{name}: is not UTF-8 text")))
}
