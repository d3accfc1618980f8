//! After the commit: jobs that are due are begun, what is over is tidied up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::drivers::place::{self, Place, Standing};
use crate::drivers::{process, programs, supervise};
use crate::model::cluster::{Cluster, DRIVER, Driver, EXEC, POWER};
use crate::model::customization::ManifestPatch;
use crate::model::deployment::ClusterDeployment;
use crate::model::documents::{SecretValue, SettingsSpec};
use crate::model::job::{FAILED, Job, Verb};
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::order::Order;
use crate::model::pool::STRICT_PATCHES;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{NameBook, Scope, State};
use crate::plan;
use crate::rules;
use crate::store::{Filter, copies};

use super::Door;

/// The hidden word that makes a supervisor of us.
pub const SUPERVISE: &str = "__supervise";
/// Failed installations of a pool whose logs outlive their clusters.
const FAILURES: usize = 3;
/// Jobs at a time, unless the settings say otherwise.
const MOST: u32 = 20;
/// Programs that jobs may use; each is looked up before it is needed.
const PROGRAMS: [&str; 3] = ["openshift-install", "oc", "kubectl"];

impl Door<'_> {
    /// After the commit: what drivers will read is put where they read it, and copies of what is
    /// gone go. What fails is said, and done by the next pass.
    pub(super) fn act(&self, state: &State, scope: &Scope) -> Vec<String> {
        let path = self.store.path();
        let removed = state.clusters.difference().filter(|change| change.after.is_none());
        let removed: Vec<&Cluster> = removed.filter_map(|change| change.before).collect();
        for gone in &removed {
            copies::forget(path, &gone.name);
        }
        if *scope == Scope::Whole && !state.is_unchanged() {
            let names = self.store.names_in_use();
            for name in copies::clusters(path) {
                if !names.cluster_exists(&name) {
                    copies::forget(path, &name);
                }
            }
        }
        let begins = |job: &&Job| job.ended.is_none() && job.verb == Verb::Provision;
        let begun = state.jobs.rows().filter(begins);
        let failed = begun.filter_map(|job| self.hand_over(&job.object).err());
        let mut warnings: Vec<String> = failed.map(|why| why.to_string()).collect();
        for job in state.jobs.rows().filter(|job| job.ended.is_some() && job.driver.supervised()) {
            self.settle(&job.id.to_string());
        }
        // What of a cluster that is left running was saved may be all that is known of it.
        for gone in removed.iter().filter(|gone| !gone.preserve && gone.driver.supervised()) {
            for job in self.store.jobs(Some(&gone.name), false).unwrap_or_default() {
                let place = Place::of(&self.jobs(), &job.id.to_string());
                if matches!(place.standing(), Standing::Over(_) | Standing::Interrupted) {
                    place.tidy(true);
                }
            }
        }
        if *scope == Scope::Whole {
            self.settle_others();
        }
        let pools = removed.iter().filter(|gone| gone.driver.supervised());
        let pools: HashSet<_> = pools.map(|gone| gone.pool.clone()).collect();
        for pool in pools {
            self.forget_jobs(pool.as_deref());
        }
        warnings.extend(self.begin_jobs().unwrap_or_else(|why| vec![why.to_string()]));
        warnings
    }

    fn hand_over(&self, cluster: &str) -> Result<(), Refusal> {
        let (path, file) = (self.store.path(), "install-config.yaml");
        if copies::exists(path, cluster, file) {
            return Ok(());
        }
        let secret = Key::new(cluster, format!("{cluster}-install-config"));
        if let Some(value) = self.store.secret_value(&secret, file)? {
            copies::write(path, cluster, file, &value)?;
        }
        Ok(())
    }

    /// A job that is over for the state: what still works on it is ended, what it needed goes.
    fn settle(&self, id: &str) {
        let place = Place::of(&self.jobs(), id);
        match place.standing() {
            Standing::Running => {
                // A supervisor that was told needs so long at most.
                let told = place.age_of("cancel").unwrap_or_default();
                supervise::cancel(&place, told > process::GRACE * 2);
            }
            Standing::Over(_) | Standing::Interrupted => place.tidy(false),
            Standing::NotStarted if place.exists() => supervise::cancel(&place, false),
            Standing::NotStarted => {}
        }
    }

    /// The same for jobs that ended in a pass which got no further: their folders still have what
    /// they were given.
    fn settle_others(&self) {
        let names = place::untidy(&self.jobs());
        if names.is_empty() {
            return;
        }
        // Those that the state does not know are the operator's.
        let Ok(all) = self.store.jobs(None, false) else { return };
        let ended = all.iter().filter(|job| job.ended.is_some()).map(|job| job.id.to_string());
        let ended: HashSet<String> = ended.collect();
        for name in names.iter().filter(|name| ended.contains(*name)) {
            self.settle(name);
        }
    }

    /// Of a pool's clusters that are gone, the logs of the last failed installations stay.
    fn forget_jobs(&self, pool: Option<&Key>) {
        let Ok(mut jobs) = self.store.jobs(None, false) else { return };
        let names = self.store.names_in_use();
        jobs.retain(|job| {
            let of_pool = job.driver.supervised() && job.pool.as_deref() == pool;
            of_pool && job.ended.is_some() && !names.cluster_exists(&job.object)
        });
        let failed =
            |job: &&Job| job.verb == Verb::Provision && job.outcome.as_deref() == Some(FAILED);
        let stay: HashSet<_> =
            jobs.iter().rev().filter(failed).take(FAILURES).map(|job| job.id).collect();
        for job in jobs.iter().filter(|job| !stay.contains(&job.id)) {
            Place::of(&self.jobs(), &job.id.to_string()).forget();
        }
    }

    /// Where the folders of jobs are.
    pub fn jobs(&self) -> PathBuf {
        copies::folder(self.store.path(), "jobs")
    }

    /// Begins jobs that nobody works on: those of the pools first that have fewest running.
    fn begin_jobs(&self) -> Result<Vec<String>, Refusal> {
        let mut live = self.store.jobs(None, true)?;
        live.retain(|job| job.driver.supervised());
        if live.is_empty() {
            return Ok(Vec::new());
        }
        let jobs = self.jobs();
        let begun =
            |job: &Job| Place::of(&jobs, &job.id.to_string()).standing() != Standing::NotStarted;
        let (running, mut waiting): (Vec<Job>, Vec<Job>) = live.into_iter().partition(begun);
        let settings = self.settings()?;
        let most = usize::try_from(settings.max_jobs.unwrap_or(MOST)).unwrap_or(usize::MAX);
        let mut per_pool: HashMap<Option<Rc<Key>>, usize> = HashMap::new();
        for job in &running {
            *per_pool.entry(job.pool.clone()).or_default() += 1;
        }
        let (mut many, mut warnings) = (running.len(), Vec::new());
        while many < most && !waiting.is_empty() {
            let fewest = |job: &Job| per_pool.get(&job.pool).copied().unwrap_or(0);
            let next = waiting.iter().enumerate().min_by_key(|(at, job)| (fewest(job), *at));
            let Some(at) = next.map(|(at, _)| at) else { break };
            let job = waiting.remove(at);
            *per_pool.entry(job.pool.clone()).or_default() += 1;
            match self.begin(&job, &settings) {
                Ok(()) => many += 1,
                Err(why) => warnings.push(format!(
                    "{} of cluster `{}` is not begun: {why}",
                    job.verb.name(),
                    job.object
                )),
            }
        }
        if many > running.len() && self.world.dies_with_us() {
            warnings.push(
                "systemd ends jobs when this service ends: KillMode=process and \
                 Environment=POOLCTL_KILL_MODE=process let them live (examples/systemd)"
                    .into(),
            );
        }
        Ok(warnings)
    }

    pub fn settings(&self) -> Result<SettingsSpec, Refusal> {
        let found = self.store.objects(Kind::Settings, &Filter::default())?.into_iter().next();
        Ok(match found {
            Some(Object::Settings(one)) => one.spec,
            _ => SettingsSpec::default(),
        })
    }

    fn begin(&self, job: &Job, settings: &SettingsSpec) -> Result<(), Refusal> {
        if self.world.stands() {
            return Err(Refusal::usage("POOLCTL_NOW rehearses; only simulated jobs run under it"));
        }
        let place = Place::of(&self.jobs(), &job.id.to_string());
        let wrong = |error: std::io::Error| Refusal::unwritable(place.path(), &error);
        if !copies::are_ours(self.store.path()) {
            let what = "jobs are begun by the account that owns the state, not by root";
            return Err(Refusal::new(Exit::Denied, what));
        }
        if !place.exists() {
            let (order, inputs) = self.order(job, settings)?;
            place.prepare(&order, &inputs).map_err(wrong)?;
        }
        process::detach(SUPERVISE, place.path()).map_err(wrong)
    }

    /// All that the supervisor of a job needs to know, and the files with secrets.
    fn order(
        &self,
        job: &Job,
        settings: &SettingsSpec,
    ) -> Result<(Order, Vec<(String, SecretValue)>), Refusal> {
        let filter = Filter { namespace: None, name: Some(job.object.clone()), whole: true };
        let found = self.store.objects(Kind::ClusterDeployment, &filter)?.into_iter().next();
        let Some(Object::Cluster(cluster)) = found else {
            return Err(Refusal::not_found("the cluster is gone"));
        };
        let wire = cluster.to_wire();
        let annotations = wire.metadata.annotations.clone();
        // Asking how a cluster does is in nobody's way.
        let earlier = self.store.jobs(Some(&job.object), false)?.into_iter();
        let earlier = earlier.filter(|one| one.verb != Verb::Health && one.driver.supervised());
        let earlier = earlier.map(|one| one.id).filter(|_| job.verb != Verb::Health);
        let deadline = plan::deadline(job, &annotations).since(job.started);
        let (programs, missing) = programs_of(job, &annotations, settings)?;
        let (inputs, metadata) = (self.inputs(&wire)?, wire.spec.cluster_metadata.as_ref());
        let order = Order {
            job: job.id.to_string(),
            verb: job.verb,
            attempt: job.attempt,
            cluster: cluster.name.clone(),
            cluster_name: cluster.cluster_name.clone(),
            base_domain: cluster.base_domain.clone(),
            platform: wire.spec.platform.name().to_owned(),
            driver: annotations
                .get(DRIVER)
                .filter(|one| one.starts_with(EXEC))
                .cloned()
                .unwrap_or_else(|| job.driver.name().to_owned()),
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
            before: earlier.filter(|id| *id != job.id).map(|id| id.to_string()).collect(),
        };
        Ok((order, inputs))
    }

    fn release(&self, wire: &ClusterDeployment) -> Result<String, Refusal> {
        let image_set = wire.spec.provisioning.as_ref().and_then(|one| one.image_set_ref.clone());
        let name = image_set.map(|one| one.name);
        let filter = Filter { namespace: None, name, whole: true };
        let found = self.store.objects(Kind::ClusterImageSet, &filter)?.into_iter().next();
        Ok(match found {
            Some(Object::ImageSet(one)) if filter.name.is_some() => one.spec.release_image,
            _ => String::new(),
        })
    }

    fn manifest_patches(&self, cluster: &Cluster) -> Result<Vec<ManifestPatch>, Refusal> {
        let own = cluster.pool.as_ref().zip(cluster.customization.as_deref());
        let own = own.map(|(pool, name)| Key::new(&*pool.namespace, name));
        let mut all = Vec::new();
        for key in cluster.required().into_iter().chain(own) {
            let filter =
                Filter { namespace: Some(key.namespace), name: Some(key.name), whole: true };
            let found = self.store.objects(Kind::Customization, &filter)?.into_iter().next();
            if let Some(Object::Customization(one)) = found {
                all.extend(one.spec.installer_manifest_patches);
            }
        }
        Ok(all)
    }

    fn is_strict(&self, pool: Option<&Key>) -> Result<bool, Refusal> {
        let Some(Key { namespace, name }) = pool.cloned() else { return Ok(false) };
        let filter = Filter { namespace: Some(namespace), name: Some(name), whole: true };
        let found = self.store.objects(Kind::ClusterPool, &filter)?.into_iter().next();
        Ok(matches!(found, Some(Object::Pool(pool)) if pool.metadata.annotated(STRICT_PATCHES)))
    }

    /// Secrets as files: what the cluster has copies of, and what was kept of it.
    fn inputs(&self, wire: &ClusterDeployment) -> Result<Vec<(String, SecretValue)>, Refusal> {
        let (name, namespace) = (&wire.metadata.name, &wire.metadata.namespace);
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
            ("install-config.yaml", Some(format!("{name}-install-config")), "install-config.yaml"),
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
