#!/bin/sh
# Claims a cluster for a job of CI and writes its kubeconfig. It may be run again with the same CLAIM.
# Exits with 5 if no cluster was free in time; then there is no claim either.
set -eu
: "${POOL:?is the pool to claim from}" "${CLAIM:?is the name of the claim}"
: "${KUBECONFIG:?is the file to write}"
POOLCTL=${POOLCTL:-poolctl}

# POOLCTL may be several words, such as `sudo -u poolctl poolctl`.
if ! deletion=$($POOLCTL get claim "$CLAIM" -o 'jsonpath={.metadata.deletionTimestamp}' 2>/dev/null); then
    $POOLCTL claim "$POOL" "$CLAIM" --lifetime "${LIFETIME:-3h}" --wait="${WAIT:-90m}"
elif [ -n "$deletion" ]; then
    echo "claim $CLAIM is being released: use another name for each attempt" >&2
    exit 4
fi
# It prints the path of the file, or with sudo the file itself.
umask 077
$POOLCTL kubeconfig "$CLAIM" >"$KUBECONFIG.new"
path=$(head -n 1 "$KUBECONFIG.new")
case $path in
/*) cp "$path" "$KUBECONFIG.new" ;;
esac
mv "$KUBECONFIG.new" "$KUBECONFIG"
echo "the kubeconfig of claim $CLAIM is in $KUBECONFIG"
