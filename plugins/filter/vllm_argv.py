# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: vllm_argv
short_description: Turn a mapping of vLLM flags into an argument list
description:
  - Makes the words that follow C(vllm serve) from a mapping, in the order of the mapping.
  - A name may be written with underscores or hyphens, V(max_model_len) and V(max-model-len) are the same flag.
  - V(true) gives the bare flag; V(false) and V(null) leave the flag out.
  - A string or number gives C(--flag value), or C(--flag=value) when the value begins with a hyphen.
  - A list gives C(--flag a b c); a mapping gives C(--flag) and its JSON.
  - Flags that would put a secret into the process list are refused.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: Flags without their leading hyphens, and their values.
    type: dict
    required: true
"""

EXAMPLES = r"""
---
- name: Show the command line of a model profile
  ansible.builtin.debug:
    msg: "{{ {'tensor_parallel_size': 8, 'enable_auto_tool_choice': true} | modelfleet.serving.vllm_argv }}"
  # ['--tensor-parallel-size', '8', '--enable-auto-tool-choice']
"""

RETURN = r"""
_value:
  description: The words, ready for an argument vector.
  type: list
  elements: str
"""

import json
import typing as t

from ansible.errors import AnsibleFilterError

#: flag -> where its value belongs instead
SECRET_FLAGS: t.Mapping[str, str] = {
    "api-key": "set vllm_service_api_key, which reaches the server by a file that only root reads",
    "hf-token": "the service never needs a Hub token: models are downloaded before it starts",
}


def _flag_name(key: t.Any) -> str:
    if not isinstance(key, str):
        raise AnsibleFilterError(f"vllm_argv: flag names are strings, found {key!r}")
    name = key.lstrip("-").replace("_", "-")
    if not name or any(c.isspace() or c == "=" for c in name):
        raise AnsibleFilterError(f"vllm_argv: {key!r} is not a flag name")
    if name in SECRET_FLAGS:
        raise AnsibleFilterError(
            f"vllm_argv: --{name} would show a secret to every user of the host: {SECRET_FLAGS[name]}"
        )
    return name


def _word(name: str, value: t.Any) -> str:
    if isinstance(value, (dict, bool)):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, (str, int, float)):
        return str(value)
    raise AnsibleFilterError(f"vllm_argv: --{name} can't take {value!r} ({type(value).__name__})")


def _words(name: str, value: t.Any) -> list[str]:
    if value is None or value is False or value == []:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, list):
        words = [_word(name, item) for item in value]
        for word in words:
            if word.startswith("-"):
                raise AnsibleFilterError(f"vllm_argv: the item {word!r} of --{name} would be read as a flag")
        return [f"--{name}", *words]
    word = _word(name, value)
    return [f"--{name}={word}"] if word.startswith("-") else [f"--{name}", word]


def vllm_argv(flags: t.Mapping[str, t.Any]) -> list[str]:
    """Return the words of a command line for a mapping of flags."""
    if not isinstance(flags, dict):
        raise AnsibleFilterError(f"vllm_argv: expected a mapping of flags, found {type(flags).__name__}")
    argv: list[str] = []
    seen: dict[str, str] = {}
    for key, value in flags.items():
        name = _flag_name(key)
        if name in seen:
            raise AnsibleFilterError(f"vllm_argv: {seen[name]!r} and {key!r} are the same flag, --{name}")
        seen[name] = key
        argv.extend(_words(name, value))
    return argv


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"vllm_argv": vllm_argv}
