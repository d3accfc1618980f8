#!/bin/sh
# Tells DNS which addresses the clusters of the pool have, if that has changed: RFC 2136, with a key
# that the zone's server believes.
set -eu
cd "$(dirname "$0")"
poolctl pool dns metal | awk '
  /^#/ { next }
  { kind = $1 ~ /:/ ? "AAAA" : "A"
    for (at = 2; at <= NF && $at != "#"; at++) {
      print "update delete " $at ". " kind
      print "update add " $at ". 60 " kind " " $1 }
    print "send" }' >dns.new
cmp -s dns.new dns.told || nsupdate -k /etc/poolctl/dns.key dns.new
mv dns.new dns.told
