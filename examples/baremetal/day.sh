#!/bin/sh
# From an empty rack to a cluster in use, and back. Copy this directory to /var/lib/poolctl/rack. Put your
# machines into hosts.csv, and your names, addresses and secrets into the manifests. Run the script as the
# account that owns the state. It needs openshift-install in /usr/local/bin (or where settings.yaml says) and a web
# server for the directory that settings.yaml names. dns.sh updates DNS with nsupdate (bind-utils, dnsutils) and the
# key /etc/poolctl/dns.key. Without them everything else works, and dns.sh says which records to make by hand.
set -eu
cd "$(dirname "$0")"

# The settings for images, then the InfraEnv of the machines and the addresses.
poolctl apply -f settings.yaml
poolctl driver check agent
poolctl apply -f rack.yaml

# The discovery image of the machines. Of it poolctl makes the image that wipes the disks of machines which come
# back: without it they are not wiped, and stay off until the next cluster has them. It needs coreos-installer, and
# the live ISO of RHCOS that `openshift-install coreos print-stream-json` names. The key may only run
# `poolctl agent ssh`: poolctl agent ssh --authorize hosts.pub >> ~/.ssh/authorized_keys
if [ -e rhcos-live.iso ]; then
    address=$(hostname -f)
    [ -e hosts ] || ssh-keygen -q -t ed25519 -N '' -f hosts
    [ -e known_hosts ] || ssh-keyscan "$address" >known_hosts
    poolctl infraenv iso metal --address "poolctl@$address" --key hosts --known-hosts known_hosts --base rhcos-live.iso
else
    echo 'rhcos-live.iso is not here: the disks of machines that come back are not wiped' >&2
fi

# The machines. Their controllers report the hardware, and machines that meet the requirements become free.
poolctl host import hosts.csv
poolctl agent discover --all --infraenv metal
poolctl wait agent --all --for=jsonpath='{.status.debugInfo.state}'=known-unbound --timeout=30m
poolctl get host,agent
poolctl agent match --role master --count 6 -l rack=7

# The pool. Each cluster leases its name, addresses and hosts when it is created. Then DNS is updated.
poolctl apply -f pool.yaml
poolctl pool dns metal
sh dns.sh
poolctl wait pool/metal --for=jsonpath='{.status.ready}'=2 --timeout=3h
poolctl get pool,cluster,customization,agent,ipaddress

# A claimed cluster. `oc get nodes` would list its machines.
poolctl claim metal ci-17 --lifetime 8h --wait=10m
KUBECONFIG=$(poolctl kubeconfig ci-17)
export KUBECONFIG
cluster=$(poolctl get claim ci-17 -o jsonpath='{.spec.namespace}')
poolctl describe cluster "$cluster"

# The release: its machines are powered off and free again, and the pool makes the next cluster of them.
poolctl release ci-17
poolctl wait cluster "$cluster" --for=delete --timeout=1h
poolctl status

# From now on cron does the work:  crontab crontab
