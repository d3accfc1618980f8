//! Acts on the world after a commit: starts the jobs that are due, and removes files of jobs and
//! clusters that are over. Decides nothing, and never changes the state.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::drivers::cancel::{self, CancelMode};
use crate::drivers::job_folder::{self, JobFolder, JobState, SavedFiles};
use crate::drivers::process;
use crate::model::clock::PassExtent;
use crate::model::cluster::Cluster;
use crate::model::documents::{Settings, SettingsSpec};
use crate::model::job::{FAILED, Job, Verb};
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{NameBook, Scope, State};
use crate::store::{copies, list_job_folders};

use super::order::{Inputs, make_refused_order};
use super::sightings::warnings_of_drivers;
use super::{Door, extent_of};

/// The hidden command by which poolctl runs itself as the supervisor of a job.
pub const SUPERVISE_COMMAND: &str = "__supervise";
/// The hidden command by which poolctl tells the program of `onChange` of changed addresses.
pub const TELL_COMMAND: &str = "__tell";
/// How many failed installations of a pool keep their logs after their clusters are gone, and how
/// many jobs of a host keep theirs.
const LOGS_KEPT: usize = 3;
/// How many failed installations of a pool, or of a cluster without a pool, keep their evidence.
const EVIDENCE_KEPT: usize = 3;
/// Jobs on clusters at a time, unless the settings give another limit.
const DEFAULT_MAX_JOBS: u32 = 20;
/// Jobs on hosts at a time. They are short and small, so the limit of the settings is not theirs.
const MAX_HOST_JOBS: usize = 64;

