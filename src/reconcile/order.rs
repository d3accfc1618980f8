//! What a supervisor is told: read from the state after the commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::drivers::programs;
use crate::model::agent::{Agent, HostState};
use crate::model::cluster::Cluster;
use crate::model::customization::{Customization, ManifestPatch};
use crate::model::deployment::ClusterDeployment;
use crate::model::documents::{ClusterImageSet, Secret, SecretValue, SettingsSpec};
use crate::model::driver::{DRIVER, Driver, EXEC, POWER};
use crate::model::host::{BOOT, BareMetalHost, BootMode, CIPHER, PIN, REBOOT};
use crate::model::infra_env::InfraEnv;
use crate::model::ip_lease::IpLease;
use crate::model::job::{Job, Verb};
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::order::{Machine, Order};
use crate::model::pool::{ClusterPool, STRICT_PATCHES};
use crate::model::refusal::{Exit, Refusal};
use crate::plan;
use crate::rules;
use crate::store::Filter;
use crate::yaml;

use super::Door;

/// Programs that jobs may use; each is looked up before it is needed.
const PROGRAMS: [&str; 4] = ["openshift-install", "oc", "kubectl", "ipmitool"];
/// What a BMC's Secret has for us.
const CREDENTIALS: [&str; 3] = ["username", "password", "ca.crt"];

/// Files with secrets, by their paths below `input/`.
type Inputs = Vec<(String, SecretValue)>;

