#!/bin/sh
# What a long life and a large pool cost: a change beside a year of past jobs and events, one pass that
# makes a pool of 8,000 clusters, and a pass that finds nothing to do in a pool with an inventory of
# 5,000. Prints user and system time and the peak memory of whole processes; TMPDIR says where the states
# are.
# Needs sqlite3 and GNU time. Usage: tests/perf/history.sh [POOLCTL]
set -eu
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then
  cargo build --quiet --release --locked
  set -- "$PWD/target/release/poolctl"
fi
poolctl=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export POOLCTL_SEED=1 POOLCTL_NOW=2026-03-02T12:00:00Z

measure() { # NAME ARGUMENT...: processor time of one run
  name=$1
  shift
  command time -o time -f '%U %S %M' "$poolctl" "$@" > /dev/null
  awk -v name="$name" '{ printf "%-48s user %5.2f s  system %5.2f s  %5d MB\n", name, $1, $2, $3 / 1024 }' time
}

# A year: 1,000 jobs and 2,700 events a day.
export POOLCTL_STATE=$folder/year.db
"$poolctl" pool create lab --fake --size 20 --running-count 20 -q > /dev/null
"$poolctl" reconcile --wait -q > /dev/null
measure 'a claim in a new state' claim lab early -q
sqlite3 year.db "
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 365000)
  INSERT INTO job (id, verb, object, pool_namespace, pool, driver, attempt, ordinal, started, ended,
      outcome, begun)
    SELECT printf('%08x-0000-0000-0000-000000000000', i), p.verb, 'gone-' || i, 'default', 'lab',
      p.driver, 1, 1, i * 86000000, i * 86000000 + 1000000, 'succeeded', 1
    -- Verb and driver as this poolctl writes them.
    FROM n, (SELECT verb, driver FROM job WHERE ordinal = 1 LIMIT 1) p;
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
  INSERT INTO event (id, time, warning, reason, kind, namespace, name, actor, message)
  SELECT 1000 + i, i * 31000000, 0, 'JobStarted', 'ClusterDeployment', 'gone-' || i,
    'gone-' || i, 'reconcile', 'provision started (attempt 1)' FROM n;"
measure 'the first after a year (migrates an older one)' claim lab first -q
measure 'a claim after a year' claim lab late -q
measure 'a claim that waits, after a year' claim lab waits -q --no-reconcile
measure 'events of a cluster, after a year' events cluster/gone-77 -q
measure 'a pass with nothing to do, after a year' reconcile -q

export POOLCTL_STATE=$folder/large.db
"$poolctl" pool create large --fake --size 8000 --running-count 8000 -q --no-reconcile > /dev/null
measure 'a pass that makes 8,000 clusters' reconcile -q
export POOLCTL_NOW=2026-03-02T13:00:00Z
measure 'a pass in which 8,000 are installed' reconcile -q
measure 'a pass with nothing to do, 8,000' reconcile -q

export POOLCTL_STATE=$folder/inventory.db
{
  echo '{apiVersion: hive.openshift.io/v1, kind: ClusterImageSet, metadata: {name: x}, spec: {releaseImage: "a:1"}}'
  echo '---'
  echo '{apiVersion: hive.openshift.io/v1, kind: ClusterPool, metadata: {name: many}, spec: {size: 5000, runningCount: 5000, baseDomain: example.com, imageSetRef: {name: x}, platform: {none: {}}, annotations: {hive.openshift.io/fake-cluster: "true"}, inventory: ['
  at=0
  while [ $at -lt 5000 ]; do
    echo "{name: c$at},"
    at=$((at + 1))
  done
  echo ']}}'
} > pool.yaml
at=0
while [ $at -lt 5000 ]; do
  echo '---'
  echo "{apiVersion: hive.openshift.io/v1, kind: ClusterDeploymentCustomization, metadata: {name: c$at}, spec: {installConfigPatches: [{op: replace, path: /metadata/name, value: c$at}]}}"
  at=$((at + 1))
done > customizations.yaml
split -l 2000 -a 4 --additional-suffix=.yaml customizations.yaml part.
for part in pool.yaml part.*; do
  "$poolctl" apply -qf "$part" --no-reconcile > /dev/null
done
measure 'an inventory of 5,000 is put to use' reconcile -q
export POOLCTL_NOW=2026-03-02T14:00:00Z
"$poolctl" reconcile --wait -q
measure 'a pass with nothing to do, inventory of 5,000' reconcile -q
