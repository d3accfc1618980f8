#!/bin/bash
# Sets up the network as the configuration says that has one of this machine's MAC addresses. In the
# folder are pairs of files: N.macs, lines of an address and the name that N.yml has for its interface,
# and N.yml, which is JSON.
set -u -o pipefail
umask 077

folder=${1:-/etc/poolctl-agent/network}

# Cards of this machine, one a line: MAC address and name; without any, whatever looks like one.
cards() {
    local card all=''
    for card in /sys/class/net/*; do
        [[ -e $card/device ]] && all+=" ${card##*/}"
    done
    [[ -n $all ]] || all=$(ls /sys/class/net)
    for card in $all; do
        [[ -e /sys/class/net/$card/address ]] && printf '%s %s\n' "$(<"/sys/class/net/$card/address")" "$card"
    done
}

# What the interfaces of a configuration are really called, as JSON; nothing if none of them is here.
names() {
    local mac name
    while read -r mac name; do
        if [[ -n ${here[${mac,,}]:-} ]]; then
            printf '%s\t%s\n' "$name" "${here[${mac,,}]}"
        fi
    done <"$1" | jq -c -R -s '[split("\n")[] | select(. != "") | split("\t") | {(.[0]): .[1]}] | add // empty'
}

# All at once, so that two interfaces may change names. Words of nmstate's own are no names.
renamed() {
    jq --argjson names "$1" '
        def renamed:
            if type == "object" then with_entries(
                if .key | IN("type", "state", "description", "mode", "protocol") then . else .value |= renamed end)
            elif type == "array" then map(renamed)
            elif type == "string" then $names[.] // .
            else . end;
        renamed' "$2"
}

declare -A here
udevadm settle --timeout=60 2>/dev/null
while read -r mac name; do here[${mac,,}]=$name; done < <(cards)
for macs in "$folder"/*.macs; do
    [[ -e $macs ]] || continue
    real=$(names "$macs")
    [[ -n $real ]] || continue
    wanted=$(mktemp --suffix=.yml) && trap 'rm -f "$wanted"' EXIT
    renamed "$real" "${macs%.macs}.yml" >"$wanted" || exit 1
    echo "network of ${macs%.macs}.yml, its interfaces are $real"
    nmstatectl apply "$wanted"
    exit
done
echo "no configuration has a MAC address of this machine"
