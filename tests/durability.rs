//! What the state survives: full disks, and a kill at any system call. And what it costs: the
//! number of fsyncs, the size of the log, the number of events that are kept.

use rusqlite::Connection;

use crate::sandbox::{Ran, Sandbox, has_program};

/// Runs a command on a disk where a file can have so many blocks of 512 bytes: writes beyond fail.
fn run_on_full_disk(sandbox: &Sandbox, blocks: u64, command: &str) -> Ran {
    sandbox.shell(&format!("trap '' XFSZ; ulimit -f {blocks}; poolctl {command}"))
}

#[test]
fn a_full_disk_is_said_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let before = sandbox.all_objects();
    let log = std::fs::metadata(format!("{}-wal", sandbox.state().display())).unwrap().len();
    let mut refused = 0;
    for more_blocks in 0..4 {
        let blocks = log / 512 + more_blocks;
        let ran = run_on_full_disk(&sandbox, blocks, "claim lab c -q");
        if ran.code != 0 {
            refused += 1;
            assert_eq!(ran.code, 8, "{}", ran.err);
            assert!(ran.err.contains("nothing was changed"), "{}", ran.err);
            assert_eq!(sandbox.all_objects(), before);
        }
    }
    assert!(refused > 0, "the fault never fired");
    sandbox.ok("claim lab c -q");
    // Making a state needs room as well.
    let empty = Sandbox::new();
    for blocks in [0, 1, 8, 20] {
        let ran = run_on_full_disk(&empty, blocks, "pool create lab --fake");
        assert_eq!(ran.code, 8, "{blocks}: {}", ran.err);
        assert!(!empty.state().exists(), "{blocks}");
    }
}

/// Runs a command under strace and returns what it traced.
fn trace(sandbox: &Sandbox, options: &str, command: &str) -> (i32, String) {
    let file = format!("{}/trace", sandbox.path().display());
    let ran = sandbox.shell(&format!("strace -f -qq -o {file} {options} poolctl {command}"));
    (ran.code, std::fs::read_to_string(file).unwrap_or_default())
}

fn count_fsyncs(sandbox: &Sandbox, command: &str) -> usize {
    let (code, traced) = trace(sandbox, "-e trace=fsync,fdatasync,msync,sync_file_range", command);
    assert!([0, 10].contains(&code), "{command}: {code}");
    traced.lines().filter(|line| line.contains("sync(")).count()
}

/// When the log of the state and the state itself were last written, and how large they are.
fn last_written(sandbox: &Sandbox) -> Vec<(std::time::SystemTime, u64)> {
    let state = sandbox.state().display().to_string();
    let mut written = Vec::new();
    for path in [format!("{state}-wal"), state] {
        let metadata = std::fs::metadata(path).unwrap();
        written.push((metadata.modified().unwrap(), metadata.len()));
    }
    written
}

#[test]
fn reading_and_idling_write_nothing_and_a_change_syncs_once() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 10);
    let before = last_written(&sandbox);
    for command in
        ["get pool", "get cluster -o yaml", "describe pool lab", "status", "plan", "reconcile"]
    {
        assert_eq!(count_fsyncs(&sandbox, command), 0, "{command}");
        // SQLite rebuilds its index of the log in shared memory; the state and its log stay.
        assert_eq!(last_written(&sandbox), before, "{command}");
    }
    let mut fsyncs = Vec::new();
    let mut pages = Vec::new();
    for number in 0..9 {
        let calls = trace_until_answer(&sandbox, &format!("c{number}"));
        fsyncs.push(calls.iter().filter(|call| call.contains("sync(")).count());
        // A frame of the log is a short header and a page.
        pages.push(calls.iter().filter(|call| call.contains(", 4096, ")).count());
    }
    fsyncs.sort_unstable();
    pages.sort_unstable();
    assert_eq!(fsyncs[4], 1, "median of {fsyncs:?}");
    assert!(fsyncs[8] <= 5, "most of {fsyncs:?}");
    assert!((1..=12).contains(&pages[4]), "median of {pages:?}");
}

/// Claims a cluster. Its answer is committed and told first; what follows from it is committed by a
/// pass of its own. Returns the calls that sync or write before the answer is told.
fn trace_until_answer(sandbox: &Sandbox, claim: &str) -> Vec<String> {
    let options = "-s 32 -e trace=fsync,fdatasync,msync,sync_file_range,write,pwrite64";
    let (code, traced) = trace(sandbox, options, &format!("claim lab {claim} -q"));
    assert_eq!(code, 0, "{traced}");
    let told = traced.lines().position(|line| line.contains(&format!("write(1, \"{claim}")));
    traced.lines().take(told.unwrap()).map(str::to_owned).collect()
}