impl Door<'_> {
    /// All that the supervisor of a job needs to know, and the files with secrets.
    pub(super) fn order(
        &self,
        job: &Job,
        settings: &SettingsSpec,
    ) -> Result<(Order, Inputs), Refusal> {
        let (mut order, mut inputs) = match job.cluster() {
            Some(_) => self.of_cluster(job, settings)?,
            None => of_hosts(job, settings, self.wiper(job)?.as_deref())?,
        };
        order.before = self.earlier(job)?;
        for (at, host) in job.hosts.iter().enumerate() {
            let (machine, secrets) = self.machine(host)?;
            order.machines.push(machine);
            let below = |(name, value)| (format!("machines/{at}/{name}"), value);
            inputs.extend(secrets.into_iter().map(below));
        }
        Ok((order, inputs))
    }

    /// Jobs whose programs must be over before this one's begin.
    fn earlier(&self, job: &Job) -> Result<Vec<String>, Refusal> {
        if job.verb.is_question() {
            return Ok(Vec::new());
        }
        let mut jobs = self.store.jobs_of(&job.object)?;
        for host in &job.hosts {
            jobs.extend(self.store.jobs_on_host(host)?);
        }
        let mut seen = HashSet::from([job.id]);
        jobs.retain(|earlier| {
            let works = earlier.driver.supervised() && !earlier.verb.is_question();
            works && seen.insert(earlier.id)
        });
        Ok(jobs.into_iter().map(|earlier| earlier.id.to_string()).collect())
    }

    /// The name of the driver that wipes the host of a job, if it is there for that.
    fn wiper(&self, job: &Job) -> Result<Option<String>, Refusal> {
        let host = job.host().filter(|_| job.verb == Verb::Wipe);
        let Some(key) = host else { return Ok(None) };
        let host = self.store.one::<BareMetalHost>(&key)?;
        let wipe = host.and_then(|host| host.status.wipe).unwrap_or_default();
        Ok(Some(wipe.driver.strip_prefix(EXEC).unwrap_or_default().to_owned()))
    }

    /// A host as its controller is told of it, and what opens that.
    fn machine(&self, name: &str) -> Result<(Machine, Inputs), Refusal> {
        let gone = || Refusal::not_found(format!("host `{name}` is gone"));
        let (namespace, host) = name.split_once('/').ok_or_else(gone)?;
        let key = Key::new(namespace, host);
        // Its job begins all the same, and fails by itself with what it lacks.
        let lacking = || (Machine { host: name.to_owned(), ..Machine::default() }, Inputs::new());
        let Some(host) = self.store.one::<BareMetalHost>(&key)? else { return Ok(lacking()) };
        let Some(bmc) = &host.spec.bmc else { return Ok(lacking()) };
        let secret_key = Key::new(&*key.namespace, &*bmc.credentials_name);
        let mut inputs = Inputs::new();
        for credential in CREDENTIALS {
            let value = self.store.secret_value(&secret_key, credential)?;
            inputs.extend(value.map(|value| (credential.to_owned(), value)));
        }
        let secret = self.store.one::<Secret>(&secret_key)?;
        let version = secret.map(|secret| plan::version(&secret.metadata)).unwrap_or_default();
        Ok((Machine { credentials: version, ..machine_of(&host, name) }, inputs))
    }

    fn of_cluster(&self, job: &Job, settings: &SettingsSpec) -> Result<(Order, Inputs), Refusal> {
        let filter = Filter { namespace: None, name: Some(job.object.clone()), whole: true };
        let cluster = self.store.list::<Cluster>(&filter)?.into_iter().next();
        let cluster = cluster.ok_or_else(|| Refusal::not_found("the cluster is gone"))?;
        let wire = cluster.to_wire();
        let annotations = wire.metadata.annotations.clone();
        let deadline = plan::deadline(job, &annotations).since(job.started);
        let (programs, missing) = programs_of(job, &annotations, settings)?;
        let (mut inputs, metadata) = (self.inputs(&wire)?, wire.spec.cluster_metadata.as_ref());
        match job.verb {
            Verb::Provision if job.driver == Driver::Agent => {
                inputs.push(("agent-config.yaml".into(), self.agent_config(&cluster)?));
            }
            Verb::AddNodes => inputs.extend(self.nodes_config(&cluster)?),
            Verb::Provision
            | Verb::Deprovision
            | Verb::Start
            | Verb::Stop
            | Verb::Health
            | Verb::Cycle
            | Verb::State
            | Verb::Attach
            | Verb::Eject
            | Verb::Inspect
            | Verb::Wipe => {}
        }
        let order = Order {
            job: job.id.to_string(),
            verb: job.verb,
            attempt: job.attempt,
            cluster: cluster.name.clone(),
            cluster_name: cluster.cluster_name.clone(),
            base_domain: cluster.base_domain.clone(),
            platform: wire.spec.platform.name().to_owned(),
            driver: job.driver,
            release_image: self.release(&wire)?,
            infra_id: metadata.map(|one| one.infra_id.clone()).unwrap_or_default(),
            inputs: inputs.iter().map(|(name, _)| name.clone()).collect(),
            programs,
            missing,
            environment: environment(&wire),
            manifest_patches: self.manifest_patches(&cluster)?,
            strict_patches: self.is_strict(cluster.pool.as_deref())?,
            stopping: cluster.power.stopping(),
            annotations,
            limit: u64::try_from(deadline.0 / 1_000_000).unwrap_or(0).max(1),
            iso_directory: settings.iso_directory.clone(),
            iso_url: settings.iso_url.clone(),
            ..Order::default()
        };
        Ok((order, inputs))
    }

    /// The hosts of a cluster, as openshift-install takes them.
    fn agent_config(&self, cluster: &Cluster) -> Result<SecretValue, Refusal> {
        let (nodes, configs) = self.nodes(cluster, |_| true)?;
        let keys: HashSet<Key> = nodes.iter().filter_map(|(agent, _)| agent.infra_env()).collect();
        let mut infra_envs = self.store.all::<InfraEnv>()?;
        infra_envs.retain(|infra_env| keys.contains(&infra_env.key()));
        let ntp_sources: BTreeSet<String> = infra_envs
            .into_iter()
            .flat_map(|InfraEnv { spec, .. }| [spec.additional_ntp_sources, spec.ntp_sources])
            .flatten()
            .collect();
        let ntp_sources: Vec<String> = ntp_sources.into_iter().collect();
        let name = &cluster.cluster_name;
        let document = plan::agents::document(name, &nodes, &configs, &ntp_sources);
        written(&document.map_err(Refusal::conflict)?)
    }

    /// The hosts that join a cluster, as oc takes them, and what they are known by.
    fn nodes_config(&self, cluster: &Cluster) -> Result<Inputs, Refusal> {
        let joins = |one: &Agent| one.is_day2() && one.state() == HostState::Installing;
        let (nodes, configs) = self.nodes(cluster, joins)?;
        let documents = plan::agents::nodes_document(&nodes, &configs);
        let (document, known) = documents.map_err(Refusal::conflict)?;
        let known = SecretValue::new(known.to_string());
        Ok(vec![("nodes-config.yaml".into(), written(&document)?), ("joining.json".into(), known)])
    }

    /// Hosts of a cluster with what was leased for them, and the networks that there are.
    fn nodes(&self, cluster: &Cluster, which: impl Fn(&Agent) -> bool) -> Result<Nodes, Refusal> {
        let mut agents = self.store.all::<Agent>()?;
        agents.retain(|agent| agent.bound_to().is_some_and(|key| key.name == cluster.name));
        let mut nodes = Vec::new();
        for agent in agents.into_iter().filter(which) {
            let leases = self.leases_of(cluster, &agent)?;
            nodes.push((agent, leases));
        }
        Ok((nodes, self.store.all::<NMStateConfig>()?))
    }

    /// The addresses that were leased for a host with its cluster.
    fn leases_of(&self, cluster: &Cluster, agent: &Agent) -> Result<Vec<IpLease>, Refusal> {
        let Some(pool) = cluster.pool.as_deref() else { return Ok(Vec::new()) };
        let mut all = self.store.leases_of_cluster(&pool.namespace, &cluster.name)?;
        all.retain(|one| one.is_of_host(&cluster.name, &agent.metadata.name));
        Ok(all)
    }

    fn release(&self, wire: &ClusterDeployment) -> Result<String, Refusal> {
        let provisioning = wire.spec.provisioning.as_ref();
        let reference = provisioning.and_then(|provisioning| provisioning.image_set_ref.as_ref());
        let Some(reference) = reference else { return Ok(String::new()) };
        let image_set = self.store.one::<ClusterImageSet>(&Key::new("", &*reference.name))?;
        Ok(image_set.map(|image_set| image_set.spec.release_image).unwrap_or_default())
    }

    fn manifest_patches(&self, cluster: &Cluster) -> Result<Vec<ManifestPatch>, Refusal> {
        let own = cluster.pool.as_ref().zip(cluster.customization.as_deref());
        let own = own.map(|(pool, name)| Key::new(&*pool.namespace, name));
        let mut patches = Vec::new();
        for key in cluster.required().into_iter().chain(own) {
            if let Some(customization) = self.store.one::<Customization>(&key)? {
                patches.extend(customization.spec.installer_manifest_patches);
            }
        }
        Ok(patches)
    }

    fn is_strict(&self, pool: Option<&Key>) -> Result<bool, Refusal> {
        let Some(key) = pool else { return Ok(false) };
        let pool = self.store.one::<ClusterPool>(key)?;
        Ok(pool.is_some_and(|pool| pool.metadata.annotated(STRICT_PATCHES)))
    }

    /// Secrets as files: what the cluster has copies of, and what was kept of it.
    fn inputs(&self, wire: &ClusterDeployment) -> Result<Inputs, Refusal> {
        let (name, namespace) = (&wire.metadata.name, &wire.metadata.namespace);
        let provisioning = wire.spec.provisioning.as_ref();
        let config = provisioning.and_then(|one| one.install_config_secret_ref.as_ref());
        let config = config.map(|one| one.name.clone()).filter(|name| !name.is_empty());
        let config = config.unwrap_or_else(|| format!("{name}-install-config"));
        let mut found = Vec::new();
        let pull_secret = wire.spec.pull_secret_ref.as_ref().map(|one| one.name.clone());
        // A cluster that was made elsewhere has its own names for them.
        let known = wire.spec.cluster_metadata.as_ref();
        let metadata =
            known.and_then(|one| Some(one.metadata_json_secret_ref.as_ref()?.name.clone()));
        let metadata = metadata.unwrap_or_else(|| format!("{name}-metadata-json"));
        let kubeconfig = known.map(|one| one.admin_kubeconfig_secret_ref.name.clone());
        let kubeconfig = kubeconfig.filter(|one| !one.is_empty());
        let kubeconfig = kubeconfig.unwrap_or_else(|| format!("{name}-admin-kubeconfig"));
        for (file, secret, key) in [
            ("install-config.yaml", Some(config), "install-config.yaml"),
            ("pull-secret.json", pull_secret, ".dockerconfigjson"),
            ("metadata.json", Some(metadata.clone()), "metadata.json"),
            ("nodes.json", Some(metadata), "nodes.json"),
            ("kubeconfig", Some(kubeconfig), "kubeconfig"),
        ] {
            let Some(secret) = secret else { continue };
            if let Some(value) = self.store.secret_value(&Key::new(&**namespace, secret), key)? {
                found.push((file.to_owned(), value));
            }
        }
        if let Some(credentials) = wire.spec.platform.credentials() {
            let secret = Key::new(&**namespace, credentials);
            for key in self.store.secret_keys(&secret)? {
                let value = self.store.secret_value(&secret, &key)?;
                let plain = !key.contains('/') && !key.starts_with('.');
                if let Some(value) = value.filter(|_| plain) {
                    found.push((format!("credentials/{key}"), value));
                }
            }
        }
        Ok(found)
    }
}

