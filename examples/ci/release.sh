#!/bin/sh
# Gives back the cluster of a job of CI. It succeeds also if there is no claim any more.
set -eu
: "${CLAIM:?is the name of the claim}"
POOLCTL=${POOLCTL:-poolctl}

if $POOLCTL get claim "$CLAIM" -o name >/dev/null 2>&1; then
    $POOLCTL release "$CLAIM" -y
else
    echo "there is no claim $CLAIM"
fi
rm -f "${KUBECONFIG:-}"
