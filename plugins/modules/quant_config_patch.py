# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quant_config_patch
short_description: Make a view of a checkpoint whose KV-cache settings the GPUs can run
version_added: 0.1.0
description:
  - Quantised checkpoints ask for a KV cache of a certain dtype, most often FP8, in their JSON files. Not every GPU can
    run it with every attention kind and every release of vLLM. Where it can't, the server fails to start or crashes.
  - This module reads what the checkpoint asks for, decides by a table of rules whether it can run, and makes a view. A
    view is a folder with a link to every file of the snapshot, and patched copies of the JSON files that had to change.
  - The snapshot stays as published, and can be verified against the Hub at any time.
  - Entries are nulled and never deleted, since vLLM requires some of them to be there. Every byte beside the values
    that change stays as it was.
  - The view holds a record of what was changed and why in C(.modelfleet/view.json).
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
attributes:
  check_mode:
    support: full
    details:
      - The snapshot has to be there. Where an earlier task would have downloaded it, the module fails and says so.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
options:
  snapshot:
    description:
      - Folder of the checkpoint as it was downloaded, for example by M(modelfleet.serving.hf_snapshot).
      - Required unless O(state=absent) and O(mode=view).
    type: path
  view:
    description:
      - Folder of the view. It is made, and later replaced, in one step.
      - It must lie outside of the snapshot, and must not be a folder that this module did not make.
      - Required with O(mode=view).
    type: path
  mode:
    description:
      - V(view) leaves the snapshot alone and makes a view.
      - V(in_place) changes the JSON files of the snapshot itself, and keeps each of them as published beside it, with
        C(.modelfleet-orig) behind its name. A snapshot that was changed in place no longer passes verification.
    type: str
    choices:
      - view
      - in_place
    default: view
  state:
    description:
      - V(present) makes the view, or patches in place.
      - V(absent) removes the view, or gives the files that were changed in place their published content back.
    type: str
    choices:
      - present
      - absent
    default: present
  kv_cache_dtype:
    description:
      - What dtype the KV cache shall have.
      - V(auto) decides by the rules. The checkpoint's choice is kept where it can run. Where it can't, or where it is
        reported to crash although vLLM declares to support it, the entries are nulled.
      - V(bfloat16) always nulls the entries, so that vLLM takes the model's own dtype.
      - V(fp8) keeps the entries, and hands out a flag where the entries alone would not give an FP8 KV cache. It fails
        where the rules know that FP8 does not run, and warns where it is reported to crash.
    type: str
    choices:
      - auto
      - bfloat16
      - fp8
    default: auto
  compute_capability:
    description:
      - CUDA compute capability of the GPUs, such as V(12.0). M(modelfleet.serving.gpu_facts) tells it.
      - Required unless O(kv_cache_dtype=bfloat16) or O(state=absent).
    type: str
  vllm_version:
    description:
      - Release of vLLM that will load the checkpoint.
      - Required unless O(kv_cache_dtype=bfloat16) or O(state=absent).
    type: str
  decode_context_parallel_size:
    description:
      - The C(--decode-context-parallel-size) that vLLM will be started with. Above 1, some releases can't run an FP8
        KV cache.
    type: int
    default: 1
  rules:
    description:
      - Further values to set in JSON files of the checkpoint, for quirks that the built-in rules do not know.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description:
          - Name of the rule. It appears in the changes and in the record of the view.
        type: str
        required: true
      file:
        description:
          - JSON file of the checkpoint, relative to the snapshot.
        type: str
        default: config.json
      key:
        description:
          - Which value to set, with dots between the keys, such as V(text_config.rope_scaling.factor).
          - Keys that contain dots can be written as a JSON pointer, such as V(/text_config/rope.scaling).
          - All but the last key must exist.
        type: str
        required: true
      value:
        description:
          - The value to set. Without it, the value is set to V(null).
        type: raw
      reason:
        description:
          - Why. It appears in the changes and in the record of the view.
        type: str
        required: true
      when:
        description:
          - JMESPath expression that says whether the rule applies. Without it, it always does.
          - The expression sees C(checkpoint.attention), C(checkpoint.files) (the content of the files by name),
            C(gpu.compute_capability), and C(vllm.version).
        type: str
