//! The page of the reference with the files and folders that poolctl makes. They are declared here;
//! a test compares what stands beside a state.

use std::fmt::Write;

use super::{page_head, table_cell};

/// A file or a folder, which ends with a slash.
struct Place {
    /// Below the folder of the state. Capitals stand for what differs.
    path: &'static str,
    meaning: &'static str,
}

const fn place(path: &'static str, meaning: &'static str) -> Place {
    Place { path, meaning }
}

const BESIDE_THE_STATE: [Place; 17] = [
    place("state.db", "All objects, events and jobs: one SQLite file. It has the secrets."),
    place("state.db-wal", "What was changed last. It belongs to `state.db`: never copy one alone."),
    place("state.db-shm", "The index of that log."),
    place("state.db.lock", "Who writes. It is always there and usually not locked."),
    place("state.db.pass", "Whether a pass runs."),
    place("state.db.passed", "When the last pass ended."),
    place("state.db.backed-up", "When the last backup was made."),
    place("state.db.reserve", "2 MiB that are given up when the disk is full."),
    place("state.db.schema-N", "A copy from before the migration from schema N."),
    place("state.db.before-restore-TIME", "The state that a restore replaced."),
    place("clusters/NAME/", "The kubeconfig and the install-config of a cluster."),
    place("jobs/ID/", "A job: its order, its input, its log and its outcome."),
    place("jobs/ID/evidence/", "What a failed attempt left, without secrets."),
    place("drivers/", "Folders that drivers of your own keep for their clusters."),
    place("cache/", "Images and programs that were downloaded, and certificates."),
    place("backups/", "Backups of the timer `poolctl-backup`."),
    place("tools/", "Installers that were taken out of release images."),
];

const ELSEWHERE: [Place; 6] = [
    place("/var/lib/poolctl/", "The state of the account poolctl."),
    place("~/.local/state/poolctl/", "The state of a user."),
    place("~/.config/poolctl/namespace", "The namespace that `config set-context` has set."),
    place("/usr/local/lib/poolctl/", "Drivers of your own, if `driverDirectory` names it."),
    place("/etc/sudoers.d/poolctl", "Who may call poolctl through sudo."),
    place("/srv/poolctl/", "Images for hosts, if `isoDirectory` names it."),
];

/// The page of files and folders in Markdown.
pub fn page() -> String {
    let introduction = "The files and folders of poolctl. Only the account that owns the state can \
                        read those beside it. A state with another name, such as `lab.db`, has \
                        `lab.db.jobs/` instead of `jobs/`.";
    let mut text = page_head("Files and folders", introduction);
    for (title, places) in
        [("Beside the state", BESIDE_THE_STATE.as_slice()), ("Elsewhere", ELSEWHERE.as_slice())]
    {
        let _ = write!(text, "\n## {title}\n\n| path | what it is |\n|---|---|\n");
        for place in places {
            let _ = writeln!(text, "| `{}` | {} |", place.path, table_cell(place.meaning));
        }
    }
    text
}
