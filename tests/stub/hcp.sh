#!/bin/sh
# A stand-in for hcp of HyperShift: `create cluster PLATFORM --name NAME`, `create kubeconfig`,
# `destroy cluster PLATFORM --name NAME` and `version`. A hosted cluster is a file in `hosted` beside
# it; `ledger` gets what is made and destroyed.
here=$(dirname "$0")
mkdir -p "$here/hosted"
verb="$1 $2"
name=
while [ $# -gt 0 ]; do
  case $1 in
  --name) name=$2 && shift ;;
  --name=*) name=${1#*=} ;;
  esac
  shift
done
cluster="$here/hosted/$name"
case $verb in
'version '*) echo 'Client Version: openshift/hypershift: 0. Latest supported OCP: 4.18.0' ;;
'create cluster')
  [ ! -e "$cluster" ] || { echo "hostedclusters \"$name\" already exists" >&2 && exit 1; }
  echo "made $name" >>"$here/ledger"
  echo 'clusters: []' >"$cluster"
  ;;
'create kubeconfig') cat "$cluster" ;;
'destroy cluster')
  # One that is not there is no error: it looks for what may be left.
  [ ! -e "$cluster" ] || echo "destroyed $name" >>"$here/ledger"
  rm -f "$cluster"
  ;;
*) exit 1 ;;
esac
