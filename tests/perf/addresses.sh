#!/bin/sh
# Leases of addresses: growth from 1,000 to 1,000,000, 10,000 in one pass, bytes for each. Medians
# and ratios of whole processes, side by side with a commit of one row by sqlite3 (SC).
# Needs hyperfine and sqlite3. Usage: tests/perf/addresses.sh
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked
PATH="$PWD/target/release:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export POOLCTL_SEED=1
sqlite3 sc.db 'PRAGMA journal_mode = WAL; CREATE TABLE t (x)' > /dev/null

run() { # NAME COMMAND: the median in milliseconds
  hyperfine -N -i --warmup 5 --runs "${runs:-60}" --export-csv out.csv ${prepare:+--prepare "$prepare"} "$2" > /dev/null 2>&1
  awk -F, -v name="$1" 'NR == 2 { printf "%-36s %8.2f ms\n", name, $4 * 1000 }' out.csv
}

run SC "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
for strategy in sequential random; do
  for leases in 1000 1000000; do
    state=$strategy.$leases.db
    poolctl --state "$state" ippool create p --range 10.0.0.0/11 --allocation $strategy -q > /dev/null
    done=0
    while [ "$done" -lt "$leases" ]; do
      many=$((leases - done < 50000 ? leases - done : 50000))
      poolctl --state "$state" ip claim p "c$done" --count $many > /dev/null
      done=$((done + many))
    done
    export POOLCTL_STATE=$folder/$state
    run "claim, $strategy, $leases" "poolctl ip claim p"
    runs=1 run "who, $strategy, $leases" "poolctl ip who 10.0.0.77"
    # One from the middle, and back again.
    runs=60 prepare="poolctl ip claim p middle -q" run "release, $strategy, $leases" "poolctl ip release middle -q"
    unset prepare
  done
  size=$(sqlite3 $strategy.1000000.db "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'ip_%' OR name LIKE 'sqlite_autoindex_ip_%'" 2> /dev/null || echo 0)
  echo "bytes for each lease, $strategy: $((size / 1000000))"
done
poolctl --state bulk.db ippool create p --range 10.0.0.0/11 --allocation sequential -q > /dev/null
runs=5 prepare="sh -c 'rm -f b.db*; cp bulk.db b.db; cp bulk.db-wal b.db-wal 2> /dev/null || true'" run "10,000 claims in one pass" "poolctl --state b.db ip claim p c --count 10000"
unset prepare
# Pre-allocated addresses are intervals: a pool with many of them leases as fast as one without.
for kept in 0 10000; do
  awk -v kept=$kept 'BEGIN {
    print "apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: p}"
    print "spec:\n  pools: [{subnet: 10.0.0.0/8}]\n  prefix: 8\n  preAllocations:"
    if (kept == 0) print "    none: 10.0.0.77"
    for (i = 0; i < kept; i++) printf "    vm-%d: 10.%d.%d.77\n", i, int(i / 256), i % 256
  }' > kept.yaml
  poolctl --state kept.$kept.db apply -f kept.yaml -q > /dev/null
  runs=5 prepare="sh -c 'rm -f b.db*; cp kept.$kept.db b.db; cp kept.$kept.db-wal b.db-wal 2> /dev/null || true'" run "1,000 claims, $kept pre-allocated" "poolctl --state b.db ip claim p c --count 1000"
done
unset prepare
# An import is linear: ten times the leases take ten times as long.
for leases in 10000 100000; do
  poolctl --state export.$leases.db ippool create p --range 10.0.0.0/11 --allocation sequential -q > /dev/null
  done=0
  while [ "$done" -lt "$leases" ]; do
    poolctl --state export.$leases.db ip claim p "c$done" --count 10000 > /dev/null
    done=$((done + 10000))
  done
  poolctl --state export.$leases.db export -o json > leases.json
  runs=3 prepare="sh -c 'rm -f b.db*'" run "import of $leases leases" "poolctl --state b.db import leases.json -q"
done
unset prepare
run "SC again" "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
