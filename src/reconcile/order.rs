//! Makes the order of a job: what its supervisor and its driver need to know, read from the state
//! after the commit. Secrets become files of their own. Never changes the state.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::drivers::programs;
use crate::model::agent::{Agent, HostState};
use crate::model::annotations::{BOOT, CIPHER, DRIVER, PIN, POWER, STRICT_PATCHES};
use crate::model::cluster::Cluster;
use crate::model::customization::{Customization, ManifestPatch};
use crate::model::deployment::{ClusterDeployment, SSH_PRIVATE_KEY};
use crate::model::documents::{ClusterImageSet, Secret, SecretValue, SettingsSpec};
use crate::model::driver::{Driver, PROGRAM_PREFIX, driver_programs};
use crate::model::driver_description::read_parameters;
use crate::model::host::{BareMetalHost, BootMode};
use crate::model::infra_env::InfraEnv;
use crate::model::ip_lease::IpLease;
use crate::model::job::{Job, Verb};
use crate::model::meta::{Key, LocalRef};
use crate::model::nmstate_config::NMStateConfig;
use crate::model::order::{JobOrder, Machine};
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::plan;
use crate::rules;
use crate::store::{Filter, copies};
use crate::yaml;

use super::Door;

/// The keys of a management controller's Secret that drivers use.
const CREDENTIALS: [&str; 3] = ["username", "password", "ca.crt"];

/// Files with secrets, by their paths below `input/`.
pub(super) type Inputs = Vec<(String, SecretValue)>;

/// Agents with the addresses that are leased for them, and all network configurations.
type Nodes = (Vec<(Agent, Vec<IpLease>)>, Vec<NMStateConfig>);

/// The paths of programs by their names, and why the others cannot be used.
pub(super) type Programs = (BTreeMap<String, PathBuf>, BTreeMap<String, String>);

