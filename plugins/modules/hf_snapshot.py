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
  - Takes files from mirrors, folders and other hosts before the Hub where O(sources) names some,
    without a second copy of the bytes where the file system can share them.
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
  sources:
    description:
      - Where files are taken from before the Hub is asked, in this order.
      - A source that lacks a file, is gone, silent, slow or sends wrong content is left for the next one.
        What it sent of the file is kept, unless its content was wrong.
        After failures for three files in a row, or wrong content for two, it is not asked again in the run.
      - What arrives is proved by the digest that is published, whatever the source.
      - Every token is sent to the origin of its own source only, never to another one that a source redirects to.
    type: list
    elements: dict
    default: []
    suboptions:
      url:
        description: Address of a mirror that answers as the Hub does.
        type: str
      path:
        description:
          - Folder on the host, for example an NFS mount or a disk that was carried in.
          - It may be another host's O(root), a cache of huggingface_hub (E(HF_HOME) or its C(hub) folder),
            or a folder with the files as they are in the repository.
          - O(root) itself may be one as well. Files that a new commit has in common with an older one
            are taken from that one's snapshot then.
        type: path
      peer:
        description:
          - Address of a host that shares its snapshots.
          - Where it is still getting a file itself, other files are taken first.
            It is waited for as long as it makes progress, and given up after O(stall_timeout) without any.
          - The proxy of the environment is not used for it.
        type: str
      token:
        description: Token that the mirror or peer is asked with.
        type: str
  hub:
    description:
      - Whether the Hub may be asked, for the listing of the commit and, after all O(sources), for files.
      - When V(false), no request goes to O(endpoint). With O(revision) set to a commit, the manifest that lies in the
        snapshot's folder says what belongs to it, or else a mirror, a peer, the manifest in a folder of O(sources),
        or the listing that huggingface_hub 1.22 and newer keep beside their downloads.
      - What a branch or tag is, a mirror or a cache of huggingface_hub can tell.
      - Whoever gives the listing decides which content is right.
    type: bool
    default: true
  adopt:
    description:
      - How files come from a folder of O(sources) without a second copy.
      - V(auto) makes a reflink where the file system can, else a hard link, else a copy.
        V(reflink) and V(link) try that way only before they copy, V(copy) always copies.
      - A reflink is independent of its origin. A hard link is the same file under a second name,
        so that somebody who edits the origin in place edits the snapshot too (O(verify=full) finds that).
      - Therefore a file is linked only when nobody but its owner may write it, and when it has the owner, O(group) and
        O(mode) that the snapshot's files are to have.
      - Whatever the way, the content is read and proved by its digest first. Symbolic links are never made.
    type: str
    choices: [auto, reflink, link, copy]
    default: auto
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
  timeout:
    description:
      - Seconds after which the task fails in any case; V(0) is no limit.
      - What was downloaded is kept, and the next run continues.
    type: int
    default: 0
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
  - module: modelfleet.serving.snapshot_share
    description: Makes a host a peer.
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

- name: Take files from a mirror and from NFS where they have them, and the rest from the Hub
  modelfleet.serving.hf_snapshot:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    root: /srv/models
    token: "{{ hf_token }}"
    sources:
      - path: /mnt/nfs/models
      - url: https://mirror.example.com
        token: "{{ mirror_token }}"

- name: Take over what an existing cache has, by reflink or hard link
  modelfleet.serving.hf_snapshot:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    root: /data/models
    sources:
      - path: /data/huggingface/hub
      # unchanged files of an older commit
      - path: /data/models

- name: Take files from a host that shares them
  modelfleet.serving.hf_snapshot:
    repo_id: nvidia/Kimi-K2.5-NVFP4
    root: /srv/models
    sources:
      - peer: http://10.20.0.11:40123
        token: "{{ share_token }}"

- name: Adopt and verify what was carried in, with no Hub in reach
  modelfleet.serving.hf_snapshot:
    repo_id: acme/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    root: /srv/models
    hub: false
    verify: full
    sources:
      - path: /media/usb/models

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
    source:
      description:
        - Where it came from, as in O(endpoint) or O(sources); in check mode where it is expected to come from.
        - Null for a file that was in place.
      type: str
      returned: always
      sample: https://huggingface.co
    method:
      description:
        - How it came from there, V(download), V(reflink), V(link) or V(copy); in check mode as foreseen.
        - Null for a file that was in place.
      type: str
      returned: always
      sample: download
