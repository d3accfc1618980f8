#!/bin/sh
# A stand-in for kind: `create cluster`, `delete cluster`, `get clusters|kubeconfig` and `version`. A
# cluster is a file in `clusters-of-kind` beside it; `ledger` gets what is made and destroyed.
here=$(dirname "$0")
mkdir -p "$here/clusters-of-kind"
verb="$1 $2"
[ $# -lt 2 ] || shift 2
name=kind kubeconfig=
while [ $# -gt 0 ]; do
  case $1 in
  --name) name=$2 && shift ;;
  --kubeconfig) kubeconfig=$2 && shift ;;
  esac
  shift
done
cluster="$here/clusters-of-kind/$name"
case $verb in
'version '*) echo 'kind v0.27.0 go1.24.0 linux/amd64' ;;
'create cluster')
  if [ -e "$cluster" ]; then
    echo "ERROR: failed to create cluster: node(s) already exist for a cluster with the name \"$name\"" >&2
    exit 1
  fi
  echo "made $name" >>"$here/ledger"
  echo 'clusters: []' >"$cluster"
  [ -z "$kubeconfig" ] || cp "$cluster" "$kubeconfig"
  ;;
'get clusters') ls "$here/clusters-of-kind" ;;
'get kubeconfig') cat "$cluster" ;;
'delete cluster')
  # One that is not there is no error.
  [ ! -e "$cluster" ] || echo "destroyed $name" >>"$here/ledger"
  rm -f "$cluster"
  ;;
*) exit 1 ;;
esac