impl Door<'_> {
    /// Puts in place what drivers will read, removes copies of what is gone and starts jobs.
    /// Returns what failed, as sentences; the next pass tries it again.
    pub(super) fn act_after_commit(&self, state: &State, scope: &Scope) -> Vec<String> {
        let path = self.store.path();
        let removed_clusters: Vec<&Cluster> = state
            .clusters
            .difference()
            .filter(|change| change.after.is_none())
            .filter_map(|change| change.before)
            .collect();
        for cluster in &removed_clusters {
            copies::remove_cluster_copies(path, &cluster.name);
        }
        if !removed_clusters.is_empty() {
            copies::end_own_removals(path);
        }
        let mut failures: Vec<Refusal> = Vec::new();
        if extent_of(scope) == PassExtent::Everything && !state.is_unchanged() {
            failures.extend(self.remove_orphaned_copies().err());
        }
        for job in state.jobs.rows() {
            if job.ended.is_none() && job.verb == Verb::Provision {
                failures.extend(self.write_install_config(&job.object).err());
            }
        }
        failures.extend(self.tidy_jobs(state, scope, &removed_clusters).err());
        let mut warnings: Vec<String> = failures.iter().map(Refusal::to_string).collect();
        warnings.extend(warnings_of_drivers(state));
        warnings.extend(self.start_jobs().unwrap_or_else(|refusal| vec![refusal.to_string()]));
        warnings.extend(self.tell_of_addresses().err().map(|refusal| refusal.to_string()));
        warnings
    }

    /// Starts the process that tells the program of `onChange` which addresses are leased, if it was
    /// not told of the last change. A process that runs already finds the change by itself.
    fn tell_of_addresses(&self) -> Result<(), Refusal> {
        if !self.store.read_address_news()?.is_due(self.world.now()) {
            return Ok(());
        }
        let Some(program) = self.read_settings()?.on_change else { return Ok(()) };
        if self.world.is_clock_standing() {
            return Err(Refusal::usage(format!("POOLCTL_NOW is set, so {program} is not run")));
        }
        let path = self.store.path();
        if !copies::is_owned_by_this_user(path) {
            let message = format!("only the account that owns the state can run {program}");
            return Err(Refusal::new(Exit::Denied, message));
        }
        process::start_supervisor(TELL_COMMAND, path)
            .map_err(|error| Refusal::unwritable(path, &error))
    }

    /// Leaves a mark before a commit that removes clusters: whoever is killed after the commit has
    /// left their copies.
    pub(super) fn announce_removals(&self, state: &State) -> Result<(), Refusal> {
        let mut changes = state.clusters.difference();
        if changes.any(|change| change.after.is_none()) {
            copies::announce_removals(self.store.path())?;
        }
        Ok(())
    }

    /// Removes the copies of clusters that an earlier pass was killed over.
    pub(super) fn finish_removals(&self) -> Result<(), Refusal> {
        if copies::are_removals_announced(self.store.path()) {
            self.remove_orphaned_copies()?;
            copies::end_removals(self.store.path());
        }
        Ok(())
    }

    /// Removes copies of clusters that do not exist any more.
    pub(super) fn remove_orphaned_copies(&self) -> Result<(), Refusal> {
        let path = self.store.path();
        let names = self.store.stored_books();
        let mut clusters = copies::list_clusters_with_copies(path);
        clusters.retain(|cluster| !names.cluster_exists(cluster));
        // A cluster that could not be looked up counts as absent. So nothing may be removed if any
        // look-up failed.
        names.check()?;
        for cluster in &clusters {
            copies::remove_cluster_copies(path, cluster);
        }
        Ok(())
    }

    /// Removes the inputs of jobs that have ended, and the folders of old jobs.
    fn tidy_jobs(
        &self,
        state: &State,
        scope: &Scope,
        removed_clusters: &[&Cluster],
    ) -> Result<(), Refusal> {
        for job in state.jobs.rows().filter(|job| job.ended.is_some() && job.driver.is_supervised())
        {
            self.end_job(&job.id.to_string());
            if job.verb == Verb::Provision && job.outcome.as_deref() == Some(FAILED) {
                self.remove_old_evidence(job)?;
            }
            if let Some(host) = job.host() {
                self.remove_old_jobs_of_host(&host.to_string())?;
            }
        }
        let supervised_clusters =
            removed_clusters.iter().filter(|cluster| cluster.driver.is_supervised());
        let mut pools: HashSet<Option<Rc<Key>>> = HashSet::new();
        for cluster in supervised_clusters {
            pools.insert(cluster.pool.clone());
            // What was saved of a cluster that is left running may be all that is known of it.
            if !cluster.preserve {
                self.tidy_jobs_of_removed_cluster(cluster)?;
            }
        }
        if extent_of(scope) == PassExtent::Everything {
            self.end_jobs_with_inputs()?;
        }
        for pool in pools {
            self.remove_jobs_of_gone_clusters(pool.as_deref())?;
        }
        Ok(())
    }

    fn tidy_jobs_of_removed_cluster(&self, cluster: &Cluster) -> Result<(), Refusal> {
        for job in self.store.jobs_of_object(&cluster.name)? {
            let job_folder = JobFolder::for_job(&self.jobs_folder(), &job.id.to_string());
            if matches!(job_folder.read_state(), JobState::Over(_) | JobState::Interrupted) {
                job_folder.remove_inputs(SavedFiles::Remove);
            }
        }
        Ok(())
    }

    /// Writes the install-config of a cluster where people find it, unless it is there already.
    fn write_install_config(&self, cluster: &str) -> Result<(), Refusal> {
        let path = self.store.path();
        let file_name = "install-config.yaml";
        if copies::has_cluster_copy(path, cluster, file_name) {
            return Ok(());
        }
        let secret = Key::new(cluster, format!("{cluster}-install-config"));
        if let Some(value) = self.store.read_secret_value(&secret, file_name)? {
            copies::write_cluster_copy(path, cluster, file_name, &value)?;
        }
        Ok(())
    }

    /// Brings the world in line with a job that has ended in the state: cancels it if it still runs
    /// or could still start, and else removes its inputs.
    fn end_job(&self, id: &str) {
        let job_folder = JobFolder::for_job(&self.jobs_folder(), id);
        match job_folder.read_state() {
            JobState::Running => {
                // A supervisor that was told to cancel needs at most twice the grace. After that it
                // is ended by force.
                let since_cancelled = job_folder.file_age("cancel").unwrap_or_default();
                let mode = CancelMode::after(since_cancelled, process::GRACE * 2);
                cancel::cancel_job(&job_folder, mode);
            }
            JobState::Over(_) | JobState::Interrupted => job_folder.remove_inputs(SavedFiles::Keep),
            JobState::NotStarted if job_folder.exists() => {
                cancel::cancel_job(&job_folder, CancelMode::Ask);
            }
            JobState::NotStarted => {}
        }
    }

    /// As `end_job`, for jobs that ended in an earlier pass which did not get as far as this: their
    /// folders still have inputs.
    pub(super) fn end_jobs_with_inputs(&self) -> Result<(), Refusal> {
        for id in job_folder::jobs_with_inputs(&self.jobs_folder()) {
            // A folder that belongs to no job of the state is the operator's and stays.
            if self.store.find_job(&id)?.is_some_and(|job| job.ended.is_some()) {
                self.end_job(&id);
            }
        }
        Ok(())
    }

    /// Removes the folders of jobs on clusters of a pool that are gone, but for those of the last
    /// failed installations.
    fn remove_jobs_of_gone_clusters(&self, pool: Option<&Key>) -> Result<(), Refusal> {
        let names = self.store.stored_books();
        // The folders are read, and not the jobs of the state, because those are many more.
        let folders = list_job_folders(self.store.path());
        let mut jobs: Vec<Job> = Vec::new();
        for id in folders.iter().filter_map(|folder| folder.file_name()?.to_str()) {
            jobs.extend(self.store.find_job(id)?);
        }
        jobs.retain(|job| {
            let is_of_pool = job.driver.is_supervised() && job.pool.as_deref() == pool;
            is_of_pool && job.ended.is_some() && !names.cluster_exists(&job.object)
        });
        // A cluster that could not be looked up counts as absent. So nothing may be removed if any
        // look-up failed.
        names.check()?;
        jobs.sort_by_key(|job| job.started);
        let mut failures_kept = 0;
        for job in jobs.iter().rev() {
            let has_failed = job.verb == Verb::Provision && job.outcome.as_deref() == Some(FAILED);
            if has_failed && failures_kept < LOGS_KEPT {
                failures_kept += 1;
                continue;
            }
            JobFolder::for_job(&self.jobs_folder(), &job.id.to_string()).remove_if_over();
        }
        Ok(())
    }

    /// Removes the evidence of failed installations that came before the last few: of the pool of
    /// this job, or of its cluster if that has no pool.
    fn remove_old_evidence(&self, last_job: &Job) -> Result<(), Refusal> {
        let jobs_folder = self.jobs_folder();
        let mut jobs: Vec<Job> = Vec::new();
        for id in job_folder::jobs_with_evidence(&jobs_folder) {
            jobs.extend(self.store.find_job(&id)?);
        }
        jobs.retain(|job| {
            job.pool == last_job.pool && (job.pool.is_some() || job.object == last_job.object)
        });
        jobs.sort_by_key(|job| job.started);
        for job in jobs.iter().rev().skip(EVIDENCE_KEPT) {
            JobFolder::for_job(&jobs_folder, &job.id.to_string()).remove_evidence();
        }
        Ok(())
    }

    /// Removes the folders of a host's jobs, but for those of the last few.
    fn remove_old_jobs_of_host(&self, host: &str) -> Result<(), Refusal> {
        let jobs = self.store.jobs_on_host(host)?;
        let ended_jobs =
            jobs.iter().rev().filter(|job| job.ended.is_some() && job.host().is_some());
        for job in ended_jobs.skip(LOGS_KEPT) {
            JobFolder::for_job(&self.jobs_folder(), &job.id.to_string()).remove_if_over();
        }
        Ok(())
    }

    /// The folder in which every job has a folder of its own.
    pub fn jobs_folder(&self) -> PathBuf {
        copies::folder_beside(self.store.path(), "jobs")
    }

    /// Starts the jobs that nobody works on, as far as the limits let it. Jobs on single hosts are
    /// short and have a limit of their own, so that they do not wait for installations. Returns what
    /// went wrong, as sentences.
    fn start_jobs(&self) -> Result<Vec<String>, Refusal> {
        let mut live_jobs = self.store.live_jobs_of_programs()?;
        live_jobs.retain(|job| job.driver.is_supervised());
        if live_jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut running_jobs = Vec::new();
        let mut waiting_jobs = Vec::new();
        let mut waiting_host_jobs = Vec::new();
        for job in live_jobs {
            let job_folder = JobFolder::for_job(&self.jobs_folder(), &job.id.to_string());
            if job_folder.read_state() != JobState::NotStarted {
                running_jobs.push(job);
            } else if job.host().is_some() {
                waiting_host_jobs.push(job);
            } else {
                waiting_jobs.push(job);
            }
        }
        let settings = self.read_settings()?;
        let mut warnings = Vec::new();
        let running_host_jobs = running_jobs.iter().filter(|job| job.host().is_some()).count();
        for job in waiting_host_jobs.iter().take(MAX_HOST_JOBS.saturating_sub(running_host_jobs)) {
            if let Err(refusal) = self.start_job(job, &settings) {
                warnings.push(not_started_message(job, &refusal));
            }
        }
        let has_started =
            self.start_cluster_jobs(&running_jobs, waiting_jobs, &settings, &mut warnings);
        if has_started && self.world.does_systemd_end_children() {
            warnings.push(
                "systemd ends the jobs when this service ends; to keep them, set KillMode=process \
                 and Environment=POOLCTL_KILL_MODE=process (examples/systemd)"
                    .into(),
            );
        }
        Ok(warnings)
    }

    /// Starts jobs on clusters. The pool with the fewest running jobs comes first, so that no pool
    /// waits until a larger one has all its jobs. Returns whether any job was started.
    fn start_cluster_jobs(
        &self,
        running_jobs: &[Job],
        mut waiting_jobs: Vec<Job>,
        settings: &SettingsSpec,
        warnings: &mut Vec<String>,
    ) -> bool {
        let limit = settings.max_jobs.unwrap_or(DEFAULT_MAX_JOBS);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut jobs_of_pool: HashMap<Option<Rc<Key>>, usize> = HashMap::new();
        for job in running_jobs {
            *jobs_of_pool.entry(job.pool.clone()).or_default() += 1;
        }
        let mut started_count = 0;
        let running_count = running_jobs.iter().filter(|job| job.host().is_none()).count();
        while running_count + started_count < limit {
            let next_job = waiting_jobs.iter().enumerate().min_by_key(|(index, job)| {
                (jobs_of_pool.get(&job.pool).copied().unwrap_or(0), *index)
            });
            let Some((index, _)) = next_job else { break };
            let job = waiting_jobs.remove(index);
            // A job that cannot be started counts, too, so that the next one is another pool's.
            *jobs_of_pool.entry(job.pool.clone()).or_default() += 1;
            match self.start_job(&job, settings) {
                Ok(()) => started_count += 1,
                Err(refusal) => warnings.push(not_started_message(&job, &refusal)),
            }
        }
        started_count > 0
    }

    /// The settings of the state, or their defaults.
    pub fn read_settings(&self) -> Result<SettingsSpec, Refusal> {
        let settings = self.store.find::<Settings>(&Key::new("", "default"))?;
        Ok(settings.map(|settings| settings.spec).unwrap_or_default())
    }

    fn start_job(&self, job: &Job, settings: &SettingsSpec) -> Result<(), Refusal> {
        if self.world.is_clock_standing() {
            return Err(Refusal::usage("POOLCTL_NOW is set, so only simulated jobs can run"));
        }
        let job_folder = JobFolder::for_job(&self.jobs_folder(), &job.id.to_string());
        if !copies::is_owned_by_this_user(self.store.path()) {
            let message = "only the account that owns the state can start jobs, not root";
            return Err(Refusal::new(Exit::Denied, message));
        }
        if !job_folder.exists() {
            let (order, inputs) = match self.make_order(job, settings) {
                Err(refusal) if is_of_setup(job, &refusal) => {
                    (make_refused_order(job, &refusal), Inputs::new())
                }
                order_with_inputs => order_with_inputs?,
            };
            job_folder
                .create(&order, &inputs)
                .map_err(|error| Refusal::unwritable(job_folder.path(), &error))?;
        }
        process::start_supervisor(SUPERVISE_COMMAND, job_folder.path())
            .map_err(|error| Refusal::unwritable(job_folder.path(), &error))
    }
}

/// Whether a job on a cluster cannot be done because of what it is to be given. Then it ends; after
/// any other refusal the next pass starts it.
fn is_of_setup(job: &Job, refusal: &Refusal) -> bool {
    let is_of_objects = matches!(refusal.exit, Exit::Failed | Exit::NotFound | Exit::Conflict);
    job.cluster().is_some() && is_of_objects
}

fn not_started_message(job: &Job, refusal: &Refusal) -> String {
    format!("{} of {} was not started: {}", job.verb.name(), job.object_word(), refusal.to_line())
}