impl Door<'_> {
    /// The order of a job, and the files with secrets that belong to it.
    pub(super) fn make_order(
        &self,
        job: &Job,
        settings: &SettingsSpec,
    ) -> Result<(JobOrder, Inputs), Refusal> {
        let (mut order, mut inputs) = if job.cluster().is_some() {
            self.make_cluster_order(job, settings)?
        } else {
            let mut order = make_host_order(job, settings)?;
            order.site = self.describe_site(settings, &mut order.missing);
            (order, Inputs::new())
        };
        if job.verb == Verb::Wipe {
            self.add_wipe(job, settings, &mut order)?;
        }
        for (name, value) in self.read_site_inputs(settings)? {
            order.inputs.push(name.clone());
            inputs.push((name, value));
        }
        let earlier_jobs = self.find_earlier_jobs(job)?;
        order.before = earlier_jobs.iter().map(|earlier_job| earlier_job.id.to_string()).collect();
        let may_come_on =
            earlier_jobs.iter().any(|earlier_job| earlier_job.may_still_switch_on(job.started));
        for (index, host) in job.hosts.iter().enumerate() {
            let (machine, credentials) = self.describe_machine(host)?;
            order.machines.push(Machine { may_come_on, ..machine });
            for (name, value) in credentials {
                inputs.push((format!("machines/{index}/{name}"), value));
            }
        }
        Ok((order, inputs))
    }

    /// The jobs whose programs must have ended before those of this job start.
    fn find_earlier_jobs(&self, job: &Job) -> Result<Vec<Job>, Refusal> {
        if job.verb.is_read_only() {
            return Ok(Vec::new());
        }
        let mut earlier_jobs = self.store.jobs_of_object(&job.object)?;
        for host in &job.hosts {
            earlier_jobs.extend(self.store.jobs_on_host(host)?);
        }
        let mut seen_ids = HashSet::from([job.id]);
        earlier_jobs.retain(|earlier_job| {
            let changes_machines =
                earlier_job.driver.is_supervised() && !earlier_job.verb.is_read_only();
            changes_machines && seen_ids.insert(earlier_job.id)
        });
        Ok(earlier_jobs)
    }

    /// A host, by namespace and name, as drivers of its management controller need it, and the
    /// credentials of the controller. Of a host that is gone or has no controller only the name is
    /// known: its job starts all the same, and its driver reports what is missing.
    fn describe_machine(&self, name: &str) -> Result<(Machine, Inputs), Refusal> {
        let Some((namespace, host_name)) = name.split_once('/') else {
            return Err(Refusal::not_found(format!("host `{name}` is gone")));
        };
        let host = self.store.find::<BareMetalHost>(&Key::new(namespace, host_name))?;
        let host_and_bmc = host.as_ref().and_then(|host| Some((host, host.spec.bmc.as_ref()?)));
        let Some((host, bmc)) = host_and_bmc else {
            let machine = Machine { host: name.to_owned(), ..Machine::default() };
            return Ok((machine, Inputs::new()));
        };
        let secret_key = Key::new(namespace, &*bmc.credentials_name);
        let mut inputs = Inputs::new();
        for credential in CREDENTIALS {
            if let Some(value) = self.store.read_secret_value(&secret_key, credential)? {
                inputs.push((credential.to_owned(), value));
            }
        }
        let secret = self.store.find::<Secret>(&secret_key)?;
        let credentials = secret.map(|secret| secret.metadata.version()).unwrap_or_default();
        Ok((Machine { credentials, ..machine_of_host(host, name) }, inputs))
    }

    fn make_cluster_order(
        &self,
        job: &Job,
        settings: &SettingsSpec,
    ) -> Result<(JobOrder, Inputs), Refusal> {
        let filter = Filter { namespace: None, name: Some(job.object.clone()), whole: true };
        let Some(cluster) = self.store.list::<Cluster>(&filter)?.into_iter().next() else {
            return Err(Refusal::not_found("the cluster is gone"));
        };
        let wire = cluster.to_wire();
        let annotations = wire.metadata.annotations.clone();
        let (programs, mut missing) = find_programs(job, &annotations, settings)?;
        let site = self.describe_site(settings, &mut missing);
        let inputs = self.read_inputs(job, &cluster, &wire, settings)?;
        let cluster_metadata = wire.spec.cluster_metadata.as_ref();
        let infra_id = cluster_metadata.map(|metadata| metadata.infra_id.clone());
        let order = JobOrder {
            job: job.id.to_string(),
            verb: job.verb,
            attempt: job.attempt,
            cluster: cluster.name.clone(),
            cluster_name: cluster.cluster_name.clone(),
            base_domain: cluster.base_domain.clone(),
            platform: wire.spec.platform.name().to_owned(),
            driver: job.driver,
            release_image: self.find_release_image(&wire)?,
            infra_id: infra_id.unwrap_or_default(),
            inputs: inputs.iter().map(|(name, _)| name.clone()).collect(),
            programs,
            missing,
            site,
            environment: installer_environment(&wire),
            manifest_patches: self.collect_manifest_patches(&cluster)?,
            strict_patches: self.has_strict_patches(cluster.pool.as_deref())?,
            stopping: cluster.power.is_stopping(),
            limit: seconds_until_deadline(job, &annotations),
            annotations,
            waiting_release: self.find_waiting_release(job, &cluster)?,
            iso_directory: settings.iso_directory.clone(),
            iso_url: settings.iso_url.clone(),
            ..self.order_for_program(&cluster.name)
        };
        Ok((order, inputs))
    }

    /// The files that a job of a cluster is given.
    fn read_inputs(
        &self,
        job: &Job,
        cluster: &Cluster,
        wire: &ClusterDeployment,
        settings: &SettingsSpec,
    ) -> Result<Inputs, Refusal> {
        if job.verb == Verb::Provision {
            self.check_secrets(cluster, wire)?;
        }
        let mut inputs = self.read_cluster_inputs(wire)?;
        inputs.extend(self.read_variables(job, cluster, wire)?);
        if job.verb == Verb::Provision {
            inputs.extend(self.read_manifests(cluster, wire)?);
            inputs.extend(self.read_ssh_key(wire)?);
        }
        self.add_site_pull_secret(settings, &mut inputs)?;
        inputs.extend(self.read_platform_certificates(wire)?);
        match job.verb {
            Verb::Provision if job.driver == Driver::Agent => {
                inputs.push(("agent-config.yaml".into(), self.render_agent_config(cluster)?));
            }
            Verb::AddNodes => inputs.extend(self.render_nodes_config(cluster)?),
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
        if job.driver == Driver::Exec {
            inputs.push(parameters_input(&wire.metadata.annotations));
        }
        Ok(inputs)
    }

    /// The release whose installer waits on all hosts of a cluster. Only the first attempt installs
    /// them where they stand: a host that was configured once has to be booted again.
    fn find_waiting_release(
        &self,
        job: &Job,
        cluster: &Cluster,
    ) -> Result<Option<String>, Refusal> {
        if job.verb != Verb::Provision || job.driver != Driver::Agent || job.attempt > 1 {
            return Ok(None);
        }
        let agents = self.store.list_agents_of_cluster(&cluster.name)?;
        let mut releases = agents.iter().map(|agent| &agent.status.installer_release);
        let Some(release) = releases.next() else { return Ok(None) };
        let is_common =
            !release.is_empty() && releases.all(|other_release| other_release == release);
        Ok(if is_common { Some(release.clone()) } else { None })
    }

    /// The folders that a driver program has for a cluster and poolctl for all driver programs.
    fn order_for_program(&self, cluster: &str) -> JobOrder {
        let copies = copies::cluster_folder(self.store.path(), cluster);
        JobOrder {
            cluster_folder: Some(copies.join("driver")),
            descriptions: Some(self.drivers_folder()),
            ..JobOrder::default()
        }
    }

    /// The agent-config of a cluster that openshift-install boots its hosts with.
    fn render_agent_config(&self, cluster: &Cluster) -> Result<SecretValue, Refusal> {
        let (nodes, nmstate_configs) = self.load_nodes(cluster, |_| true)?;
        let infra_env_keys: HashSet<Key> =
            nodes.iter().filter_map(|(agent, _)| agent.infra_env_key()).collect();
        let mut ntp_sources: BTreeSet<String> = BTreeSet::new();
        for infra_env in self.store.list_all::<InfraEnv>()? {
            if infra_env_keys.contains(&infra_env.key()) {
                ntp_sources.extend(infra_env.spec.additional_ntp_sources);
                ntp_sources.extend(infra_env.spec.ntp_sources);
            }
        }
        let ntp_sources: Vec<String> = ntp_sources.into_iter().collect();
        let name = &cluster.cluster_name;
        let document =
            plan::agents::agent_config_document(name, &nodes, &nmstate_configs, &ntp_sources);
        render_yaml(&document.map_err(Refusal::conflict)?)
    }

    /// The hosts that join an installed cluster, as `oc` takes them, and the names by which the
    /// driver recognizes their nodes.
    fn render_nodes_config(&self, cluster: &Cluster) -> Result<Inputs, Refusal> {
        let (nodes, nmstate_configs) = self.load_nodes(cluster, is_joining)?;
        let documents = plan::agents::nodes_config_document(&nodes, &nmstate_configs);
        let (nodes_config, joining) = documents.map_err(Refusal::conflict)?;
        Ok(vec![
            ("nodes-config.yaml".into(), render_yaml(&nodes_config)?),
            ("joining.json".into(), SecretValue::new(joining.to_string())),
        ])
    }

    /// The agents of a cluster that `is_wanted` accepts.
    fn load_nodes(
        &self,
        cluster: &Cluster,
        is_wanted: impl Fn(&Agent) -> bool,
    ) -> Result<Nodes, Refusal> {
        let mut nodes = Vec::new();
        for agent in self.store.list_agents_of_cluster(&cluster.name)? {
            if is_wanted(&agent) {
                let leases = self.leases_of_agent(cluster, &agent)?;
                nodes.push((agent, leases));
            }
        }
        Ok((nodes, self.store.list_all::<NMStateConfig>()?))
    }

    /// The addresses that are leased for a host with its cluster.
    fn leases_of_agent(&self, cluster: &Cluster, agent: &Agent) -> Result<Vec<IpLease>, Refusal> {
        let Some(pool) = cluster.pool.as_deref() else { return Ok(Vec::new()) };
        let mut leases = self.store.list_leases_of_cluster(&pool.namespace, &cluster.name)?;
        leases.retain(|lease| lease.is_of_agent(&cluster.name, &agent.metadata.name));
        Ok(leases)
    }

    /// The release image of a cluster: its own, or else that of its image set. Empty if it names
    /// no image set or one that is gone.
    pub(super) fn find_release_image(&self, wire: &ClusterDeployment) -> Result<String, Refusal> {
        let Some(provisioning) = &wire.spec.provisioning else { return Ok(String::new()) };
        if let Some(release_image) = &provisioning.release_image
            && !release_image.is_empty()
        {
            return Ok(release_image.clone());
        }
        let Some(reference) = &provisioning.image_set_ref else { return Ok(String::new()) };
        let image_set = self.store.find::<ClusterImageSet>(&Key::new("", &*reference.name))?;
        Ok(image_set.map(|image_set| image_set.spec.release_image).unwrap_or_default())
    }

    /// The patches of manifests from the customization of the pool and then from the cluster's own.
    fn collect_manifest_patches(&self, cluster: &Cluster) -> Result<Vec<ManifestPatch>, Refusal> {
        let mut customization_keys: Vec<Key> =
            cluster.required_customization().into_iter().collect();
        if let (Some(pool), Some(name)) = (&cluster.pool, &cluster.customization) {
            customization_keys.push(Key::new(&*pool.namespace, &**name));
        }
        let mut patches = Vec::new();
        for key in customization_keys {
            if let Some(customization) = self.store.find::<Customization>(&key)? {
                patches.extend(customization.spec.installer_manifest_patches);
            }
        }
        Ok(patches)
    }

    fn has_strict_patches(&self, pool: Option<&Key>) -> Result<bool, Refusal> {
        let Some(key) = pool else { return Ok(false) };
        let pool = self.store.find::<ClusterPool>(key)?;
        Ok(pool.is_some_and(|pool| pool.metadata.has_true_annotation(STRICT_PATCHES)))
    }

    /// The Secrets of a cluster as files: its install-config, what was kept of its installation and
    /// the credentials of its platform.
    pub(super) fn read_cluster_inputs(&self, wire: &ClusterDeployment) -> Result<Inputs, Refusal> {
        let name = &wire.metadata.name;
        let namespace = &*wire.metadata.namespace;
        let provisioning = wire.spec.provisioning.as_ref();
        let install_config = provisioning
            .and_then(|provisioning| provisioning.install_config_secret_ref.as_ref())
            .map(|reference| reference.name.clone())
            .filter(|secret_name| !secret_name.is_empty())
            .unwrap_or_else(|| format!("{name}-install-config"));
        let pull_secret =
            wire.spec.pull_secret_ref.as_ref().map(|reference| reference.name.clone());
        // A cluster that was installed elsewhere has its own names for these Secrets.
        let cluster_metadata = wire.spec.cluster_metadata.as_ref();
        let metadata_json = cluster_metadata
            .and_then(|metadata| Some(metadata.metadata_json_secret_ref.as_ref()?.name.clone()))
            .unwrap_or_else(|| format!("{name}-metadata-json"));
        let kubeconfig = cluster_metadata
            .map(|metadata| metadata.admin_kubeconfig_secret_ref.name.clone())
            .filter(|secret_name| !secret_name.is_empty())
            .unwrap_or_else(|| format!("{name}-admin-kubeconfig"));
        let mut inputs = Inputs::new();
        for (file_name, secret_name, key) in [
            ("install-config.yaml", Some(install_config), "install-config.yaml"),
            ("pull-secret.json", pull_secret, ".dockerconfigjson"),
            ("metadata.json", Some(metadata_json.clone()), "metadata.json"),
            ("nodes.json", Some(metadata_json), "nodes.json"),
            ("kubeconfig", Some(kubeconfig), "kubeconfig"),
        ] {
            let Some(secret_name) = secret_name else { continue };
            let secret_key = Key::new(namespace, secret_name);
            if let Some(value) = self.store.read_secret_value(&secret_key, key)? {
                inputs.push((file_name.to_owned(), value));
            }
        }
        if let Some(credentials) = wire.spec.platform.credentials() {
            let secret_key = Key::new(namespace, credentials);
            inputs.extend(self.read_secret_files(&secret_key, "credentials")?);
        }
        Ok(inputs)
    }

    /// Each value of a Secret as a file in a folder of the inputs.
    pub(super) fn read_secret_files(
        &self,
        secret_key: &Key,
        folder: &str,
    ) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::new();
        for key in self.store.list_secret_keys(secret_key)? {
            if is_file_name(&key)
                && let Some(value) = self.store.read_secret_value(secret_key, &key)?
            {
                inputs.push((format!("{folder}/{key}"), value));
            }
        }
        Ok(inputs)
    }

    /// The key to the machines of a cluster. An installation needs it only when it fails, so one
    /// whose Secret is missing begins all the same.
    fn read_ssh_key(&self, wire: &ClusterDeployment) -> Result<Inputs, Refusal> {
        let provisioning = wire.spec.provisioning.as_ref();
        let Some(LocalRef { name }) =
            provisioning.and_then(|provisioning| provisioning.ssh_private_key_secret_ref.as_ref())
        else {
            return Ok(Inputs::new());
        };
        let secret_key = Key::new(&*wire.metadata.namespace, &**name);
        let key = self.store.read_secret_value(&secret_key, SSH_PRIVATE_KEY)?;
        Ok(key.into_iter().map(|key| (SSH_PRIVATE_KEY.to_owned(), key)).collect())
    }
}

