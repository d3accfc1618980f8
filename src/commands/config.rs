//! `config`: the namespace that commands work in, kept in a small file of the account, and which
//! state they use. It opens no state.

use clap::Args;
use serde_json::json;

use crate::model::refusal::Refusal;
use crate::output::{Answer, Name};
use crate::rules;
use crate::store::copies;

use crate::commands::{Context, RunCommand, kubectl};

/// Arguments of `config`, in the words of kubectl.
#[derive(Args)]
pub struct Config {
    /// set-context --current --namespace NAMESPACE, set-namespace NAMESPACE, or get-contexts
    #[arg(required = true, value_name = "set-context|set-namespace|get-contexts")]
    words: Vec<String>,
    /// The current context, which is the only one
    #[arg(long)]
    current: bool,
}

impl RunCommand for Config {
    const NAME: &'static str = "config";
    const ABOUT: &'static str = "Set the namespace that commands work in by default";
    const EXAMPLE: &'static str = "poolctl config set-context --current --namespace=team";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words[..] {
            ["set-context"] if self.current => match &context.globals.namespace {
                Some(namespace) => set_namespace(context, namespace),
                None => Err(Refusal::usage("--namespace is needed").next(Self::EXAMPLE).into()),
            },
            ["set-context", ..] => Err(Refusal::usage("there is one context, the current one")
                .next("poolctl config set-namespace NAMESPACE")
                .into()),
            ["set-namespace", namespace] => set_namespace(context, namespace),
            ["set-namespace"] => {
                let namespace = context.namespace()?;
                let document = json!({"namespace": namespace});
                let answer = Answer::text(format!("{namespace}\n")).with_document(document);
                context.answer(answer.with_name(Name::plain(namespace)))
            }
            ["get-contexts", ..] => {
                let state = context.state_path()?.display().to_string();
                let namespace = context.namespace()?;
                let entry = context.entry(
                    Some(Name::plain("state")),
                    || {
                        vec![
                            ("current", "*".into()),
                            ("namespace", namespace.clone()),
                            ("state", state.clone()),
                        ]
                    },
                    || json!({"namespace": namespace, "state": state}),
                );
                context.answer(Answer::list(vec![entry]))
            }
            [word, ..] => Err(kubectl::refuse_second_word(Self::NAME, word).into()),
            [] => Err(Refusal::usage("a word is needed").next(Self::EXAMPLE).into()),
        }
    }
}

/// Makes a namespace the one that commands work in unless they are told another.
fn set_namespace(context: &Context, namespace: &str) -> anyhow::Result<()> {
    rules::check_dns_label("a namespace", namespace)?;
    let Some(path) = context.world.namespace_file() else {
        return Err(Refusal::usage("there is no folder for the settings of this account")
            .because("HOME is not set")
            .advise(format!("export POOLCTL_NAMESPACE={namespace}"))
            .into());
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Refusal::unwritable(folder, &error))?;
    }
    copies::write_private_file_in_parts(&path, |out| {
        out.write_all(format!("{namespace}\n").as_bytes())
            .map_err(|error| Refusal::unwritable(&path, &error))
    })?;
    let document = json!({"namespace": namespace, "result": "set"});
    let answer = Answer::text(format!("namespace/{namespace} is used by default now\n"));
    context.answer(answer.with_name(Name::plain(namespace)).with_document(document))
}
