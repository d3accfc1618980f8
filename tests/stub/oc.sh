#!/bin/sh
# A stand-in for oc with a cluster that hosts join: `adm node-image create|monitor`, `get nodes` and
# requests for certificates. Beside it lie `csr/NAME.json` (requests, whose "STATUS" follows from
# what was approved), `joins` (a node a line: NAME ADDRESS, ready once NAME-client is approved) and
# `refuse` (why no image is made). It writes `asked`, `approved` and the `nodes-config.yaml` that it
# was given.
here=$(dirname "$0")
echo "$*" >>"$here/asked"
is_approved() { grep -qx "$1" "$here/approved" 2>/dev/null; }
node() {
  printf '{"metadata": {"name": "%s"}, "status": {"addresses": [{"type": "InternalIP", "address": "%s"}],' "$1" "$2"
  printf ' "conditions": [{"type": "Ready", "status": "True"}]}}'
}
nodes() {
  node m1 192.0.2.60
  [ -e "$here/joins" ] || return
  while read -r name address; do
    is_approved "$name-client" && printf ', ' && node "$name" "$address"
  done <"$here/joins"
}
requests() {
  comma=
  for file in "$here"/csr/*.json; do
    name=$(basename "$file" .json)
    # A host requests nothing before it is booted, and no serving certificate before it is a node.
    [ -e "$file" ] && [ -e "$here/nodes-config.yaml" ] || continue
    case $name in *-serving) is_approved "${name%-serving}-client" || continue ;; esac
    status='{}'
    is_approved "$name" && status='{"conditions": [{"type": "Approved"}]}'
    printf '%s' "$comma"
    comma=', '
    sed "s/\"STATUS\"/$status/" "$file"
  done
}
case $* in
*'node-image create'*)
  if [ -e "$here/refuse" ]; then
    printf '{"result": {"exit_code": 1, "error_message": "%s"}}' "$(cat "$here/refuse")" >report.json
    exit 1
  fi
  cp nodes-config.yaml "$here/" && echo image >node.x86_64.iso
  ;;
*'node-image monitor'*) exec sleep 300 ;;
*'certificate approve'*)
  for name; do :; done
  echo "$name" >>"$here/approved"
  ;;
*'get certificatesigningrequests'*) echo "{\"items\": [$(requests)]}" ;;
*'get nodes'*) echo "{\"items\": [$(nodes)]}" ;;
*) exit 1 ;;
esac
