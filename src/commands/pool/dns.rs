//! `pool dns`: the records that the clusters of a pool need, as a hosts file.

use std::fmt::Write;
use std::net::IpAddr;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State, Template};
use crate::output::{Answer, Name, clean};
use crate::plan;
use crate::render::install_config;
use crate::store::Store;

use crate::commands::{Context, Verb};

/// Where installers look for the addresses of the API and of what clusters serve.
const API: [&str; 3] = ["apiFloatingIP", "apiVIPs", "apiVIP"];
const APPS: [&str; 3] = ["ingressFloatingIP", "ingressVIPs", "ingressVIP"];

#[derive(Args)]
pub struct Dns {
    #[arg(value_name = "POOL")]
    name: String,
}

impl Verb for Dns {
    const NAME: &'static str = "dns";
    const ABOUT: &'static str = "List the DNS records that a pool's clusters need, as a hosts file";
    const EXAMPLE: &'static str = "poolctl pool dns lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let state = store.load(&Scope::pool(pool.key()), &[])?;
        if pool.spec.inventory.is_none() {
            let what =
                format!("pool `{}` has no inventory: its clusters have random names", self.name);
            let next = format!(
                "poolctl customization create foo --set /metadata/name=foo, and list it in pool {}",
                self.name
            );
            return Err(Refusal::conflict(what).advise(next).into());
        }
        let listed = pool.spec.inventory.iter().flatten();
        let all = listed.map(|entry| Needed::by(&store, &state, &pool, &entry.name));
        let all: Vec<Needed> = all.collect::<Result<_, _>>()?;
        let documents: Vec<Value> =
            all.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let names = all.iter().map(|needed| {
            let key = Key::new(&*pool.metadata.namespace, needed.customization);
            Name::of(Kind::Customization, &key)
        });
        let mut text = format!("# pool {}: records that its clusters need\n", self.name);
        text.extend(all.iter().map(Needed::lines));
        context.answer(Answer::text(text).with_names(names).with_list(documents))
    }
}

/// What one customization needs, or why nobody knows.
#[derive(Serialize)]
struct Needed<'a> {
    customization: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    records: Vec<Record>,
}

#[derive(Serialize)]
struct Record {
    names: Vec<String>,
    /// As its cluster has them, else as the patches or the template carry them.
    addresses: Vec<String>,
}

impl<'a> Needed<'a> {
    fn by(
        store: &Store,
        state: &State,
        pool: &ClusterPool,
        customization: &'a str,
    ) -> Result<Self, Refusal> {
        let key = Key::new(&*pool.metadata.namespace, customization);
        let one = state.customizations.by_key(&key);
        let holder = one.and_then(|one| one.holder.as_ref());
        let holder = holder.filter(|by| by.pool.as_ref() == Some(&pool.key()));
        // Addresses that are leased with a cluster are known of that cluster alone.
        let own = match holder.filter(|_| !pool.vips_from().is_empty()) {
            Some(holder) => made_from(store, &holder.cluster)?,
            None => None,
        };
        if let Some(own) = own {
            return Ok(Self::of(customization, &own));
        }
        let missing = || "there is no such customization".to_owned();
        let tried =
            one.ok_or_else(missing).and_then(|one| plan::trial(state, pool, Some(&one.spec)));
        let problem = match tried {
            Ok(rendered) if rendered.keeps_name => {
                "it sets no /metadata/name: its clusters have random names".to_owned()
            }
            Ok(rendered) => return Ok(Self::of(customization, &rendered.document)),
            Err(problem) => problem,
        };
        Ok(Self { customization, problem: Some(problem), records: Vec::new() })
    }

    /// What an install-config asks for.
    fn of(customization: &'a str, config: &Value) -> Self {
        let said = |path: &str| config.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (name, domain) = (said("/metadata/name"), said("/baseDomain"));
        let record = |names: &[&str], fields| Record {
            names: names.iter().map(|one| format!("{one}.{name}.{domain}")).collect(),
            addresses: addresses(config, fields),
        };
        let records = vec![record(&["api", "api-int"], API), record(&["*.apps"], APPS)];
        Self { customization, problem: None, records }
    }

    fn lines(&self) -> String {
        let name = clean(self.customization);
        let mut text = String::new();
        if let Some(problem) = &self.problem {
            text = format!("# {name}: {}\n", clean(problem));
        }
        for Record { names, addresses } in &self.records {
            let names = names.join(" ");
            let known = addresses.iter().map(|one| format!("{:<15}", clean(one)));
            let unknown = addresses.is_empty().then(|| "# no address   ".to_owned());
            for address in known.chain(unknown) {
                let _ = writeln!(text, "{address} {names} # {name}");
            }
        }
        text
    }
}

/// The install-config that a cluster was made from.
fn made_from(store: &Store, cluster: &str) -> Result<Option<Value>, Refusal> {
    let secret = Key::new(cluster, format!("{cluster}-install-config"));
    let Some(text) = store.secret_value(&secret, "install-config.yaml")? else { return Ok(None) };
    let config = Template::new(text);
    Ok(install_config::document(&config).ok().cloned())
}

/// The first of these fields that the platform has.
fn addresses(config: &Value, fields: [&str; 3]) -> Vec<String> {
    let platforms = config["platform"].as_object();
    let platforms = platforms.into_iter().flat_map(|all| all.values());
    let field =
        |one: &'_ Value| fields.iter().map(|field| one[*field].clone()).find(|one| !one.is_null());
    let texts = platforms.filter_map(field).flat_map(|value| match value {
        Value::Array(all) => all,
        one => vec![one],
    });
    let texts = texts.filter_map(|one| one.as_str().map(str::to_owned));
    let mut found: Vec<String> = texts.filter(|one| one.parse::<IpAddr>().is_ok()).collect();
    found.dedup();
    found
}
