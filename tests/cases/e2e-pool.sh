#!/bin/sh
# The sequence of Hive's end-to-end test of pools (hack/e2e-pool-test.sh), written anew: `oc` is a
# link to poolctl. A pass stands where Hive's operator works while its test sleeps.
set -eu
namespace=hive-e2e
real_pool=real-pool
fake_pool=fake-pool

operator_works() {
    oc reconcile --wait -q
}

create_imageset() {
    oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata:
  name: $1
spec:
  releaseImage: registry.example.com/ocp/release:4.18.3
EOF
}

create_customization() {
    oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata:
  name: $1
  namespace: $2
spec:
  installConfigPatches:
    - op: replace
      path: /metadata/name
      value: $3
EOF
}

count_cds() {
    oc get cd -A -o json | jq -r '.items | length'
}

cds_of_pool() {
    oc get cd -A -o json | jq -r '.items[]
        | select(.metadata.deletionTimestamp==null)
        | select(.spec.clusterPoolRef.poolName=="'"$1"'")
        | '"$2"
}

wait_for_power_state() {
    for _ in 1 2 3 4 5; do
        state=$(oc get cd -n "$1" "$1" -o json | jq -r '.status.powerState')
        if [ "$state" = "$2" ]; then return; fi
        operator_works
    done
    echo "cluster $1 is still $state, not $2" >&2
    exit 9
}

wait_for_pool_to_be_ready() {
    for _ in 1 2 3 4 5; do
        is_ready=$(oc get clusterpool "$1" -o json |
            jq '.status.size != 0 and .status.ready + .status.standby == .status.size')
        is_current=$(oc get clusterpool "$1" -o json |
            jq -r '.status.conditions[] | select(.type=="AllClustersCurrent") | .status')
        if [ "$is_ready $is_current" = "true True" ]; then return; fi
        operator_works
    done
    echo "pool $1 is not ready" >&2
    exit 1
}

verify_imagesets() {
    for imageset in $(cds_of_pool "$1" .spec.provisioning.imageSetRef.name); do
        [ "$imageset" = "$2" ] || { echo "a cluster has image set $imageset" >&2; exit 1; }
    done
}

set_power_state() {
    oc patch cd -n "$1" "$1" --type=merge -p '{"spec": {"powerState": "'"$2"'"}}'
}

claim() {
    oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterClaim
metadata: {name: $2, namespace: $namespace}
spec: {clusterPoolName: $1}
EOF
}

# Nothing is there yet.
oc new-project "$namespace"
oc config set-context --current --namespace="$namespace"
[ "$(count_cds)" = 0 ]

# A pool without clusters, until it has its inventory.
create_imageset cis
oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: $real_pool, namespace: $namespace}
spec:
  size: 0
  baseDomain: example.com
  imageSetRef: {name: cis}
  platform: {none: {}}
  annotations: {hive.openshift.io/fake-cluster: "true"}
EOF

# A pool of fake clusters is made of it.
oc get clusterpool $real_pool -o json |
    jq '.spec.annotations["hive.openshift.io/fake-cluster"] = "true"
        | .metadata.name = "'$fake_pool'" | .spec.size = 4' |
    oc apply -f -

create_customization cdc-test "$namespace" cdcci-lab
oc patch cp -n "$namespace" $real_pool --type=merge -p '{"spec": {"inventory": [{"name": "cdc-test"}]}}'
oc scale cp -n "$namespace" $real_pool --replicas=1
wait_for_pool_to_be_ready $fake_pool

# Stale clusters are replaced.
verify_imagesets $fake_pool cis
create_imageset fake-cis
oc patch clusterpool $fake_pool --type=merge -p '{"spec":{"imageSetRef": {"name": "fake-cis"}}}'
oc wait --for=condition=AllClustersCurrent=false --timeout=1m clusterpool/$fake_pool
oc wait --for=condition=AllClustersCurrent --timeout=3h clusterpool/$fake_pool
wait_for_pool_to_be_ready $fake_pool
verify_imagesets $fake_pool fake-cis

# A claim gets a cluster that runs.
claim $fake_pool fake-claim
oc wait --for=condition=Pending=false --timeout=2m clusterclaim/fake-claim
cd=$(oc get clusterclaim -n "$namespace" fake-claim -o jsonpath={.spec.namespace})
[ -n "$cd" ]
wait_for_power_state "$cd" Running
set_power_state "$cd" Hibernating
wait_for_power_state "$cd" Hibernating
oc get cd -n "$cd" "$cd" -o json | jq -er '.status.installedTimestamp' > /dev/null
set_power_state "$cd" Running
wait_for_power_state "$cd" Running

oc delete cd -n "$cd" "$cd"
oc wait --for=delete cd/"$cd" -n "$cd" --timeout=1h

# The pool with the inventory.
wait_for_pool_to_be_ready $real_pool
cluster=$(cds_of_pool $real_pool .metadata.name)
secret=$(oc get cd -A -o json | jq -r '.items[] | select(.metadata.name=="'"$cluster"'")
    | .spec.provisioning.installConfigSecretRef.name')
oc -n "$cluster" extract "secret/$secret" --to=- | grep -q 'name: cdcci-lab'
wait_for_power_state "$cluster" Hibernating
claim $real_pool the-claim
wait_for_power_state "$cluster" Running
set_power_state "$cluster" Hibernating
wait_for_power_state "$cluster" Hibernating
set_power_state "$cluster" Running
wait_for_power_state "$cluster" Running

# Cleanup.
oc delete clusterclaim --all
oc delete clusterpool --all
operator_works
[ "$(count_cds)" = 0 ]
echo passed
