//! backup, restore and doctor: copies that are whole, and faults in the state and beside it.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Ran, Sandbox, create_customization, execute_sql, jsonpath};

/// Where a restore says that it has kept the former state.
fn path_of_kept_state(message: &str) -> String {
    let line = message.lines().find_map(|line| line.strip_prefix("the replaced state is kept as "));
    line.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_backup_can_be_put_back() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let file = sandbox.path().join("backup.db");
    let name = file.display().to_string();
    sandbox.ok(&format!("backup {name}"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = sandbox.ok("export");
    sandbox.ok("label pool lab later=yes");
    // Without a terminal nobody can be asked.
    sandbox.refused(2, &format!("restore {name}"), &format!("poolctl restore {name} -y"));
    let ran = sandbox.run(&format!("restore {name} -y"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok("export"), before);
    // The former state is kept.
    let kept = path_of_kept_state(&ran.err);
    assert!(sandbox.ok(&format!("--state {kept} get pool -o yaml")).contains("later"));
    // Each restore keeps it under a name of its own.
    let ran = sandbox.run(&format!("restore {name} -y"));
    assert!(ran.code == 0 && !ran.err.contains(&format!("{kept}\n")), "{}", ran.err);
    // A backup can also be restored where there was no state.
    let absent = sandbox.path().join("new/state.db").display().to_string();
    let ran = sandbox.run(&format!("--state {absent} restore {name} --nothing-since"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok(&format!("--state {absent} export")), before);
}

#[test]
fn restore_is_refused_while_jobs_run_and_names_the_jobs_that_it_forgets() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let name = sandbox.path().join("backup.db").display().to_string();
    sandbox.ok(&format!("backup {name}"));
    sandbox.ok("pool scale lab --size 2");
    sandbox.refused(
        4,
        &format!("restore {name} -y"),
        "the state has 1 running job, such as provision of cluster",
    );
    sandbox.ok("reconcile --wait -q");
    // A folder that a job left, of which the backup knows nothing.
    std::fs::create_dir_all(sandbox.path().join("jobs/0123-left")).unwrap();
    let ran = sandbox.run(&format!("restore {name} -y --leases-since=hold"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("job `0123-left` ran after the backup"), "{}", ran.err);
}

#[test]
fn a_file_that_is_no_backup_is_not_restored_and_no_other_file_is_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let before = sandbox.ok("export");
    let notes = sandbox.write_file("notes.txt", "mine");
    let state = sandbox.state().display().to_string();
    for (command, file, code) in [
        ("restore", &*notes, 8),
        ("restore", "/nowhere", 3),
        ("backup", &*notes, 4),
        ("backup", &*state, 4),
        ("backup", "/nowhere/b.db", 1),
    ] {
        let ran = sandbox.run(&format!("{command} {file} -y"));
        assert_eq!(ran.code, code, "{command} {file}: {}", ran.err);
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
    assert_eq!(sandbox.ok("export"), before);
    // Nor is a backup restored that was cut short.
    let name = sandbox.path().join("backup.db");
    sandbox.ok(&format!("backup {}", name.display()));
    let bytes = std::fs::read(&name).unwrap();
    std::fs::write(&name, &bytes[..bytes.len() / 2]).unwrap();
    let ran = sandbox.run(&format!("restore {} -y", name.display()));
    assert_eq!(ran.code, 8, "{}", ran.err);
    // A broken state is kept under another name; a file that never was a state is left alone.
    let backup = format!("{}2", name.display());
    sandbox.ok(&format!("backup {backup}"));
    let rubbish =
        sandbox.write_file("other.db", "rubbish that is longer than a header of SQLite, all of it");
    assert_eq!(sandbox.run(&format!("--state {rubbish} restore {backup} -y")).code, 8);
    assert!(std::fs::read_to_string(&rubbish).unwrap().contains("rubbish"));
    let folder = sandbox.path().display().to_string();
    assert_eq!(sandbox.run(&format!("--state {folder} restore {backup} -y")).code, 8);
    sandbox.shell("rm $POOLCTL_STATE-wal; truncate -s 5000 $POOLCTL_STATE");
    assert_eq!(sandbox.run("get pool").code, 8);
    let ran = sandbox.run(&format!("restore {backup} -y --nothing-since"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok("export"), before);
    assert_eq!(std::fs::metadata(path_of_kept_state(&ran.err)).unwrap().len(), 5000);
}

#[test]
fn a_backup_replaces_no_state_that_somebody_uses() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let other_state = sandbox.path().join("b.db").display().to_string();
    sandbox.ok(&format!("--state {other_state} pool create theirs --fake"));
    assert_eq!(sandbox.run(&format!("backup {other_state}")).code, 4);
    assert!(sandbox.ok(&format!("--state {other_state} get pool")).contains("theirs"));
    // Two states in one folder do not share the copies of their clusters.
    sandbox.ok(&format!("--state {other_state} reconcile --wait -q"));
    let cluster = sandbox.ok(&format!("--state {other_state} get cluster -qo name"));
    sandbox.ok(&format!("--state {other_state} kubeconfig {}", cluster.trim()));
    sandbox.ok("doctor --fix");
    assert!(sandbox.shell("ls $HOME/b.db.clusters/*/kubeconfig").code == 0);
}

fn backup_path(sandbox: &Sandbox, number: usize) -> String {
    sandbox.path().join(format!("b{number}.db")).display().to_string()
}

/// How many values the claims and clusters of a state have at a path.
fn count_values(sandbox: &Sandbox, state: &str, path: &str) -> usize {
    let values = sandbox.ok(&format!("--state {state} get claim,cluster -o 'jsonpath={path}'"));
    values.split_whitespace().count()
}

#[test]
fn a_backup_is_consistent_while_others_write() {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_SEED", "");
    sandbox.create_ready_pool("lab", 20);
    let mut commands = Vec::new();
    for number in 0..20 {
        commands.push(format!("claim lab c{number}"));
        commands.push(format!("backup {}", backup_path(&sandbox, number)));
    }
    for ran in sandbox.run_together(&commands) {
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    for number in 0..20 {
        let name = backup_path(&sandbox, number);
        // Both ends of every claim are in it, or none.
        let clusters_of_claims = count_values(&sandbox, &name, "{.items[*].spec.namespace}");
        let claims_of_clusters =
            count_values(&sandbox, &name, "{.items[*].spec.clusterPoolRef.claimName}");
        assert_eq!(clusters_of_claims, claims_of_clusters, "{name}");
        let ran = sandbox.run(&format!("--state {name} doctor"));
        assert!(
            !ran.out.contains("constraints  wrong") && !ran.out.contains("links        wrong"),
            "{}",
            ran.out
        );
    }
}

#[test]
fn doctor_finds_what_is_wrong_and_puts_it_right() {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "foo", "one");
    sandbox.ok("pool create lab --fake --customization foo");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab ci");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("kubeconfig ci");
    let ran = sandbox.run("doctor");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let states: Vec<&str> =
        ran.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(states, ["ok"; 16], "{}", ran.out);
    // The database and the files are changed by hand.
    let sql = "PRAGMA foreign_keys = 0; DELETE FROM lease; UPDATE claim SET cluster = NULL";
    execute_sql(&sandbox, sql).unwrap();
    let for_all_to_read = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(sandbox.state(), for_all_to_read).unwrap();
    std::fs::create_dir_all(sandbox.path().join("clusters/gone")).unwrap();
    std::fs::create_dir_all(sandbox.path().join("jobs/gone")).unwrap();
    let script = "cd $HOME; touch theirs; chmod 644 theirs; ln -s $HOME/theirs clusters/gone/link;
        ln -s $HOME clusters/gone/all; mkdir clusters/open; chmod 777 clusters/open";
    assert_eq!(sandbox.shell(script).code, 0);
    let ran = sandbox.run("doctor");
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in [
        "Lease restored for cluster lab-",
        "is assigned to it",
        "has mode 644",
        "clusters/gone` belongs to no object",
        "jobs/gone` belongs to no job",
        "clusters/open` has mode 777",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // The folder of a job stays: it may be all that is known of machines that run.
    let ran = sandbox.run("doctor --fix");
    assert_eq!((ran.code, ran.out.matches("wrong").count()), (1, 1), "{}", ran.out);
    assert!(sandbox.path().join("jobs/gone").exists() && sandbox.path().join("theirs").exists());
    assert_eq!(sandbox.shell("stat -c %a $HOME/theirs").out, "644\n");
    std::fs::remove_dir(sandbox.path().join("jobs/gone")).unwrap();
    assert!(ran.out.matches("fixed").count() >= 5, "{}", ran.out);
    assert_eq!(sandbox.run("doctor").code, 0);
    assert!(!jsonpath(&sandbox, "claim", "{.items[*].spec.namespace}").is_empty());
    assert!(sandbox.ok("get cdc").contains("Reserved"));
}

#[test]
fn doctor_finds_rows_that_point_nowhere_and_work_that_nobody_does() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    let sql = "PRAGMA foreign_keys = 0; DELETE FROM cluster_body;
               INSERT INTO secret VALUES (99, 'a', x'62')";
    execute_sql(&sandbox, sql).unwrap();
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    let ran = sandbox.run("doctor --fix");
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in ["has no document", "a row of secret points to a row of document", "does cron run"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn doctor_finds_hosts_that_belong_to_nothing() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/agents/rack.yaml");
    sandbox.ok("apply -qf examples/agents/cluster.yaml");
    for host in ["node-1", "node-2", "node-3"] {
        sandbox.ok(&format!("agent register --infraenv rack --id {host} -q"));
    }
    assert_eq!(sandbox.run("doctor").code, 0);
    let sql = r#"PRAGMA foreign_keys = 0; DELETE FROM document WHERE kind = 'InfraEnv';
        UPDATE cluster SET by_agents = 0;
        UPDATE agent_body SET body = json_set(body, '$.status.debugInfo.state', 'known',
            '$.status.boundTo', json('{"name": "gone", "namespace": "default"}'),
            '$.status.knownBy', json('["02:00:00:00:00:01"]'))
            WHERE id IN (SELECT id FROM agent WHERE name <> 'node-3');
        UPDATE agent_body SET body = json_set(
            body, '$.metadata.labels."agent-install.openshift.io/bmh"', 'gone')
            WHERE id IN (SELECT id FROM agent WHERE name = 'node-3')"#;
    execute_sql(&sandbox, sql).unwrap();
    let ran = sandbox.run("doctor");
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in [
        "agent `default/node-1` is bound to cluster `gone`, which does not exist: \
         poolctl agent unbind node-1",
        "belongs to InfraEnv `rack`, which does not exist: \
         poolctl infraenv create rack --pull-secret",
        "agent `default/node-3` names host `gone`, which does not exist: \
         poolctl label agent node-3 agent-install.openshift.io/bmh-",
        "`default/node-1` and `default/node-2` are the same machine, and both are bound",
        "cluster `edge` is kept with other values than its document has (by_agents); for the \
         document to count: poolctl get cluster edge -n default -o yaml | poolctl apply -f -",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // The commands that doctor names help.
    sandbox.ok("agent unbind node-1 node-2");
    sandbox.ok("label agent node-3 agent-install.openshift.io/bmh-");
    sandbox.ok("infraenv create rack --pull-secret rack-pull-secret");
    let ran = sandbox.shell("poolctl get cluster edge -o yaml | poolctl apply -qf -");
    assert_eq!(ran.code, 0, "{}", ran.err);
    sandbox.ok("reconcile");
    let ran = sandbox.run("doctor");
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn a_backup_that_was_copied_into_place_is_a_state() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let name = sandbox.path().join("b.db").display().to_string();
    sandbox.ok(&format!("backup {name}"));
    sandbox.shell("cp $HOME/b.db $HOME/copy.db");
    let copy = sandbox.path().join("copy.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &copy);
    let before = sandbox.ok("export");
    assert!(sandbox.run("doctor").out.contains("the journal mode is delete"));
    let ran = sandbox.run("doctor --fix");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(sandbox.ok("export"), before);
    // Without doctor, the first write sets the journal mode.
    sandbox.shell("rm -f $HOME/copy.db*; cp $HOME/b.db $HOME/copy.db");
    sandbox.ok("label pool lab a=b");
    assert_eq!(sandbox.run("doctor").code, 0);
}

/// Restores a file into a new state, and lists the claims of that.
fn restore_and_get_claims(sandbox: &Sandbox, from: &str, to: &str) -> Ran {
    sandbox.shell(&format!(
        "poolctl --state $HOME/{to} restore $HOME/{from} && \
         poolctl --state $HOME/{to} get claim -o name"
    ))
}

/// The log lies beside the file: when a state was read through a link, its log was once lost.
#[test]
fn a_state_is_restored_from_with_its_log_or_not_at_all() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab c -q");
    sandbox.shell("ln -s state.db $HOME/symbolic.db");
    let ran = restore_and_get_claims(&sandbox, "symbolic.db", "new.db");
    assert!(ran.code == 0 && ran.out.ends_with("claim/c\n"), "{}{}", ran.out, ran.err);
    sandbox.shell("ln $HOME/state.db $HOME/hard.db");
    let ran = restore_and_get_claims(&sandbox, "hard.db", "newer.db");
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("hard.db` has more than one name"), "{}", ran.err);
    // A backup has no log. Programs that rotate backups may link them.
    sandbox.shell("rm $HOME/hard.db; poolctl backup $HOME/b.db; ln $HOME/b.db $HOME/b.1.db");
    let ran = restore_and_get_claims(&sandbox, "b.1.db", "newest.db");
    assert!(ran.code == 0 && ran.out.ends_with("claim/c\n"), "{}{}", ran.out, ran.err);
}

#[test]
fn metrics_are_openmetrics() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab one");
    sandbox.ok("pool create empty --fake --size 0");
    let metrics = sandbox.ok("metrics");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let mut family = "";
    let mut seen = std::collections::HashSet::new();
    for line in metrics.lines().filter(|line| *line != "# EOF") {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            family = kind.split(' ').next().unwrap();
            assert!(seen.insert(family), "{family} comes twice");
        } else if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with(family), "{line}");
        } else {
            // A family's samples come together, each with labels and a number.
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(line.starts_with(family) && seen.insert(series), "{line}");
            assert!(value.parse::<f64>().is_ok() && series.ends_with('}'), "{line}");
        }
    }
    for name in [
        "hive_clusterpool_clusterdeployments_claimed",
        "hive_clusterclaim_assignment_delay_seconds_count",
    ] {
        let start = format!("{name}{{clusterpool_namespace=\"default\",clusterpool_name=\"lab\"");
        let sample = metrics.lines().find(|line| line.starts_with(&start)).expect(name);
        assert!(sample.ends_with(" 1"), "{sample}");
    }
    // A text file is replaced as a whole, and everybody may read it.
    let file = sandbox.write_file("poolctl.prom", "old");
    sandbox.ok(&format!("metrics --textfile {file}"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), metrics);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
}
