#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# in-layer.sh LOWER UPPER WORK FILES COMMAND...
# Runs COMMAND in a chroot of the read-only LOWER folders; what it writes lands in UPPER. FILES is seen at /run/lab.
# To be started by `unshare --mount`: the mounts then go when it ends, however it ends.
set -eu
lower=$1 upper=$2 work=$3 files=$4
shift 4
root=$work/root
mkdir -p "$upper" "$work/work" "$root"
mount -t overlay lab-layer -o "lowerdir=$lower,upperdir=$upper,workdir=$work/work" "$root"
mount -t tmpfs lab-run "$root/run"
mkdir "$root/run/lab"
mount --bind "$files" "$root/run/lab"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs lab-tmp "$root/tmp"
exec chroot "$root" "$@"
