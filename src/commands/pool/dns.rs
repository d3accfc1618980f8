//! `pool dns`: lists the DNS records that the clusters of a pool need. It changes no name server.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::model::address::Addr;
use crate::model::ip_pool::AddressNetwork;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::output::{Answer, Name, clean_line};
use crate::plan;
use crate::render::address_lists::{
    AddressUse, ListFormat, ListedAddress, render_list, sort_addresses,
};
use crate::render::cluster_dns::{ClusterRecord, cluster_records};
use crate::store::Store;

use crate::commands::ip::export::{ZoneOptions, read_install_config, refuse_list};
use crate::commands::{Context, RunCommand};

/// Arguments of `pool dns`.
#[derive(Args)]
pub struct Dns {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
    /// Format of the list
    #[arg(long = "as", value_enum, value_name = "FORMAT", default_value = "hosts")]
    format: ListFormat,
    #[command(flatten)]
    zone: ZoneOptions,
}

impl RunCommand for Dns {
    const NAME: &'static str = "dns";
    const ABOUT: &'static str = "Print the DNS records that the clusters of a pool need";
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
            .advise(advise_without_inventory(context, &pool))
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
        let mark = self.format.comment_mark();
        let mut list = String::new();
        if let Some(mark) = mark {
            let _ = writeln!(list, "{mark} pool {}: records that its clusters need", self.name);
            for requirement in &requirements {
                list += &requirement.gap_lines(mark);
            }
        }
        let mut addresses: Vec<ListedAddress> =
            requirements.iter().flat_map(DnsRequirement::addresses).collect();
        sort_addresses(&mut addresses);
        let options = self.zone.to_list_options(store.read_revision()?, None)?;
        let rendered = render_list(self.format, &addresses, &options).map_err(refuse_list)?;
        list += &rendered.text;
        context.answer(Answer::text(list).with_names(names).with_list(documents))
    }
}

/// What shows the records of clusters with random names: the list of their leased addresses. Without
/// leased addresses, only fixed names have records.
fn advise_without_inventory(context: &Context, pool: &ClusterPool) -> String {
    let name = &pool.metadata.name;
    if pool.vip_pools().is_empty() {
        return format!(
            "poolctl customization create foo --set /metadata/name=foo, then list it in pool {name}"
        );
    }
    let option = context.namespace_option(&pool.metadata.namespace);
    let domain = &pool.spec.base_domain;
    format!("poolctl ip export --as hosts --domain {domain}{option}")
}

/// The records that the cluster of one customization needs, or why they are not known.
#[derive(Serialize)]
struct DnsRequirement<'a> {
    customization: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    records: Vec<ClusterRecord>,
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

    fn from_install_config(customization: &'a str, config: &Value) -> Self {
        Self { customization, problem: None, records: cluster_records(config) }
    }

    /// The addresses of the cluster with their names.
    fn addresses(&self) -> Vec<ListedAddress> {
        let mut addresses = Vec::new();
        for ClusterRecord { names, addresses: values } in &self.records {
            for address in values.iter().filter_map(|value| value.parse::<Addr>().ok()) {
                addresses.push(ListedAddress {
                    address,
                    address_use: AddressUse::Vip,
                    names: names.clone(),
                    mac: None,
                    network: AddressNetwork::default(),
                    namespace: String::new(),
                    pool: String::new(),
                    claim: clean_line(self.customization).into_owned(),
                    cluster: None,
                    host: None,
                    comment: String::new(),
                    since: None,
                    until: None,
                });
            }
        }
        addresses
    }

    /// A comment for each record without an address, and for records that are not known.
    fn gap_lines(&self, mark: &str) -> String {
        let customization = clean_line(self.customization);
        let mut lines = String::new();
        if let Some(problem) = &self.problem {
            lines = format!("{mark} {customization}: {}\n", clean_line(problem));
        }
        for record in self.records.iter().filter(|record| record.addresses.is_empty()) {
            let names = record.names.join(" ");
            let _ = writeln!(lines, "{mark} no address    {names} {mark} {customization}");
        }
        lines
    }
}
