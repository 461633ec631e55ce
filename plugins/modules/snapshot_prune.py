# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot_prune
short_description: Remove the snapshots of checkpoints that nothing uses
description:
  - Looks at all snapshots and views below a folder and removes those that nothing keeps, to make room.
  - A snapshot is kept when a release that is kept serves from it, when a view that is kept links to it,
    when a process or a unit file uses it, when O(keep) names it, when a download is at work on it,
    or when it is younger than O(keep_hours).
  - A view is kept when a release that is kept serves it, when a process or a unit file uses it,
    when no release made it, or when its snapshot is kept.
  - Says for each why it is kept or removed.
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
options:
  root:
    description: Folder of all models on the host, as for M(modelfleet.serving.hf_snapshot).
    type: path
    required: true
  keep:
    description:
      - Snapshots to keep in any case. V(OWNER/NAME) are all of a repository, V(OWNER/NAME@COMMIT) or V(COMMIT) is one.
    type: list
    elements: str
    default: []
  keep_releases:
    description:
      - How many releases of each instance are kept, counted from the newest. The current one always is.
      - Going back to an older one means to download its checkpoint again.
    type: int
    default: 2
  keep_hours:
    description:
      - Snapshots that something was written to in the last so many hours are kept, whether finished or not.
        So a download that was interrupted can go on, and a release be made of one that has just ended.
    type: int
    default: 24
  releases:
    description: Folder with the records of releases, C(INSTANCE/NUMBER.json).
    type: path
    default: /var/lib/modelfleet/releases
notes:
  - Run it as root. Other users see only the command lines of processes, not their open files.
  - A process in a container that sees the models below another path is found by neither.
    Name what it uses in O(keep).
seealso:
  - module: modelfleet.serving.hf_snapshot
    description: With O(modelfleet.serving.hf_snapshot#module:state=absent) removes one snapshot.
"""

EXAMPLES = r"""
---
- name: Show what would go
  modelfleet.serving.snapshot_prune:
    root: /srv/models
  check_mode: true
  diff: true

- name: Keep what is served, what was served before, and one checkpoint that is wanted soon
  modelfleet.serving.snapshot_prune:
    root: /srv/models
    keep_releases: 2
    keep:
      - moonshotai/Kimi-K2.5@0123456789abcdef0123456789abcdef01234567
"""

RETURN = r"""
snapshots:
  description: All snapshots, and what was done about each, or in check mode would be.
  returned: success
  type: list
  elements: dict
  contains: &fate
    path:
      description: Its folder.
      type: str
      returned: always
      sample: /srv/models/snapshots/acme--tiny/0123456789abcdef0123456789abcdef01234567
    size:
      description: Size of its files, for snapshots.
      type: int
      returned: for snapshots
      sample: 590800000000
    action:
      description: V(keep) or V(remove).
      type: str
      returned: always
      sample: keep
    reason:
      description: Why.
      type: str
      returned: always
      sample: release 3 of kimi, which is current, serves from it
views:
  description: All views, likewise.
  returned: success
  type: list
  elements: dict
  contains: *fate
bytes_freed:
  description: Size of what was removed. Files that have other names elsewhere (hard links) free nothing.
  returned: success
  type: int
  sample: 590800000000
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.modelfleet.serving.plugins.module_utils._disk import Disk
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._prune import PruneError, run
from ansible_collections.modelfleet.serving.plugins.module_utils._prune_io import Host
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import SnapshotError
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import FetchError, Stop

ARGUMENT_SPEC: dict[str, t.Any] = {
    "root": {"type": "path", "required": True},
    "keep": {"type": "list", "elements": "str", "default": []},
    "keep_releases": {"type": "int", "default": 2},
    "keep_hours": {"type": "int", "default": 24},
    "releases": {"type": "path", "default": "/var/lib/modelfleet/releases"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    for name in ("keep_releases", "keep_hours"):
        if module.params[name] < 0:
            module.fail_json(msg=f"{name} is {module.params[name]}, but must be at least 0.")
    # a lock that another run holds is a reason to keep, not to wait
    host = Host(Disk(Progress(ProgressFile(None)), 0.0, Stop()))
    try:
        result = run(module.params, module.check_mode, host)
    except (PruneError, SnapshotError, FetchError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
