//! Wipes the disks of a host by an image that is made for it alone: the host boots the image once,
//! as virtual media, and powers itself off when all is done. Never decides which disks are wiped.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::job::Verb;
use crate::model::order::{JobEnding, WipeOrder};
use crate::render::wipe::render_wipe_ignition;

use super::discovery::COREOS_INSTALLER;
use super::image::publish_image;
use super::machines;
use super::process::Stopwatch;
use super::task::{Stopped, Task};

/// What the image is called. `publish_image` finds it by that.
const IMAGE: &str = "wipe";
/// How long a host may take to boot the image and to clear its partition tables.
const QUICK_LIMIT: Duration = Duration::from_secs(20 * 60);
/// How long it may take to overwrite its disks.
const FULL_LIMIT: Duration = Duration::from_secs(5 * 3600);
/// How often it is looked whether the host is off.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Boots the host from the image that wipes it, and waits until it is off. However that ends, the
/// host is off and has no image.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    let Some(wipe) = task.order.wipe.clone() else { return Ok(task.refuse_verb()) };
    remove_earlier_images(task);
    let work = match make_image(task, &wipe)? {
        Ok(work) => work,
        Err(why) => return Ok(JobEnding::failed(why)),
    };
    let published = match publish_image(task, &work, IMAGE) {
        Ok(Some(published)) => published,
        Ok(None) => return Ok(task.refuse_verb()),
        Err(why) => return Ok(JobEnding::failed(why)),
    };
    let booted = machines::boot_from_image(task, &published.url)?;
    if !booted.is_success() {
        return Ok(booted);
    }
    let limit = if wipe.method == "full" { FULL_LIMIT } else { QUICK_LIMIT };
    let is_wiped = wait_until_off(task, limit)?;
    for machine in &mut task.order.machines {
        machine.soft_off = 0;
        // It has come on since.
        machine.may_come_on = false;
    }
    let stopped = machines::run_verb(task, Verb::Stop)?;
    let ejected = machines::run_verb(task, Verb::Eject)?;
    let hosts = [booted.hosts, ejected.hosts.clone(), stopped.hosts.clone()].concat();
    let ending = if is_wiped && stopped.is_success() && ejected.is_success() {
        JobEnding::success()
    } else if is_wiped {
        if stopped.is_success() { ejected } else { stopped }
    } else {
        let minutes = limit.as_secs() / 60;
        JobEnding::failed(format!(
            "it was still on {minutes} min after it booted the image that wipes its disks; its \
             console says why"
        ))
    };
    Ok(JobEnding { hosts, ..ending })
}

/// Removes the images that a crash of an earlier job has left behind.
fn remove_earlier_images(task: &Task) {
    let Some(folder) = &task.order.iso_directory else { return };
    for job_id in &task.order.before {
        drop(fs::remove_dir_all(folder.join(job_id)));
    }
}

/// Makes the image of the discovery image, and returns the folder in which it is. The inner error is
/// for people: what is missing or went wrong.
fn make_image(task: &mut Task, wipe: &WipeOrder) -> Result<Result<PathBuf, String>, Stopped> {
    let Some(base_image) = &wipe.base_image else {
        let why = "there is no discovery image to wipe it with: poolctl infraenv iso INFRAENV \
                   --base ISO, without --out";
        return Ok(Err(why.into()));
    };
    if !base_image.is_file() {
        return Ok(Err(format!("the discovery image {} is gone", base_image.display())));
    }
    if wipe.macs.is_empty() {
        let why = "its bootMACAddress is not set, so the image could not recognize it";
        return Ok(Err(why.into()));
    }
    let Some(program) = task.program_path(COREOS_INSTALLER) else {
        let why = task.order.missing.get(COREOS_INSTALLER).cloned();
        return Ok(Err(why.unwrap_or_else(|| format!("there is no {COREOS_INSTALLER}"))));
    };
    let work = task.job_folder.file_path("work").join(IMAGE);
    fs::create_dir_all(&work)?;
    let ignition = work.join("wipe.ign");
    fs::write(&ignition, render_wipe_ignition(wipe).to_string())?;
    let image = work.join(format!("{IMAGE}.iso"));
    let [ignition, image, base_image] =
        [&ignition, &image, base_image].map(|path| path.display().to_string());
    let arguments =
        ["iso", "customize", "--force", "--live-ignition", &ignition, "-o", &image, &base_image];
    let (code, last_words) =
        task.run_for_last_words(&program, &arguments, &work, &BTreeMap::new())?;
    if code == 0 {
        return Ok(Ok(work));
    }
    let last_words = last_words.unwrap_or_default();
    Ok(Err(format!("{COREOS_INSTALLER} failed (exit code {code}): {last_words}")))
}

/// Looks until the host is off, and says whether it was off in time. A controller that does not
/// answer is asked again.
fn wait_until_off(task: &mut Task, limit: Duration) -> Result<bool, Stopped> {
    let since_boot = Stopwatch::start();
    while since_boot.elapsed() < limit {
        let since_look = Stopwatch::start();
        while since_look.elapsed() < LOOK_INTERVAL {
            task.wait_unless_stopped()?;
        }
        let seen = machines::run_verb(task, Verb::State)?;
        if seen.hosts.iter().all(|host| host.powered_on == Some(false)) {
            return Ok(true);
        }
    }
    Ok(false)
}
