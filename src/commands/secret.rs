//! `secret create`: makes a Secret of values from files, stdin or the keyboard. Values are never
//! arguments, which other users of the machine could read.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::edits::{PutMode, PutOutcome, put_object};
use crate::model::documents::{Secret, SecretValue};
use crate::model::kinds::Kind;
use crate::model::meta::Meta;
use crate::model::object::Resource;
use crate::model::refusal::{Exit, Refusal};
use crate::rules;
use crate::yaml::MAX_BYTES;

use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, scope};
use crate::manifest;

/// The key that a Secret of type kubernetes.io/dockerconfigjson must have.
const DOCKER_KEY: &str = ".dockerconfigjson";

/// Arguments of `secret create`. Values come from files, standard input or the keyboard, never from
/// the command line.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("values").required(true).multiple(true))]
pub struct Create {
    /// Name of the Secret
    #[arg(value_name = "NAME")]
    name: String,
    /// File with a value; the key is KEY or the file's name; KEY=- reads stdin
    #[arg(long, value_name = "[KEY=]FILE", group = "values")]
    from_file: Vec<String>,
    /// Ask for the value of KEY; your input is hidden
    #[arg(long, value_name = "KEY", group = "values")]
    prompt: Vec<String>,
    /// Type of the Secret: Opaque, kubernetes.io/dockerconfigjson, ...
    #[arg(long = "type", value_name = "TYPE", default_value = "Opaque")]
    kind: String,
    /// Replace an existing Secret and all its values
    #[arg(long)]
    overwrite: bool,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create a Secret from files, stdin or keyboard input";
    const EXAMPLE: &'static str = "\
poolctl secret create pull-secret \\
  --from-file=.dockerconfigjson=$HOME/pull-secret.json";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::Secret, &self.name)?;
        let metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let secret = Secret {
            metadata,
            kind: self.kind.clone(),
            string_data: Some(self.read_values(context)?),
            ..Secret::default()
        };
        let object = secret.into_object();
        rules::check_object(&object)?;
        let edited_objects = [EditedObject::new(Kind::Secret, key.clone())];
        let store = context.open_or_create_state()?;
        let scope = scope::scope_of(&store, &edited_objects)?;
        let needs = scope::needs_of(&edited_objects);
        let (outcome, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if state.secrets.find(&key).is_some() && !self.overwrite {
                return Err(Refusal::conflict(format!("there is a secret `{}` already", key.name))
                    .advise("replace it with --overwrite"));
            }
            put_object(state, object, PutMode::Apply, tick)
        })?;
        let result = if outcome == PutOutcome::Created { "created" } else { "replaced" };
        context.report_change(Kind::Secret, &key, result)?;
        Ok(context.report_pass(&passed)?)
    }
}

impl Create {
    /// Reads every value that the arguments name, and asks for those that are typed.
    fn read_values(&self, context: &Context) -> Result<BTreeMap<String, SecretValue>, Refusal> {
        let mut values = read_files(&self.from_file)?;
        for key in &self.prompt {
            let value = context.ask_hidden(&format!("{key}: "), "--from-file=KEY=-")?;
            insert_value(&mut values, key, value)?;
        }
        if self.kind == "kubernetes.io/dockerconfigjson" && !values.contains_key(DOCKER_KEY) {
            return Err(Refusal::usage(format!(
                "a Secret of this type needs the key {DOCKER_KEY}"
            ))
            .advise(format!("--from-file={DOCKER_KEY}=FILE")));
        }
        Ok(values)
    }
}

/// Reads the values that arguments of `--from-file` name.
pub fn read_files(arguments: &[String]) -> Result<BTreeMap<String, SecretValue>, Refusal> {
    let mut values = BTreeMap::new();
    let from_stdin =
        arguments.iter().filter(|argument| *argument == "-" || argument.ends_with("=-"));
    if from_stdin.count() > 1 {
        return Err(Refusal::usage("stdin can be read only once"));
    }
    for argument in arguments {
        if Path::new(argument).is_dir() {
            insert_files_of_folder(&mut values, Path::new(argument))?;
            continue;
        }
        let (key, path) = parse_from_file(argument);
        insert_file(&mut values, &key, &path)?;
    }
    Ok(values)
}

/// Adds each file of a folder under its name, as kubectl does: not the files of folders below it,
/// and none whose name cannot be a key.
fn insert_files_of_folder(
    values: &mut BTreeMap<String, SecretValue>,
    folder: &Path,
) -> Result<(), Refusal> {
    let shown = folder.display().to_string();
    let refuse = |error: std::io::Error| manifest::refuse_unreadable(&shown, &error);
    for entry in std::fs::read_dir(folder).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(key) = name
            && path.is_file()
            && rules::is_data_key(&key)
        {
            insert_file(values, &key, &path)?;
        }
    }
    Ok(())
}

fn insert_file(
    values: &mut BTreeMap<String, SecretValue>,
    key: &str,
    path: &Path,
) -> Result<(), Refusal> {
    insert_value(values, key, read_secret_value(path)?)
        .map_err(|refusal| refusal.advise("name the key with --from-file=KEY=FILE"))
}

/// The key and the file of `KEY=FILE`, or of `FILE`, whose name is the key. stdin has no name, so
/// its key is empty, which is refused.
fn parse_from_file(argument: &str) -> (String, PathBuf) {
    if let Some((key, path)) = argument.split_once('=') {
        return (key.to_owned(), PathBuf::from(path));
    }
    let path = PathBuf::from(argument);
    if argument == "-" {
        return (String::new(), path);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    (name.unwrap_or_default(), path)
}

/// Refuses keys that Kubernetes would refuse, and a key that is given twice.
pub fn insert_value(
    values: &mut BTreeMap<String, SecretValue>,
    key: &str,
    value: SecretValue,
) -> Result<(), Refusal> {
    if !rules::is_data_key(key) {
        return Err(Refusal::usage(format!("`{key}` cannot be a key"))
            .because("a key has only letters, digits, dots, dashes and underscores"));
    }
    if values.insert(key.to_owned(), value).is_some() {
        return Err(Refusal::usage(format!("key `{key}` is given twice")));
    }
    Ok(())
}

/// The content of a file, or of stdin if its path is `-`. More bytes than a manifest may have, and
/// what is no UTF-8 text, are refused.
pub fn read_secret_value(path: &Path) -> Result<SecretValue, Refusal> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    // A byte more than allowed is read, to see that there are too many.
    let limit = MAX_BYTES as u64 + 1;
    let read = if name == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| manifest::refuse_unreadable(&name, &error))?;
    if bytes.len() > MAX_BYTES {
        return Err(Refusal::invalid(format!("{name}: more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes)
        .map(SecretValue::new)
        .map_err(|_| Refusal::new(Exit::Failed, format!("{name}: not UTF-8 text")))
}
