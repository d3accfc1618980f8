#!/bin/sh
# A stand-in for oc with a cluster that hosts join: `adm node-image create|monitor`, `get nodes` and
# requests for certificates. It takes openshift-install out of a release, `adm release extract`, as
# far as the registry can be reached as `cloud` says (stub/cloud.rs), and notes in `extracted` what
# it was given. Beside it lie `csr/NAME.json` (requests, whose "STATUS" follows from
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
cloud() { sed -n "s/^$1: //p" "$here/cloud" 2>/dev/null | head -n 1; }
fail() {
  echo "error: unable to read image $image: $1" >&2
  exit 1
}
# Every option has its value behind it or behind `=`; the last word is the image.
extract() {
  for image; do :; done
  to=. login=/dev/null sources=/dev/null authorities=${SSL_CERT_FILE:-/dev/null}
  while [ $# -gt 1 ]; do
    option=$1
    shift
    case $option in
    --*=*) value=${option#*=} option=${option%%=*} ;;
    -*) value=$1 && shift ;;
    *) continue ;;
    esac
    case $option in
    --to) to=$value ;;
    -a | --registry-config) login=$value ;;
    --idms-file | --icsp-file) sources=$value ;;
    --certificate-authority) authorities=$value ;;
    esac
  done
  printf 'image %s proxy %s\n' "$image" "${HTTPS_PROXY:-none}" >>"$here/extracted"
  cat "$sources" >>"$here/extracted"
  sleep "$(cloud extraction-takes | grep . || echo 0)"
  proxy=$(cloud proxy)
  [ -z "$proxy" ] || [ "$HTTPS_PROXY" = "$proxy" ] ||
    fail 'Get "https://registry.example.com/v2/": dial tcp 192.0.2.5:443: i/o timeout'
  mirror=$(cloud mirror)
  case $image in "$mirror"*) mirror= ;; esac
  [ -z "$mirror" ] || grep -q "$mirror" "$sources" ||
    fail 'Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com: no such host'
  authority=$(cloud authority)
  [ -z "$authority" ] || grep -q "$authority" "$authorities" ||
    fail 'tls: failed to verify certificate: x509: certificate signed by unknown authority'
  account=$(cloud registry-account)
  [ -z "$account" ] || grep -q "$account" "$login" || fail 'unauthorized: authentication required'
  cat >"$to/openshift-install" <<END
#!/bin/sh
[ "\$1" = version ] || exec "$here/openshift-install" "\$@"
echo 'openshift-install 4.18.3'
echo 'built from commit 0'
echo 'release image $image'
END
  chmod 755 "$to/openshift-install"
}
case $* in
*'release extract'*) extract "$@" ;;
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
