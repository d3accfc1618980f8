//! `cluster logs --bundle`: copies what is kept of a failed installation to a directory of a person,
//! who may pass it on. Never shows it to guests: archives of logs are kept as they are.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::json;

use crate::drivers::evidence;
use crate::model::job::Job;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name};
use crate::store::Store;

use crate::commands::{Context, job};

/// Copies the evidence of the last of these jobs that keeps any, which are installations of one
/// cluster.
pub fn write_bundle(
    context: &Context,
    store: &Store,
    cluster: &str,
    jobs: &[Job],
    directory: &Path,
) -> anyhow::Result<()> {
    context.refuse_guest("what is kept of a failed installation")?;
    check_directory(directory)?;
    let Some(job) = job::last_with_evidence(context, store, jobs) else {
        return Err(refuse_without_evidence(context, store, cluster, jobs)?.into());
    };
    let copies = evidence::copy_to(&job::folder(context, store, job), directory)
        .map_err(|error| Refusal::unwritable(directory, &error))?;
    let files: Vec<String> = copies.iter().map(|path| path.display().to_string()).collect();
    let document = json!({
        "cluster": cluster, "attempt": job.attempt, "job": job.id.to_string(), "files": files,
    });
    let lines = files.join("\n") + "\n";
    let name = Name::plain(directory.display().to_string());
    context.answer(Answer::text(lines).with_list([document]).with_name(name))
}

/// Refuses a directory in which the copies would be mixed with other files.
fn check_directory(directory: &Path) -> Result<(), Refusal> {
    let mut entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Refusal::unwritable(directory, &error)),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let shown = directory.display();
    Err(Refusal::conflict(format!("`{shown}` is not empty"))
        .advise("name a directory that does not exist"))
}

/// Why there is nothing to copy of these jobs, and which attempts of the cluster have something.
fn refuse_without_evidence(
    context: &Context,
    store: &Store,
    cluster: &str,
    jobs: &[Job],
) -> Result<Refusal, Refusal> {
    let mut attempts = Vec::new();
    for job in store.jobs_of_object(cluster)? {
        if !evidence::list_files(&job::folder(context, store, &job)).is_empty() {
            attempts.push(job.attempt.to_string());
        }
    }
    let cause = if jobs.iter().all(|job| job.driver.is_simulated()) {
        "a simulated installation leaves no files".to_owned()
    } else if attempts.is_empty() {
        "only the last 3 failed attempts of a pool are kept".to_owned()
    } else {
        format!("something is kept of attempt {}", attempts.join(", "))
    };
    let what = format!("nothing is kept of this attempt to install cluster `{cluster}`");
    Ok(Refusal::not_found(what).because(cause).next(format!("poolctl cluster logs {cluster}")))
}
