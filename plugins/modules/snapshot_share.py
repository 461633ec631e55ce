# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot_share
short_description: Share a host's verified snapshots with other hosts for a while
description:
  - Starts or stops a small read-only HTTP server, from which M(modelfleet.serving.hf_snapshot) on other hosts
    takes files that this host has already, so that a fleet downloads a model from the Hub once.
  - It serves the files that a snapshot's manifest records as verified and that nobody touched since,
    as soon as they are recorded, to those who know the token. It follows no links and lists nothing but the manifest.
  - It runs as a transient unit of systemd, under a user of its own, sees nothing of the host but the snapshots,
    and ends by itself.
  - Receivers verify every byte they get. The token and the files travel unencrypted, so use a network that you trust.
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
attributes:
  check_mode:
    support: full
    details:
      - A port that is only known once the server listens, and the address that has it, are null in check mode.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
requirements:
  - systemd 239 or newer on the host, and the rights of root
options:
  name:
    description: Name of the share. It becomes part of the name of its unit, C(modelfleet-share-NAME.service).
    type: str
    default: default
  state:
    description:
      - V(started) has a share with these options running.
        One that runs with other options, or from other code, is started again.
      - V(stopped) has none of this name running.
    type: str
    choices: [started, stopped]
    default: started
  root:
    description: Folder of all models on the host, as for M(modelfleet.serving.hf_snapshot). Needed to start a share.
    type: path
  repo_id:
    description: The only repository that is served. When not set, all below O(root) are.
    type: str
  token:
    description:
      - What receivers have to show. Needed to start a share. At least 32 characters; make one up for each run.
      - The server is given its SHA-256 only, in a file of mode 0600 that is removed once it listens.
    type: str
  address:
    description:
      - Address of the host to listen on. No other is listened on.
      - When neither this nor O(interface) is set, the one that packets to the default gateway leave from.
    type: str
  interface:
    description: Network interface whose address to listen on.
    type: str
  port:
    description: TCP port to listen on; V(0) for any that is free.
    type: int
    default: 0
  place:
    description:
      - The host's place in the order of the hosts that download at the same time, counted from 0.
      - A file that the host does not have yet is promised to hosts behind it,
        while M(modelfleet.serving.hf_snapshot) works here.
        So hosts behind wait for it, and no two hosts wait for each other.
      - When not set, the share promises nothing.
    type: int
  max_connections:
    description: Connections at the same time. More are turned away for a second.
    type: int
    default: 128
  idle_timeout:
    description: Seconds without a request after which the share ends by itself.
    type: int
    default: 900
  lifetime:
    description: Seconds after which the share ends in any case.
    type: int
    default: 86400
seealso:
  - module: modelfleet.serving.hf_snapshot
    description: Takes files from shares, and verifies them.
"""

EXAMPLES = r"""
---
- name: Share what is there of a model, on the storage network
  modelfleet.serving.snapshot_share:
    root: /srv/models
    repo_id: nvidia/Kimi-K2.5-NVFP4
    token: "{{ share_token }}"
    interface: ens2f0
  become: true
  register: share

- name: End it
  modelfleet.serving.snapshot_share:
    state: stopped
  become: true
"""

RETURN = r"""
name:
  description: Name of the share.
  returned: success
  type: str
  sample: default
unit:
  description: Its unit.
  returned: success
  type: str
  sample: modelfleet-share-default.service
state:
  description: Whether it runs, V(started) or V(stopped).
  returned: success
  type: str
  sample: started
address:
  description: Address that it listens on; null when stopped.
  returned: success
  type: str
  sample: 10.20.0.11
port:
  description: Port that it listens on; null when stopped or not known yet.
  returned: success
  type: int
  sample: 40123
url:
  description: What a receiver puts before the repository; null when RV(port) is.
  returned: success
  type: str
  sample: http://10.20.0.11:40123
snapshots:
  description: What can be shared now; empty when stopped.
  returned: success
  type: list
  elements: dict
  contains:
    repo_id:
      description: The repository.
      type: str
      returned: always
      sample: nvidia/Kimi-K2.5-NVFP4
    commit:
      description: The commit.
      type: str
      returned: always
      sample: 0123456789abcdef0123456789abcdef01234567
    complete:
      description:
        - Whether every file that was wanted here is in place,
          by the manifest and the files' sizes, times and inodes.
      type: bool
      returned: always
      sample: true
    files:
      description: Number of verified files.
      type: int
      returned: always
      sample: 131
    bytes:
      description: Their size.
      type: int
      returned: always
      sample: 590800000000
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.modelfleet.serving.plugins.module_utils._share import ShareError, Wanted, run
from ansible_collections.modelfleet.serving.plugins.module_utils._share_io import Host

ARGUMENT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "default": "default"},
    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
    "root": {"type": "path"},
    "repo_id": {"type": "str"},
    "token": {"type": "str", "no_log": True},
    "address": {"type": "str"},
    "interface": {"type": "str"},
    "port": {"type": "int", "default": 0},
    "place": {"type": "int"},
    "max_connections": {"type": "int", "default": 128},
    "idle_timeout": {"type": "int", "default": 900},
    "lifetime": {"type": "int", "default": 86400},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("state", "started", ("root", "token"))],
        mutually_exclusive=[("address", "interface")],
        supports_check_mode=True,
    )
    params: dict[str, t.Any] = {**module.params}
    for name in ("root", "repo_id", "token", "address", "interface"):
        params[name] = params[name] or ""
    wanted = Wanted(**params)
    try:
        result = run(wanted, module.check_mode, Host(module.run_command))
    except ShareError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
