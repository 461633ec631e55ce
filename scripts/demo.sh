#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# demo.sh up | down: two test hosts, a local Hub with generated checkpoints, and the deployment on them.
set -euo pipefail
cd "$(dirname "$0")/.."
verb=${1:?up or down}
lab=demo
cache=${MODELFLEET_CACHE:-/var/cache/modelfleet-lab}
began=$SECONDS

step() { printf '\n== [%4d s] %s\n' "$((SECONDS - began))" "$*"; }

if [ "$(id -u)" != 0 ]; then
  echo "make demo: needs root (network namespaces, overlay mounts, systemd-nspawn); run it with sudo" >&2
  exit 1
fi

case $verb in
  up)
    step "1/5 packages and the controller's Python environment"
    scripts/bootstrap.sh controller
    scripts/bootstrap.sh lab
    step "2/5 images of the test hosts: Debian base, vLLM for CPU (built once, then cached in $cache)"
    tests/lab/lab build
    step "3/5 two test hosts with systemd, sshd and eight emulated GPUs each"
    tests/lab/lab up --lab $lab --names demo1,demo2
    step "4/5 demo checkpoints and the local Hub"
    python3 tests/lab/checkpoints/make_repo.py "$cache/hub"
    tests/lab/hub-service.sh up $lab "$cache/hub"
    step "5/5 ansible-playbook -i inventories/demo playbooks/deploy_kimi.yml"
    tests/lab/lab run --lab $lab -- build/controller/bin/ansible-playbook -i inventories/demo playbooks/deploy_kimi.yml
    step "done"
    cat <<'HELP'
Send a request:
  tests/lab/lab run --lab demo -- curl -s http://10.77.0.11:8000/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "kimi-demo", "messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}'
Look at the hosts:
  tests/lab/lab run --lab demo -- build/controller/bin/ansible-playbook -i inventories/demo playbooks/status.yml
  tests/lab/lab ssh --lab demo demo1
Clean up:
  make demo-down
HELP
    ;;
  down)
    tests/lab/hub-service.sh down $lab
    tests/lab/lab down --lab $lab
    ;;
  *)
    echo "demo.sh: up or down, not '$verb'" >&2
    exit 2
    ;;
esac
