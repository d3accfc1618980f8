//! The state under distress: writers that are frozen, commands that were killed, disks that are
//! full or read-only, copies that lack their log.

use crate::sandbox::{Ran, Sandbox, has_program, is_met_or_skipped, is_root};

/// Stops a claim of pool `lab` in the middle of its commit, runs a script, and lets the claim go
/// on. The code is that of the script.
fn run_beside_frozen_writer(sandbox: &Sandbox, script: &str) -> Ran {
    sandbox.shell(&format!(
        "strace -qq -o /dev/null -e trace=fsync -e inject=fsync:signal=STOP:when=1 \
         poolctl claim lab frozen -q > $HOME/frozen.out 2>&1 &
         for try in $(seq 100); do
             read pid rest < $HOME/state.db.lock || true
             [ -n \"$pid\" ] && grep -q '(poolctl) [tT] ' /proc/$pid/stat 2>/dev/null && break
             sleep 0.1
         done
         {script}
         code=$?
         kill -CONT $pid; wait; exit $code"
    ))
}

#[test]
fn whoever_waits_for_a_frozen_writer_says_so_and_gives_up() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let ran = run_beside_frozen_writer(
        &sandbox,
        "poolctl get pool -q && poolctl claim lab other --lock-timeout 3s",
    );
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out, "lab\n");
    for says in [
        "waiting for the write lock: `poolctl claim` (process ",
        "), which is stopped, has held the write lock since ",
        "error: the state was locked by another command for 3s",
        "next: kill -CONT ",
    ] {
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
    }
    // It went on, and the claim that gave up left nothing.
    assert_eq!(sandbox.ok("get claim -o name"), "claim/frozen\n");
    sandbox.ok("claim lab other");
    assert_eq!(sandbox.run("plan -q").code, 0);
}

#[test]
fn doctor_names_a_frozen_writer() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let ran = run_beside_frozen_writer(&sandbox, "poolctl doctor");
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let row = ran.out.lines().find(|line| line.starts_with("writers")).unwrap();
    assert!(row.contains("wrong") && row.contains("`poolctl claim` (process "), "{row}");
    assert!(row.contains("which is stopped, has held the write lock since "), "{row}");
}

/// Kills a command at the Nth of its calls of a system call; whether it made so many.
fn is_killed_at(sandbox: &Sandbox, call: &str, at: usize, command: &str) -> bool {
    let ran = sandbox.shell(&format!(
        "strace -f -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={at} \
         poolctl {command}"
    ));
    ran.code == 137
}

/// Kills commands at system calls that make, write or rename files. Returns how many were killed.
fn kill_at_many_calls(sandbox: &Sandbox, command: &str) -> usize {
    let mut killed = 0;
    for call in ["fsync", "pwrite64", "/^rename", "/^unlink"] {
        for at in 1..7 {
            killed += usize::from(is_killed_at(sandbox, call, at, command));
        }
    }
    killed
}