/// Whether the key of a value may name a file: any other could name a hidden one, or one in another
/// folder.
pub(super) fn is_file_name(key: &str) -> bool {
    !key.contains('/') && !key.starts_with('.')
}

/// Whether an agent is being added to a cluster that is installed already.
fn is_joining(agent: &Agent) -> bool {
    agent.is_day2() && agent.state() == HostState::Installing
}

/// The whole seconds that a job may take from its start, at least one.
fn seconds_until_deadline(job: &Job, annotations: &BTreeMap<String, String>) -> u64 {
    let limit = plan::deadline(job, annotations).since(job.started);
    u64::try_from(limit.0 / 1_000_000).unwrap_or(0).max(1)
}

/// The parameters of a program of one's own, as a file of its order.
pub fn parameters_input(annotations: &BTreeMap<String, String>) -> (String, SecretValue) {
    let parameters = Value::Object(read_parameters(annotations)).to_string();
    ("parameters.json".into(), SecretValue::new(parameters))
}

fn render_yaml(document: &Value) -> Result<SecretValue, Refusal> {
    let yaml = yaml::to_text(document).map_err(|error| Refusal::invalid(error.to_string()))?;
    Ok(SecretValue::new(yaml))
}

/// The order of a job on a cluster that cannot be done, because of what its driver would be given. A
/// supervisor ends it as failed, so that people see why and the next attempt comes by itself.
pub(super) fn make_refused_order(job: &Job, refusal: &Refusal) -> JobOrder {
    JobOrder {
        job: job.id.to_string(),
        verb: job.verb,
        attempt: job.attempt,
        cluster: job.object.clone(),
        driver: job.driver,
        limit: seconds_until_deadline(job, &BTreeMap::new()),
        refusal: Some(refusal.to_line()),
        ..JobOrder::default()
    }
}

