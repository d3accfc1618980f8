# shellcheck shell=bash
# What a machine is: read by the agent. Nothing here changes anything, and a program that is missing
# leaves its part out.

has() { command -v "$1" >/dev/null 2>&1; }
within() { timeout -k 5 60 "$@"; }

# The first line of a file, or nothing.
line() {
    local text=''
    { read -r text <"$1"; } 2>/dev/null
    printf '%s' "$text"
}

# What a part of the report prints, or the default if that is not one JSON document.
part() {
    local default=$1 found
    shift
    found=$("$@" 2>/dev/null)
    jq -es 'length == 1' <<<"$found" >/dev/null 2>&1 || found=$default
    printf '%s\n' "$found"
}

as_uuid() { sed -E 's/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/\1-\2-\3-\4-\5/'; }

# By its firmware; by its cards where that has none of its own; else by its installation.
host_id() {
    local id macs
    id=$(line /sys/class/dmi/id/product_uuid)
    id=${id,,}
    case $id in
        00000000-0000-0000-0000-* | ffffffff-ffff-ffff-ffff-* | 03000200-0400-0500-0006-*) id= ;;
    esac
    if [[ $id =~ ^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$ ]]; then
        printf '%s\n' "$id"
        return
    fi
    # A live system has another machine-id at every boot, its cards stay.
    macs=$(cards | awk -F '\t' '$2 == "physical" && $3 != "" { print $3 }' | sort)
    if [[ -n $macs ]]; then
        sha256sum <<<"$macs" | as_uuid
    else
        line /etc/machine-id | as_uuid
    fi
}

boot() {
    local mode=bios secure=NotSupported device=persistent command card="" sb mac
    command=$(line /proc/cmdline)
    if [[ -d /sys/firmware/efi ]]; then
        mode=uefi secure=Unknown
        for sb in /sys/firmware/efi/efivars/SecureBoot-*; do
            case $(od -An -t u1 -j 4 -N 1 "$sb" 2>/dev/null) in
                *1) secure=Enabled ;;
                *0) secure=Disabled ;;
            esac
        done
    fi
    [[ -e /run/ostree-live ]] && device=ephemeral
    if [[ $command =~ BOOTIF=(01-)?([0-9a-fA-F:-]{17}) ]]; then
        mac=${BASH_REMATCH[2],,}
        card=$(cards | awk -F '\t' -v mac="${mac//-/:}" '$3 == mac { print $1; exit }')
    fi
    jq -n --arg mode "$mode" --arg secure "$secure" --arg device "$device" --arg card "$card" \
        --arg command "$command" '{current_boot_mode: $mode, device_type: $device,
            secure_boot_state: $secure, pxe_interface: $card, command_line: $command}'
}