/// A restore that was killed once left a copy of all secrets in the folder for temporary files.
#[test]
fn what_killed_commands_leave_is_removed_by_the_next_command_that_writes() {
    if !has_program("strace") {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    sandbox.set_variable("TMPDIR", &elsewhere.display().to_string());
    sandbox.shell("poolctl backup $HOME/backup.db");
    assert!(kill_at_many_calls(&sandbox, "backup $HOME/copy.db -q") > 3);
    assert!(kill_at_many_calls(&sandbox, "restore $HOME/backup.db -y -q") > 5);
    assert!(is_killed_at(&sandbox, "fsync", 1, "backup $HOME/copy.db"));
    assert!(is_killed_at(&sandbox, "fsync", 1, "restore $HOME/backup.db -y"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    let list_litter = "ls -A $HOME | grep '^[.]'";
    let litter = sandbox.shell(list_litter).out;
    assert!(litter.contains(".state.db.") && litter.contains(".copy.db."), "{litter}");
    // Younger files may be those of a command that has just made them.
    crate::sandbox::pause(1100);
    let ran = sandbox.run("doctor");
    assert!(ran.out.contains("belongs to no object"), "{}", ran.out);
    sandbox.ok("label pool lab a=b");
    assert!(!sandbox.shell(list_litter).out.contains(".state.db."));
    // What was to become a backup is removed by the next one.
    sandbox.shell("poolctl backup $HOME/copy.db -q");
    assert_eq!(sandbox.shell(list_litter).out, "");
}

/// Whoever never made a backup of that name again kept its secrets for ever.
#[test]
fn what_a_killed_backup_leaves_is_removed_by_a_backup_of_another_name() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.shell("mkdir $HOME/backups; echo theirs > $HOME/backups/.theirs.db.x1Y2z3");
    assert!(is_killed_at(&sandbox, "/^rename", 1, "backup $HOME/backups/a.db"));
    let list_litter = "ls -A $HOME/backups | grep '^[.]'";
    assert!(sandbox.shell(list_litter).out.contains(".a.db."));
    crate::sandbox::pause(1100);
    sandbox.shell("poolctl backup $HOME/backups/b.db -q");
    assert_eq!(sandbox.shell(list_litter).out, ".theirs.db.x1Y2z3\n");
}

#[test]
fn what_is_done_is_told_although_stdout_is_full() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 4);
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.13");
    for (command, says) in [
        ("claim lab a", "claim/a bound to cluster/lab-"),
        ("claim lab b -q", "claim/b bound to cluster/lab-"),
        ("claim lab c -o json", "claim/c created"),
        ("ip claim lan db", "ipclaim/db leases 10.0.0.1"),
        ("label pool lab a=b", "clusterpool/lab labeled"),
        ("release a", "claim/a "),
    ] {
        let ran = sandbox.shell(&format!("poolctl {command} > /dev/full"));
        assert_eq!(ran.code, 1, "{command}: {}", ran.err);
        let warning = format!("warning: this is done and stays, only the answer is lost: {says}");
        assert!(ran.err.contains(&warning), "{command}: {}", ran.err);
        assert!(ran.err.contains("stdout cannot be written"), "{command}: {}", ran.err);
    }
    let claims = sandbox.ok("get claim,ipclaim -o name");
    for name in ["claim/b", "claim/c", "ipclaim/db"] {
        assert!(claims.contains(name), "{claims}");
    }
    // What only looks has done nothing.
    let ran = sandbox.shell("poolctl get claim > /dev/full");
    assert!(ran.code == 1 && !ran.err.contains("warning"), "{}", ran.err);
}

#[test]
fn a_restore_from_a_pipe_is_refused_at_once() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    let ran = sandbox.shell("mkfifo $HOME/pipe; timeout 20 poolctl restore $HOME/pipe -y");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("pipe` is not a file"), "{}", ran.err);
}

/// Whether this process may mount.
fn can_mount() -> bool {
    let can =
        is_root() && Sandbox::new().shell("unshare -m sh -c 'mount --bind $HOME $HOME'").code == 0;
    is_met_or_skipped(can, "needs root and mounts of its own")
}

