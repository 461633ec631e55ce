#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# hub-service.sh up LAB ROOT | down LAB: the local Hub at 10.77.0.1:8900 in a lab's controller namespace.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
verb=${1:?up or down} lab=${2:?name of the lab}
state=${MODELFLEET_LAB_STATE:-/var/lib/modelfleet-lab}
pid_file=$state/hub-$lab.pid
log=$state/hub-$lab.log

# the recorded process, only while it still is the Hub: a pid may have been given to another since
running() {
  local pid
  pid=$(cat "$pid_file" 2>/dev/null) || return 1
  [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "lab/hub" && echo "$pid"
}

case $verb in
  up)
    root=${3:?folder with OWNER/NAME/files}
    if pid=$(running); then
      echo "hub of lab $lab: already up (pid $pid)"
      exit 0
    fi
    mkdir -p "$state"
    : >"$log"
    setsid "$here/lab" run --lab "$lab" -- python3 "$here/hub" --root "$root" --bind 10.77.0.1 --port 8900 \
      --cdn-port 8901 --cdn-host 10.77.0.1 --pid-file "$pid_file" >>"$log" 2>&1 </dev/null &
    for _ in $(seq 150); do
      if grep -q '^ready:' "$log"; then
        echo "hub of lab $lab: $(grep '^ready:' "$log")"
        exit 0
      fi
      sleep 0.2
    done
    echo "hub-service.sh: the Hub did not come up in 30 s; its log ($log):" >&2
    tail -n 20 "$log" >&2
    exit 1
    ;;
  down)
    if pid=$(running); then
      kill -TERM "$pid"
      for _ in $(seq 50); do
        [ -d "/proc/$pid" ] || break
        sleep 0.1
      done
      echo "hub of lab $lab: stopped"
    fi
    rm -f "$pid_file" "$log"
    ;;
  *)
    echo "hub-service.sh: up or down, not '$verb'" >&2
    exit 2
    ;;
esac
