# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_snapshot
short_description: Put a verified snapshot of a Hugging Face repository on a host
description:
  - Downloads the files of one commit of a model repository into a folder of their own,
    and proves every file by the digest the Hub publishes for it.
  - Says what it will do before it moves a byte, and refuses what does not fit onto the disk.
  - Resumes inside a file wherever an earlier run was interrupted, finds and repairs corrupt and truncated files,
    and does nothing when everything is in place.
  - The snapshot lies at C(root/snapshots/OWNER--NAME/COMMIT).
    It holds real files, no links, and is not changed afterwards.
  - Beside the files it holds what huggingface_hub notes about its own downloads (C(.cache/huggingface)), so that
    C(hf download --local-dir) finds everything in place, and C(hf cache verify --local-dir) agrees.
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
  - modelfleet.serving._attributes.action
  - modelfleet.serving._hub
attributes:
  check_mode:
    support: full
    details:
      - Files whose content is in doubt are read and hashed in check mode as well.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
  action:
    support: full
  async:
    support: none
    details:
      - The action plugin keeps the work on the host independent of the connection, which is what C(async) would be for.
options:
  repo_id:
    description: Repository, as C(OWNER/NAME).
    type: str
    required: true
  revision:
    description:
      - Branch, tag or full commit. It is always resolved to a commit, which names the folder of the snapshot.
      - With a full commit and everything in place, the Hub is not asked at all.
    type: str
    default: main
  root:
    description: Folder of all models on the host. Snapshots lie below C(snapshots) in it.
    type: path
    required: true
  state:
    description:
      - V(present) downloads what is missing and repairs what is wrong.
      - V(verified) changes nothing, and fails naming the files that are missing or wrong.
      - V(absent) removes the snapshot of O(revision).
    type: str
    choices: [present, verified, absent]
    default: present
  verify:
    description:
      - How files that are there already are looked at. What is downloaded is always proved by its digest.
      - V(stat) compares size, modification time and inode with the manifest,
        and hashes the files that differ or are not in it.
      - V(headers) also compares the header of every safetensors file with its size.
      - V(full) hashes every file, on all cores.
    type: str
    choices: [stat, headers, full]
    default: stat
  allow_patterns:
    description:
      - Shell patterns, matched against the path in the repository. Only files that match one are wanted.
      - When empty, all files are wanted.
    type: list
    elements: str
    default: []
  ignore_patterns:
    description: Shell patterns; files that match one are not wanted.
    type: list
    elements: str
    default: []
  reserve_bytes:
    description: Bytes that must stay free on the file system after the download.
    type: int
    default: 1073741824
  transport:
    description:
      - How bytes travel. V(auto) is V(http) at present.
      - V(xet) is not available yet, and refused.
    type: str
    choices: [auto, http, xet]
    default: auto
  max_rate:
    description: Bytes a second that all files together may take; V(0) is no limit.
    type: int
    default: 0
  workers:
    description: Files downloaded at the same time.
    type: int
    default: 8
  retries:
    description:
      - Failures of a file that are borne. A large file may fail once more for every 64 MiB it received.
      - Lost connections, stalls, server errors, rate limits and expired addresses count.
        The download goes on at the byte where it was.
    type: int
    default: 8
  stall_timeout:
    description: Seconds without a byte after which a connection is given up for a new one.
    type: int
    default: 60
  min_rate:
    description: Bytes a second below which, over O(stall_timeout), a connection is given up for a new one.
    type: int
    default: 10240
  lock_timeout:
    description: Seconds to wait for another run that works on the same snapshot.
    type: int
    default: 3600
  owner:
    description:
      - User that everything from C(snapshots) below O(root) down to this snapshot's files is given to.
      - When not set, the files belong to the user that the module runs as.
    type: str
  group:
    description: Group that it is given to, likewise.
    type: str
  mode:
    description:
      - Permissions of the files, as for M(ansible.builtin.file).
      - When not set, those of new files follow the umask.
    type: raw
  directory_mode:
    description: Permissions of the folders, likewise.
    type: raw
  seuser:
    description: User part of the SELinux context of all that O(owner) is about, as for M(ansible.builtin.file).
    type: str
  serole:
    description: Role part of it.
    type: str
  setype:
    description:
      - Type part of it, for example V(container_file_t).
      - When no part is set, new files have the context that the policy gives to files in their folder.
    type: str
  selevel:
    description: Level part of it.
    type: str
  progress_file:
    description:
      - File that the module keeps its progress in while it works, as one JSON object.
      - The action plugin sets it by itself.
    type: path
