//! Looks at the programs that pools name as their drivers, before a plan: whether they are there,
//! and what they say of themselves. Starts none of them unless a command asks for that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::drivers::{description, programs};
use crate::model::documents::SettingsSpec;
use crate::model::driver_description::{DriverDescription, DriverSighting};
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
