//! `pool dns`: lists the DNS records that the clusters of a pool need, as a hosts file. It changes
//! no name server.

use std::fmt::Write;
use std::net::IpAddr;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::template::Template;
use crate::output::{Answer, Name, clean_line};
use crate::plan;
use crate::render::install_config;
use crate::store::Store;

use crate::commands::{Context, RunCommand};

/// Fields of a platform with the addresses of the API and of the applications. The first that a
/// platform has counts.
const API_FIELDS: [&str; 3] = ["apiFloatingIP", "apiVIPs", "apiVIP"];
const APPS_FIELDS: [&str; 3] = ["ingressFloatingIP", "ingressVIPs", "ingressVIP"];

#[derive(Args)]
pub struct Dns {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
}

impl RunCommand for Dns {
    const NAME: &'static str = "dns";
    const ABOUT: &'static str =
        "Print the DNS records that the clusters of a pool need, as a hosts file";
    const EXAMPLE: &'static str = "poolctl pool dns lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let state = store.load(&Scope::pool(pool.key()), &[])?;
        if pool.spec.inventory.is_none() {
            let name = &self.name;
            return Err(Refusal::conflict(format!(
                "pool `{name}` has no inventory: its clusters have random names"
            ))
            .advise(format!(
                "poolctl customization create foo --set /metadata/name=foo, then list it in pool \
                 {name}"
            ))
            .into());
        }
        let mut requirements = Vec::new();
        for entry in pool.spec.inventory.iter().flatten() {
            requirements.push(DnsRequirement::find(&store, &state, &pool, &entry.name)?);
        }
        let documents: Vec<Value> =
            requirements.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let names = requirements.iter().map(|requirement| {
            let key = Key::new(&*pool.metadata.namespace, requirement.customization);
            Name::of(Kind::Customization, &key)
        });
        let mut hosts_file = format!("# pool {}: records that its clusters need\n", self.name);
        hosts_file.extend(requirements.iter().map(DnsRequirement::hosts_lines));
        context.answer(Answer::text(hosts_file).with_names(names).with_list(documents))
    }
}

/// The records that the cluster of one customization needs, or why they are not known.
#[derive(Serialize)]
struct DnsRequirement<'a> {
    customization: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    records: Vec<Record>,
}

#[derive(Serialize)]
struct Record {
    names: Vec<String>,
    /// The addresses that the cluster has, or those of the patches or the template.
    addresses: Vec<String>,
}

impl<'a> DnsRequirement<'a> {
    /// Reads the records from the install-config of the cluster that has the customization, if only
    /// that knows its addresses; else from the install-config that the next cluster would get.
    fn find(
        store: &Store,
        state: &State,
        pool: &ClusterPool,
        customization_name: &'a str,
    ) -> Result<Self, Refusal> {
        let key = Key::new(&*pool.metadata.namespace, customization_name);
        let Some(customization) = state.customizations.by_key(&key) else {
            let problem = "the customization does not exist".to_owned();
            return Ok(Self::unknown(customization_name, problem));
        };
        // Addresses that are leased with a cluster stand nowhere but in its own install-config.
        if let Some(holder) = &customization.holder
            && holder.pool.as_ref() == Some(&pool.key())
            && !pool.vip_pools().is_empty()
            && let Some(config) = read_install_config(store, &holder.cluster)?
        {
            return Ok(Self::from_install_config(customization_name, &config));
        }
        Ok(match plan::render_next_cluster(state, pool, Some(&customization.spec)) {
            Ok(rendered) if rendered.keeps_name => Self::unknown(
                customization_name,
                "it sets no /metadata/name: its clusters have random names".to_owned(),
            ),
            Ok(rendered) => Self::from_install_config(customization_name, &rendered.document),
            Err(problem) => Self::unknown(customization_name, problem),
        })
    }

    fn unknown(customization: &'a str, problem: String) -> Self {
        Self { customization, problem: Some(problem), records: Vec::new() }
    }

    /// The records that an installation with this install-config needs: of the API and of the
    /// applications. Addresses that the install-config does not have are left out.
    fn from_install_config(customization: &'a str, config: &Value) -> Self {
        let cluster = string_at(config, "/metadata/name");
        let domain = string_at(config, "/baseDomain");
        let api_record = Record {
            names: vec![format!("api.{cluster}.{domain}"), format!("api-int.{cluster}.{domain}")],
            addresses: platform_addresses(config, API_FIELDS),
        };
        let apps_record = Record {
            names: vec![format!("*.apps.{cluster}.{domain}")],
            addresses: platform_addresses(config, APPS_FIELDS),
        };
        Self { customization, problem: None, records: vec![api_record, apps_record] }
    }

    /// A line of a hosts file for each address, and a comment where there is none.
    fn hosts_lines(&self) -> String {
        let customization = clean_line(self.customization);
        let mut lines = String::new();
        if let Some(problem) = &self.problem {
            lines = format!("# {customization}: {}\n", clean_line(problem));
        }
        for Record { names, addresses } in &self.records {
            let names = names.join(" ");
            if addresses.is_empty() {
                let _ = writeln!(lines, "# no address    {names} # {customization}");
            }
            for address in addresses {
                let address = clean_line(address);
                let _ = writeln!(lines, "{address:<15} {names} # {customization}");
            }
        }
        lines
    }
}

/// The install-config that a cluster was made from, if it is kept.
fn read_install_config(store: &Store, cluster: &str) -> Result<Option<Value>, Refusal> {
    let secret = Key::new(cluster, format!("{cluster}-install-config"));
    let Some(yaml) = store.read_secret_value(&secret, "install-config.yaml")? else {
        return Ok(None);
    };
    let template = Template::new(yaml);
    Ok(install_config::template_document(&template).ok().cloned())
}

fn string_at<'a>(config: &'a Value, pointer: &str) -> &'a str {
    config.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The addresses in the first of these fields that a platform of an install-config has. What is no
/// IP address is passed over, and one that follows itself is listed once.
fn platform_addresses(config: &Value, fields: [&str; 3]) -> Vec<String> {
    let platforms = config["platform"].as_object();
    let mut addresses = Vec::new();
    for platform in platforms.into_iter().flat_map(|platforms| platforms.values()) {
        let value = fields.iter().map(|field| &platform[*field]).find(|value| !value.is_null());
        let values: Vec<&Value> = match value {
            Some(Value::Array(values)) => values.iter().collect(),
            Some(value) => vec![value],
            None => Vec::new(),
        };
        for address in values.into_iter().filter_map(Value::as_str) {
            if address.parse::<IpAddr>().is_ok() {
                addresses.push(address.to_owned());
            }
        }
    }
    addresses.dedup();
    addresses
}