/// The order of a job on hosts.
fn make_host_order(job: &Job, settings: &SettingsSpec) -> Result<JobOrder, Refusal> {
    let annotations = BTreeMap::new();
    let (programs, missing) = find_programs(job, &annotations, settings)?;
    Ok(JobOrder {
        job: job.id.to_string(),
        verb: job.verb,
        attempt: job.attempt,
        driver: job.driver,
        programs,
        missing,
        limit: seconds_until_deadline(job, &annotations),
        ..JobOrder::default()
    })
}

/// Adds the path of a program to an order, or why it cannot be used.
pub(super) fn add_program(order: &mut JobOrder, name: &str, program: Result<PathBuf, String>) {
    match program {
        Ok(path) => drop(order.programs.insert(name.to_owned(), path)),
        Err(why) => drop(order.missing.insert(name.to_owned(), why)),
    }
}

/// A host with its management controller, without the credentials.
fn machine_of_host(host: &BareMetalHost, name: &str) -> Machine {
    let metadata = &host.metadata;
    let bmc = host.spec.bmc.clone().unwrap_or_default();
    let live_image = host.spec.image.as_ref().filter(|image| image.is_live());
    Machine {
        host: name.to_owned(),
        address: bmc.address,
        master: host.is_master(),
        insecure: bmc.disable_certificate_verification,
        pin: metadata.annotation(PIN).map(str::to_owned),
        cipher: metadata.annotation(CIPHER).and_then(|cipher| cipher.parse().ok()),
        uefi: host.spec.boot_mode != Some(BootMode::Legacy),
        soft_off: u64::try_from(host.soft_off_timeout().0 / 1_000_000).unwrap_or(0),
        soft: !host.is_hard_reboot_asked(),
        boot: metadata.annotation(BOOT).map(str::to_owned),
        image: live_image.map(|image| image.url.clone()),
        ..Machine::default()
    }
}

