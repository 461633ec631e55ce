#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Runs in a chroot of the base image, with the wheels, uv and requirements.txt in /run/lab.
set -eu
umask 022
# With the hosts' own Python: an environment made from one under somebody's home can't be executed by a service user.
/usr/bin/python3 -m venv /opt/vllm
# The cache lies on the same file system as the environment, so that each file is unpacked once and then only linked.
UV_CACHE_DIR=/opt/uv-cache /run/lab/uv pip install --quiet --python /opt/vllm/bin/python --no-deps --offline --no-index \
    --find-links /run/lab --link-mode hardlink --compile-bytecode -r /run/lab/requirements.txt
rm -rf /opt/uv-cache
