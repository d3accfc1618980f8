#!/bin/sh
# Hosts: growth from 100 Agents to 1,000 of passes that find nothing to do and of one that picks hosts
# for a pool, and from 10 to 1,000 of what hosts say and what is done with them. Half of the Agents
# are free, half are nodes of clusters of five. Medians of whole processes, side by side with a read
# (S1) and a commit of one row (SC) by sqlite3.
# Needs hyperfine and sqlite3. Usage: tests/perf/agents.sh
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked
PATH="$PWD/target/release:$PATH"
examples=$PWD/examples/agents
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export POOLCTL_SEED=1 POOLCTL_NOW=2026-03-02T12:00:00Z
sqlite3 sc.db 'PRAGMA journal_mode = WAL; CREATE TABLE t (x)' > /dev/null

inventory() { # NUMBER: what is in its host
  sed "s/rack-7-node-1/h-mold-$1/; s/02:00:00:00:00:01/02:00:00:aa:bb:0$1/; s/1\.2\.3\.4/1.2.254.1$1/" "$examples/reports/node-1.json"
}

cluster() { # NAME MASTERS WORKERS
  cat <<EOF
---
{apiVersion: v1, kind: Secret, metadata: {name: $1-config}, stringData: {install-config.yaml: '{apiVersion: v1, baseDomain: lab.test, metadata: {name: $1}, controlPlane: {name: master, replicas: $2}, compute: [{name: worker, replicas: $3}], networking: {machineNetwork: [{cidr: 1.2.0.0/16}]}, platform: {none: {}}}'}}
---
{apiVersion: hive.openshift.io/v1, kind: ClusterDeployment, metadata: {name: $1, annotations: {hive.openshift.io/fake-cluster: 'true', poolctl.dev/fake-install-duration: 1s}}, spec: {baseDomain: lab.test, clusterName: $1, platform: {none: {}}, provisioning: {installConfigSecretRef: {name: $1-config}}}}
EOF
}

pool() { # of clusters of three, none yet
  cat <<EOF
---
{apiVersion: hive.openshift.io/v1, kind: ClusterImageSet, metadata: {name: x}, spec: {releaseImage: 'a:1'}}
---
{apiVersion: v1, kind: Secret, metadata: {name: template}, stringData: {install-config.yaml: '{apiVersion: v1, baseDomain: lab.test, controlPlane: {name: master, replicas: 3}, compute: [{name: worker, replicas: 0}], networking: {machineNetwork: [{cidr: 1.2.0.0/16}]}, platform: {none: {}}}'}}
---
{apiVersion: hive.openshift.io/v1, kind: ClusterPool, metadata: {name: metal}, spec: {size: 0, runningCount: 1, baseDomain: lab.test, imageSetRef: {name: x}, installConfigSecretTemplateRef: {name: template}, platform: {agentBareMetal: {agentSelector: {matchLabels: {rack: '7'}}}}, annotations: {hive.openshift.io/fake-cluster: 'true'}}}
EOF
}

says() { # NUMBER...: these are booted, and say what is in them
  for at in "$@"; do
    poolctl agent register --infraenv rack --id "h-mold-$at" -q
    inventory "$at" | poolctl agent report "h-mold-$at" --inventory - -q
  done
}

# Ten Agents as poolctl makes them, five of them nodes of a cluster; the others are cast from them.
export POOLCTL_STATE=$folder/mold.db
cluster c-mold 3 2 | cat "$examples/rack.yaml" - > mold.yaml
poolctl apply -qf mold.yaml > /dev/null
{
  says 0 1 2 3 4 5 6 7 8 9
  poolctl agent approve h-mold-0 h-mold-1 h-mold-2 h-mold-3 h-mold-4 -q
  poolctl agent approve h-mold-5 h-mold-6 h-mold-7 h-mold-8 h-mold-9 -q
  poolctl agent bind h-mold-5 h-mold-6 h-mold-7 h-mold-8 h-mold-9 --cluster c-mold -q
  says 5 6 7 8 9
} > /dev/null
poolctl reconcile
later=2026-03-02T12:01:00Z
POOLCTL_NOW=$later poolctl reconcile
uid=$(poolctl get infraenv rack -o jsonpath='{.metadata.uid}')
for one in $(poolctl get infraenv,agent,cluster -o name); do
  poolctl get "$one" -o json | tr -d '\n'
  echo