/// The environment that the cluster gives the installer. Only variables that are known to be data
/// are passed on: others could make the installer run a program.
pub(super) fn installer_environment(wire: &ClusterDeployment) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for variable in
        wire.spec.provisioning.iter().flat_map(|provisioning| &provisioning.installer_env)
    {
        if rules::is_installer_variable(&variable.name)
            && let Some(value) = &variable.value
        {
            environment.insert(variable.name.clone(), value.clone());
        }
    }
    environment
}

/// Finds the programs that a job may use. A program that cannot be used is no error, but a driver
/// that an annotation names must be there.
pub(super) fn find_programs(
    job: &Job,
    annotations: &BTreeMap<String, String>,
    settings: &SettingsSpec,
) -> Result<Programs, Refusal> {
    let mut programs = BTreeMap::new();
    let mut missing = BTreeMap::new();
    // A program that is missing matters only to a job that needs it.
    for program in driver_programs() {
        match programs::find_program(settings, program.name) {
            Ok(path) => drop(programs.insert(program.name.to_owned(), path)),
            Err(why) => drop(missing.insert(program.name.to_owned(), why)),
        }
    }
    let mut driver = None;
    if matches!(job.verb, Verb::Start | Verb::Stop | Verb::Health) {
        driver = annotations.get(POWER);
    }
    if driver.is_none() && job.driver == Driver::Exec {
        driver = annotations.get(DRIVER);
    }
    if let Some(name) = driver.and_then(|driver| driver.strip_prefix(PROGRAM_PREFIX)) {
        let path = programs::find_driver_program(settings, name)
            .map_err(|why| Refusal::new(Exit::Failed, format!("driver `{name}`")).because(why))?;
        programs.insert("driver".to_owned(), path);
    }
    Ok((programs, missing))
}
