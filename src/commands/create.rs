//! `create`: creates objects that do not exist yet, of manifests or of arguments as kubectl takes
//! them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::model::documents::{ConfigMap, Namespace, Secret, SecretValue};
use crate::model::kinds::Kind;
use crate::model::meta::Meta;
use crate::model::object::Resource;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name};
use crate::rules;

use crate::commands::apply::{Precondition, put_manifests};
use crate::commands::manifest_files::{DryRun, ManifestFiles};
use crate::commands::{Context, RunCommand, kubectl, secret, target};
use crate::manifest::Manifests;

/// Arguments of `create`. An object that exists is refused.
#[derive(Args)]
pub struct Create {
    /// What to create without a manifest: namespace NAME, configmap NAME or secret generic NAME
    #[arg(value_name = "KIND", conflicts_with_all = ["filename", "kustomize"])]
    words: Vec<String>,
    #[command(flatten)]
    files: ManifestFiles,
    /// Value of a Secret or a ConfigMap; other users of the machine may see it, so prefer --from-file
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// File with a value of a Secret or a ConfigMap; the key is KEY or the name of the file
    #[arg(long, value_name = "[KEY=]FILE")]
    from_file: Vec<String>,
    /// Type of the Secret
    #[arg(long = "type", value_name = "TYPE", default_value = "Opaque")]
    secret_type: String,
    /// Show what would be created, and change nothing
    #[arg(
        long,
        value_enum,
        value_name = "client|server|none",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        hide_default_value = true,
        hide_possible_values = true
    )]
    dry_run: DryRun,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create objects that do not exist yet";
    const EXAMPLE: &'static str = "poolctl create namespace team --dry-run=client -o yaml";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words[..] {
            [] => {
                let manifests = self.files.read_new(context)?;
                put_manifests(context, manifests, Precondition::Absent, self.dry_run)
            }
            ["namespace" | "ns", name] => self.create_namespace(context, name),
            ["configmap" | "cm", name] => self.create_config_map(context, name),
            ["secret", "generic", name] => self.create_secret(context, name),
            ["secret", ..] => Err(Refusal::usage("only generic Secrets are created so")
                .next("poolctl create secret generic NAME --from-file=FILE")
                .into()),
            [kind, ..] => Err(refuse_kind(kind)?.into()),
        }
    }
}

/// Why objects of a kind are not created of arguments.
fn refuse_kind(word: &str) -> Result<Refusal, Refusal> {
    let kind = target::parse_kind(word)?;
    let refusal = Refusal::usage(format!("a {} is not created without a manifest", kind.word()));
    Ok(match kind {
        Kind::ClusterClaim => refusal.next("poolctl claim POOL NAME"),
        Kind::ClusterPool => refusal.next("poolctl pool create NAME"),
        Kind::ConfigMap => refusal.next("poolctl create configmap NAME --from-file=FILE"),
        Kind::Namespace => kubectl::refuse_second_word("create", word),
        _ => refusal.next("poolctl create -f FILE"),
    })
}

impl Create {
    fn create_namespace(&self, context: &Context, name: &str) -> anyhow::Result<()> {
        let key = context.key(Kind::Namespace, name)?;
        let namespace = Namespace {
            metadata: Meta { name: key.name, ..Meta::default() },
            ..Namespace::default()
        };
        let object = namespace.into_object();
        rules::check_object(&object)?;
        let manifests = Manifests { objects: vec![object], ..Manifests::default() };
        put_manifests(context, manifests, Precondition::Absent, self.dry_run)
    }

    fn create_config_map(&self, context: &Context, name: &str) -> anyhow::Result<()> {
        let key = context.key(Kind::ConfigMap, name)?;
        let values = self.read_values()?.into_iter();
        let config_map = ConfigMap {
            metadata: Meta { name: key.name, namespace: key.namespace, ..Meta::default() },
            data: values.map(|(key, value)| (key, value.reveal().to_owned())).collect(),
            ..ConfigMap::default()
        };
        let object = config_map.into_object();
        rules::check_object(&object)?;
        let manifests = Manifests { objects: vec![object], ..Manifests::default() };
        put_manifests(context, manifests, Precondition::Absent, self.dry_run)
    }

    fn create_secret(&self, context: &Context, name: &str) -> anyhow::Result<()> {
        let key = context.key(Kind::Secret, name)?;
        let values = self.read_values()?;
        if let Some(remark) = self.dry_run.remark() {
            let object_name = Name::of(Kind::Secret, &key);
            let mut data = Map::new();
            for (value_key, value) in &values {
                data.insert(value_key.clone(), STANDARD.encode(value.reveal()).into());
            }
            let document = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": key.name, "namespace": key.namespace},
                "type": self.secret_type,
                "data": Value::Object(data),
            });
            let line = format!("{object_name} created {remark}\n");
            let answer = Answer::text(line).with_name(object_name).with_document(document);
            return context.answer(answer);
        }
        let secret = Secret {
            metadata: Meta { name: key.name, namespace: key.namespace, ..Meta::default() },
            kind: self.secret_type.clone(),
            string_data: Some(values),
            ..Secret::default()
        };
        let object = secret.into_object();
        rules::check_object(&object)?;
        let manifests = Manifests { objects: vec![object], ..Manifests::default() };
        put_manifests(context, manifests, Precondition::Absent, DryRun::None)
    }

    /// The values of the Secret or the ConfigMap, each under its key.
    fn read_values(&self) -> Result<BTreeMap<String, SecretValue>, Refusal> {
        let mut values = secret::read_files(&self.from_file)?;
        for literal in &self.from_literal {
            let Some((key, value)) = literal.split_once('=') else {
                return Err(Refusal::usage("--from-literal needs KEY=VALUE"));
            };
            secret::insert_value(&mut values, key, SecretValue::new(value))?;
        }
        Ok(values)
    }
}
