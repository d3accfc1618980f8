#!/bin/bash
# Tells poolctl over SSH what this machine is, and does what it answers.
#   agent.sh [CONFIG]          for ever
#   agent.sh --once [CONFIG]   registers, reports and checks in once; prints the last answer
#   agent.sh --inventory       prints what would be reported of the machine
# Secrets are in files that nobody else can read, never among the arguments of a program. Of the
# programs only jq, ssh and timeout must be there.
set -u -o pipefail
umask 077
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

here=$(dirname "$(readlink -f "$0")")
[[ -e $here/inventory.sh ]] || here=/etc/poolctl-agent
# shellcheck source=inventory.sh
. "$here/inventory.sh"

config=/etc/poolctl-agent/config.json
pull_secret=/root/.docker/config.json
report_every=600
work='' next=register after=60 answer='' puller=''

say() { printf 'poolctl-agent: %s\n' "$*" >&2; }

# ---- its surroundings ----

ntp() {
    within chronyc -n -c sources | jq -R -s '
        {"*": "synced", "+": "combined", "-": "not_combined", "?": "unreachable", "x": "error",
         "~": "variable"} as $states
        | [split("\n")[] | select(. != "") | split(",")
            | {source_name: .[2], source_state: ($states[.[1]] // "error")}]'
}

# The release whose installer waits here for the configuration of a cluster, if one does.
installer_release() {
    sed -n 's/^ *releaseImage: *//p' /etc/assisted/manifests/cluster-image-set.yaml 2>/dev/null |
        tr -d "\"'" | head -n 1
}

# A file of ours, or nothing yet.
saved() { part "$1" cat "$work/$2"; }

# Pulls the images that are wanted and not there.
pull() {
    local image authfile=()
    has podman || return 0
    [[ -r $pull_secret ]] && authfile=(--authfile "$pull_secret")
    jq -r -n --slurpfile config "$config" --slurpfile said <(saved '{}' wanted) '
        [$config[0].images[]?, $said[0].images[]?] | unique[] | strings
        | select(test("^[A-Za-z0-9]\\S*$"))' | while read -r image; do
        grep -qsxF "success $image" "$work/pulled" && continue
        if timeout -k 5 1800 podman pull --quiet "${authfile[@]}" "$image" >/dev/null </dev/null; then
            printf 'success %s\n' "$image"
        else
            printf 'failure %s\n' "$image"
        fi >>"$work/pulled"
    done
}

images() {
    [[ ! -e $work/pulled ]] || jq -R -s '[split("\n")[] | select(. != "") | split(" ")
        | {name: .[1], result: .[0]}] | group_by(.name) | map(.[-1])' "$work/pulled"
}

# Tries each address of each peer, many at a time.
reach() {
    local agent address pids=()
    has ping || return 0
    rm -rf "$work/reach" && mkdir -p "$work/reach"
    while IFS=$'\t' read -r agent address; do
        [[ $address =~ ^[0-9a-fA-F.:]+$ ]] || continue
        try "$agent" "$address" >"$work/reach/${#pids[@]}" &
        pids+=("$!")
        ((${#pids[@]} % 64)) || wait "${pids[@]}"
    done < <(saved '{}' wanted | jq -r '.peers[]? | .agent as $agent | .addresses[]? | [$agent, .] | @tsv')
    ((${#pids[@]})) && wait "${pids[@]}"
    find "$work/reach" -type f -exec cat {} + | jq -R -s '
        [split("\n")[] | select(. != "") | split("\t")
            | {agent: .[0], address: .[1], loss: (.[2] | tonumber? // 100), ms: (.[3] | tonumber? // null),
               narrow: (.[4] == "narrow")}]
        | group_by(.agent)
        | map([.[] | select(.loss < 100)] as $reached
            | {agent: .[0].agent, reached: [$reached[].address],
               unreached: [.[] | select(.loss >= 100) | .address]}
            + if $reached == [] then {} else
                {latency_ms: ([$reached[].ms] | max), loss_percent: ([$reached[].loss] | max)} end
            + if any($reached[]; .narrow) then
                {mtu_failed: [$reached[] | select(.narrow) | .address]} else {} end)' \
        >"$work/peers"
}

try() {
    local said loss=100 ms= width=
    said=$(ping -q -n -c 3 -i 0.3 -W 2 "$2" 2>/dev/null)
    [[ $said =~ ([0-9.]+)%\ packet\ loss ]] && loss=${BASH_REMATCH[1]}
    [[ $said =~ =\ [0-9.]+/[0-9.]+/([0-9.]+) ]] && ms=${BASH_REMATCH[1]}
    [[ $loss == 0 ]] && ! passes_in_full "$2" && width=narrow
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$loss" "$ms" "$width"
}

# Whether packets as large as the interface sends reach an address in one piece. What cannot be
# measured passes.
passes_in_full() {
    local device mtu headers=28
    has ip || return 0
    device=$(within ip -j route get "$1" 2>/dev/null | jq -r '.[0].dev // ""')
    mtu=$(line "/sys/class/net/$device/mtu")
    [[ $1 == *:* ]] && headers=48
    [[ $mtu =~ ^[0-9]+$ ]] && ((mtu > headers)) || return 0
    ping -q -n -c 2 -i 0.3 -W 2 -M do -s "$((mtu - headers))" "$1" >/dev/null 2>&1
}

# Asks DNS for the names that are wanted.
resolve() {
    local name
    has getent || return 0
    saved '{}' wanted | jq -r '.domains[]? | strings | select(test("^[A-Za-z0-9][A-Za-z0-9.-]*$"))' |
        while read -r name; do
            printf '%s\t%s\n' "$name" \
                "$(within getent ahosts "$name" | awk '{ print $1 }' | sort -u | tr '\n' ' ')"
        done | jq -R -s '[split("\n")[] | select(. != "") | split("\t")
            | {name: .[0], addresses: (.[1] | split(" ") | map(select(. != "")))}]' >"$work/domains"
}

gather() {
    jq -n --slurpfile inventory <(inventory) --slurpfile ntp <(part '[]' ntp) \
        --slurpfile images <(part '[]' images) --slurpfile peers <(saved '[]' peers) \
        --slurpfile domains <(saved '[]' domains) --arg release "$(installer_release)" '
        {inventory: $inventory[0], ntp_sources: $ntp[0], images: $images[0], peers: $peers[0],
         domains: $domains[0]}
        + if $release == "" then {} else {installer_release: $release} end' \
        >"$work/facts"
}

# Changes whenever there is something new to tell.
mark() {
    jq -cS 'del(.inventory.cpu.frequency) | .ntp_sources |= any(.source_state == "synced")
        | .peers |= map({agent, reached, unreached, mtu_failed})' "$work/facts" | sha256sum
}

# ---- poolctl ----

# What is sent; a register says the secret or the token.
document() {
    local facts=/dev/null secret=/dev/null macs=''
    [[ $1 == report ]] && facts=$work/facts
    [[ $1 == register ]] && macs=$(cat /sys/class/net/*/address 2>/dev/null)
    [[ $2 == secret ]] && secret=$work/secret
    jq -n --arg id "$id" --arg now "$(date +%s)" --arg macs "$macs" --slurpfile config "$config" \
        --slurpfile facts "$facts" --rawfile secret "$secret" '
        {infraEnv: $config[0].infraEnv, hostID: $id}
        + if $macs == "" then {} else
            {macs: ($macs | split("\n") | map(select(test("[1-9a-f]"))) | unique)} end
        + if $secret != "" then {secret: ($secret | rtrimstr("\n"))}
            else {token: $config[0].token} end
        + if $facts == [] then {} else {report: ($facts[0] + {timestamp: ($now | tonumber)})} end'
}

call() {
    timeout -k 5 120 ssh -T -i "$key" -p "$port" -o UserKnownHostsFile="$known_hosts" \
        -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o UpdateHostKeys=no \
        -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes -o ClearAllForwardings=yes \
        -o ConnectTimeout=20 -o ServerAliveInterval=15 -o LogLevel=ERROR \
        -- "$user@$address" "$1"
}

# One call: leaves the answer, and what it says of what comes next. Who is not known or not believed
# any more registers again.
exchange() {
    local verb=$1 code said
    said=$(document "$verb" "$2" | call "$verb")
    code=$?
    after=60
    if ((code != 0)) || ! jq -e '.next' <<<"$said" >/dev/null 2>&1; then
        ((code != 0)) || code=1
        say "$verb: refused or not heard (exit code $code)"
        ((code == 3 || code == 9)) && next=register
        return "$code"
    fi
    answer=$said
    next=$(jq -r '.next' <<<"$answer")
    after=$(jq -r '[[(.after // 60), 5] | max, 3600] | min | floor' <<<"$answer")
}

register() {
    local code
    if [[ -s $work/secret ]]; then
        exchange register secret && keep_secret && return
        code=$?
        # Nobody has refused it.
        ((code == 124 || code == 255)) && return "$code"
    fi
    exchange register token && keep_secret
}

keep_secret() {
    jq -er '.secret | strings' <<<"$answer" >"$work/secret.new" && mv "$work/secret.new" "$work/secret"
}

check_in() {
    exchange check-in secret || return
    jq -c '{peers, images, domains}' <<<"$answer" >"$work/wanted.new"
    if cmp -s "$work/wanted.new" "$work/wanted"; then return; fi
    mv "$work/wanted.new" "$work/wanted"
    due=0
}

# Hands the configuration of its cluster to the installer that waits here. It takes it from a device
# with the label of such an image, whose service is named after the device.
install_here() {
    local device
    if [[ ! -e $work/installing ]]; then
        exchange config secret || return
        jq -er '.image | strings' <<<"$answer" | base64 -d >"$work/config.iso" || return
        sha256sum <"$work/config.iso" | grep -qF "$(jq -r '.sha256' <<<"$answer")" || return
        device=$(losetup --find --show --read-only "$work/config.iso") || return
        systemctl start --no-block "load-config-iso@$(systemd-escape "$device").service" || return
        touch "$work/installing"
        say "installing with the configuration of its cluster"
    fi
    jq -n '{stage: "Installing"}' >"$work/facts" && exchange report secret
}

once() {
    register && pull && gather && exchange report secret && check_in && printf '%s\n' "$answer"
}

# Starts at a second of its own: many machines boot at once.
forever() {
    local sent="" told
    due=0
    sleep $((delay + RANDOM % 10))
    while :; do
        if [[ $next == register ]]; then
            if register; then due=0; else sleep "$after"; continue; fi
        fi
        if ((SECONDS >= due)); then
            reach
            resolve
            kill -0 "$puller" 2>/dev/null || { pull & puller=$!; }
        fi
        gather
        told=$(mark)
        if ((SECONDS >= due)) || [[ $told != "$sent" ]]; then
            exchange report secret && sent=$told due=$((SECONDS + report_every))
        fi
        case $next in
            reboot | register) ;;
            *) check_in ;;
        esac
        case $next in
            reboot) say "rebooting" && systemctl reboot ;;
            register) after=5 ;;
            report) due=0 ;;
            install) install_here || say "the configuration could not be handed over" ;;
        esac
        sleep "$after"
    done
}

main() {
    local mode=forever settings
    case ${1:-} in
        --inventory) inventory && return ;;
        --once) mode=once && shift ;;
    esac
    config=${1:-$config}
    mapfile -t settings < <(jq -r '.address, .user, .key, .knownHosts, .port // 22, .delay // 0
        | if . == null then error("address, user, key and knownHosts must be there") else . end' "$config")
    ((${#settings[@]} == 6)) || return 2
    address=${settings[0]} user=${settings[1]} key=${settings[2]} known_hosts=${settings[3]}
    port=${settings[4]} delay=${settings[5]}
    work=${RUNTIME_DIRECTORY:-}
    if [[ -z $work ]]; then
        work=$(mktemp -d) || return 1
        trap 'rm -rf "$work"' EXIT
    fi
    id=$(host_id)
    "$mode"
}

main "$@"
