#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ansible-test.sh ARGUMENTS...: run ansible-test from the controller environment on a staged copy of the collection.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
controller=$top/build/controller
[ -x "$controller/bin/ansible-test" ] || { echo "ansible-test.sh: no controller environment; run: make setup" >&2; exit 1; }
# one run at a time: the next one's staging would pull the files away from under it
exec 9>"$top/build/staged.lock"
flock --nonblock 9 || { echo "ansible-test.sh: waiting for another run of ansible-test in this clone"; flock 9; }
target=$("$top/scripts/stage-collection.sh" "$top/build/staged")
# Every Python that can be found, so that compile and import are checked on all that hosts may have.
path=$controller/bin
for bin in "$HOME"/.pyenv/versions/3.*/bin; do
  [ -d "$bin" ] && path=$path:$bin
done
export PATH=$path:$PATH
if [ "${1:-}" = sanity ]; then
  for version in 3.9 3.10 3.11 3.12 3.13 3.14; do
    command -v "python$version" >/dev/null || echo "sanity: python$version is not on this machine: compile and import are not checked on it"
  done
fi

# ansible-test fetches get-pip.py from a site of its own when it makes an environment. Python brings pip along
# (ensurepip), so a stand-in at the place of the cached download does, and works behind any proxy.
cache=${MODELFLEET_CACHE:-/var/cache/modelfleet-lab}
export HOME=$cache/ansible-test-home
version=$("$controller/bin/python" -c 'from ansible_test._internal import python_requirements as r
import inspect, re
print(re.search(r"pip=.(\d[\d.]*).", inspect.getsource(r)).group(1))')
mkdir -p "$HOME/.ansible/test/cache"
printf 'import ensurepip\n\nensurepip.bootstrap()\n' >"$HOME/.ansible/test/cache/get_pip_${version//./_}.py"

cd "$target"
exec "$controller/bin/ansible-test" "$@"