type Nodes = (Vec<(Agent, Vec<IpLease>)>, Vec<NMStateConfig>);

fn written(document: &Value) -> Result<SecretValue, Refusal> {
    let text = yaml::text(document).map_err(|error| Refusal::invalid(error.to_string()))?;
    Ok(SecretValue::new(text))
}

fn of_hosts(
    job: &Job,
    settings: &SettingsSpec,
    wiper: Option<&str>,
) -> Result<(Order, Inputs), Refusal> {
    let annotations = BTreeMap::new();
    let deadline = plan::deadline(job, &annotations).since(job.started);
    let (mut programs, mut missing) = programs_of(job, &annotations, settings)?;
    // Without its program the job begins all the same, and fails by itself with what it lacks.
    if let Some(name) = wiper {
        match programs::find_driver(settings, name) {
            Ok(path) => drop(programs.insert("driver".to_owned(), path)),
            Err(why) => drop(missing.insert("driver".to_owned(), why)),
        }
    }
    let order = Order {
        job: job.id.to_string(),
        verb: job.verb,
        attempt: job.attempt,
        driver: job.driver,
        programs,
        missing,
        limit: u64::try_from(deadline.0 / 1_000_000).unwrap_or(0).max(1),
        ..Order::default()
    };
    Ok((order, Inputs::new()))
}