cpu() {
    local mhz
    mhz=$(awk -F ': *' '/^cpu MHz/ { printf "%d", $2; exit }' /proc/cpuinfo 2>/dev/null)
    jq -n --arg architecture "$(uname -m)" --arg count "$(nproc)" --arg mhz "${mhz:-0}" \
        --slurpfile said <(part '{}' within lscpu -J) '
        ([$said[0] | .. | objects | select(has("field")) | {(.field | rtrimstr(":")): .data}]
            | add // {}) as $of
        | {architecture: $architecture,
           count: (($of["CPU(s)"] // $count) | tonumber),
           frequency: (($of["CPU max MHz"] // $mhz) | (tonumber? // 0) | floor),
           flags: (($of.Flags // "") | split(" ") | map(select(. != ""))),
           model_name: ($of["Model name"] // "")}'
}

memory() {
    local total physical method=dmidecode
    total=$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
    physical=$(within dmidecode -t 17 2>/dev/null | awk '
        BEGIN { unit["kB"] = 1024; unit["MB"] = 1024 ^ 2; unit["GB"] = 1024 ^ 3; unit["TB"] = 1024 ^ 4 }
        /^[^\t]/ { sum += size; size = 0 }
        /^\tSize: [0-9]+ / { size = $2 * unit[$3] }
        /^\tType: Logical non-volatile/ { size = 0 }
        END { printf "%.0f", sum + size }')
    if ((${physical:-0} < total)); then
        physical=$total method=meminfo
    fi
    printf '{"physical_bytes":%s,"physical_bytes_method":"%s","usable_bytes":%s}\n' \
        "$physical" "$method" "$total"
}

# The links of a folder, by the devices that they lead to.
links() {
    local link
    for link in "$1"/*; do
        if [[ -L $link ]]; then
            printf '%s\t%s\n' "$(basename "$(readlink -f "$link")")" "$link"
        fi
    done | jq -R -s '[split("\n")[] | select(. != "") | split("\t") | {device: .[0], link: .[1]}]
        | group_by(.device) | map({key: .[0].device, value: map(.link)}) | from_entries'
}

# What a mainframe calls its disks, by their names.
mainframe_disks() {
    local disk device kind
    for disk in /sys/block/dasd*; do
        [[ -e $disk ]] || continue
        device=$(readlink -f "$disk/device")
        kind=$(line "$device/discipline")
        [[ $kind == ECKD && $(line "$device/ese") == 1 ]] && kind='ECKD (ESE)'
        printf '%s\t%s\n' "${disk##*/}" "${kind:-ECKD}"
    done | jq -R -s '[split("\n")[] | select(. != "") | split("\t") | {(.[0]): .[1]}] | add // {}'
}

# The address of the machine through which each host bus adapter of iSCSI reaches its disks.
iscsi_hosts() {
    local adapter
    for adapter in /sys/class/iscsi_host/host*; do
        [[ -e $adapter ]] || continue
        printf '%s\t%s\n' "${adapter##*/host}" "$(line "$adapter/ipaddress")"
    done | jq -R -s '[split("\n")[] | select(. != "") | split("\t") | {(.[0]): .[1]}] | add // {}'
}

disks() {
    jq -n --slurpfile all <(part '{}' within lsblk -J -b -O) \
        --slurpfile ids <(part '{}' links /dev/disk/by-id) \
        --slurpfile places <(part '{}' links /dev/disk/by-path) \
        --slurpfile mainframe <(part '{}' mainframe_disks) \
        --slurpfile iscsi <(part '{}' iscsi_hosts) '
        def yes: . == true or . == 1 or . == "1";
        def text: . // "" | tostring | gsub("^\\s+|\\s+$"; "");
        def raid: (.type // "") | startswith("raid");
        def kind:
            if .type == "rom" then "ODD" elif .type == "mpath" then "Multipath"
            elif raid then "RAID" elif .tran == "iscsi" then "iSCSI" elif .tran == "fc" then "FC"
            elif .kname | startswith("fd") then "FDD"
            elif .kname | startswith("dasd") then ($mainframe[0][.kname] // "ECKD")
            elif .rota | yes then "HDD" else "SSD" end;
        def media: any(recurse(.children[]?); ([.mountpoint, .mountpoints[]?] | index("/run/media/iso"))
            or ((.label // "") | test("^(rhcos|scos|fedora-coreos)-")));
        def wrong: [
            if .rm | yes then "Disk is removable" else empty end,
            if media then "Disk appears to be an ISO installation media" else empty end,
            if .ro | yes then "Disk is read-only" else empty end,
            (.children[]? | select(.type == "mpath") | "Disk is a member of multipath device \(.kname)"
                + " and is not eligible for installation. Use the multipath device instead.")];
        def stable: sort_by(if test("/wwn-") then 0 elif test("/(nvme-eui|dm-uuid)") then 1 else 2 end);
        [$all[0].blockdevices[]? | recurse(.children[]?)
            | select((.type == "disk" or .type == "rom" or .type == "mpath" or raid)
                and (.kname | test("^z?ram[0-9]") | not))]
        | unique_by(.kname)
        | map(. as $disk | wrong as $reasons
            | (($ids[0][.kname] // []) | stable | .[0] // "") as $by_id
            | (($places[0][.kname] // []) | sort_by(length) | .[0] // "") as $by_path
            | {id: ([$by_id, $by_path, "/dev/" + .kname] | map(select(. != "")) | .[0]),
               by_id: $by_id, by_path: $by_path, name: .kname, path: ("/dev/" + .kname),
               drive_type: kind, hctl: (.hctl | text), vendor: (.vendor | text),
               model: (.model | text), serial: (.serial | text), wwn: (.wwn | text),
               has_uuid: ((.wwn // .serial // "") != ""),
               size_bytes: (.size | tonumber? // 0),
               bootable: ((.pttype // "") != "" or any(.children[]?; .type == "part")),
               removable: (.rm | yes), is_installation_media: media, smart: "",
               installation_eligibility:
                   {eligible: ($reasons == []), not_eligible_reasons: $reasons}}
            + (if kind == "iSCSI" then $iscsi[0][.hctl // "" | split(":")[0] // ""] else null end
                | if . then {iscsi: {host_ip_address: .}} else {} end))'
}

# Interfaces, one a line: name, type, MAC address, carrier, MTU, speed, vendor, product, flags.
cards() {
    local card kind mac carrier speed bits words
    for card in /sys/class/net/*; do
        kind=$(kind_of "$card")
        [[ -n $kind ]] || continue
        # A bond gives its own address to its ports.
        mac=$(line "$card/bonding_slave/perm_hwaddr")
        [[ -n $mac ]] || mac=$(line "$card/address")
        # A bond without ports has none, InfiniBand has a longer one.
        [[ $mac =~ ^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$ && $mac != 00:00:00:00:00:00 ]] || mac=
        carrier=$(line "$card/carrier") speed=$(line "$card/speed") bits=$(line "$card/flags")
        bits=$((${bits:-0})) words=
        ((bits & 0x1)) && words+=" up"
        ((bits & 0x2)) && words+=" broadcast"
        ((bits & 0x10)) && words+=" pointtopoint"
        ((bits & 0x1000)) && words+=" multicast"
        [[ $carrier == 1 ]] && words+=" running"
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "${card##*/}" "$kind" "${mac,,}" \
            "${carrier:-0}" "$(line "$card/mtu")" "${speed:--1}" "$(line "$card/device/vendor")" \
            "$(line "$card/device/device")" "${words# }"
    done
}

# physical, vlan or bond; virtual for what stands in for a card in a container.
kind_of() {
    local card=$1
    if [[ -d $card/bonding ]]; then
        echo bond
    elif [[ -e /proc/net/vlan/${card##*/} ]] || grep -qs '^DEVTYPE=vlan$' "$card/uevent"; then
        echo vlan
    elif [[ -e $card/device ]]; then
        echo physical
    elif [[ $(line "$card/type") == 1 && ! -e $card/bridge && ! -e $card/tun_flags &&
        $(line "$card/iflink") != "$(line "$card/ifindex")" ]]; then
        echo virtual
    fi
}

interfaces() {
    jq -n --rawfile cards <(cards) --slurpfile said <(part '[]' within ip -j addr) '
        def addresses($name; $family): [$said[0][] | select(.ifname == $name) | .addr_info[]?
            | select(.family == $family and .scope != "host" and .scope != "link")
            | "\(.local)/\(.prefixlen)"];
        [$cards | split("\n")[] | select(. != "") | split("\t")] as $all
        | any($all[]; .[1] == "physical") as $real
        | [$all[] | select(.[1] != "virtual" or ($real | not))
            | {name: .[0], type: (if .[1] == "virtual" then "physical" else .[1] end),
               mac_address: .[2], has_carrier: (.[3] == "1"), mtu: (.[4] | tonumber? // 0),
               speed_mbps: (.[5] | tonumber? // -1), vendor: .[6], product: .[7],
               flags: (.[8] | split(" ") | map(select(. != ""))),
               ipv4_addresses: addresses(.[0]; "inet"), ipv6_addresses: addresses(.[0]; "inet6"),
               biosdevname: "", client_id: ""}]'
}

routes() {
    jq -n --slurpfile four <(part '[]' within ip -j -4 route show) \
        --slurpfile six <(part '[]' within ip -j -6 route show) '
        def of($all; $family; $any; $metric): $all[]
            | select((.type // "unicast") == "unicast")
            | . as $route | (if .nexthops then .nexthops[] | $route + . else . end)
            | select(.dev and (.dst | test("^(fe80|ff)") | not))
            | {destination: (if .dst == "default" then $any else .dst | split("/")[0] end),
               family: $family, interface: .dev, metric: (.metric // $metric)}
                + ((.gateway // .via.host // "") | if . == "" then {} else {gateway: .} end);
        [of($four[0]; 2; "0.0.0.0"; 0), of($six[0]; 10; "::"; 1024)]'
}

system_vendor() {
    local virtual=false dmi=/sys/class/dmi/id
    if has systemd-detect-virt; then
        systemd-detect-virt --vm --quiet && virtual=true
    elif grep -qsw hypervisor /proc/cpuinfo; then
        virtual=true
    fi
    jq -n --arg maker "$(line $dmi/sys_vendor)" --arg product "$(line $dmi/product_name)" \
        --arg serial "$(line $dmi/product_serial)" --argjson virtual $virtual '
        {manufacturer: $maker, product_name: $product, serial_number: $serial, virtual: $virtual}'
}

gpus() {
    within lspci -D -nn -mm | jq -R -s '[split("\n")[] | capture("^(?<address>\\S+) "
        + "\"[^\"]*\\[(?:03|12)[0-9a-f]{2}\\]\" \"(?<vendor>[^\"]*) \\[(?<vendor_id>[0-9a-f]{4})\\]\" "
        + "\"(?<name>[^\"]*) \\[(?<device_id>[0-9a-f]{4})\\]\"")]'
}

tpm() {
    case $(line /sys/class/tpm/tpm0/tpm_version_major) in
        2) echo 2.0 ;;
        1) echo 1.2 ;;
        *) echo none ;;
    esac
}

# No list is so long that the report would not be read.
inventory() {
    jq -n --arg hostname "$(line /proc/sys/kernel/hostname)" --arg tpm "$(tpm)" \
        --slurpfile boot <(part '{}' boot) --slurpfile cpu <(part '{}' cpu) \
        --slurpfile memory <(part '{}' memory) --slurpfile disks <(part '[]' disks) \
        --slurpfile interfaces <(part '[]' interfaces) --slurpfile routes <(part '[]' routes) \
        --slurpfile vendor <(part '{}' system_vendor) --slurpfile gpus <(part '[]' gpus) '
        {hostname: $hostname, bmc_address: "", bmc_v6address: "", tpm_version: $tpm, boot: $boot[0],
         cpu: $cpu[0], memory: $memory[0], disks: $disks[0], gpus: $gpus[0],
         interfaces: $interfaces[0], routes: $routes[0], system_vendor: $vendor[0]}
        | reduce (["disks", 512], ["interfaces", 256], ["routes", 512], ["gpus", 64])
            as [$list, $most] (.;
            if (.[$list] | length) > $most then
                .[$list] |= .[:$most] | .truncation.type = "partial"
                | .truncation.reasons += ["\($list) list truncated"]
            else . end)'
}
