//! `pool render`: the install-config a cluster would get, secrets hidden.

use clap::Args;
use serde_json::{Value, json};

use crate::model::customization::{Customization, CustomizationSpec};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::output::{self, Answer, Name};
use crate::render::install_config::Rendered;
use crate::render::redact;
use crate::store::{Need, Store};
use crate::{plan, yaml};

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Render {
    #[arg(value_name = "POOL")]
    name: String,
    /// With the patches of this customization
    #[arg(long, value_name = "CUSTOMIZATION")]
    customization: Option<String>,
    /// Only what the customization changes
    #[arg(long, requires = "customization")]
    diff: bool,
}

impl Verb for Render {
    const NAME: &'static str = "render";
    const ABOUT: &'static str = "Show the install-config a cluster would get, secrets hidden";
    const EXAMPLE: &'static str = "poolctl pool render lab --customization foo";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let tried = Tried::load(context, &store, &self.name, self.customization.as_deref())?;
        let rendered = tried.render(context)?;
        let name = Name::of(Kind::ClusterPool, &tried.pool);
        if self.diff {
            let difference = tried.diff(context, &rendered)?;
            let document = json!({"difference": difference});
            let answer = Answer::text(difference).with_document(document);
            return context.answer(answer.with_name(name));
        }
        let mut document = rendered.document;
        redact::redact(&mut document);
        context.answer(Answer::document(document)?.with_name(name))
    }
}

/// A pool, and a customization that is tried on it.
pub struct Tried {
    state: State,
    pool: Key,
    customization: Option<Key>,
}

impl Tried {
    pub fn load(
        context: &Context,
        store: &Store,
        pool: &str,
        customization: Option<&str>,
    ) -> Result<Self, Refusal> {
        let pool = context.find::<ClusterPool>(store, pool)?.key();
        let customization = customization
            .map(|name| context.find::<Customization>(store, name).map(|one| one.key()))
            .transpose()?;
        let needs =
            customization.iter().map(|key| Need { kind: Kind::Customization, key: key.clone() });
        let needs: Vec<Need> = needs.collect();
        let state = store.load(&Scope::pool(pool.clone()), &needs)?;
        Ok(Self { state, pool, customization })
    }

    pub fn pool(&self) -> Result<&ClusterPool, Refusal> {
        let gone = || Refusal::not_found(format!("there is no pool `{}` any more", self.pool.name));
        self.state.pools.by_key(&self.pool).ok_or_else(gone)
    }

    pub fn spec(&self) -> Option<&CustomizationSpec> {
        Some(&self.state.customizations.by_key(self.customization.as_ref()?)?.spec)
    }

    /// The manifest patches of the customization that all clusters of the pool get.
    pub fn poolwide(&self) -> Result<Option<&CustomizationSpec>, Refusal> {
        let pool = self.pool()?;
        let name = pool.spec.customization_ref.as_ref().map(|one| &*one.name);
        let key = name.map(|name| Key::new(&*self.pool.namespace, name));
        Ok(key.and_then(|key| self.state.customizations.by_key(&key)).map(|one| &one.spec))
    }

    /// With what the patches leave to leniency said.
    pub fn render(&self, context: &Context) -> Result<Rendered, Refusal> {
        let refused = |why: String| {
            let what = format!("no install-config can be made for pool `{}`", self.pool.name);
            let Some(Key { name, namespace }) = &self.customization else {
                return Refusal::invalid(what).because(why);
            };
            Refusal::invalid(what)
                .because(format!("customization `{name}`: {why}"))
                .advise(format!("poolctl get customization {name} -o yaml -n {namespace}"))
        };
        let rendered = plan::trial(&self.state, self.pool()?, self.spec()).map_err(refused)?;
        for note in &rendered.notes {
            context.warn(note);
        }
        Ok(rendered)
    }

    /// What the customization changes.
    pub fn diff(&self, context: &Context, rendered: &Rendered) -> Result<String, Refusal> {
        let wrong = |why: String| Refusal::invalid("it cannot be compared").because(why);
        let before = plan::trial(&self.state, self.pool()?, None).map_err(wrong)?;
        let text = |document: &Value| {
            let mut document = document.clone();
            redact::redact(&mut document);
            yaml::text(&document).map_err(|error| wrong(error.to_string()))
        };
        let (before, after) = (text(&before.document)?, text(&rendered.document)?);
        Ok(output::unified("install-config.yaml", &before, &after, context.colors()))
    }
}