seealso:
  - module: modelfleet.serving.quant_config_patch
    description: Makes the folder that vLLM is given from a snapshot.
"""

EXAMPLES = r"""
---
- name: Have the NVFP4 checkpoint of Kimi K2.5 on the host
  modelfleet.serving.hf_snapshot:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    root: /srv/models
    token: "{{ hf_token }}"
    mode: "0644"
    directory_mode: "0755"
  register: snapshot

- name: Show what would be downloaded, without downloading
  modelfleet.serving.hf_snapshot:
    repo_id: moonshotai/Kimi-K2.5
    root: /srv/models
    token: "{{ hf_token }}"
  check_mode: true
  diff: true

- name: Download from a mirror, at no more than 250 MB/s
  modelfleet.serving.hf_snapshot:
    repo_id: acme/tiny
    revision: v1.2
    root: /srv/models
    endpoint: https://hub.example.com
    max_rate: 250000000

- name: Read every byte of the snapshot and fail when one is wrong
  modelfleet.serving.hf_snapshot:
    repo_id: acme/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    root: /srv/models
    state: verified
    verify: full

- name: Remove the snapshot of a commit
  modelfleet.serving.hf_snapshot:
    repo_id: acme/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    root: /srv/models
    state: absent
"""

RETURN = r"""
path:
  description: Folder of the snapshot.
  returned: success
  type: str
  sample: /srv/models/snapshots/acme--tiny/0123456789abcdef0123456789abcdef01234567
commit:
  description: Commit that O(revision) names.
  returned: success
  type: str
  sample: 0123456789abcdef0123456789abcdef01234567
manifest:
  description: File in which the module keeps what it knows about the snapshot.
  returned: success
  type: str
  sample: /srv/models/snapshots/acme--tiny/0123456789abcdef0123456789abcdef01234567/.modelfleet/manifest.json
files:
  description:
    - The files that are wanted, and what was done about each, or in check mode would be.
    - Empty for O(state=absent).
  returned: success, and when O(state=verified) finds files missing or wrong
  type: list
  elements: dict
  contains:
    path:
      description: Path in the repository and below RV(path).
      type: str
      returned: always
      sample: model-00001-of-00119.safetensors
    size:
      description: Size in bytes, as published.
      type: int
      returned: always
      sample: 4964000000
    sha256:
      description: SHA-256 of the content, as published; null for small files, which have a RV(files[].git_sha1).
      type: str
      returned: always
      sample: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    git_sha1:
      description: Git's digest of the content, as published; null for files that have a RV(files[].sha256).
      type: str
      returned: always
      sample: null
    action:
      description:
        - V(keep) for a file that was right already.
        - V(adopt) for one that was right but not in the manifest, or touched since.
        - V(download) for a missing one.
        - V(repair) for one that was wrong and is replaced.
      type: str
      returned: always
      sample: download
    reason:
      description: Why, as far as the file's state before the run tells.
      type: str
      returned: always
      sample: not there
bytes_total:
  description: Size of all wanted files.
  returned: success
  type: int
  sample: 590800000000
bytes_downloaded:
  description: Bytes received from the Hub, repeated ones included; in check mode those that are missing.
  returned: success
  type: int
  sample: 4964000000
bytes_reused:
  description: Bytes of the wanted files that were on the disk before, those of partial files included.
  returned: success
  type: int
  sample: 585836000000
retries:
  description: Times that a transfer was interrupted and taken up again.
  returned: success
  type: int
  sample: 0
cleaned:
  description:
    - What interrupted downloads had left in the snapshot and nobody would use again, which is removed;
      in check mode, would be.
    - These are partial files of content that is no longer wanted, and unfinished files of huggingface_hub,
      unless a client of it is at work there.
  returned: success
  type: dict
  contains:
    files:
      description: Number of files.
      type: int
      returned: always
      sample: 2
    bytes:
      description: Their size.
      type: int
      returned: always
      sample: 7516192768
elapsed_s:
  description: Seconds it took.
  returned: success
  type: float
  sample: 412.7
