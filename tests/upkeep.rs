//! backup, restore and doctor: copies that are whole, and what is wrong beside the state.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Sandbox, customization, jsonpath};

/// Where a restore says it has kept what was there.
fn kept(said: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix("what was there is kept as "));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn a_backup_can_be_put_back() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 2);
    let file = sandbox.path().join("backup.db");
    let name = file.display().to_string();
    sandbox.ok(&["backup", &name]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = sandbox.ok(&["export"]);
    sandbox.ok(&["label", "pool", "lab", "later=yes"]);
    // Nobody is asked without a terminal.
    let ran = sandbox.run(&["restore", &name]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains(&format!("poolctl restore {name} -y")), "{}", ran.err);
    let ran = sandbox.run(&["restore", &name, "-y"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok(&["export"]), before);
    // What was there is kept.
    let kept = kept(&ran.err);
    assert!(sandbox.ok(&["--state", &kept, "get", "pool", "-o", "yaml"]).contains("later"));
    // Each time under a name of its own.
    let ran = sandbox.run(&["restore", &name, "-y"]);
    assert!(ran.code == 0 && !ran.err.contains(&format!("{kept}\n")), "{}", ran.err);
    // Into a place where there was none.
    let new = sandbox.path().join("new/state.db").display().to_string();
    let ran = sandbox.run(&["--state", &new, "restore", &name]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("is not known: there is no state"), "{}", ran.err);
    assert_eq!(sandbox.ok(&["--state", &new, "export"]), before);
}

#[test]
fn restore_waits_for_no_job_and_reports_those_it_forgets() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    let name = sandbox.path().join("backup.db").display().to_string();
    sandbox.ok(&["backup", &name]);
    sandbox.ok(&["pool", "scale", "lab", "--size", "2"]);
    let ran = sandbox.run(&["restore", &name, "-y"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("1 jobs are running, provision of cluster"), "{}", ran.err);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    // A folder that some job left.
    std::fs::create_dir_all(sandbox.path().join("jobs/0123-left")).unwrap();
    let ran = sandbox.run(&["restore", &name, "-y", "--leases-since=hold"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("job `0123-left` was done after the backup"), "{}", ran.err);
}

#[test]
fn what_is_no_backup_is_not_put_back_and_nothing_else_is_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    let before = sandbox.ok(&["export"]);
    let text = sandbox.file("notes.txt", "mine");
    for (arguments, code) in [
        (["restore", &text], 8),
        (["restore", "/nowhere"], 3),
        (["backup", &text], 4),
        (["backup", &sandbox.state().display().to_string()], 4),
        (["backup", "/nowhere/b.db"], 1),
    ] {
        let ran = sandbox.run(&[&arguments[..], &["-y"]].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
    }
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "mine");
    assert_eq!(sandbox.ok(&["export"]), before);
    // One that was cut short.
    let name = sandbox.path().join("backup.db");
    sandbox.ok(&["backup", &name.display().to_string()]);
    let bytes = std::fs::read(&name).unwrap();
    std::fs::write(&name, &bytes[..bytes.len() / 2]).unwrap();
    let ran = sandbox.run(&["restore", &name.display().to_string(), "-y"]);
    assert_eq!(ran.code, 8, "{}", ran.err);
    // A state that is broken makes room, and stays; what never was one is left alone.
    let good = format!("{}2", name.display());
    sandbox.ok(&["backup", &good]);
    let other =
        sandbox.file("other.db", "rubbish that is longer than a header of SQLite, all of it");
    assert_eq!(sandbox.run(&["--state", &other, "restore", &good, "-y"]).code, 8);
    assert!(std::fs::read_to_string(&other).unwrap().contains("rubbish"));
    let folder = sandbox.path().display().to_string();
    assert_eq!(sandbox.run(&["--state", &folder, "restore", &good, "-y"]).code, 8);
    sandbox.shell("rm $POOLCTL_STATE-wal; truncate -s 5000 $POOLCTL_STATE");
    assert_eq!(sandbox.run(&["get", "pool"]).code, 8);
    let ran = sandbox.run(&["restore", &good, "-y"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Nobody knows what was leased after the backup; when that was is said.
    assert!(ran.err.contains("what was leased after 2026-03-02T12:"), "{}", ran.err);
    assert_eq!(sandbox.ok(&["export"]), before);
    assert_eq!(std::fs::metadata(kept(&ran.err)).unwrap().len(), 5000);
}

#[test]
fn a_backup_replaces_no_state_that_somebody_uses() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    let other = sandbox.path().join("b.db").display().to_string();
    sandbox.ok(&["--state", &other, "pool", "create", "theirs", "--fake"]);
    assert_eq!(sandbox.run(&["backup", &other]).code, 4);
    assert!(sandbox.ok(&["--state", &other, "get", "pool"]).contains("theirs"));
    // Nor do two states in a folder share the copies of their clusters.
    sandbox.ok(&["--state", &other, "reconcile", "--wait", "-q"]);
    let theirs = sandbox.ok(&["--state", &other, "get", "cluster", "-qo", "name"]);
    sandbox.ok(&["--state", &other, "kubeconfig", theirs.trim()]);
    sandbox.ok(&["doctor", "--fix"]);
    assert!(sandbox.shell("ls $HOME/b.db.clusters/*/kubeconfig").code == 0);
}

#[test]
fn a_backup_is_consistent_while_others_write() {
    let mut sandbox = Sandbox::new();
    sandbox.set("POOLCTL_SEED", "");
    sandbox.ready_pool("lab", 20);
    let claims = |at: usize| vec!["claim".to_owned(), "lab".to_owned(), format!("c{at}")];
    let copy = |at: usize| {
        vec!["backup".to_owned(), sandbox.path().join(format!("b{at}.db")).display().to_string()]
    };
    let all: Vec<Vec<String>> = (0..20).flat_map(|at| [claims(at), copy(at)]).collect();
    assert!(sandbox.together(&all).iter().all(|ran| ran.code == 0));
    for at in 0..20 {
        let name = sandbox.path().join(format!("b{at}.db")).display().to_string();
        // Both ends of every claim are in it, or none.
        let state = |path: &str| {
            let text = sandbox.ok(&[
                "--state",
                &name,
                "get",
                "claim,cluster",
                "-o",
                &format!("jsonpath={path}"),
            ]);
            text.split_whitespace().count()
        };
        let (ends, others) = (
            state("{.items[*].spec.namespace}"),
            state("{.items[*].spec.clusterPoolRef.claimName}"),
        );
        assert_eq!(ends, others, "{name}");
        let ran = sandbox.run(&["--state", &name, "doctor"]);
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
    customization(&sandbox, "foo", "one");
    sandbox.ok(&["pool", "create", "lab", "--fake", "--customization", "foo"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    sandbox.ok(&["claim", "lab", "ci"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    sandbox.ok(&["kubeconfig", "ci"]);
    let ran = sandbox.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let states: Vec<&str> =
        ran.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(states, ["ok"; 12], "{}", ran.out);
    // Somebody's hands were in it.
    let conn = rusqlite::Connection::open(sandbox.state()).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = 0; DELETE FROM lease; UPDATE claim SET cluster = NULL",
    )
    .unwrap();
    drop(conn);
    let mode = |mode| {
        std::fs::set_permissions(sandbox.state(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    std::fs::create_dir_all(sandbox.path().join("clusters/gone")).unwrap();
    std::fs::create_dir_all(sandbox.path().join("jobs/gone")).unwrap();
    let script = "cd $HOME; touch theirs; chmod 644 theirs; ln -s $HOME/theirs clusters/gone/link;
        ln -s $HOME clusters/gone/all; mkdir clusters/open; chmod 777 clusters/open";
    assert_eq!(sandbox.shell(script).code, 0);
    let ran = sandbox.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in [
        "Lease taken again for cluster lab-",
        "is assigned to it",
        "has mode 644",
        "clusters/gone` belongs to nothing",
        "jobs/gone` belongs to no job",
        "clusters/open` has mode 777",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // What a job left stays: it may be all that is known of machines that run.
    let ran = sandbox.run(&["doctor", "--fix"]);
    assert_eq!((ran.code, ran.out.matches("wrong").count()), (1, 1), "{}", ran.out);
    assert!(sandbox.path().join("jobs/gone").exists() && sandbox.path().join("theirs").exists());
    assert_eq!(sandbox.shell("stat -c %a $HOME/theirs").out, "644\n");
    std::fs::remove_dir(sandbox.path().join("jobs/gone")).unwrap();
    assert!(ran.out.matches("fixed").count() >= 5, "{}", ran.out);
    assert_eq!(sandbox.run(&["doctor"]).code, 0);
    assert!(!jsonpath(&sandbox, "claim", "{.items[*].spec.namespace}").is_empty());
    assert!(sandbox.ok(&["get", "cdc"]).contains("Reserved"));
}

#[test]
fn doctor_finds_rows_that_point_nowhere_and_work_that_nobody_does() {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake"]);
    let conn = rusqlite::Connection::open(sandbox.state()).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = 0; DELETE FROM cluster_body; INSERT INTO secret VALUES (99, 'a', x'62')").unwrap();
    drop(conn);
    sandbox.set("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    let ran = sandbox.run(&["doctor", "--fix"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in
        ["has no document", "a row of secret points to a row of secret_object", "does cron run"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn doctor_finds_hosts_that_belong_to_nothing() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["apply", "-qf", "examples/agents/rack.yaml"]);
    sandbox.ok(&["apply", "-qf", "examples/agents/cluster.yaml"]);
    for host in ["node-1", "node-2", "node-3"] {
        sandbox.ok(&["agent", "register", "--infraenv", "rack", "--id", host, "-q"]);
    }
    assert_eq!(sandbox.run(&["doctor"]).code, 0);
    let conn = rusqlite::Connection::open(sandbox.state()).unwrap();
    conn.execute_batch(
        r#"PRAGMA foreign_keys = 0; DELETE FROM infra_env; UPDATE cluster SET by_agents = 0;
        UPDATE agent SET body = json_set(body, '$.status.debugInfo.state', 'known',
            '$.status.boundTo', json('{"name": "gone", "namespace": "default"}'),
            '$.status.knownBy', json('["02:00:00:00:00:01"]')) WHERE name <> 'node-3';
        UPDATE agent SET body = json_set(body, '$.metadata.labels."agent-install.openshift.io/bmh"',
            'gone') WHERE name = 'node-3'"#,
    )
    .unwrap();
    drop(conn);
    let ran = sandbox.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in [
        "agent `default/node-1` is bound to cluster `gone`, which is not there: poolctl agent unbind node-1",
        "is of InfraEnv `rack`, which is not there: poolctl infraenv create rack --pull-secret",
        "agent `default/node-3` is host `gone`, which is not there: poolctl label agent node-3 \
         agent-install.openshift.io/bmh-",
        "`default/node-1` and `default/node-2` are one machine, and both are bound",
        "cluster `edge` is not taken for one that is installed on hosts, against its platform none",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // What is typed helps.
    sandbox.ok(&["agent", "unbind", "node-1", "node-2"]);
    sandbox.ok(&["label", "agent", "node-3", "agent-install.openshift.io/bmh-"]);
    sandbox.ok(&["infraenv", "create", "rack", "--pull-secret", "rack-pull-secret"]);
    let ran = sandbox.shell("poolctl get cluster edge -o yaml | poolctl apply -qf -");
    assert_eq!(ran.code, 0, "{}", ran.err);
    sandbox.ok(&["reconcile"]);
    let ran = sandbox.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn a_backup_that_was_copied_into_place_is_a_state() {
    let mut sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    let name = sandbox.path().join("b.db").display().to_string();
    sandbox.ok(&["backup", &name]);
    sandbox.shell("cp $HOME/b.db $HOME/copy.db");
    let copy = sandbox.path().join("copy.db").display().to_string();
    sandbox.set("POOLCTL_STATE", &copy);
    let before = sandbox.ok(&["export"]);
    assert!(sandbox.run(&["doctor"]).out.contains("the journal mode is delete"));
    let ran = sandbox.run(&["doctor", "--fix"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(sandbox.ok(&["export"]), before);
    // Without doctor, the first write does it.
    sandbox.shell("rm copy.db*; cp $HOME/b.db $HOME/copy.db");
    sandbox.ok(&["label", "pool", "lab", "a=b"]);
    assert_eq!(sandbox.run(&["doctor"]).code, 0);
}

/// Its log lies beside the file: read through a link, what was in the log was lost.
#[test]
fn a_state_is_restored_from_with_its_log_or_not_at_all() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    sandbox.ok(&["claim", "lab", "c", "-q"]);
    let restore = |from: &str, to: &str| {
        sandbox.shell(&format!(
            "poolctl --state $HOME/{to} restore $HOME/{from} && \
             poolctl --state $HOME/{to} get claim -o name"
        ))
    };
    sandbox.shell("ln -s state.db $HOME/symbolic.db");
    let ran = restore("symbolic.db", "new.db");
    assert!(ran.code == 0 && ran.out.ends_with("claim/c\n"), "{}{}", ran.out, ran.err);
    sandbox.shell("ln $HOME/state.db $HOME/hard.db");
    let ran = restore("hard.db", "newer.db");
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("hard.db` has more than one name"), "{}", ran.err);
    // A backup has no log. What rotates backups may well link them.
    sandbox.shell("rm $HOME/hard.db; poolctl backup $HOME/b.db; ln $HOME/b.db $HOME/b.1.db");
    let ran = restore("b.1.db", "newest.db");
    assert!(ran.code == 0 && ran.out.ends_with("claim/c\n"), "{}{}", ran.out, ran.err);
}

#[test]
fn metrics_are_openmetrics() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    sandbox.ok(&["claim", "lab", "one"]);
    sandbox.ok(&["pool", "create", "empty", "--fake", "--size", "0"]);
    let text = sandbox.ok(&["metrics"]);
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut family = "";
    let mut seen = std::collections::HashSet::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
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
    let one = |name: &str| {
        let start = format!("{name}{{clusterpool_namespace=\"default\",clusterpool_name=\"lab\"");
        let line = text.lines().find(|line| line.starts_with(&start)).expect(name);
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(one("hive_clusterpool_clusterdeployments_claimed"), "1");
    assert_eq!(one("hive_clusterclaim_assignment_delay_seconds_count"), "1");
    // Written whole, for everybody to read, over what was there.
    let file = sandbox.file("poolctl.prom", "old");
    sandbox.ok(&["metrics", "--textfile", &file]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
}
