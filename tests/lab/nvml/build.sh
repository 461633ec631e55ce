#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# build.sh INCLUDE OUTPUT: compile the emulated libnvidia-ml.so.1 against the official nvml.h in INCLUDE.
# -std=c11 without _GNU_SOURCE: newer C libraries would otherwise link functions that the hosts' one does not have.
set -eu
include=$1 output=$2
cd "$(dirname "$0")"
exec gcc -std=c11 -D_DEFAULT_SOURCE -O1 -Wall -Wextra -Wno-unused-parameter -Wno-deprecated-declarations -Werror \
    -fPIC -fvisibility=hidden -shared -I "$include" -Wl,-soname,libnvidia-ml.so.1 -o "$output" state.c nvml.c