"""

import os
import signal
import sys
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.modelfleet.serving.plugins.module_utils._http import origin_of, redact
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import (
    MINIMUM_VERSION,
    Hub,
    HubError,
    LibraryMissing,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot import SnapshotError, owned_paths, run
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_io import SnapshotWorld
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import FetchError, Policy, Stop

ARGUMENT_SPEC: dict[str, t.Any] = {
    "repo_id": {"type": "str", "required": True},
    "revision": {"type": "str", "default": "main"},
    "root": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "verified", "absent"], "default": "present"},
    "verify": {"type": "str", "choices": ["stat", "headers", "full"], "default": "stat"},
    "endpoint": {"type": "str", "default": "https://huggingface.co"},
    "token": {"type": "str", "no_log": True},
    "allow_patterns": {"type": "list", "elements": "str", "default": []},
    "ignore_patterns": {"type": "list", "elements": "str", "default": []},
    "reserve_bytes": {"type": "int", "default": 1073741824},
    "transport": {"type": "str", "choices": ["auto", "http", "xet"], "default": "auto"},
    "max_rate": {"type": "int", "default": 0},
    "workers": {"type": "int", "default": 8},
    "retries": {"type": "int", "default": 8},
    "stall_timeout": {"type": "int", "default": 60},
    "min_rate": {"type": "int", "default": 10240},
    "lock_timeout": {"type": "int", "default": 3600},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
    "directory_mode": {"type": "raw"},
    "seuser": {"type": "str"},
    "serole": {"type": "str"},
    "setype": {"type": "str"},
    "selevel": {"type": "str"},
    "progress_file": {"type": "path"},
}
#: options about the files and folders themselves
PERMISSIONS = ("owner", "group", "mode", "directory_mode", "seuser", "serole", "setype", "selevel")
#: smallest value that makes sense
LOWEST = {
    "reserve_bytes": 0,
    "max_rate": 0,
    "workers": 1,
    "retries": 0,
    "stall_timeout": 1,
    "min_rate": 0,
    "lock_timeout": 0,
}


def check_values(module: AnsibleModule) -> None:
    for name, lowest in LOWEST.items():
        if module.params[name] < lowest:
            module.fail_json(msg=f"{name} is {module.params[name]}, but must be at least {lowest}.")
    try:
        origin_of(module.params["endpoint"])
    except ValueError as exc:
        module.fail_json(msg=f"endpoint {exc}.")
    if module.params["transport"] == "xet":
        module.fail_json(msg="transport xet is not available yet. Use auto or http, which get the same bytes.")


def build_world(params: t.Mapping[str, t.Any], stop: Stop) -> SnapshotWorld:
    progress = Progress(ProgressFile(params["progress_file"]))
    policy = Policy(
        retries=params["retries"], stall_timeout=float(params["stall_timeout"]), min_rate=params["min_rate"]
    )
    hub = Hub(
        params["endpoint"],
        (params["token"] or "").strip(),
        policy,
        sleep=stop.wait,
        report=lambda message: progress.show("list", message),
    )
    return SnapshotWorld(
        hub, progress, policy, params["workers"], params["max_rate"], float(params["lock_timeout"]), stop
    )


def apply_permissions(module: AnsibleModule, result: dict[str, t.Any]) -> None:
    wanted = module.params
    if wanted["state"] != "present" or not any(wanted[name] for name in PERMISSIONS):
        return
    folders, files = owned_paths(wanted["root"], result)
    for paths, mode in ((folders, wanted["directory_mode"]), (files, wanted["mode"])):
        for path in paths:
            if not (os.path.lexists(path) or (module.check_mode and result["changed"])):
                # notes of the client that could not be written
                continue
            arguments = module.load_file_common_arguments({**wanted, "mode": mode}, path)
            result["changed"] = module.set_fs_attributes_if_different(arguments, result["changed"])


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    check_values(module)
    began = time.monotonic()
    stop = Stop()
    # partial files and manifest stay as they are: the next run goes on from there
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stop.set())
    token = (module.params["token"] or "").strip()
    try:
        result = run(module.params, module.check_mode, build_world(module.params, stop))
    except LibraryMissing as exc:
        module.fail_json(
            msg=missing_required_lib(
                f"huggingface_hub >= {MINIMUM_VERSION}",
                reason=str(exc),
                url="https://pypi.org/project/huggingface-hub/",
            )
            + f" To install it there: {sys.executable} -m pip install 'huggingface_hub>={MINIMUM_VERSION}'. Or let the "
            "role modelfleet.serving.host_tools make an environment that has it, and set ansible_python_interpreter to "
            "the fact host_tools_python."
        )
    except SnapshotError as exc:
        module.fail_json(msg=redact(str(exc), token), **exc.result)
    except (FetchError, HubError) as exc:
        module.fail_json(msg=redact(str(exc), token))
    apply_permissions(module, result)
    module.exit_json(**result, elapsed_s=round(time.monotonic() - began, 3))


if __name__ == "__main__":
    main()
