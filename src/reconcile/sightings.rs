//! Looks at the programs that pools name as their drivers, before a plan: whether they are there,
//! and what they say of themselves. Starts none of them unless a command asks for that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::drivers::{description, programs};
use crate::model::documents::SettingsSpec;
use crate::model::driver_description::{DriverDescription, DriverSighting};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::plan;
use crate::store::copies;

use super::Door;

impl Door<'_> {
    /// Notes in the state which driver programs of its pools can be used. A rehearsal starts no
    /// programs, so it does without them.
    pub(super) fn look_at_drivers(&self, state: &mut State) -> Result<(), Refusal> {
        if self.world.is_clock_standing() {
            return Ok(());
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for pool in state.pools.rows() {
            names.extend(pool.driver_program().map(str::to_owned));
        }
        if names.is_empty() {
            return Ok(());
        }
        let settings = self.read_settings()?;
        for name in names {
            let sighting = self.look_at_driver(&settings, &name);
            state.drivers.insert(name, sighting);
        }
        Ok(())
    }

    fn look_at_driver(&self, settings: &SettingsSpec, name: &str) -> DriverSighting {
        match programs::find_driver_program(settings, name) {
            Ok(program) => DriverSighting {
                missing: None,
                description: description::read_description(&self.drivers_folder(), &program),
            },
            Err(why) => DriverSighting { missing: Some(why), description: None },
        }
    }

    /// The folder of what driver programs say of themselves.
    pub(super) fn drivers_folder(&self) -> PathBuf {
        copies::folder_beside(self.store.path(), "drivers")
    }

    /// Asks the driver programs of pools what they say of themselves, if that is not known: a pool
    /// that does not fit its driver then makes no cluster. What cannot be asked now is asked before
    /// the first installation.
    pub fn ask_unknown_drivers(&self, pools: &[&ClusterPool]) -> Result<(), Refusal> {
        let names: BTreeSet<&str> = pools.iter().filter_map(|pool| pool.driver_program()).collect();
        // Only the account of the jobs starts foreign programs.
        let may_start_programs =
            !self.world.is_clock_standing() && copies::is_owned_by_this_user(self.store.path());
        if names.is_empty() || !may_start_programs {
            return Ok(());
        }
        let settings = self.read_settings()?;
        for name in names {
            if let Ok(program) = programs::find_driver_program(&settings, name)
                && description::read_description(&self.drivers_folder(), &program).is_none()
            {
                // A description that cannot be read is said by `driver check`, and by the job.
                drop(self.ask_driver_description(&program));
            }
        }
        Ok(())
    }

    /// Asks a driver program what it says of itself. The next passes know the answer. The error is
    /// for people.
    pub fn ask_driver_description(&self, program: &Path) -> Result<DriverDescription, String> {
        description::ask_description(&self.drivers_folder(), program)
    }
}

/// A warning for each pool that makes no clusters because of the program that is its driver.
pub(super) fn warnings_of_drivers(state: &State) -> Vec<String> {
    let mut warnings = Vec::new();
    for pool in state.pools.rows() {
        if let Some(problem) = plan::driver_program_problem(state, pool) {
            warnings.push(format!("pool `{}` makes no clusters: {problem}", pool.metadata.name));
        }
    }
    warnings
}
