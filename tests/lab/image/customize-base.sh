#!/bin/sh
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Last step of building the base image; $1 is its root folder.
set -eu
root=$1

# Nothing in a host may touch the machine's devices or reach for the network on a timer.
chroot "$root" systemctl mask -q systemd-networkd-wait-online.service getty@.service getty.target \
    console-getty.service serial-getty@.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer systemd-udevd.service systemd-udev-trigger.service dpkg-db-backup.timer

mkdir -p "$root/var/log/journal" "$root/srv/models"
rm -f "$root"/etc/ssh/ssh_host_*_key* "$root/etc/machine-id" "$root/etc/hostname" "$root/etc/resolv.conf"
# The hosts share their ssh keys: a host that comes back under the same address is then no stranger.
ssh-keygen -q -t ed25519 -N '' -f "$root/etc/ssh/ssh_host_ed25519_key"
ssh-keygen -q -t rsa -b 2048 -N '' -f "$root/etc/ssh/ssh_host_rsa_key"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/usr/share/doc/* "$root"/usr/share/man/*
