#!/bin/sh
# The machine of ipmi_sim, called as MC FOLDER get|set|check NAME [VALUE]... A machine with a file
# `deaf` does not shut down when it is asked to.
dir=$2
op=$3
shift 3
mkdir -p "$dir"
echo "$(date +%s%N) $op $*" >>"$dir/calls"
get() { cat "$dir/$1" 2>/dev/null || echo "$2"; }
case $op in
get)
  for name in "$@"; do
    case $name in
    power) echo "power:$(get power 0)" ;;
    boot) echo "boot:$(get boot none)" ;;
    *) exit 1 ;;
    esac
  done
  ;;
set)
  while [ $# -gt 1 ]; do
    case $1 in
    power | boot) echo "$2" >"$dir/$1" ;;
    shutdown) [ -e "$dir/deaf" ] || echo 0 >"$dir/power" ;;
    reset | identify) ;;
    *) exit 1 ;;
    esac
    shift 2
  done
  ;;
check) ;;
*) exit 1 ;;
esac
