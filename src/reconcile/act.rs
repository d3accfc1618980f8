//! After the commit: jobs that are due are begun, what is over is tidied up.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::drivers::place::{self, Place, Standing};
use crate::drivers::{process, supervise};
use crate::model::cluster::Cluster;
use crate::model::documents::{Settings, SettingsSpec};
use crate::model::job::{FAILED, Job, Verb};
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{NameBook, Scope, State};
use crate::store::{copies, job_folders};

use super::Door;

/// The hidden word that makes a supervisor of us.
pub const SUPERVISE: &str = "__supervise";
/// Failed installations of a pool whose logs outlive their clusters; jobs of a host that leave any.
const FAILURES: usize = 3;
/// Jobs at a time, unless the settings say otherwise.
const MOST: u32 = 20;
/// Jobs on hosts at a time: they are short and small.
const HOSTS: usize = 64;

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
        let mut warnings = Vec::new();
        if *scope == Scope::Whole && !state.is_unchanged() {
            warnings.extend(self.forget_copies().err().map(|why| why.to_string()));
        }
        let begins = |job: &&Job| job.ended.is_none() && job.verb == Verb::Provision;
        let begun = state.jobs.rows().filter(begins);
        let failed = begun.filter_map(|job| self.hand_over(&job.object).err());
        warnings.extend(failed.map(|why| why.to_string()));
        warnings.extend(self.tidy_jobs(state, scope, &removed).err().map(|why| why.to_string()));
        warnings.extend(self.begin_jobs().unwrap_or_else(|why| vec![why.to_string()]));
        warnings
    }

    /// Copies of clusters that do not exist any more.
    fn forget_copies(&self) -> Result<(), Refusal> {
        let path = self.store.path();
        let names = self.store.names_in_use();
        let mut clusters = copies::clusters(path);
        clusters.retain(|cluster| !names.cluster_exists(cluster));
        // What could not be looked up counts as absent: then nothing is removed.
        names.check()?;
        for cluster in &clusters {
            copies::forget(path, cluster);
        }
        Ok(())
    }

    /// Jobs that are over give back what they were given, and old ones their folders.
    fn tidy_jobs(&self, state: &State, scope: &Scope, removed: &[&Cluster]) -> Result<(), Refusal> {
        for job in state.jobs.rows().filter(|job| job.ended.is_some() && job.driver.supervised()) {
            self.settle(&job.id.to_string());
            if let Some(host) = job.host() {
                self.forget_host_jobs(&host.to_string())?;
            }
        }
        // What of a cluster that is left running was saved may be all that is known of it.
        for gone in removed.iter().filter(|gone| !gone.preserve && gone.driver.supervised()) {
            for job in self.store.jobs_of(&gone.name)? {
                let place = Place::of(&self.jobs(), &job.id.to_string());
                if matches!(place.standing(), Standing::Over(_) | Standing::Interrupted) {
                    place.tidy(true);
                }
            }
        }
        if *scope == Scope::Whole {
            self.settle_others()?;
        }
        let pools = removed.iter().filter(|gone| gone.driver.supervised());
        let pools: HashSet<_> = pools.map(|gone| gone.pool.clone()).collect();
        for pool in pools {
            self.forget_jobs(pool.as_deref())?;
        }
        Ok(())
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
    fn settle_others(&self) -> Result<(), Refusal> {
        let names = place::untidy(&self.jobs());
        for name in &names {
            // Those that the state does not know are the operator's.
            if self.store.job(name)?.is_some_and(|job| job.ended.is_some()) {
                self.settle(name);
            }
        }
        Ok(())
    }

    /// Of a pool's clusters that are gone, the logs of the last failed installations stay.
    fn forget_jobs(&self, pool: Option<&Key>) -> Result<(), Refusal> {
        let names = self.store.names_in_use();
        // Past jobs are many more than folders.
        let folders = job_folders(self.store.path());
        let ids = folders.iter().filter_map(|folder| folder.file_name()?.to_str());
        let mut jobs: Vec<Job> = Vec::new();
        for id in ids {
            jobs.extend(self.store.job(id)?);
        }
        jobs.retain(|job| {
            let of_pool = job.driver.supervised() && job.pool.as_deref() == pool;
            of_pool && job.ended.is_some() && !names.cluster_exists(&job.object)
        });
        // What could not be looked up counts as absent: then nothing is removed.
        names.check()?;
        jobs.sort_by_key(|job| job.started);
        let failed =
            |job: &&Job| job.verb == Verb::Provision && job.outcome.as_deref() == Some(FAILED);
        let stay: HashSet<_> =
            jobs.iter().rev().filter(failed).take(FAILURES).map(|job| job.id).collect();
        for job in jobs.iter().filter(|job| !stay.contains(&job.id)) {
            Place::of(&self.jobs(), &job.id.to_string()).forget();
        }
        Ok(())
    }

    /// Of a host's jobs the last few can be looked at.
    fn forget_host_jobs(&self, host: &str) -> Result<(), Refusal> {
        let jobs = self.store.jobs_on_host(host)?;
        let ended = jobs.iter().rev().filter(|job| job.ended.is_some() && job.host().is_some());
        for job in ended.skip(FAILURES) {
            Place::of(&self.jobs(), &job.id.to_string()).forget();
        }
        Ok(())
    }

    /// Where the folders of jobs are.
    pub fn jobs(&self) -> PathBuf {
        copies::folder(self.store.path(), "jobs")
    }

    /// Begins jobs that nobody works on: those of the pools first that have fewest running.
    fn begin_jobs(&self) -> Result<Vec<String>, Refusal> {
        let mut live = self.store.live_jobs()?;
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
        let (hosts, running): (Vec<Job>, Vec<Job>) =
            running.into_iter().partition(|job| job.host().is_some());
        let (waiting_hosts, rest): (Vec<Job>, Vec<Job>) =
            waiting.into_iter().partition(|job| job.host().is_some());
        waiting = rest;
        let mut warnings = Vec::new();
        for job in waiting_hosts.iter().take(HOSTS.saturating_sub(hosts.len())) {
            warnings.extend(self.begin(job, &settings).err().map(|why| not_begun(job, &why)));
        }
        let mut many = running.len();
        while many < most && !waiting.is_empty() {
            let fewest = |job: &Job| per_pool.get(&job.pool).copied().unwrap_or(0);
            let next = waiting.iter().enumerate().min_by_key(|(at, job)| (fewest(job), *at));
            let Some(at) = next.map(|(at, _)| at) else { break };
            let job = waiting.remove(at);
            *per_pool.entry(job.pool.clone()).or_default() += 1;
            match self.begin(&job, &settings) {
                Ok(()) => many += 1,
                Err(why) => warnings.push(not_begun(&job, &why)),
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
        let settings = self.store.one::<Settings>(&Key::new("", "default"))?;
        Ok(settings.map(|settings| settings.spec).unwrap_or_default())
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
}

fn not_begun(job: &Job, why: &Refusal) -> String {
    format!("{} of {} is not begun: {why}", job.verb.name(), job.subject())
}
