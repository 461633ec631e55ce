#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# bootstrap.sh [controller|lab|versions]: what this machine needs (the first two, if none is named). Does nothing, and says
# nothing, the second time.
#   controller  build/controller, a virtual environment with ansible-core and the test tools, and the collection's link
#   lab         the system packages that the test hosts are made with (tests/lab/lab makes the rest)
#   versions    build/hub-versions, a virtual environment for each huggingface_hub in tests/versions/versions.txt
# MODELFLEET_PYTHON names a Python >= 3.12 to use, MODELFLEET_CACHE the folder for what is slow to make.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

say() { echo "bootstrap: $*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# Run a command that may take a while; show its last words every ten seconds, and all of them if it fails.
slowly() {
    local title=$1 log pid code=0 waited=0
    shift
    log=$(mktemp)
    say "$title ..."
    "$@" >"$log" 2>&1 </dev/null 9>&- & # what a package starts must not keep our lock
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        waited=$((waited + 1))
        if ((waited % 50 == 0)); then say "$title: $((waited / 5)) s; $(tail -n 1 "$log" | cut -c1-100)"; fi
    done
    wait "$pid" || code=$?
    if ((code)); then cat "$log" >&2; fi
    rm -f "$log"
    ((code == 0)) || die "$title failed with status $code; its output is above"
}

need_packages() {
    local package missing=()
    command -v dpkg-query >/dev/null || die "this is not Debian or Ubuntu: install by hand what belongs to: $*"
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *' installed' ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || die "not installed: ${missing[*]}; run scripts/bootstrap.sh as root once"
    slowly "package lists" apt-get update
    export DEBIAN_FRONTEND=noninteractive
    say "not installed yet: ${missing[*]}"
    slowly "packages" apt-get install -y --no-install-recommends "${missing[@]}"
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${MODELFLEET_PYTHON:-python3.14 python3.13 python3.12 python3} \
        "${HOME:-/root}"/.pyenv/versions/3.1{4,3,2}.*/bin/python3; do
        if is_new_enough "$candidate"; then
            # Past the shims of version managers, which answer differently in another folder.
            "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
            return
        fi
    done
    return 1
}

install_python() {
    local version
    ((EUID == 0)) || die "no Python 3.12 to 3.14 found; run this as root once, or name one in MODELFLEET_PYTHON"
    slowly "package lists" apt-get update
    for version in 3.14 3.13 3.12; do
        if [[ $(apt-cache policy "python$version" 2>/dev/null) == *'Candidate: '[0-9]* ]]; then
            need_packages "python$version" "python$version-venv"
            return
        fi
    done
    die "ansible-core 2.21 needs Python 3.12 to 3.14, and this release has none; install one (pyenv, for example)" \
        "and name it in MODELFLEET_PYTHON"
}

ensure_controller() {
    local python version key environment
    # Of a new machine's tests, scripts/stage-collection.sh needs rsync, and scripts/lint.sh shellcheck.
    need_packages openssh-client rsync shellcheck
    find_python >/dev/null || install_python
    python=$(find_python)
    version=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
    # Debian and Ubuntu ship the venv module without what it needs to make an environment.
    "$python" -c 'import ensurepip' 2>/dev/null || need_packages "python$version-venv"

    key=$({ cat tests/{requirements,constraints}-controller.txt && "$python" --version; } | sha256sum | cut -c1-12)
    environment=$cache/controller-$key
    if [ ! -f "$environment/.complete" ]; then
        rm -rf "$environment"
        slowly "controller environment $environment" "$python" -m venv "$environment"
        slowly "ansible-core and the test tools" \
            "$environment/bin/pip" install --disable-pip-version-check --no-compile \
            -r tests/requirements-controller.txt -c tests/constraints-controller.txt
        touch "$environment/.complete"
    fi
    link "$environment" build/controller
    # From a clone the collection is found where an installed one would be.
    link ../../../.. build/collections/ansible_collections/modelfleet/serving
}

link() {
    mkdir -p "$(dirname "$2")"
    [ "$(readlink "$2" 2>/dev/null)" = "$1" ] || ln -sfn "$1" "$2"
}

# Each release on the oldest Python it is for, where that is installed; any other tests it almost as well.
ensure_versions() {
    local version wanted python environment
    mkdir -p build/hub-versions
    while read -r version wanted; do
        python=$(find_exactly "$wanted" || find_python) || die "no Python 3.12 to 3.14 found; run: $0 controller"
        environment=$cache/hub-$version-py$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')
        if [ ! -f "$environment/.complete" ]; then
            rm -rf "$environment"
            slowly "environment $environment" "$python" -m venv "$environment"
            slowly "huggingface_hub $version" \
                "$environment/bin/pip" install --disable-pip-version-check --no-compile "huggingface_hub==$version"
            touch "$environment/.complete"
        fi
        link "$environment" "build/hub-versions/$version"
    done < <(grep -v '^#' tests/versions/versions.txt)
}

find_exactly() {
    local candidate
    for candidate in "python$1" "${HOME:-/root}"/.pyenv/versions/"$1".*/bin/python3; do
        # A venv needs ensurepip, which Debian packages apart; a shim may be there for a version that is not.
        if "$candidate" -c 'import ensurepip' 2>/dev/null; then
            "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
            return
        fi
    done
    return 1
}

ensure_lab() {
    local packages=(mmdebstrap systemd-container iproute2 openssh-client rsync gcc libc6-dev zstd)
    packages+=(python3-venv e2fsprogs util-linux)
    ((EUID == 0)) || die "the test hosts are containers: run this as root"
    # mmdebstrap checks Debian's signatures, with keys that Ubuntu does not have by itself.
    if ! grep -q '^ID=debian' /etc/os-release; then packages+=(debian-archive-keyring); fi
    need_packages "${packages[@]}"
}

if ((EUID == 0)); then
    cache=${MODELFLEET_CACHE:-/var/cache/modelfleet-lab}
else
    cache=${MODELFLEET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/modelfleet-lab}
fi
mkdir -p "$cache" 2>/dev/null || die "can't make the folder $cache; name another one in MODELFLEET_CACHE"
exec 9>"$cache/.bootstrap-lock" # two of us would install the same things at once
flock 9

case ${1:-all} in
    controller) ensure_controller ;;
    lab) ensure_lab ;;
    versions) ensure_versions ;;
    all)
        ensure_controller
        ensure_lab
        ;;
    *) die "usage: bootstrap.sh [controller|lab|versions]" ;;
esac