#[test]
fn the_log_does_not_grow_for_ever() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let log = format!("{}-wal", sandbox.state().display());
    let mut largest = 0;
    for change in 0..40 {
        sandbox.ok(&format!("pool scale lab --size {} -q", change % 7 + 1));
        largest = largest.max(std::fs::metadata(&log).map_or(0, |metadata| metadata.len()));
    }
    assert!(largest < 1 << 20, "{largest}");
}

/// The number of rows below the heading.
fn count_events(sandbox: &Sandbox) -> usize {
    sandbox.ok("events pool/lab").lines().count() - 1
}

#[test]
fn old_events_are_forgotten_but_the_last_hundred_of_an_object() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    for change in 0..110 {
        sandbox.ok(&format!("pool scale lab --size {} -q", change % 2));
    }
    assert!(count_events(&sandbox) > 105, "{}", count_events(&sandbox));
    sandbox.ok("reconcile");
    assert!(count_events(&sandbox) > 105);
    for month in ["2026-05", "2026-08", "2026-10", "2027-01", "2027-03", "2027-05"] {
        sandbox.set_variable("POOLCTL_NOW", &format!("{month}-01T00:00:00Z"));
        sandbox.ok("reconcile");
    }
    assert_eq!(count_events(&sandbox), 100);
}

/// A claim is killed at each of its system calls that change anything: it happened or it did not.
/// X-15, too: the lease and the cluster are one transaction.
#[test]
fn a_claim_that_is_killed_anywhere_is_whole_or_absent() {
    if !has_program("strace") {
        return;
    }
    let start = Sandbox::new();
    start.create_ready_pool("lab", 1);
    let mut fired = 0;
    for call in ["pwrite64", "fdatasync", "fsync", "ftruncate", "openat", "fcntl", "flock", "write"]
    {
        for at in 1..60 {
            let sandbox = start.copy();
            let options = format!("-e trace={call} -e inject={call}:signal=KILL:when={at}");
            let (code, _) = trace(&sandbox, &options, "claim lab c -q");
            if code == 0 {
                // The command makes fewer calls than that: all of them were tried.
                break;
            }
            assert_eq!(code, 137, "{call} {at}");
            fired += 1;
            sandbox.ok("reconcile -q");
            let claims =
                sandbox.ok("get claim -o 'jsonpath={range .items[*]}{.spec.namespace}{end}'");
            let clusters = sandbox.ok(
                "get cluster -o 'jsonpath={range .items[*]}{.spec.clusterPoolRef.claimName}{end}'",
            );
            assert_eq!(claims.is_empty(), clusters.is_empty(), "{call} {at}: {claims} {clusters}");
            let again = sandbox.run("claim lab c -q");
            let expected = if claims.is_empty() { 0 } else { 4 };
            assert_eq!(again.code, expected, "{call} {at}: {}", again.err);
            assert_eq!(sandbox.run("plan -q").code, 0, "{call} {at}");
        }
    }
    assert!(fired > 20, "{fired}");
}

/// Kills a claim when its answer is committed and not told yet: its pool is still to be planned.
fn answer_and_die(sandbox: &Sandbox, pool: &str, claim: &str) {
    for at in 1..60 {
        let options = format!("-e trace=write -e inject=write:signal=KILL:when={at}");
        trace(sandbox, &options, &format!("claim {pool} {claim} -q"));
        if sandbox.run(&format!("get claim {claim}")).code == 0 {
            return;
        }
    }
    panic!("claim `{claim}` was never made");
}

/// The pools that the next pass plans because something in them has changed.
fn changed_pools(sandbox: &Sandbox) -> Vec<String> {
    let connection = Connection::open(sandbox.state()).unwrap();
    let sql = "SELECT pool FROM due_scope WHERE dirty UNION \
               SELECT answered_pool FROM state WHERE answered_pool IS NOT NULL ORDER BY 1";
    let mut statement = connection.prepare(sql).unwrap();
    let pools = statement.query_map([], |row| row.get(0)).unwrap();
    pools.map(Result::unwrap).collect()
}

#[test]
fn what_a_killed_claim_has_left_to_do_is_done_by_the_next_pass() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    for pool in ["a", "b"] {
        sandbox.create_ready_pool(pool, 1);
    }
    answer_and_die(&sandbox, "a", "first");
    assert_eq!(changed_pools(&sandbox), ["a"]);
    // There is room for one: the other one gets a row.
    answer_and_die(&sandbox, "b", "second");
    assert_eq!(changed_pools(&sandbox), ["a", "b"]);
    sandbox.ok("reconcile -q");
    assert_eq!(changed_pools(&sandbox), [""; 0]);
    assert_eq!(sandbox.ok("get cluster -o name").lines().count(), 4);
}

