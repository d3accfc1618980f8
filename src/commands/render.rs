//! `pool render`: the install-config a cluster would get, secrets hidden.

use clap::Args;

use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::output::Format;
use crate::render::{install_config, redact};
use crate::store::Need;
use crate::{output, plan};

use super::{Context, Verb};

#[derive(Args)]
pub struct Render {
    #[arg(value_name = "POOL")]
    name: String,
    /// With the patches of this customization
    #[arg(long, value_name = "CUSTOMIZATION")]
    customization: Option<String>,
}

impl Verb for Render {
    const NAME: &'static str = "render";
    const ABOUT: &'static str = "Show the install-config a cluster would get, secrets hidden";
    const EXAMPLE: &'static str = "poolctl pool render lab --customization foo";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let key = context.find(&store, Kind::ClusterPool, &self.name)?.key();
        let mut needs = Vec::new();
        if let Some(name) = &self.customization {
            context.find(&store, Kind::Customization, name)?;
            let key = Key::new(&*key.namespace, &**name);
            needs.push(Need { kind: Kind::Customization, key });
        }
        let state = store.load(&Scope::pool(key.clone()), &needs)?;
        let gone = || Refusal::not_found(format!("there is no pool `{}` any more", self.name));
        let pool = state.pools.by_key(&key).ok_or_else(gone)?;
        let wrong = |why: String| {
            Refusal::invalid(format!("no install-config can be made for pool `{}`", self.name))
                .because(why)
        };
        let base = plan::recipe(&state, pool).map_err(wrong)?;
        let chosen = needs.first().and_then(|need| state.customizations.by_key(&need.key));
        let patches = chosen.map(|one| &one.spec);
        let name = format!("{}-xxxxx", self.name);
        let (mut document, _) =
            install_config::patched(&base, &name, patches, pool).map_err(|why| {
                let name = self.customization.as_deref().unwrap_or_default();
                wrong(format!("customization `{name}`: {why}"))
                    .next(format!("poolctl get customization {name} -o yaml -n {}", key.namespace))
            })?;
        redact::redact(&mut document);
        let format = match &context.globals.output {
            Format::Table | Format::Wide | Format::Name => &Format::Yaml,
            whole => whole,
        };
        context.print(&output::document_text(format, &document)?)
    }
}
