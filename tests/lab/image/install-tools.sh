#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Runs in a chroot of the base image, with the wheels, uv, requirements.txt, libnvidia-ml.so.1 and files/ in /run/lab.
set -eu
umask 022
/run/lab/uv pip install --quiet --python /usr/bin/python3 --system --break-system-packages --no-deps --offline --no-index \
    --no-cache --find-links /run/lab --compile-bytecode -r /run/lab/requirements.txt

install -m 644 /run/lab/libnvidia-ml.so.1 /usr/lib/x86_64-linux-gnu/
ldconfig

# Modes by hand: those of a clone depend on the umask it was made with.
cd /run/lab/files
find . -type f | while read -r file; do
    mode=644
    if [ -x "$file" ]; then mode=755; fi
    install -D -m "$mode" "$file" "/$file"
done
mkdir -p /etc/modelfleet-lab/nvml.d
systemctl enable -q modelfleet-lab-gpu-agent.service