/// N02: the lease, the counts and the list of free addresses are one transaction.
#[test]
fn an_address_claimed_by_what_is_killed_anywhere_is_leased_or_free() {
    if !has_program("strace") {
        return;
    }
    let start = Sandbox::new();
    start.ok("ippool create p --range 10.0.0.1-10.0.0.9");
    let mut fired = 0;
    for call in ["pwrite64", "fdatasync", "ftruncate", "write"] {
        for at in 1..60 {
            let sandbox = start.copy();
            let options = format!("-e trace={call} -e inject={call}:signal=KILL:when={at}");
            let (code, _) = trace(&sandbox, &options, "ip claim p c");
            if code == 0 {
                break;
            }
            assert_eq!(code, 137, "{call} {at}");
            fired += 1;
            let leases = sandbox.ok("get ipaddress -o name").lines().count();
            let used = sandbox.ok("get ippool p -o jsonpath={.status.ipAddresses.used}");
            assert_eq!(used.trim(), leases.to_string(), "{call} {at}");
            let doctor = sandbox.run("doctor").out;
            for check in ["constraints", "addresses"] {
                let mut rows = doctor.lines().filter(|line| line.starts_with(check));
                assert!(rows.any(|row| row.contains(" ok ")), "{call} {at}: {doctor}");
            }
        }
    }
    assert!(fired > 5, "{fired}");
}

/// SQLite does not call it an error if the disk refuses to make the copy one file: it was kept under
/// the name of a backup, and nobody could open it.
#[test]
fn a_backup_that_the_disk_refuses_anywhere_is_none() {
    if !has_program("strace") {
        return;
    }
    let start = Sandbox::new();
    start.ok("pool create lab --fake --size 0");
    let mut refused = 0;
    for at in 1..20 {
        let sandbox = start.copy();
        let options = format!("-e trace=fsync -e inject=fsync:error=EIO:when={at}");
        let (code, _) = trace(&sandbox, &options, "backup $HOME/b.db");
        refused += usize::from(code != 0);
        if sandbox.shell("test -e $HOME/b.db").code == 0 {
            let ran = sandbox.shell("poolctl restore $HOME/b.db -y");
            assert_eq!(ran.code, 0, "fsync {at}: {}", ran.err);
        }
    }
    assert!(refused > 2, "{refused}");
}

/// A state that has two names is refused. A command that was killed between making a link and
/// removing the other name left a new state with two names for ever.
#[test]
fn a_state_whose_making_is_killed_anywhere_has_one_name() {
    if !has_program("strace") {
        return;
    }
    // The calls that make, use or remove names; then the same where the file system has no rename
    // that refuses to replace a file.
    let elsewhere = "-e inject=renameat2:error=EINVAL";
    let sweeps = [
        ("openat", "", 15),
        ("fsync", "", 9),
        ("/^link", "", 0),
        ("/^unlink", "", 2),
        ("/^rename", "", 1),
        ("openat", elsewhere, 15),
        ("flock", elsewhere, 2),
        ("/^link", elsewhere, 0),
        ("/^unlink", elsewhere, 2),
        ("?rename,?renameat", elsewhere, 1),
    ];
    for (calls, fault, at_least) in sweeps {
        let mut fired = 0;
        for at in 1..60 {
            let sandbox = Sandbox::new();
            let kill = format!("-e inject={calls}:signal=KILL:when={at}");
            let options = format!("-e trace={calls},renameat2 {kill} {fault}");
            let create = "pool create lab --fake -q --no-reconcile";
            let (code, traced) = trace(&sandbox, &options, create);
            if code == 0 {
                break;
            }
            assert_eq!(code, 137, "{calls} {at} {fault}: {traced}");
            fired += 1;
            let linked = sandbox.shell("find $HOME -type f -links +1");
            assert_eq!((linked.code, linked.out.as_str()), (0, ""), "{calls} {at} {fault}");
            let again = sandbox.run("pool create lab --fake -q");
            assert!([0, 4].contains(&again.code), "{calls} {at} {fault}: {}", again.err);
        }
        assert!((at_least..59).contains(&fired), "{calls} {fault}: {fired}");
    }
}

#[test]
fn a_state_is_made_once_also_where_every_rename_replaces() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    // The file system has no rename that refuses to replace a file.
    let strace =
        "strace -f -qq -o $HOME/trace.$n -e trace=renameat2 -e inject=renameat2:error=EINVAL";
    let create = "poolctl pool create p$n --fake --size 1 -q";
    let ran = sandbox.shell(&format!(
        "for n in 1 2 3 4 5 6 7 8; do {strace} {create} & done; wait; cat $HOME/trace.*; rm $HOME/trace.*"
    ));
    assert!(ran.out.contains("RENAME_NOREPLACE) = -1 EINVAL"), "the fault never fired");
    assert_eq!(ran.err, "");
    assert_eq!(sandbox.ok("get pool -o name").lines().count(), 8);
    assert_eq!(sandbox.shell("ls -A $HOME | grep '^[.]state[.]db'").out, "");
}
