#!/bin/bash
# Wipes the disks that an installation of this machine has written, and powers the machine off.
#   wipe.sh [CONFIG]
# Whoever has booted it sees by the power that all is done: a machine that stays on was not wiped,
# and its console says why. It touches no other disk, no disk that others may share, and no machine
# but the one that the configuration names. Of the programs jq, lsblk, wipefs and dd must be there.
set -u -o pipefail
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

config=${1:-/etc/poolctl-wipe/config.json}
interfaces=${POOLCTL_WIPE_INTERFACES:-/sys/class/net}
# The first and the last mebibyte of a disk have its partition tables, and no partition.
table=$((1024 * 1024))

fail() {
    printf 'poolctl-wipe: %s\n' "$*" >&2
    exit 1
}

say() { printf 'poolctl-wipe: %s\n' "$*" >&2; }

# Whether this is the machine that is meant: it has one of the MAC addresses.
is_meant() {
    cat "$interfaces"/*/address 2>/dev/null | jq -e -R -s --slurpfile config "$config" '
        ($config[0].macs | map(ascii_downcase)) as $macs
        | split("\n") | any(ascii_downcase | IN($macs[]))' >/dev/null
}

# All disks, a JSON object a line: path, what it is known by, how it is attached, its partitions.
disks() {
    lsblk -J -p -o NAME,TYPE,SERIAL,WWN,TRAN,PARTLABEL | jq -c '
        .blockdevices[] | select(.type == "disk") | {
            path: .name, serial: (.serial // ""), wwn: (.wwn // ""),
            shared: (((.tran // "") | IN("fc", "fcoe", "iscsi"))
                or any(.children[]?; .type == "mpath")),
            labels: [.children[]? | .partlabel // empty],
            partitions: [.children[]? | select(.type == "part") | .name]}'
}

# The disks to wipe: those that the installer was told to write or, if nobody knows them, those that
# have the partitions of Red Hat Enterprise Linux CoreOS. Fails if one of the former is not there.
chosen() {
    local count index real
    count=$(jq '.disks | length' "$config") || return
    if ((count == 0)); then
        jq -c 'select((.labels | index("boot")) and (.labels | index("root"))
            and (.labels | any(IN("EFI-SYSTEM", "BIOS-BOOT", "PowerPC-PReP-boot"))))' "$all"
        return
    fi
    for ((index = 0; index < count; index++)); do
        real=$(jq -r ".disks[$index].path // \"\"" "$config")
        [[ -z $real ]] || real=$(readlink -f "$real")
        jq -c -s -e --arg real "$real" --slurpfile config "$config" --argjson index "$index" '
            $config[0].disks[$index] as $wanted
            | [.[] | select(
                if ($wanted.wwn // "") != "" then
                    (.wwn | ascii_downcase) == ($wanted.wwn | ascii_downcase)
                elif ($wanted.serial // "") != "" then .serial == $wanted.serial
                else .path == $real end)]
            | if length == 1 then .[0] else empty end' "$all" || {
            say "disk $(jq -c ".disks[$index]" "$config") is not there, or not the only one"
            return 1
        }
    done
}

# Clears the signatures in the partitions, then the partition tables.
wipe_quick() {
    local disk=$1 partition size
    while read -r partition; do
        wipefs -q -a -f "$partition" || return
    done < <(jq -r '.partitions[]' <<<"$2")
    wipefs -q -a -f "$disk" || return
    size=$(size_of "$disk") || return
    clear_at "$disk" 0 && clear_at "$disk" $((size - table))
}

# Overwrites the whole disk.
wipe_full() {
    local size
    wipe_quick "$1" "$2" || return
    size=$(size_of "$1") || return
    dd if=/dev/zero of="$1" bs=4M count="$size" iflag=count_bytes conv=notrunc,fsync status=none
}

clear_at() {
    dd if=/dev/zero of="$1" bs="$table" count="$table" seek="$2" iflag=count_bytes \
        oflag=seek_bytes conv=notrunc,fsync status=none
}

size_of() {
    if [[ -b $1 ]]; then blockdev --getsize64 "$1"; else stat -c %s "$1"; fi
}

# Whether nothing is left of the tables.
is_clear() {
    [[ -z $(wipefs -n "$1") ]] && cmp -s -n "$table" "$1" /dev/zero
}

main() {
    local method disk
    [[ -r $config ]] || fail "there is no $config"
    is_meant || fail "this is another machine: nothing is wiped"
    method=$(jq -r '.method' "$config")
    [[ $method == quick || $method == full ]] || fail "nobody knows the method $method"
    all=$(mktemp) && picked=$(mktemp) || fail "there is no room for a file"
    # What the image has found on the disks is let go.
    vgchange -q -q -an >/dev/null 2>&1
    disks >"$all" || fail "the disks cannot be listed"
    chosen >"$picked" || fail "nothing is wiped"
    if jq -e -s 'any(.shared)' "$picked" >/dev/null; then
        fail "$(jq -r 'select(.shared) | .path' "$picked" | head -n 1) may be shared: nothing is wiped"
    fi
    while read -r disk; do
        path=$(jq -r '.path' <<<"$disk")
        "wipe_$method" "$path" "$disk" && is_clear "$path" || fail "$path could not be wiped"
        say "$path is wiped"
    done <"$picked"
    sync
    systemctl poweroff
}

main