sources:
  description: The sources that had a part in the run, in their order; in check mode those that are expected to.
  returned: success
  type: list
  elements: dict
  contains:
    source:
      description: Its address or path.
      type: str
      returned: always
      sample: http://10.20.0.11:40123
    files:
      description: Files that it brought to their end.
      type: int
      returned: always
      sample: 119
    bytes:
      description: Bytes that it gave, repeated ones included. A file that was linked counts in full.
      type: int
      returned: always
      sample: 590800000000
    lacking:
      description: Files that it was asked for and does not have.
      type: int
      returned: always
      sample: 0
    failures:
      description: Files for which it was left for another source.
      type: int
      returned: always
      sample: 0
    reasons:
      description: Why, for the first of them.
      type: list
      elements: str
      returned: always
      sample: []
    given_up:
      description: Why it was not asked any more in this run; null when it was.
      type: str
      returned: always
      sample: null
bytes_total:
  description: Size of all wanted files.
  returned: success
  type: int
  sample: 590800000000
bytes_downloaded:
  description:
    - Bytes received or copied from all sources, repeated ones included. What was linked does not count.
    - In check mode those that are missing.
  returned: success
  type: int
  sample: 4964000000
bytes_reused:
  description: Bytes of the wanted files that were on the disk before, those of partial and of linked files included.
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
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.modelfleet.serving.plugins.module_utils._http import origin_of
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import (
    LIBRARY_URL,
    MINIMUM_VERSION,
    Hub,
    HubError,
    LibraryMissing,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot import run
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_io import SnapshotWorld
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import SnapshotError
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_result import owned_paths
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import ListingError
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_options import (
    SOURCE_SPEC,
    redact_all,
    sources_of,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import FetchError, Policy, Stop

ARGUMENT_SPEC: dict[str, t.Any] = {
    "repo_id": {"type": "str", "required": True},
    "revision": {"type": "str", "default": "main"},
    "root": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "verified", "absent"], "default": "present"},
    "verify": {"type": "str", "choices": ["stat", "headers", "full"], "default": "stat"},
    "endpoint": {"type": "str", "default": "https://huggingface.co"},
    "token": {"type": "str", "no_log": True},
    **SOURCE_SPEC,
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
    "timeout": {"type": "int", "default": 0},
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
    "timeout": 0,
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
    """Raises ValueError for options that make no sense."""
    progress = Progress(ProgressFile(params["progress_file"]))
    policy = Policy(
        retries=params["retries"], stall_timeout=float(params["stall_timeout"]), min_rate=params["min_rate"]
    )

    def report(message: str) -> None:
        progress.show("list", message)

    hub = None
    if params["hub"]:
        hub = Hub(params["endpoint"], (params["token"] or "").strip(), policy, sleep=stop.wait, report=report)
    sources = sources_of(params, policy, stop, report)
    lock_timeout = float(params["lock_timeout"])
    return SnapshotWorld(hub, sources, progress, policy, params["workers"], params["max_rate"], lock_timeout, stop)


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
        signal.signal(number, lambda number, frame: stop.ask())
    if module.params["timeout"]:
        stop.ask_after(module.params["timeout"])
    try:
        world = build_world(module.params, stop)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    try:
        result = run(module.params, module.check_mode, world)
    except LibraryMissing as exc:
        wanted = f"huggingface_hub >= {MINIMUM_VERSION}"
        module.fail_json(msg=f"{missing_required_lib(wanted, exc.purpose, LIBRARY_URL)} {exc.remedy}")
    except (SnapshotError, FetchError, HubError, ListingError) as exc:
        text = str(exc) if stop.reason in str(exc) or not stop.asked else f"{exc} In the end {stop.reason}."
        module.fail_json(msg=redact_all(text, module.params), **getattr(exc, "result", {}))
    apply_permissions(module, result)
    module.exit_json(**result, elapsed_s=round(time.monotonic() - began, 3))


if __name__ == "__main__":
    main()