requirements:
  - jmespath (only for rules with O(rules[].when))
notes:
  - Without the entries, C(--kv-cache-dtype auto) gives the model's own dtype, which takes twice the memory of FP8.
    There is room for half the tokens.
seealso:
  - module: modelfleet.serving.gpu_facts
  - module: modelfleet.serving.hf_snapshot
"""

EXAMPLES = r"""
---
- name: Make a view of Kimi-K2.5 for the GPUs of the host
  modelfleet.serving.quant_config_patch:
    snapshot: "{{ snapshot.path }}"
    view: /srv/models/views/kimi_k2_5_nvfp4/0.32.0
    compute_capability: "{{ ansible_facts.gpu.devices[0].compute_capability }}"
    vllm_version: 0.32.0
  register: view

- name: Show what was changed and why
  ansible.builtin.debug:
    var: view.changes

- name: Insist on an FP8 KV cache
  modelfleet.serving.quant_config_patch:
    snapshot: "{{ snapshot.path }}"
    view: /srv/models/views/kimi_k2_5_nvfp4/0.32.0-fp8
    compute_capability: "12.0"
    vllm_version: 0.32.0
    kv_cache_dtype: fp8

- name: Work around a quirk that the built-in rules do not know
  modelfleet.serving.quant_config_patch:
    snapshot: "{{ snapshot.path }}"
    view: /srv/models/views/mymodel/0.32.0
    compute_capability: "12.0"
    vllm_version: 0.32.0
    rules:
      - id: sampling_defaults
        file: generation_config.json
        key: temperature
        value: 0.6
        reason: The published default is too high for our use.

- name: Patch a checkpoint in place, where a view can't be used
  modelfleet.serving.quant_config_patch:
    snapshot: /data/checkpoint
    mode: in_place
    kv_cache_dtype: bfloat16

- name: Give the checkpoint its published files back
  modelfleet.serving.quant_config_patch:
    snapshot: /data/checkpoint
    mode: in_place
    state: absent
"""

RETURN = r"""
path:
  description: The folder to give to vLLM. The view, or the snapshot with O(mode=in_place).
  returned: success
  type: str
  sample: /srv/models/views/kimi_k2_5_nvfp4/0.32.0
changes:
  description:
    - How the JSON files differ from those published, also when nothing had to be done because they do so already.
    - Empty with O(state=absent).
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: File, relative to the snapshot.
      returned: success
      type: str
      sample: hf_quant_config.json
    key:
      description: Key, with dots between its parts.
      returned: success
      type: str
      sample: quantization.kv_cache_quant_algo
    before:
      description: Value as published.
      returned: success
      type: raw
      sample: FP8
    after:
      description: Value now.
      returned: success
      type: raw
      sample: null
    rule:
      description: Rule by which it was changed. V(requested) where O(kv_cache_dtype) asked for it.
      returned: success
      type: str
      sample: mla_dense_sm120_fp8_shared_memory
    reason:
      description: Why it was changed.
      returned: success
      type: str
      sample: The checkpoint asks for a KV cache in FP8; ...
vllm_args:
  description:
    - Flags that vLLM has to be started with in addition, by name without the leading hyphens.
    - Empty where the files alone give the right KV cache.
  returned: success
  type: dict
  sample:
    kv-cache-dtype: fp8
attention:
  description: Attention kind of the checkpoint, V(gqa), V(mla_dense), or V(mla_sparse). V(null) with O(state=absent).
  returned: success
  type: str
  sample: mla_dense
