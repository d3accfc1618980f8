//! `pool render`: shows the install-config that the next cluster of a pool would get, with secrets
//! hidden. It makes no cluster.

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
use crate::store::{NeededObject, Store};
use crate::{plan, yaml};

use crate::commands::{Context, RunCommand};

/// Arguments of `pool render`, which only reads the state and hides secrets.
#[derive(Args)]
pub struct Render {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
    /// Apply the patches of this customization
    #[arg(long, value_name = "CUSTOMIZATION")]
    customization: Option<String>,
    /// Show only what the customization changes
    #[arg(long, requires = "customization")]
    diff: bool,
}

impl RunCommand for Render {
    const NAME: &'static str = "render";
    const ABOUT: &'static str = "Show the install-config of a new cluster, without secrets";
    const EXAMPLE: &'static str = "poolctl pool render lab --customization foo";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let tried = TrialRender::load(context, &store, &self.name, self.customization.as_deref())?;
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

/// A pool, and the customization that is tried on it, if any. The state has what both refer to.
pub struct TrialRender {
    state: State,
    pool: Key,
    customization: Option<Key>,
}

impl TrialRender {
    /// Loads a pool and a customization by their names; both must exist.
    pub fn load(
        context: &Context,
        store: &Store,
        pool_name: &str,
        customization_name: Option<&str>,
    ) -> Result<Self, Refusal> {
        let pool = context.find::<ClusterPool>(store, pool_name)?.key();
        let mut needs = Vec::new();
        let mut customization = None;
        if let Some(name) = customization_name {
            let key = context.find::<Customization>(store, name)?.key();
            needs.push(NeededObject { kind: Kind::Customization, key: key.clone() });
            customization = Some(key);
        }
        let state = store.load(&Scope::pool(pool.clone()), &needs)?;
        Ok(Self { state, pool, customization })
    }

    /// The pool and what it refers to, as they are now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The pool that is rendered. Fails with exit code 3 if there is none.
    pub fn pool(&self) -> Result<&ClusterPool, Refusal> {
        self.state.pools.by_key(&self.pool).ok_or_else(|| {
            Refusal::not_found(format!("there is no pool `{}` any more", self.pool.name))
        })
    }

    /// What the customization that is tried says.
    pub fn customization_spec(&self) -> Option<&CustomizationSpec> {
        Some(&self.state.customizations.by_key(self.customization.as_ref()?)?.spec)
    }

    /// The customization that all clusters of the pool get. Only its patches of manifests apply.
    pub fn poolwide_spec(&self) -> Result<Option<&CustomizationSpec>, Refusal> {
        let Some(reference) = &self.pool()?.spec.customization_ref else { return Ok(None) };
        let key = Key::new(&*self.pool.namespace, &*reference.name);
        Ok(self.state.customizations.by_key(&key).map(|customization| &customization.spec))
    }

    /// The install-config with the patches of the customization, if the installer would accept it.
    /// Warns of patches that apply only because poolctl is as lenient as Hive, and of what the
    /// installer would overlook.
    pub fn render(&self, context: &Context) -> Result<Rendered, Refusal> {
        let rendered =
            plan::render_checked_cluster(&self.state, self.pool()?, self.customization_spec())
                .map_err(|cause| self.cannot_render(&cause))?;
        for note in &rendered.notes {
            context.warn(note);
        }
        Ok(rendered)
    }

    fn cannot_render(&self, cause: &str) -> Refusal {
        let refusal = Refusal::invalid(format!(
            "no install-config can be made for pool `{}`",
            self.pool.name
        ));
        let Some(Key { name, namespace }) = &self.customization else {
            return refusal.because(cause);
        };
        refusal
            .because(format!("customization `{name}`: {cause}"))
            .advise(format!("poolctl get customization {name} -o yaml -n {namespace}"))
    }

    /// What the customization changes in the install-config, as a unified diff without secrets.
    pub fn diff(&self, context: &Context, rendered: &Rendered) -> Result<String, Refusal> {
        let plain =
            plan::render_next_cluster(&self.state, self.pool()?, None).map_err(cannot_compare)?;
        let before = redacted_yaml(&plain.document)?;
        let after = redacted_yaml(&rendered.document)?;
        Ok(output::unified_diff("install-config.yaml", &before, &after, context.style()))
    }
}

fn redacted_yaml(document: &Value) -> Result<String, Refusal> {
    let mut document = document.clone();
    redact::redact(&mut document);
    yaml::to_text(&document).map_err(|error| cannot_compare(error.to_string()))
}

fn cannot_compare(cause: String) -> Refusal {
    Refusal::invalid("the install-config cannot be compared").because(cause)
}
