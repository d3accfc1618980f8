#!/bin/sh
# Updates DNS (RFC 2136) when the addresses of the pool's clusters have changed. The DNS server of the zone
# must accept the key. Names without an address belong to no cluster any more and are deleted. Without nsupdate
# or the key, the script only says which records to change by hand.
set -eu
cd "$(dirname "$0")"
key=/etc/poolctl/dns.key
poolctl pool dns metal >dns.list
awk '
  $1 != "#" { known = 1; address = $1; first = 2 }
  $1 == "#" && ($2 != "no" || ($3 != "address" && $3 != "wildcards")) { next }
  $1 == "#" { known = $3 == "wildcards"; address = $4; first = known ? 5 : 4 }
  { for (at = first; at <= NF && $at != "#"; at++) {
      if (!seen[$at]++) print "update delete " $at ". A\nupdate delete " $at ". AAAA"
      if (known) print "update add " $at ". 60 " (address ~ /:/ ? "AAAA" : "A") " " address }
    print "send" }' dns.list >dns.new
if ! cmp -s dns.new dns.told; then
  if command -v nsupdate >/dev/null && [ -r "$key" ]; then
    nsupdate -k "$key" dns.new
  else
    echo "dns.sh: DNS was not updated, which needs nsupdate and $key; records: $PWD/dns.told" >&2
  fi
fi
mv dns.new dns.told