#[test]
fn a_state_on_a_read_only_file_system_is_read_and_backed_up_elsewhere() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    let elsewhere = Sandbox::new();
    let target = elsewhere.path().display();
    let mount = "mount --bind $HOME $HOME && mount -o remount,bind,ro $HOME";
    // With its log; and after somebody has folded the log in and removed it.
    for prepare in ["true", "poolctl backup $HOME/b.db -q && rm -f state.db* && mv b.db state.db"] {
        let ran = sandbox.shell(&format!("cd $HOME && {prepare}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let before = sandbox.all_objects();
        let script = format!(
            "{mount} && poolctl get claim -o name && poolctl status >/dev/null && poolctl export {target}/e.yaml -q \
             && poolctl backup {target}/b.db -q"
        );
        let ran = sandbox.shell(&format!("unshare -m sh -ec '{script}'"));
        assert_eq!(ran.code, 0, "{prepare}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with("claim/c\n"), "{}", ran.out);
        for command in ["release c", "pool scale lab --size 3", "claim lab d"] {
            let ran = sandbox.shell(&format!("unshare -m sh -c '{mount} && poolctl {command}'"));
            assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
            assert!(ran.err.contains("is read-only"), "{command}: {}", ran.err);
        }
        // A pass opens a lock before anything else, and a kubeconfig is written beside the state.
        for (command, says) in [
            ("reconcile", "is read-only"),
            ("credentials c", "next: poolctl backup FILE, on a disk that can be written"),
        ] {
            let ran = sandbox.shell(&format!("unshare -m sh -c '{mount} && poolctl {command}'"));
            assert!(ran.code != 0 && ran.err.contains(says), "{command}: {}", ran.err);
        }
        assert_eq!(sandbox.all_objects(), before);
        let ran = elsewhere.shell(&format!("poolctl --state {target}/b.db get claim -o name"));
        assert_eq!(ran.out, "claim/c\n", "{}", ran.err);
        elsewhere.shell("rm -f $HOME/b.db* $HOME/e.yaml");
    }
}

#[test]
fn on_a_full_disk_what_is_held_is_still_given_back() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "
        mkdir $HOME/small; mount -t tmpfs -o size=40m none $HOME/small
        export POOLCTL_STATE=$HOME/small/state.db
        poolctl pool create lab --fake --size 4 --running-count 4 -q; poolctl reconcile --wait -q
        for claim in a b c; do poolctl claim lab $claim --lifetime 1h -q; done
        poolctl reconcile --wait -q
        dd if=/dev/zero of=$HOME/small/fill bs=64k || true
        dd if=/dev/zero of=$HOME/small/rest bs=4k || true
        poolctl label pool lab x=y && echo label=0 || echo label=$?
        poolctl release a && echo release=0
        poolctl extend b --for 9h && echo extend=0
        export POOLCTL_NOW=2026-03-02T14:00:00Z
        poolctl reconcile --wait -q && echo reconcile=0
        poolctl get claim -o name
        poolctl delete claim b -y && echo delete=0
        rm $HOME/small/fill
        poolctl label pool lab x=y && ls $HOME/small/*.reserve";
    let ran = sandbox.shell(&format!("exec unshare -m sh -c '{script}'"));
    for says in ["label=8", "release=0", "extend=0", "reconcile=0", "delete=0", "state.db.reserve"]
    {
        assert!(ran.out.contains(says), "{says}: {}{}", ran.out, ran.err);
    }
    assert!(ran.err.contains("the disk with the state file is full"), "{}", ran.err);
    // One was released, and one has expired.
    assert!(ran.out.contains("claim/b") && !ran.out.contains("claim/c\n"), "{}", ran.out);
}

/// The names of the files in a folder of the sandbox, in order.
fn list_files(sandbox: &Sandbox, folder: &str) -> String {
    sandbox.shell(&format!("ls -A $HOME/{folder} | xargs")).out
}

/// Such a copy was once an older state, or an empty one, of which `doctor` said that all is well.
#[test]
fn a_state_that_was_copied_without_its_log_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    sandbox.shell("mkdir $HOME/copy && cp $HOME/state.db $HOME/copy/");
    for command in ["get claim", "doctor", "claim lab d", "export", "backup $HOME/b.db"] {
        let ran = sandbox.shell(&format!("poolctl --state $HOME/copy/state.db {command}"));
        assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
        let says = "copy/state.db` is a copy of a state without its log";
        assert!(ran.err.contains(says) && ran.err.contains("backup"), "{command}: {}", ran.err);
        assert_eq!(list_files(&sandbox, "copy"), "state.db\n", "{command}");
    }
    let restore = "poolctl --state $HOME/new/state.db restore $HOME/copy/state.db";
    assert_eq!(sandbox.shell(restore).code, 8);
    // With its log it is a state.
    sandbox.shell("cp $HOME/state.db-wal $HOME/copy/");
    let get = "poolctl --state $HOME/copy/state.db get claim -o name";
    assert_eq!(sandbox.shell(get).out, "claim/c\n");
    // So is what the message says, for an original that is gone.
    sandbox.shell("rm $HOME/copy/*; cp $HOME/state.db $HOME/copy/; touch $HOME/copy/state.db.lock");
    assert_eq!(sandbox.shell(get).code, 0);
}

#[test]
fn a_log_that_is_damaged_before_its_end_is_reported_and_not_cut_off() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 3);
    sandbox.shell("poolctl backup $HOME/b.db");
    crate::sandbox::execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    for claim in ["a", "b"] {
        sandbox.ok(&format!("claim lab {claim} -q"));
    }
    let lock_path = format!("{}.lock", sandbox.state().display());
    let lock_of_second_claim = std::fs::read(&lock_path).unwrap();
    sandbox.ok("claim lab c -q");
    let log_path = format!("{}-wal", sandbox.state().display());
    let log = std::fs::read(&log_path).unwrap();
    // In a page of the first commit, in the header of its frame, and in the header of the log.
    for place in [32 + 24 + 100, 32 + 16, 32 + 8, 20] {
        let mut damaged = log.clone();
        damaged[place] ^= 0x55;
        std::fs::write(&log_path, &damaged).unwrap();
        for command in ["get claim", "doctor", "release a", "export"] {
            let error = sandbox.refused(8, command, "state.db-wal` is damaged");
            assert!(error.contains("commits behind the damaged place cannot be read"), "{error}");
            assert_eq!(std::fs::read(&log_path).unwrap(), damaged, "{place}: {command}");
        }
    }
    // A commit that was finished cannot be missing at the end.
    std::fs::write(&log_path, &log[..log.len() - 5000]).unwrap();
    sandbox.refused(8, "get claim", "lacks its last commits");
    // One that was not finished, and so was never written down, is what a loss of power leaves.
    std::fs::write(&lock_path, &lock_of_second_claim).unwrap();
    sandbox.ok("get claim");
    let mut torn = log.clone();
    let end = torn.len();
    torn[end - 100] ^= 0x55;
    std::fs::write(&log_path, &torn).unwrap();
    assert!(sandbox.ok("get claim -o name").contains("claim/b"));
    std::fs::write(&log_path, &log).unwrap();
    assert_eq!(sandbox.ok("get claim -o name").lines().count(), 3);
    // The command that the message names helps.
    let mut damaged = log;
    damaged[32 + 24 + 100] ^= 0x55;
    std::fs::write(&log_path, &damaged).unwrap();
    let ran = sandbox.shell("poolctl restore $HOME/b.db -y");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("the replaced state is kept as "), "{}", ran.err);
    sandbox.ok("get pool");
}

#[test]
fn a_restore_warns_of_the_backup_of_another_state() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 -q");
    let other = Sandbox::new();
    other.ok("pool create other --fake --size 0 -q");
    let says = "warning: this is the backup of another state";
    let backup = |from: &Sandbox, name: &str| {
        let path = sandbox.path().join(name).display().to_string();
        from.ok(&format!("backup {path}"));
        path
    };
    let own_backup = backup(&sandbox, "own.db");
    let other_backup = backup(&other, "other.db");
    // The poolctl of an earlier schema has made it.
    let earlier_backup = sandbox.path().join("earlier.db").display().to_string();
    std::fs::copy("tests/fixtures/state-14.db", &earlier_backup).unwrap();
    let connection = rusqlite::Connection::open(&earlier_backup).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(connection);
    for (file, is_warned_of) in
        [(&own_backup, false), (&other_backup, true), (&earlier_backup, true)]
    {
        // Without a terminal nobody can be asked.
        let ran = sandbox.run(&format!("restore {file}"));
        assert_eq!((ran.code, ran.err.contains(says)), (2, is_warned_of), "{}", ran.err);
    }
    sandbox.ok(&format!("restore {own_backup} -y"));
    sandbox.ok("label pool lab a=b");
    let ran = sandbox.run(&format!("restore {other_backup} -y"));
    assert!(ran.code == 0 && ran.err.contains(says), "{}", ran.err);
    // A backup of a later time than the state is of one that went on elsewhere.
    sandbox.shell("mkdir $HOME/elsewhere && cp $HOME/state.db* $HOME/elsewhere/");
    for label in ["b", "c", "d"] {
        sandbox.shell(&format!(
            "poolctl --state $HOME/elsewhere/state.db label pool other a={label} --overwrite -q"
        ));
    }
    sandbox.shell("poolctl --state $HOME/elsewhere/state.db backup $HOME/newer.db");
    let ran = sandbox.shell("poolctl restore $HOME/newer.db");
    assert!(ran.err.contains("the backup is newer than the state"), "{}", ran.err);
    // From now on it is the other one.
    let ran = sandbox.run(&format!("restore {own_backup} -y"));
    assert!(ran.code == 0 && ran.err.contains(says), "{}", ran.err);
}

#[test]
fn backups_in_a_folder_are_rotated_and_nothing_else_there_is_removed() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 -q");
    let folder = sandbox.path().join("backups").display().to_string();
    for hour in 12..16 {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        let told = sandbox.ok(&format!("backup --keep 2 {folder}"));
        assert_eq!(told, format!("state backed up to {folder}/poolctl.20260302T{hour}0000Z.db\n"));
        if hour == 12 {
            // Other files, one of them with such a name.
            sandbox.write_file("backups/poolctl.20200101T000000Z.db", "not a backup");
            sandbox.ok(&format!("backup {folder}/monthly.db"));
        }
    }
    let left = "monthly.db poolctl.20200101T000000Z.db poolctl.20260302T140000Z.db \
                poolctl.20260302T150000Z.db\n";
    assert_eq!(list_files(&sandbox, "backups"), left);
    sandbox.ok(&format!("restore {folder}/poolctl.20260302T150000Z.db -y"));
    sandbox.refused(2, &format!("backup --keep 0 {folder}"), "--keep");
}

#[test]
fn a_state_on_a_network_file_system_is_read_and_changed_only_on_demand() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    // The type of each file system is said to be that of NFS, 0x6969, in eight bytes.
    let on_nfs = "strace -f -qq -o /dev/null -e trace=statfs \
                  -e inject=statfs:poke_exit=@arg2=6969000000000000 poolctl";
    for (command, code) in [
        ("get pool", 0),
        ("export", 0),
        ("backup $HOME/b.db", 0),
        ("claim lab c", 8),
        ("pool scale lab --size 2", 8),
        ("restore $HOME/b.db -y", 8),
        ("claim lab c --i-know", 0),
        ("release c --i-know", 0),
    ] {
        let ran = sandbox.shell(&format!("{on_nfs} {command}"));
        assert_eq!(ran.code, code, "{command}: {}{}", ran.out, ran.err);
        let is_refused = ran.err.contains("is on a network file system");
        assert_eq!(is_refused, code == 8, "{command}: {}", ran.err);
    }
}

#[test]
fn what_can_be_read_of_a_corrupt_state_is_salvaged_and_losses_are_told() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab c -q");
    crate::sandbox::execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(sandbox.state()).unwrap();
    let objects = sandbox.all_objects();
    // A state that is whole is taken over whole.
    let salvage = "poolctl doctor --salvage $HOME/state.db --to";
    let ran = sandbox.shell(&format!("{salvage} $HOME/copy.db"));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let get = "get pool,claim,cluster,cdc,imgset,secret,ns -A -o yaml";
    let ran = sandbox.shell(&format!("poolctl --state $HOME/copy.db {get}"));
    assert_eq!(ran.out, objects, "{}", ran.err);
    assert_eq!(sandbox.shell("poolctl --state $HOME/copy.db doctor -q >/dev/null").code, 0);
    let ran = sandbox.shell(&format!("{salvage} $HOME/copy.db"));
    assert!(ran.code == 4 && ran.err.contains("exists already"), "{}", ran.err);
    // Whatever page is lost, the others are read, and the corrupt file stays as it is.
    let mut losses = 0;
    let page_size = 4096;
    for page in (1..whole.len() / page_size).step_by(7) {
        let mut corrupt = whole.clone();
        corrupt[page * page_size..(page + 1) * page_size].fill(0xa5);
        std::fs::write(sandbox.state(), &corrupt).unwrap();
        let new_state = format!("$HOME/salvaged-{page}.db");
        let ran = sandbox.shell(&format!("{salvage} {new_state}"));
        assert!([0, 1].contains(&ran.code), "{page}: {}{}", ran.out, ran.err);
        losses += ran.code;
        assert_eq!(std::fs::read(sandbox.state()).unwrap(), corrupt, "{page}");
        let ran = sandbox.shell(&format!("poolctl --state {new_state} get ns"));
        assert_eq!(ran.code, 0, "{page}: {}", ran.err);
    }
    assert!(losses > 2, "{losses}");
    // So is a file that is cut short, as far as it goes.
    std::fs::write(sandbox.state(), &whole[..whole.len() / 4]).unwrap();
    let ran = sandbox.shell(&format!("{salvage} $HOME/half.db"));
    assert!(ran.code == 1 && ran.err.contains("half.db doctor --fix"), "{}{}", ran.out, ran.err);
}

/// The bytes of a page of a state.
const PAGE_SIZE: usize = 4096;

/// The numbers of the pages that have the list of tables, counted from 0. The first page has its
/// beginning.
fn pages_of_table_list(state: &[u8]) -> Vec<usize> {
    let mut pages = vec![0];
    for (number, page) in state.chunks(PAGE_SIZE).enumerate().skip(1) {
        let has_statements = page.windows(7).any(|bytes| bytes == b"CREATE ");
        // Such a page has rows of a table.
        if page[0] == 13 && has_statements {
            pages.push(number);
        }
    }
    pages
}

/// The next Secret once took over the values of one whose document was lost.
#[test]
fn the_values_of_a_lost_secret_are_lost_with_it() {
    let sandbox = Sandbox::new();
    sandbox.ok("create secret generic creds --from-literal=password=CANARY -q");
    let sql = "PRAGMA foreign_keys = 0; DELETE FROM document WHERE name = 'creds'";
    crate::sandbox::execute_sql(&sandbox, sql).unwrap();
    let ran = sandbox.shell("poolctl doctor --salvage $HOME/state.db --to $HOME/new.db");
    let says_loss = ran.out.contains("rows of a lost Secret: 1");
    assert!(ran.code == 1 && says_loss, "{}{}", ran.out, ran.err);
    let create = "poolctl --state $HOME/new.db create secret generic other -q";
    assert_eq!(sandbox.shell(create).code, 0);
    let ran = sandbox.shell("poolctl --state $HOME/new.db extract secret/other --to=-");
    assert!(!ran.out.contains("CANARY"), "{}", ran.out);
}

/// Damage in the list of tables once lost all tables that it names behind the damaged place, and
/// often all there are.
#[test]
fn a_state_is_salvaged_though_its_list_of_tables_is_damaged() {
    let new = Sandbox::new();
    new.create_ready_pool("lab", 2);
    new.ok("claim lab c -q");
    // Its tables are elsewhere, and the newest ones are at the end.
    let migrated = crate::migrations::earlier(6);
    migrated.ok("create namespace other -q");
    for sandbox in [new, migrated] {
        crate::sandbox::execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let whole = std::fs::read(sandbox.state()).unwrap();
        let objects = sandbox.all_objects();
        let pages = pages_of_table_list(&whole);
        assert!(pages.len() > 5, "{pages:?}");
        for page in pages {
            let mut corrupt = whole.clone();
            // The first page begins with the header of the file.
            let start = if page == 0 { 100 } else { page * PAGE_SIZE };
            corrupt[start..(page + 1) * PAGE_SIZE].fill(0xa5);
            std::fs::write(sandbox.state(), &corrupt).unwrap();
            let new_state = format!("$HOME/salvaged-{page}.db");
            let salvage = format!("poolctl doctor --salvage $HOME/state.db --to {new_state}");
            let ran = sandbox.shell(&salvage);
            assert!([0, 1].contains(&ran.code), "{page}: {}{}", ran.out, ran.err);
            let says_loss = ran.out.contains("does not say where they are");
            assert_eq!(says_loss, ran.code == 1, "{page}: {}{}", ran.out, ran.err);
            assert_eq!(std::fs::read(sandbox.state()).unwrap(), corrupt, "{page}");
            let get = "get pool,claim,cluster,cdc,imgset,secret,ns -A -o yaml";
            let ran = sandbox.shell(&format!("poolctl --state {new_state} {get}"));
            assert_eq!(ran.out, objects, "{page}: {}", ran.err);
        }
    }
}

/// A restore on a full disk once said that the backup cannot be read.
#[test]
fn what_lacks_room_for_a_copy_says_so_and_changes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    sandbox.shell("poolctl backup $HOME/b.db");
    let objects = sandbox.all_objects();
    for command in ["restore $HOME/b.db -y", "doctor --salvage $HOME/b.db --to $HOME/new.db"] {
        // No file may have more blocks than this, as if the disk were full.
        let ran = sandbox.shell(&format!("trap '' XFSZ; ulimit -f 100; poolctl {command}"));
        assert_eq!(ran.code, 8, "{command}: {}{}", ran.out, ran.err);
        let says = "b.db` beside the state; nothing was changed";
        assert!(ran.err.contains(says), "{command}: {}", ran.err);
        assert!(ran.err.contains("next: make room"), "{command}: {}", ran.err);
    }
    assert_eq!(sandbox.all_objects(), objects);
}
