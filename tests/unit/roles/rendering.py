# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a role's expressions come to, by Ansible's own templating, without a host."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"


class Rendered:
    """The variables of a role: its defaults and vars, with ``given`` over the defaults and ``registered`` over all."""

    def __init__(
        self, role: str, given: t.Mapping[str, t.Any], registered: t.Mapping[str, t.Any] | None = None
    ) -> None:
        loader = DataLoader()
        files = [ROLES / role / folder / "main.yml" for folder in ("defaults", "vars")]
        defaults, own = (
            (loader.load_from_file(str(file), trusted_as_template=True) or {}) if file.is_file() else {}
            for file in files
        )
        search = {
            "ansible_search_path": [str(ROLES / role)],
            "role_path": str(ROLES / role),
            "ansible_check_mode": False,
        }
        self._templar = Templar(loader, {**search, **defaults, **given, **own, **(registered or {})})

    def __getitem__(self, name: str) -> t.Any:
        return self.expression(name)

    def expression(self, text: str) -> t.Any:
        return self._templar.template(trust_as_template("{{ " + text + " }}"))
