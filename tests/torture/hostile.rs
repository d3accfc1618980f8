//! Drivers that do what no driver should: to the files of their job, to their supervisor, to whoever
//! reads what they leave. Passes go on, what they print obeys no terminal, and their cluster can be
//! deleted.

use crate::lab::{CANARY, Lab, pool};
use crate::sandbox::{apply, is_met_or_skipped, is_root};

use super::{Tally, points_of_each, spread};

/// What a good driver leaves.
pub const MAKE_A_CLUSTER: &str = "echo 'clusters: []' > saved/kubeconfig
    echo '{\"a\": 1}' > saved/metadata.json; echo '{\"infraID\": \"x\"}' > result";

/// What a driver does after it has made a cluster, in the folder of its job.
const DEEDS: [&str; 18] = [
    // Results that are no results.
    "head -c 40000000 /dev/zero | tr '\\0' '[' > result",
    "printf '{\"message\": \"\\033]0;owned\\007\\033[31m\\342\\200\\256evil\\\\nREADY\"}' > result; exit 3",
    "printf '\\377\\376{' > result; printf '\\377' > saved/kubeconfig",
    "echo '{\"message\": 7, \"hopeless\": \"yes\"}' > result",
    "echo '{\"infraID\": \"../../../etc\", \"clusterID\": \"$(touch owned)\"}' > result; exit 1",
    "ln -sf /dev/zero result; ln -s /dev/zero progress",
    "rm result saved/*; mkdir result progress saved/kubeconfig saved/metadata.json",
    "mkfifo progress outcome; exit 1",
    // Output without end, without lines, and for terminals.
    "head -c 20000000 /dev/zero | tr '\\0' 'x'; exit 1",
    "for try in $(seq 300); do cat $(find input -type f) >&2; echo >&2; done; exit 1",
    "printf '\\033[2J\\r\\342\\200\\256level=info msg=\"\\033]0;owned\\007\"\\n' >&2; exit 1",
    // The folder of the job, and the files of its supervisor.
    "rm -rf saved work input; exit 1",
    "chmod 000 saved input work; exit 1",
    "echo '{}' > order.json; rm -f started lock; exit 1",
    "mv saved elsewhere; ln -s /etc saved",
    "rm -rf \"$PWD\"; exit 1",
    // Processes.
    "kill -9 $PPID; exit 1",
    "(trap '' TERM HUP; exec sleep 60) & exit 1",
];

/// Whether an installation of pool `lab` has ended, either way.
fn has_ended(lab: &Lab) -> bool {
    let events = lab.sandbox.ok("events -o json");
    events.contains("provision failed")
        || events.contains("interrupted")
        || lab.phase() == "Installed"
}

/// Gives a cluster to a driver that does this, looks at everything, and deletes the cluster.
fn endure(deed: &str) {
    let lab = Lab::new();
    let driver = format!("#!/bin/sh\n[ $1 = provision ] || exit 0\n{MAKE_A_CLUSTER}\n{deed}\n");
    lab.install_program("poolctl-driver-hostile", &driver);
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:hostile'}\n";
    apply(&lab.sandbox, &pool("lab", "{none: {}}", annotations));
    lab.wait_until(deed, has_ended);
    let ran = lab.sandbox.shell(
        "for command in events 'get cluster,job -A' 'why pool/lab' status 'describe pool lab' metrics \
             'get cluster,job -A -o yaml' \"cluster logs $(poolctl get cluster -qo name | head -1)\"; do
             timeout 20 poolctl $command; [ $? -lt 100 ] || echo HANGS $command
         done 2>&1",
    );
    let told = ran.out.chars().take(3000).collect::<String>();
    let is_obeyed = ran.out.contains(['\u{1b}', '\u{7}', '\u{202e}']);
    assert!(!is_obeyed && !ran.out.contains("HANGS"), "{deed}: {told}");
    assert!(!ran.out.contains(CANARY) && !ran.out.contains("panicked"), "{deed}: {told}");
    let size = lab.sandbox.shell("du -sm $HOME/jobs | cut -f1").out;
    assert!(size.trim().parse::<u32>().unwrap() < 150, "{deed}: {size} MiB");
    lab.sandbox.ok("pool scale lab --size 0 -q");
    lab.wait_until("gone", |lab| {
        // What may be left is for a person to say.
        lab.sandbox.shell(
            "for c in $(poolctl get cluster -qo name); do poolctl cluster retry $c -q; done",
        );
        lab.phase().is_empty()
    });
}

#[test]
fn hostile_drivers_are_endured() {
    if !is_met_or_skipped(is_root(), "only root can remove what a driver has locked up") {
        return;
    }
    let mut tally = Tally::default();
    for deed in spread(DEEDS.to_vec(), points_of_each(1).saturating_mul(3)) {
        endure(deed);
        tally.points += 1;
        tally.fired += 1;
        tally.held += 1;
    }
    tally.note("hostile driver");
}
