//! A long history costs nothing: a command reads as many pages of a state with a year of ended jobs
//! and events as it reads of a new state.

use crate::sandbox::{Sandbox, apply, execute_sql, has_program};

/// How many pages of the state a command reads.
fn pages_read(sandbox: &Sandbox, command: &str) -> usize {
    // Whoever opens the state reads its log, too, whose length is of no interest here.
    execute_sql(sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let trace = sandbox.path().join("trace").display().to_string();
    let ran = sandbox.shell(&format!(
        "strace -f -qq -y -o {trace} -e trace=pread64 poolctl {command} -q >/dev/null"
    ));
    assert_eq!(ran.code, 0, "{command}: {}", ran.err);
    let calls = std::fs::read_to_string(trace).unwrap();
    calls.lines().filter(|line| line.contains("state.db")).count()
}

/// Adds so many ended jobs, and so many events of objects that are deleted.
fn add_history(sandbox: &Sandbox, rows: usize) {
    let statements = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO job (id, verb, object, pool_namespace, pool, driver, attempt, ordinal, started,
             ended, outcome, begun)
           SELECT printf('%08x-0000-0000-0000-000000000000', i), 'provision', 'gone-' || i,
             'default', 'gone', 'fake', 1, 1, i, i, 'succeeded', 1 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO event (time, warning, reason, kind, namespace, name, actor, message)
           SELECT i, 0, 'JobStarted', 'ClusterDeployment', 'gone-' || i, 'gone-' || i, 'reconcile',
           'provision started (attempt 1)' FROM n;"
    );
    execute_sql(sandbox, &statements).unwrap();
}

/// One command of each sort, about objects that belong to this round alone.
fn commands_of_round(round: &str, cluster: &str) -> [String; 7] {
    [
        format!("claim lab ci-{round}"),
        format!("claim lab waits-{round} --no-reconcile"),
        format!("ip claim net host-{round}"),
        format!("extend ci-{round} --for 2h"),
        format!("events claim/ci-{round}"),
        format!("job show {cluster}"),
        format!("release ci-{round} -y"),
    ]
}

/// How many pages each command of a round reads.
fn pages_of_round(sandbox: &Sandbox, round: &str, cluster: &str) -> [usize; 7] {
    commands_of_round(round, cluster).map(|command| pages_read(sandbox, &command))
}

#[test]
fn a_command_reads_nothing_of_the_history() {
    if !has_program("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 6);
    let address_pool = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: net}\n\
                        spec: {pools: [{start: 10.0.0.10, end: 10.0.0.99}], prefix: 24}\n";
    apply(&sandbox, address_pool);
    sandbox.create_ready_pool("extra", 1);
    let names = sandbox.ok("get cluster -qo name");
    let extra_cluster = names.lines().find(|name| name.starts_with("extra-")).unwrap();
    pages_of_round(&sandbox, "warm", extra_cluster);
    let before = pages_of_round(&sandbox, "before", extra_cluster);
    add_history(&sandbox, 50_000);
    let after = pages_of_round(&sandbox, "after", extra_cluster);
    let commands = commands_of_round("after", extra_cluster);
    for (command, (before, after)) in commands.iter().zip(before.into_iter().zip(after)) {
        // The trees of the tables are one or two pages higher.
        assert!(after <= before + 25, "{command}: {before} pages, then {after}");
    }
}