fn machine_of(host: &BareMetalHost, name: &str) -> Machine {
    let note = |name: &str| host.metadata.annotation(name).map(str::to_owned);
    let bmc = host.spec.bmc.clone().unwrap_or_default();
    let soft_off = u64::try_from(host.soft_off().0 / 1_000_000).unwrap_or(0);
    // metal3's modes: soft, unless it says hard.
    let hard = note(REBOOT).is_some_and(|text| text.contains("hard"));
    Machine {
        host: name.to_owned(),
        address: bmc.address,
        master: host.is_master(),
        insecure: bmc.disable_certificate_verification,
        pin: note(PIN),
        cipher: note(CIPHER).and_then(|text| text.parse().ok()),
        uefi: host.spec.boot_mode != Some(BootMode::Legacy),
        soft_off,
        soft: !hard,
        boot: note(BOOT),
        image: host.spec.image.as_ref().filter(|one| one.is_live()).map(|one| one.url.clone()),
        ..Machine::default()
    }
}

/// The installer's own environment: names that are known to be data, not programs.
fn environment(wire: &ClusterDeployment) -> BTreeMap<String, String> {
    let all = wire.spec.provisioning.iter().flat_map(|one| &one.installer_env);
    let allowed = all.filter(|one| rules::installer_variable(&one.name));
    allowed.filter_map(|one| Some((one.name.clone(), one.value.clone()?))).collect()
}

/// Where the programs of a job are, and why others are not. A driver of its own must be there.
fn programs_of(
    job: &Job,
    annotations: &BTreeMap<String, String>,
    settings: &SettingsSpec,
) -> Result<Programs, Refusal> {
    let (mut found, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for name in PROGRAMS {
        match programs::find(settings, name) {
            Ok(path) => drop(found.insert(name.to_owned(), path)),
            Err(why) => drop(missing.insert(name.to_owned(), why)),
        }
    }
    let powers = matches!(job.verb, Verb::Start | Verb::Stop | Verb::Health);
    let own = annotations.get(DRIVER).filter(|_| job.driver == Driver::Exec);
    let power = annotations.get(POWER).filter(|_| powers);
    if let Some(name) = power.or(own).and_then(|one| one.strip_prefix(EXEC)) {
        let wrong = |why| Refusal::new(Exit::Failed, format!("driver `{name}`")).because(why);
        found.insert("driver".into(), programs::find_driver(settings, name).map_err(wrong)?);
    }
    Ok((found, missing))
}

type Programs = (BTreeMap<String, PathBuf>, BTreeMap<String, String>);
