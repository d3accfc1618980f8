//! `extract`: writes the values of a Secret to files, or prints them.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::model::documents::{Secret, SecretValue};
use crate::model::kinds::Kind;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name};
use crate::store::copies::{self, ExistingFile};

use crate::commands::{Context, RunCommand, target};

/// Arguments of `extract`. It writes secret values in clear text.
#[derive(Args)]
pub struct Extract {
    /// Secret to extract, such as secret/pull-secret
    #[arg(value_name = "secret/NAME")]
    secret: String,
    /// Directory to write a file for each key into, or - for stdout
    #[arg(long, value_name = "DIR|-", default_value = ".")]
    to: PathBuf,
    /// Extract only these keys, separated by commas
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    keys: Vec<String>,
    /// Overwrite existing files
    #[arg(long)]
    confirm: bool,
}

impl RunCommand for Extract {
    const NAME: &'static str = "extract";
    const ABOUT: &'static str = "Write the values of a Secret to files or stdout";
    const EXAMPLE: &'static str =
        "poolctl extract secret/CLUSTER-admin-kubeconfig -n CLUSTER --to=-";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = if self.secret.contains('/') {
            target::parse_kind_and_name(&self.secret)?
        } else {
            (Kind::Secret, self.secret.clone())
        };
        if kind != Kind::Secret {
            return Err(Refusal::usage(format!("a {} has no values", kind.word()))
                .advise(Self::EXAMPLE)
                .into());
        }
        let store = context.open_existing_state()?;
        let secret = context.find::<Secret>(&store, &name)?;
        let secret_key = secret.metadata.key();
        if let Some(unknown) = self.keys.iter().find(|key| !secret.values.contains_key(*key)) {
            let keys: Vec<&str> = secret.values.keys().map(String::as_str).collect();
            return Err(Refusal::not_found(format!("secret `{name}` has no key `{unknown}`"))
                .because(format!("its keys are {}", keys.join(", ")))
                .into());
        }
        for key in secret.values.keys() {
            if !self.keys.is_empty() && !self.keys.contains(key) {
                continue;
            }
            if let Some(value) = store.read_secret_value(&secret_key, key)? {
                self.extract_value(context, key, &value)?;
            }
        }
        Ok(())
    }
}

impl Extract {
    /// Prints a value, or writes it to the file that is called like its key.
    fn extract_value(
        &self,
        context: &Context,
        key: &str,
        value: &SecretValue,
    ) -> anyhow::Result<()> {
        if self.to.as_os_str() == "-" {
            context.hint(&format!("# {key}"));
            let line_end = if value.reveal().ends_with('\n') { "" } else { "\n" };
            return context.print_value(&format!("{}{line_end}", value.reveal()));
        }
        // No key of a Secret may choose a file outside of the folder.
        if key.contains('/') || key.starts_with("..") {
            let problem = format!("key `{key}` cannot be the name of a file");
            return Err(Refusal::invalid(problem).advise("print it with --to=-").into());
        }
        let path = self.to.join(key);
        let existing = if self.confirm { ExistingFile::Replace } else { ExistingFile::Keep };
        copies::write_private_file(&path, value.reveal().as_bytes(), existing).map_err(
            |refusal| match refusal.exit {
                Exit::Conflict => refusal.advise("replace it with --confirm"),
                _ => refusal,
            },
        )?;
        let file = path.display().to_string();
        let document = json!({"key": key, "file": file});
        let answer = Answer::text(format!("{file}\n")).with_list([document]);
        context.answer(answer.with_name(Name::plain(file)))
    }
}
