#!/bin/bash
# Wipes the disks that an installation of this machine has written, and powers the machine off.
#   wipe.sh [CONFIG]
# Whoever has booted it sees by the power that all is done: a machine that stays on was not wiped,
# and its console says why. It touches no other disk, no disk that others may share, and no machine
# but the one that the configuration names. Disks that mirror one another are wiped together, or not
# at all. Of the programs jq, lsblk, wipefs and dd must be there, and mdadm if disks are mirrored.
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

# All disks, a JSON object a line: path, what it is known by, how it is attached, its partitions,
# and the arrays that it is a part of. An array is known by its UUID, and once it runs also by its
# device. `others` are partitions that neither belong to an array nor are made to boot from one.
disks() {
    lsblk -J -p -o NAME,TYPE,SERIAL,WWN,TRAN,PARTLABEL,FSTYPE,UUID | jq -c '
        def is_array: (.type // "") | startswith("raid") or . == "linear" or . == "md";
        def members: .. | objects | select((.fstype // "") == "linux_raid_member") | .uuid // empty;
        def devices: .. | objects | select(is_array) | .name;
        .blockdevices[] | select(.type == "disk") | {
            path: .name, serial: (.serial // ""), wwn: (.wwn // ""),
            shared: (((.tran // "") | IN("fc", "fcoe", "iscsi"))
                or any(.children[]?; .type == "mpath")),
            labels: [.children[]? | .partlabel // empty],
            partitions: [.children[]? | select(.type == "part") | .name],
            devices: [devices],
            arrays: [members, devices],
            others: [.children[]? | select(.type == "part" and ([members, devices] == [])
                and ((.partlabel // "") | test("^(bios|esp|prep|reserved)-[0-9]+$") | not)) | .name]}'
}

# The disks to wipe: those that the installer was told to write or, if nobody knows them, the one
# that has the partitions of Red Hat Enterprise Linux CoreOS. With each come those that mirror it.
# Fails if one of the former is not there, or if several may be the latter.
chosen() {
    local found
    found=$(mktemp) || return
    named_or_installed >"$found" || return
    with_mirrors "$found"
}

# Adds to disks those that are parts of the same arrays, also through others. Fails if one of these
# has something else besides: nobody knows that an installation wrote that, and half a mirror would
# be left without it.
with_mirrors() {
    local wanted other
    wanted=$(jq -c -n --slurpfile all "$all" --slurpfile found "$1" '
        def grown: map(.arrays[]) as $arrays | map(.path) as $paths
            | [$all[] | select((.path | IN($paths[])) or any(.arrays[]; IN($arrays[])))];
        def closed: length as $count | grown | if length == $count then . else closed end;
        $found | closed') || return
    other=$(jq -r --slurpfile found "$1" '
        ($found | map(.path)) as $paths
        | map(select((.path | IN($paths[]) | not) and .others != []) | .path) | first // empty
        ' <<<"$wanted") || return
    if [[ -n $other ]]; then
        say "$other mirrors a disk that is to be wiped, and has other partitions"
        return 1
    fi
    jq -c '.[]' <<<"$wanted"
}

# The disks that the configuration names or, if it names none, the one with an installation.
named_or_installed() {
    local count index real
    count=$(jq '.disks | length' "$config") || return
    if ((count == 0)); then
        installed
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

# The disk with the partitions of an installation, or all of them if they mirror one another; none
# if there is none.
installed() {
    local candidates first mirrors unmirrored
    candidates=$(mktemp) && first=$(mktemp) && mirrors=$(mktemp) || return
    jq -c 'select(any(.labels[]; test("^boot(-[0-9]+)?$"))
        and any(.labels[]; test("^root(-[0-9]+)?$"))
        and any(.labels[]; IN("EFI-SYSTEM", "BIOS-BOOT", "PowerPC-PReP-boot")
            or test("^(bios|esp|prep)-[0-9]+$")))' "$all" >"$candidates" || return
    head -n 1 "$candidates" >"$first"
    with_mirrors "$first" >"$mirrors" || return
    unmirrored=$(jq -r --slurpfile mirrors "$mirrors" '
        ($mirrors | map(.path)) as $paths | .path | select(IN($paths[]) | not)
        ' "$candidates") || return
    if [[ -n $unmirrored ]]; then
        say "$(jq -r .path "$first") and $unmirrored have installations, and nobody knows which is meant"
        return 1
    fi
    cat "$first"
}

# Stops the arrays on a disk: a running one would write what was cleared again.
stop_arrays() {
    local device
    while read -r device; do
        [[ ! -e $device ]] || mdadm -q --stop "$device" || return
    done < <(jq -r '.devices | unique[]' <<<"$1")
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
    [[ -s $picked ]] || say "no disk has an installation"
    if jq -e -s 'any(.shared)' "$picked" >/dev/null; then
        fail "$(jq -r 'select(.shared) | .path' "$picked" | head -n 1) may be shared: nothing is wiped"
    fi
    while read -r disk; do
        stop_arrays "$disk" || fail "an array on $(jq -r .path <<<"$disk") cannot be stopped"
    done <"$picked"
    while read -r disk; do
        path=$(jq -r '.path' <<<"$disk")
        "wipe_$method" "$path" "$disk" && is_clear "$path" || fail "$path could not be wiped"
        say "$path is wiped"
    done <"$picked"
    sync
    systemctl poweroff
}

main
