#!/bin/sh
# Tells DNS which addresses the clusters of the pool have, if that has changed: RFC 2136, with a key
# that the zone's server believes. Names without an address, whose cluster is gone, are deleted. Without
# nsupdate or the key it says, whenever that has changed, what is to be done by hand.
set -eu
cd "$(dirname "$0")"
key=/etc/poolctl/dns.key
poolctl pool dns metal >dns.list
awk '
  $1 == "#" && ($2 != "no" || $3 != "address") { next }
  { known = $1 != "#"
    for (at = known ? 2 : 4; at <= NF && $at != "#"; at++) {
      if (!seen[$at]++) print "update delete " $at ". A\nupdate delete " $at ". AAAA"
      if (known) print "update add " $at ". 60 " ($1 ~ /:/ ? "AAAA" : "A") " " $1 }
    print "send" }' dns.list >dns.new
if ! cmp -s dns.new dns.told; then
  if command -v nsupdate >/dev/null && [ -r "$key" ]; then
    nsupdate -k "$key" dns.new
  else
    echo "dns.sh: without nsupdate and $key nobody tells DNS: see $PWD/dns.told" >&2
  fi
fi
mv dns.new dns.told
