#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# stage-collection.sh DIR: copy what git tracks, or would track, to DIR/ansible_collections/modelfleet/serving.
# ansible-test insists on that path, and would otherwise check build products too.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
target=$1/ansible_collections/modelfleet/serving
mkdir -p "$target"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# ls-files also names files that were deleted but not yet committed
git -C "$top" ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [ -e "$top/$file" ] && printf '%s\0' "$file"; done >"$list" || true
[ -s "$list" ] || { echo "stage-collection: git lists no files in $top" >&2; exit 1; }
find "$target" -mindepth 1 -maxdepth 1 ! -name tests ! -name .git -exec rm -rf {} +
find "$target/tests" -mindepth 1 -maxdepth 1 ! -name output -exec rm -rf {} + 2>/dev/null || true
rsync -a --from0 --files-from="$list" "$top/" "$target/"
# a repository of its own: inside another one's ignored folder ansible-test sees no files at all
[ -d "$target/.git" ] || git -C "$target" init -q
git -C "$target" add -A
echo "$target"
