//! Completes the order of a job that wipes a host: the program that does it, or the image that does.

use std::collections::BTreeSet;

use crate::drivers::discovery::COREOS_INSTALLER;
use crate::drivers::programs;
use crate::model::documents::SettingsSpec;
use crate::model::driver::PROGRAM_PREFIX;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::job::Job;
use crate::model::meta::Key;
use crate::model::order::{JobOrder, WipeOrder};
use crate::model::refusal::Refusal;

use super::Door;
use super::order::add_program;

impl Door<'_> {
    /// Adds to the order of a job that wipes a host how that is done: the program that does it, or
    /// what goes into the image that does. A job whose program is missing starts all the same: it
    /// fails with the reason.
    pub(super) fn add_wipe(
        &self,
        job: &Job,
        settings: &SettingsSpec,
        order: &mut JobOrder,
    ) -> Result<(), Refusal> {
        let Some(host_key) = job.host() else { return Ok(()) };
        let Some(host) = self.store.find::<BareMetalHost>(&host_key)? else { return Ok(()) };
        let wipe = host.status.wipe.clone().unwrap_or_default();
        if let Some(name) = wipe.driver.strip_prefix(PROGRAM_PREFIX) {
            let program = programs::find_driver_program(settings, name);
            add_program(order, "driver", program);
            return Ok(());
        }
        add_program(order, COREOS_INSTALLER, programs::find_program(settings, COREOS_INSTALLER));
        let infra_env_key = Key::new(&*host_key.namespace, &*wipe.infra_env);
        let infra_env = self.store.find::<InfraEnv>(&infra_env_key)?;
        let image_folder = settings.iso_directory.as_ref();
        let image_file = infra_env.filter(InfraEnv::has_own_image);
        order.iso_directory.clone_from(&settings.iso_directory);
        order.iso_url.clone_from(&settings.iso_url);
        order.wipe = Some(WipeOrder {
            method: wipe.driver,
            macs: macs_of_host(&host),
            disks: wipe.disks,
            base_image: image_folder
                .zip(image_file)
                .map(|(folder, infra_env)| folder.join(infra_env.status.image_file)),
        });
        Ok(())
    }
}

/// The MAC addresses that a host is known to have.
fn macs_of_host(host: &BareMetalHost) -> Vec<String> {
    let nics = host.status.hardware.iter().flat_map(|hardware| &hardware.nics);
    let mut macs: BTreeSet<String> = nics.map(|nic| nic.mac.to_lowercase()).collect();
    macs.insert(host.spec.boot_mac_address.to_lowercase());
    macs.retain(|mac| !mac.is_empty());
    macs.into_iter().collect()
}
