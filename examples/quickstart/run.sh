#!/bin/sh
# Builds poolctl, then claims a simulated cluster and releases it. It uses a temporary state.
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --locked
# `cargo run` finds the program that it has built; PATH may contain another poolctl.
poolctl() { cargo run --quiet --release --locked -- "$@"; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset SUDO_UID
export POOLCTL_STATE="$folder/state.db"
say() { printf '\n$ %s\n' "$*"; "$@"; }

say poolctl pool create demo --fake --fake-install-duration 3s --size 2 --running-count 1
say poolctl reconcile --wait=1m
say poolctl claim demo my-cluster --lifetime 8h
say poolctl kubeconfig my-cluster
say poolctl get pool,claim,cluster
say poolctl release my-cluster
say poolctl status
