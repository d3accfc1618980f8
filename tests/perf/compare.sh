#!/bin/sh
# Whole processes side by side: poolctl against the least a program can do (F), the least sqlite3
# can do (S1), and a commit of one row by sqlite3 (SC). Prints medians and ratios.
# Needs hyperfine, sqlite3 and rustc. Usage: tests/perf/compare.sh [CLUSTERS...]
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked
PATH="$PWD/target/release:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export POOLCTL_SEED=1 POOLCTL_NOW=2026-03-02T12:00:00Z

echo 'fn main() {}' > f.rs
rustc -O f.rs -o f
sqlite3 sc.db 'PRAGMA journal_mode = WAL; CREATE TABLE t (x)' > /dev/null

pools() { # of 20 clusters each
  echo '{apiVersion: hive.openshift.io/v1, kind: ClusterImageSet, metadata: {name: x}, spec: {releaseImage: "a:1"}}'
  at=0
  while [ $at -lt "$1" ]; do
    echo '---'
    echo "{apiVersion: hive.openshift.io/v1, kind: ClusterPool, metadata: {name: p$at}, spec: {size: 20, runningCount: 20, baseDomain: example.com, imageSetRef: {name: x}, platform: {none: {}}, annotations: {hive.openshift.io/fake-cluster: 'true'}}}"
    at=$((at + 1))
  done
}

run() { # NAME COMMAND: 100 runs, the median in milliseconds
  hyperfine -N --warmup 5 --runs "${runs:-100}" --export-csv out.csv ${prepare:+--prepare "$prepare"} "$2" > /dev/null 2>&1
  awk -F, -v name="$1" 'NR == 2 { printf "%-28s %8.2f ms\n", name, $4 * 1000 }' out.csv
}

run F ./f
run S1 "sqlite3 sc.db 'SELECT 1'"
run SC "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
run version "poolctl version"
for clusters in "${@:-1000}"; do
  state=$clusters.db
  pools $((clusters / 20)) > pools.yaml
  split -l 1000 -a 4 --additional-suffix=.yaml pools.yaml part.
  for part in part.*; do
    poolctl --state "$state" apply -qf "$part" --no-reconcile > /dev/null
  done
  rm part.*
  poolctl --state "$state" reconcile
  poolctl --state "$state" reconcile --wait -q
  export POOLCTL_NOW=2026-03-02T13:00:00Z
  run "get pool, $clusters" "poolctl --state $state get pool"
  run "get pool p1, $clusters" "poolctl --state $state get pool p1"
  run "idle pass, $clusters" "poolctl --state $state reconcile"
  run "names on TAB, $clusters" "poolctl --state $state __complete -- kubeconfig p1"
  runs=5 run "export, $clusters" "poolctl --state $state export all.yaml"
  runs=5 prepare="rm -f new.db new.db-wal" run "import, $clusters" "poolctl --state new.db import all.yaml"
  runs=5 run "backup, $clusters" "poolctl --state $state backup copy.db"
  # 20 clusters are ready in the pool; each claim takes one.
  runs=15 run "claim, $clusters" "poolctl --state $state claim p1 -q"
  export POOLCTL_NOW=2026-03-02T12:00:00Z
done
run "F again" ./f
run "SC again" "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
