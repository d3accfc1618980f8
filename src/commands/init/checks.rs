//! What `init` looks at before it changes anything: clock, disk, file system and programs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FsWord, statfs, statvfs};

use crate::drivers::probe::Finding;
use crate::drivers::programs;
use crate::model::documents::SettingsSpec;
use crate::model::driver::{Driver, ProgramNeed};
use crate::model::time::Time;

use crate::commands::Context;
use crate::commands::init::answers::Target;

/// Bytes that a state needs with the logs of its jobs.
const STATE_BYTES: u64 = 256 << 20;
/// File systems whose locks do not hold between machines, or which cannot map SQLite's index of the
/// log: their magic numbers, from statfs(2).
const NETWORK_FILE_SYSTEMS: [(FsWord, &str); 6] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "CephFS"),
];
/// File systems in memory.
const MEMORY_FILE_SYSTEMS: [(FsWord, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
/// Exists when systemd-timesyncd has set the clock.
const SYNCHRONIZED: &str = "/run/systemd/timesync/synchronized";

/// Looks at the machine. A finding that has failed is a reason to stop; what is only worth knowing
/// is skipped.
pub fn check_machine(context: &Context, state: &Path, target: Target) -> Vec<Finding> {
    // The folder may be made only later: then the one that it is made in counts.
    let folder = state.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let mut findings = vec![check_clock(context), check_disk(folder), check_file_system(folder)];
    findings.extend(driver_of(target).map(check_programs).unwrap_or_default());
    findings
}

/// The driver of the pools of a target; none if it starts no program.
fn driver_of(target: Target) -> Option<Driver> {
    match target {
        Target::Vsphere | Target::Openstack => Some(Driver::Installer),
        Target::Baremetal => Some(Driver::Agent),
        Target::Simulated | Target::Nothing => None,
    }
}

/// A clock that was never set is earlier than the file of this program.
fn check_clock(context: &Context) -> Finding {
    let step = "clock";
    let now = context.world.now();
    if context.world.is_clock_standing() {
        return Finding::skipped(step, format!("POOLCTL_NOW says {now}"));
    }
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let written = program.map_or(0, |file| file.mtime());
    if now < Time(written.saturating_mul(1_000_000)) {
        let detail = format!("it shows {now}, before this program was installed");
        return Finding::failed(step, detail, "set it: timedatectl set-ntp true");
    }
    let source = if Path::new(SYNCHRONIZED).exists() {
        "systemd-timesyncd has set it"
    } else {
        "`timedatectl` says whether it is kept right"
    };
    Finding::ok(step, format!("{now}; {source}"))
}

fn check_disk(folder: &Path) -> Finding {
    let step = "disk";
    let shown = folder.display();
    let free_bytes = match statvfs(folder) {
        Ok(file_system) => file_system.f_bavail.saturating_mul(file_system.f_frsize),
        Err(error) => return Finding::skipped(step, format!("`{shown}`: {error}")),
    };
    let detail = format!("{} MiB are free in `{shown}`", free_bytes >> 20);
    if free_bytes < STATE_BYTES {
        return Finding::failed(step, detail, format!("free {} MiB there", STATE_BYTES >> 20));
    }
    Finding::ok(step, detail)
}

fn check_file_system(folder: &Path) -> Finding {
    let step = "file system";
    let shown = folder.display();
    let kind = match statfs(folder) {
        Ok(file_system) => file_system.f_type,
        Err(error) => return Finding::skipped(step, format!("`{shown}`: {error}")),
    };
    if let Some((_, name)) = NETWORK_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        let detail = format!("`{shown}` is on {name}: a state needs a disk of this machine");
        return Finding::failed(step, detail, "poolctl --state FILE init, on a local disk");
    }
    if let Some((_, name)) = MEMORY_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        let detail = format!("`{shown}` is on {name}: the state is gone after a reboot");
        return Finding::skipped(step, detail);
    }
    Finding::ok(step, format!("`{shown}` is on this machine"))
}

/// The programs that a driver starts. Those that are missing can be installed later, so they are no
/// reason to stop.
fn check_programs(driver: Driver) -> Vec<Finding> {
    let settings = SettingsSpec::default();
    let mut findings = Vec::new();
    for program in driver.traits().programs {
        let finding = match programs::find_program(&settings, program.name) {
            Ok(path) => Finding::ok(program.name, path.display().to_string()),
            Err(why) if matches!(program.need, ProgramNeed::Optional) => {
                Finding::skipped(program.name, format!("optional: {why}"))
            }
            Err(why) => Finding {
                next: format!(
                    "install {}, or name its path in spec.programs of the Settings",
                    program.name
                ),
                ..Finding::skipped(program.name, why)
            },
        };
        findings.push(finding);
    }
    findings
}
