#!/bin/sh
# Builds poolctl, then claims a simulated cluster and releases it. It uses a temporary state. An installed poolctl
# of the same version is used as it is; in a package, which has no sources, the one that is installed.
set -eu
cd "$(dirname "$0")/../.."
version='*'
[ ! -f Cargo.toml ] || version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
installed=$(command -v poolctl) || installed=
case $("${installed:-false}" --version 2>/dev/null) in
  "poolctl "$version" "*)
    poolctl() { "$installed" "$@"; } ;;
  *)
    cargo build --release --locked
    # `cargo run` finds the program that it has built; PATH may contain another poolctl.
    poolctl() { cargo run --quiet --release --locked -- "$@"; } ;;
esac
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
