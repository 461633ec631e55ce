#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Runs in a chroot of the base image, with the wheels, uv and requirements.txt in /run/lab.
set -eu
umask 022
/run/lab/uv pip install --quiet --python /usr/bin/python3 --system --break-system-packages --no-deps --offline --no-index \
    --no-cache --find-links /run/lab --compile-bytecode -r /run/lab/requirements.txt
ldconfig
