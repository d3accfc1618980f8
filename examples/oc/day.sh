#!/bin/sh
# A day in a lab, as a script for `oc`: a pool, a claim, a new release, hibernation, cleanup.
# It runs unchanged if `oc` is a link to poolctl:  ln -s "$(command -v poolctl)" ~/bin/oc
set -eu

oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp-4.18}
spec: {releaseImage: "example.com/ocp:4.18"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp-4.19}
spec: {releaseImage: "example.com/ocp:4.19"}
---
apiVersion: hive.openshift.io/v1
kind: ClusterPool
metadata: {name: lab, labels: {team: ci}}
spec:
  size: 2
  runningCount: 1
  baseDomain: lab.example.com
  imageSetRef: {name: ocp-4.18}
  platform: {none: {}}
  annotations:
    hive.openshift.io/fake-cluster: "true"
    poolctl.dev/fake-install-duration: 2s
    poolctl.dev/fake-resume-duration: 1s
    poolctl.dev/fake-stop-duration: 1s
    poolctl.dev/fake-deprovision-duration: 1s
EOF
oc wait clusterpool/lab --for=jsonpath='{.status.ready}'=1 --timeout=30m

# Claim a cluster, as a CI job does.
oc apply -f - <<EOF
apiVersion: hive.openshift.io/v1
kind: ClusterClaim
metadata: {name: ci-17}
spec: {clusterPoolName: lab, lifetime: 8h}
EOF
oc wait --for=condition=ClusterRunning clusterclaim ci-17 --timeout=30m
cluster=$(oc get clusterclaim ci-17 -o jsonpath='{.spec.namespace}')
secret=$(oc get clusterdeployment -n "$cluster" "$cluster" \
  -o jsonpath='{.spec.clusterMetadata.adminKubeconfigSecretRef.name}')
oc extract -n "$cluster" "secret/$secret" --keys=kubeconfig --to=- 2>/dev/null \
  | jq -r '"server: " + .clusters[0].cluster.server' | sed "s/$cluster/CLUSTER/g"
oc get clusterdeployments.hive.openshift.io -A -o json | jq -r '.items[]
  | select(.spec.clusterPoolRef.claimName == "ci-17")
  | "claimed: " + .spec.clusterPoolRef.claimName + " " + .status.powerState'

# A new release: unclaimed clusters are replaced one by one; the claimed cluster stays.
oc patch clusterpool lab --type=merge -p '{"spec": {"imageSetRef": {"name": "ocp-4.19"}}}'
oc wait clusterpool/lab --for=condition=AllClustersCurrent=False --timeout=10s
oc wait clusterpool/lab --for=condition=AllClustersCurrent --timeout=60m
test "$(oc get cd "$cluster" -o jsonpath='{.spec.provisioning.imageSetRef.name}')" = ocp-4.18

# More clusters: one runs, the others hibernate.
oc scale clusterpool lab --replicas=3
oc wait clusterpool/lab --for=jsonpath='{.status.standby}'=2 --timeout=30m
oc get cd -l hive.openshift.io/clusterpool-name=lab --no-headers \
  -o jsonpath='{range .items[*]}{.status.powerState}{"\n"}{end}' | sort | uniq -c

# At night: a claimed cluster hibernates, then resumes.
oc patch cd "$cluster" --type=merge -p '{"spec": {"powerState": "Hibernating"}}'
oc wait cd "$cluster" --for=condition=Hibernating --timeout=10m
oc patch cd "$cluster" --type=merge -p '{"spec": {"powerState": "Running"}}'
oc wait cd "$cluster" --for=condition=Ready --timeout=10m
oc label clusterpool lab night=over --overwrite
oc annotate clusterclaim ci-17 note-

# Delete everything.
oc delete clusterclaim --all
oc wait clusterclaim/ci-17 --for=delete --timeout=30m
oc delete clusterpool lab --ignore-not-found
oc wait clusterpool/lab --for=delete --timeout=30m
oc get clusterclaims,clusterpools,clusterdeployments -o name