decision:
  description: What was decided on the KV cache. V(null) with O(state=absent).
  returned: success
  type: dict
  contains:
    kv_cache_dtype:
      description:
        - The dtype that the KV cache will have. V(auto) where the checkpoint asks for none and gets the model's own.
      returned: success
      type: str
      sample: bfloat16
    rule:
      description: Rule by which it was decided.
      returned: success
      type: str
      sample: mla_dense_sm120_fp8_shared_memory
    evidence:
      description: How well the rule is known. V(source), V(reported), V(measured), or V(none).
      returned: success
      type: str
      sample: reported
    source:
      description: Where the rule comes from.
      returned: success
      type: str
      sample: vllm-project/vllm#46721
    reason:
      description: The decision in words.
      returned: success
      type: str
      sample: The checkpoint asks for a KV cache in FP8; ...
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath
from ansible_collections.modelfleet.serving.plugins.module_utils._files import LocalFiles
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_decision import Request
from ansible_collections.modelfleet.serving.plugins.module_utils._quant_config import (
    Params,
    PatchError,
    Result,
    Rule,
    key_path,
    run,
)

RULE_SPEC = {
    "id": {"type": "str", "required": True},
    "file": {"type": "str", "default": "config.json"},
    "key": {"type": "str", "required": True, "no_log": False},
    "value": {"type": "raw"},
    "reason": {"type": "str", "required": True},
    "when": {"type": "str"},
}

ARGUMENT_SPEC = {
    "snapshot": {"type": "path"},
    "view": {"type": "path"},
    "mode": {"type": "str", "choices": ["view", "in_place"], "default": "view"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "kv_cache_dtype": {"type": "str", "choices": ["auto", "bfloat16", "fp8"], "default": "auto"},
    "compute_capability": {"type": "str"},
    "vllm_version": {"type": "str"},
    "decode_context_parallel_size": {"type": "int", "default": 1},
    "rules": {"type": "list", "elements": "dict", "default": [], "options": RULE_SPEC},
}


def parse(params: t.Mapping[str, t.Any]) -> Params:
    return Params(
        snapshot=params["snapshot"],
        view=params["view"],
        mode=params["mode"],
        state=params["state"],
        request=Request(
            params["kv_cache_dtype"],
            params["compute_capability"],
            params["vllm_version"],
            params["decode_context_parallel_size"] > 1,
        ),
        rules=tuple(
            Rule(row["id"], row["file"], key_path(row["key"]), row["value"], row["reason"], row["when"] or "")
            for row in params["rules"]
        ),
    )


def report(result: Result) -> dict[str, t.Any]:
    decision = result.decision
    shown = ("kv_cache_dtype", "rule", "evidence", "source", "reason")
    return {
        "changed": result.changed,
        "path": result.path,
        "changes": [change._asdict() for change in result.changes],
        "vllm_args": dict(result.vllm_args),
        "attention": result.attention,
        "decision": {name: getattr(decision, name) for name in shown} if decision else None,
        "diff": list(result.diff),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[
            ("mode", "view", ["view"]),
            ("mode", "in_place", ["snapshot"]),
            ("state", "present", ["snapshot"]),
        ],
        supports_check_mode=True,
    )
    conditions = [rule["when"] for rule in module.params["rules"] if rule["when"]]
    if conditions and not _jmespath.HAS_JMESPATH:
        module.fail_json(
            msg=missing_required_lib("jmespath", reason="for rules with 'when'"),
            exception=_jmespath.JMESPATH_IMPORT_ERROR,
        )
    try:
        for condition in conditions:
            _jmespath.check(condition)
        result = run(parse(module.params), module.check_mode, LocalFiles(), _jmespath.search)
    except (PatchError, _jmespath.QueryError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"The file system refused what was needed for the view or the patch: {exc}")
    for warning in result.warnings:
        module.warn(warning)
    module.exit_json(**report(result))


if __name__ == "__main__":
    main()
