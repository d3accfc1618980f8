#!/bin/sh
# From an empty rack to a cluster in use, and back. Copy this folder to /var/lib/poolctl/rack; put your
# machines into hosts.csv and your names, addresses and secrets into the manifests; run it as the account
# that owns the state. openshift-install is in /usr/local/bin, or wherever settings.yaml says; a web server
# shows the folder that settings.yaml names. Names get into DNS by nsupdate (bind-utils, dnsutils) and its key
# /etc/poolctl/dns.key; without them everything else works, and dns.sh says which records to make by hand.
set -eu
cd "$(dirname "$0")"

# How controllers fetch images; what the machines are to be, and which addresses there are.
poolctl apply -f settings.yaml
poolctl driver check agent
poolctl apply -f rack.yaml

# The machines. Their controllers say what is in them; those that are good enough become free.
poolctl host import hosts.csv
poolctl agent discover --all --infraenv rack
poolctl wait agent --all --for=jsonpath='{.status.debugInfo.state}'=known-unbound --timeout=30m
poolctl get host,agent
poolctl agent match --role master --count 6 -l rack=7

# The pool. Each cluster leases its name, addresses and hosts in the moment it is made; DNS is told.
poolctl apply -f pool.yaml
poolctl pool dns metal
sh dns.sh
poolctl wait pool/metal --for=jsonpath='{.status.ready}'=2 --timeout=3h
poolctl get pool,cluster,customization,agent,ipaddress

# One is used; `oc get nodes` would list its machines.
poolctl claim metal ci-17 --lifetime 8h --wait=10m
KUBECONFIG=$(poolctl kubeconfig ci-17)
export KUBECONFIG
cluster=$(poolctl get claim ci-17 -o jsonpath='{.spec.namespace}')
poolctl describe cluster "$cluster"

# It is given back: its machines are powered off, free again, and become the next one.
poolctl release ci-17
poolctl wait cluster "$cluster" --for=delete --timeout=1h
poolctl status

# Cron does the rest:  crontab crontab
