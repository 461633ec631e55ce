#!/usr/bin/env bash
# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# lint.sh: every linter, each named before it runs; ends with the first that finds something.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/controller/bin
export PATH=$PWD/$bin:$PATH

step() {
  echo "lint: $*"
  "$@"
}

step ruff check --quiet .
step ruff format --quiet --check .
step mypy
step yamllint --strict .
mapfile -t shell < <(git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
  [ -f "$file" ] && head -n 1 "$file" | grep -qE '^#!.*\b(bash|sh)$' && echo "$file"
done || true)
step shellcheck "${shell[@]}"
step ansible-lint --offline --profile production