done > mold

cast() { # HOW MANY tens, as a List
  awk -v many="$1" -v uid="$uid" '
    NR == 1 { printf "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [%s", $0; next }
    { gsub(uid, "OWNER"); lines[NR] = $0 }
    END {
      for (at = 0; at < many; at++)
        for (line = 2; line <= NR; line++) {
          one = lines[line]
          gsub(/mold/, at, one)
          gsub(/"uid": "[0-9a-f]+-/, sprintf("\"uid\": \"%08x-", at), one)
          gsub(/OWNER/, uid, one)
          gsub(/aa:bb/, sprintf("aa:%02x", at), one)
          gsub(/1\.2\.254\./, sprintf("1.2.%d.", at), one)
          printf ",\n%s", one
        }
      print "]}"
    }' mold
}

for agents in 10 100 1000; do
  cast $((agents / 10)) > list.json
  export POOLCTL_STATE=$folder/made.db POOLCTL_NOW=$later
  rm -rf made.db*
  poolctl import list.json -q > /dev/null
  { cat "$examples/rack.yaml"; pool; cluster spare 3 0; } > objects.yaml
  poolctl apply -qf objects.yaml --no-reconcile > /dev/null
  poolctl reconcile
  poolctl backup $agents.db > /dev/null
  poolctl pool scale metal --size 1 --no-reconcile -q > /dev/null
  poolctl backup wish.$agents.db > /dev/null
  free=$(poolctl get agent -o jsonpath='{.items[?(@.status.debugInfo.state=="known-unbound")].metadata.name}' | wc -w)
  bound=$(poolctl get agent -o jsonpath='{.items[?(@.status.debugInfo.state=="installed")].metadata.name}' | wc -w)
  [ "$free" -eq "$bound" ] && [ $((free + bound)) -eq "$agents" ] || { echo "$agents: $free free, $bound bound"; exit 1; }
done
export POOLCTL_NOW=2026-03-02T12:01:30Z
unset POOLCTL_STATE
inventory 0 | sed 's/mold/0/; s/aa:bb/aa:00/; s/1\.2\.254\./1.2.0./' > inventory.json

run() { # NAME COMMAND: the median in milliseconds
  hyperfine -N --warmup 5 --runs 100 --export-csv out.csv "$2" > /dev/null 2>&1
  awk -F, -v name="$1" 'NR == 2 { printf "%-28s %8.2f ms\n", name, $4 * 1000 }' out.csv
}

pair() { # NAME SMALL LARGE ARGUMENTS: medians of both, and how many times the other the one is
  for size in "$2" "$3"; do
    echo "rm -f x.db*; cp ${from:-}$size.db x.db; sync x.db" > copy.$size
  done
  hyperfine -N --warmup 2 --runs "${runs:-60}" --export-csv out.csv \
    --prepare "sh copy.$2" "poolctl --state x.db $4" \
    --prepare "sh copy.$3" "poolctl --state x.db $4" > hyperfine.log 2>&1 || { cat hyperfine.log; exit 1; }
  awk -F, -v name="$1, $2 and $3" '
    NR > 1 { median[NR] = $4 * 1000 }
    END { printf "%-28s %8.2f ms %8.2f ms  x %.2f\n", name, median[2], median[3], median[3] / median[2] }' out.csv
}

run S1 "sqlite3 sc.db 'SELECT 1'"
run SC "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
pair "idle pass" 100 1000 reconcile
from=wish. pair "pass with a pick" 100 1000 reconcile
pair "agent register" 10 1000 "agent register --infraenv rack --id new -q"
pair "agent report" 10 1000 "agent report h-0-0 --inventory inventory.json -q"
pair "agent check-in" 10 1000 "agent check-in h-0-0"
pair "get agent" 10 1000 "get agent"
pair "agent bind" 10 1000 "agent bind h-0-0 --cluster spare -q"
run "S1 again" "sqlite3 sc.db 'SELECT 1'"
run "SC again" "sqlite3 sc.db 'PRAGMA synchronous = FULL; INSERT INTO t VALUES (1)'"
