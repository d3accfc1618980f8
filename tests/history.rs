//! What is past lies in nobody's way: a change reads as much of the state beside a year of ended jobs
//! and events as it does in a new state.

use rusqlite::Connection;

use crate::sandbox::{Sandbox, has};

/// Pages of the state that a command reads.
fn pages_read(sandbox: &Sandbox, command: &str) -> usize {
    let trace = sandbox.path().join("trace").display().to_string();
    let ran = sandbox.shell(&format!(
        "strace -f -qq -y -o {trace} -e trace=pread64 poolctl {command} -q >/dev/null"
    ));
    assert_eq!(ran.code, 0, "{command}: {}", ran.err);
    let calls = std::fs::read_to_string(trace).unwrap();
    calls.lines().filter(|line| line.contains("state.db")).count()
}

/// Ended jobs, and events of objects that are gone.
fn add_history(sandbox: &Sandbox, many: usize) {
    let conn = Connection::open(sandbox.state()).unwrap();
    conn.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})
         INSERT INTO job (id, verb, object, pool_namespace, pool, driver, attempt, ordinal, started,
             ended, outcome, begun)
           SELECT printf('%08x-0000-0000-0000-000000000000', i), 'provision', 'gone-' || i,
             'default', 'gone', 'fake', 1, 1, i, i, 'succeeded', 1 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})
         INSERT INTO event (time, warning, reason, kind, namespace, name, actor, message)
           SELECT i, 0, 'JobStarted', 'ClusterDeployment', 'gone-' || i, 'gone-' || i, 'reconcile',
           'provision started (attempt 1)' FROM n;"
    ))
    .unwrap();
}

#[test]
fn a_change_reads_nothing_of_what_is_past() {
    if !has("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 6);
    let pools = "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: net}\n\
                 spec: {pools: [{start: 10.0.0.10, end: 10.0.0.99}], prefix: 24}\n";
    crate::sandbox::apply(&sandbox, pools);
    let commands = |round: &str| {
        [
            format!("claim lab ci-{round}"),
            format!("claim lab waits-{round} --no-reconcile"),
            format!("ip claim net host-{round}"),
            format!("extend ci-{round} --for 2h"),
            format!("events claim/ci-{round}"),
            "job show extra".to_owned(),
            format!("release ci-{round} -y"),
        ]
    };
    sandbox.ready_pool("extra", 1);
    let cluster = sandbox.ok(&["get", "cluster", "-qo", "name"]);
    let extra = cluster.lines().find(|name| name.starts_with("extra-")).unwrap().to_owned();
    let read = |round: &str| {
        commands(round).map(|command| {
            let command = command.replace("job show extra", &format!("job show {extra}"));
            pages_read(&sandbox, &command)
        })
    };
    read("warm");
    let before = read("before");
    add_history(&sandbox, 50_000);
    let after = read("after");
    let commands = commands("after");
    for (command, (before, after)) in commands.iter().zip(before.into_iter().zip(after)) {
        // The trees of the tables are one or two pages higher.
        assert!(after <= before + 25, "{command}: {before} pages, then {after}");
    }
}
