# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_health_wait
short_description: Wait until a vLLM server answers, or say why it never will
version_added: 0.1.0
description:
  - Watches a starting vLLM server from the process to the known answer, and tells slow from stalled from dead by signs
    of progress instead of by a clock.
  - What is watched is the systemd unit with its control group, C(/proc) of its processes, the journal or a log file,
    the GPUs, and the HTTP side of the server. What cannot be read is left out and named in RV(evidence).
  - The wait ends when the server is ready, when its process is dead, when it is restarted over and over, or when
    nothing has moved for as long as the stage it is in may stand still. A slow start is waited for.
  - The module fails unless the server is ready. The message is the diagnosis, and the same facts are in the result.
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
  - modelfleet.serving._attributes.action
attributes:
  action:
    support: full
  async:
    support: none
  check_mode:
    support: full
    details:
      - In check mode the module looks once, does not wait, and does not fail for a server that is not ready or a unit
        that does not exist. The only thing it waits for, for at most 15 seconds, is a request for tokens that a healthy
        server has been given.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
options:
  unit:
    description:
      - Name of the systemd unit to watch, for example V(vllm@kimi.service). C(.service) may be left out.
      - Its journal is read from the start of its current invocation on.
      - Exactly one of O(unit) and O(pid) is required.
    type: str
  pid:
    description:
      - Process ID of a server that no unit stands for. Its descendants are watched with it.
      - The exit status of a process that is no child of anything that still waits for it is not to be had.
    type: int
  log_file:
    description:
      - File that the server writes its log to. With O(unit) it is read in addition to the journal.
      - Rotation and truncation are followed. The file need not exist yet.
    type: path
  log_offset:
    description:
      - Where in O(log_file) the log of this start begins, in bytes. Give the size that a log which is appended to had
        before the start, so that an old failure is not taken for a new one.
    type: int
    default: 0
  url:
    description:
      - Where the server listens, V(http://127.0.0.1:8000), or V(unix:/run/vllm/kimi.sock) for a Unix socket.
      - Without it the server counts as ready when its log says so.
      - Proxies of the environment are not used.
    type: str
  model:
    description:
      - Name that the server must list. Without it the first listed model is asked.
    type: str
  api_key:
    description:
      - Key for C(/v1). It is never sent to a process that is not the watched service.
    type: str
  validate_certs:
    description:
      - Whether the certificate of an C(https) O(url) is verified.
    type: bool
    default: true
  ca_path:
    description:
      - File with the certificates to verify against, instead of those of the system.
    type: path
  verify_listener:
    description:
      - Whether the process that listens at O(url) must belong to the watched service, when O(url) is on this host. An
        answer from another server that holds the port would otherwise pass for readiness.
      - Set to V(false) when a proxy or the network of a container engine listens for the service.
    type: bool
    default: true
  completion:
    description:
      - Whether the server must generate tokens to count as ready. V(false) is for models that generate none.
      - A server whose GPUs hang still answers C(/health).
    type: bool
    default: true
  completion_timeout:
    description:
      - Seconds for one request for tokens. The first one may have to compile kernels.
    type: float
    default: 120.0
  known_answer:
    description:
      - A question whose answer is known. The server counts as ready when its answer passes.
      - An empty answer never passes, nor does one that repeats itself, cannot be decoded, mixes scripts, or has a log
        probability that is not a number.
      - It is asked with temperature 0 and a fixed seed.
    type: dict
    suboptions:
      prompt:
        description:
          - Text to be continued by C(/v1/completions).
          - Exactly one of O(known_answer.prompt) and O(known_answer.messages) is required.
        type: str
      messages:
        description:
          - Messages for C(/v1/chat/completions), each with C(role) and C(content).
        type: list
        elements: dict
      pattern:
        description:
          - Regular expression that must be found in the answer. The thoughts of a reasoning model count as answer.
        type: str
      query:
        description:
          - JMESPath expression over the whole JSON answer that must be true.
        type: str
      max_tokens:
        description:
          - Length of the answer.
        type: int
        default: 32
      logprobs:
        description:
          - Whether log probabilities are asked for, to find those that are not a number.
          - vLLM compiles a kernel at the first request for them. One that finds no compiler then dies.
        type: bool
        default: false
      attempts:
        description:
          - How often the question may be asked until an answer passes.
        type: int
        default: 2
      extra_body:
        description:
          - More keys for the request, for example C(chat_template_kwargs) that turn reasoning off.
        type: dict
  stall_timeouts:
    description:
      - Seconds without any sign of progress after which a stage counts as stalled, by name of the stage. Stages that
        are not named keep their defaults.
    type: dict
  timeout:
    description:
      - Seconds after which the wait ends in any case. By default it lasts as long as there is progress.
    type: float
  max_restarts:
    description:
      - How many restarts by systemd are waited for. By default a start that fails ends the wait, also where C(Restart=)
        of the unit brings the service back, since the next start most often fails in the same way and takes as long.
      - With a higher number the wait goes on over that many restarts, and ends before when two starts after each other
        end by the same known cause, or when systemd has reached its start limit.
      - A restart by C(systemctl restart) is no failure. The wait goes on with the new start.
    type: int
    default: 0
  poll_interval:
    description:
      - Seconds between two looks.
    type: float
    default: 2.0
  checkpoint_bytes:
    description:
      - Size of all weight files together, where it is known. Makes the time left known where no shards are counted.
    type: int
  earlier_starts:
    description:
      - Starts of the same release that ended well, here or on a host with the same GPUs, the newest first.
      - They make known when this one will be ready, and when a stage is slow. Without them only the weights have an
        estimate.
    type: list
    elements: dict
    suboptions:
      stages:
        description: RV(stages) of that start.
        type: list
        elements: dict
        required: true
      shards_total:
        description: RV(shards_total) of that start.
        type: int
      label:
        description: Its name in messages, for example V(release 3) or V(gpu01).
        type: str
        default: the last start
  cache_paths:
    description:
      - Folders of compile caches. Their growth is a sign of progress.
    type: list
    elements: path
  library_path:
    description:
      - Path of C(libnvidia-ml.so.1) where it is not in a place that the dynamic loader of the host searches.
    type: path
  progress_file:
    description:
      - File in which the module keeps its state while it works, as one JSON object. The action plugin sets it.
    type: path
requirements:
  - py-spy (only for RV(stacks) of a stalled server)
  - nvidia-ml-py (only on hosts with GPUs; without it they are not watched)
  - jmespath (only for O(known_answer.query))
notes:
  - Needs C(become) where the service runs as another user, to read its journal, its disk reads and its sockets.
  - The module never changes anything. Ending the wait leaves the service alone.
seealso:
  - module: modelfleet.serving.gpu_facts
  - module: modelfleet.serving.hf_snapshot
"""

EXAMPLES = r"""
---
- name: Wait until the model answers
  modelfleet.serving.vllm_health_wait:
    unit: vllm@kimi.service
    url: http://127.0.0.1:8000
    model: kimi-k2.5
    known_answer:
      messages:
        - role: user
          content: What is the capital of France? Answer in one word.
      pattern: Paris
      max_tokens: 256

- name: Wait for a server that was started by hand, for half an hour at most
  modelfleet.serving.vllm_health_wait:
    pid: 4711
    log_file: /var/log/vllm.log
    url: http://127.0.0.1:8000
    timeout: 1800

- name: Give a first start on a new host more time to compile
  modelfleet.serving.vllm_health_wait:
    unit: vllm@kimi
    url: http://127.0.0.1:8000
    stall_timeouts:
      compile: 1800

- name: Look at a service without waiting
  modelfleet.serving.vllm_health_wait:
    unit: vllm@kimi
    url: http://127.0.0.1:8000
  check_mode: true
  register: service
"""

RETURN = r"""
verdict:
  description:
    - V(ready), V(progressing), V(slow), V(stalled) or V(dead). V(progressing) and V(slow) are only returned in check
      mode and when RV(timed_out).
  returned: always
  type: str
  sample: ready
stage:
  description: The stage the server is in, or was in when it died.
  returned: always
  type: str
  sample: weights
stages:
  description: The stages it went through, in order.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the stage.
      type: str
      sample: weights
    seconds:
      description: Seconds spent in it.
      type: float
      sample: 67.4
shards_done:
  description: Weight files loaded. V(null) when unknown.
  returned: always
  type: int
  sample: 119
shards_total:
  description: Weight files there are. V(null) when unknown.
  returned: always
  type: int
  sample: 119
bytes_done:
  description: Bytes of weights loaded. V(null) when unknown.
  returned: always
  type: int
  sample: 591000000000
bytes_total:
  description: Bytes of weights there are. V(null) when unknown.
  returned: always
  type: int
  sample: 591000000000
eta_s:
  description: Seconds until the weights are loaded. V(null) when unknown.
  returned: always
  type: float
  sample: 250.0
ready_eta_s:
  description: Seconds until the server is ready. V(null) when O(earlier_starts) do not tell.
  returned: always
  type: float
  sample: 410.0
ready_eta_range_s:
  description: The limits between which RV(ready_eta_s) should lie. V(null) when unknown.
  returned: always
  type: list
  elements: float
  sample: [330.0, 500.0]
eta_basis:
  description: The start that RV(ready_eta_s) rests on. Empty when unknown.
  returned: always
  type: str
  sample: release 3
cause:
  description:
    - Why the server is dead or stalled, or what it refused at the last look, such as a request without its key.
    - V(null) when that is not known or there is nothing of the kind.
  returned: always
  type: dict
  contains:
    id:
      description: Identifier of the known failure.
      type: str
      sample: st_truncated
    line:
      description: The log line that said so. Empty when it was seen otherwise.
      type: str
      sample: "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata"
    cause:
      description: What it means.
      type: str
      sample: A shard is shorter than its header says.
    remedy:
      description: What to do about it.
      type: str
      sample: Download the file again.
bottleneck:
  description:
    - What a slow start waits for, with figures. RV(evidence) begins with it.
    - V(null) when the start is not slow, or when it does not show what holds it up.
  returned: always
  type: str
  sample: disk 310 MB/s
evidence:
  description: What the verdict rests on, and what could not be looked at.
  returned: always
  type: list
  elements: str
  sample:
    - /health answers 200
exit_code:
  description: Exit status of the main process, negative or above 128 when a signal ended it. V(null) when unknown.
  returned: always
  type: int
  sample: 1
signal:
  description: Name of the signal that ended the main process.
  returned: always
  type: str
  sample: SIGKILL
restarts:
  description: How often systemd has restarted the unit since somebody last started it.
  returned: always
  type: int
  sample: 0
cycles:
  description:
    - The starts that are over, where systemd has brought the service back, oldest first, as far as the journal has
      them. RV(cause) is that of the first of them that is known. Starts before one that served requests are left out.
  returned: always
  type: list
  elements: dict
  contains:
    started_at:
      description: When its first line was written. V(null) where the log has no times.
      type: str
      sample: "2026-12-01T04:44:26Z"
    seconds:
      description: From its first line to its last.
      type: float
      sample: 41.5
    stage:
      description: The last stage it reached.
      type: str
      sample: weights
    exit_code:
      description: As RV(exit_code).
      type: int
      sample: 1
    signal:
      description: As RV(signal).
      type: str
      sample: SIGKILL
    cause:
      description: Identifier of its cause.
      type: str
      sample: cuda_oom
    line:
      description: The line that said so.
      type: str
      sample: "torch.OutOfMemoryError: CUDA out of memory."
log_tail:
  description: The last log lines that matter.
  returned: always
  type: list
  elements: str
  sample:
    - "INFO 05-15 03:15:47 [launcher.py:37] Application startup complete."
elapsed_s:
  description: Seconds the module has watched.
  returned: always
  type: float
  sample: 402.3
looks:
  description: How often it looked.
  returned: always
  type: int
  sample: 201
timed_out:
  description: Whether O(timeout) ended the wait.
  returned: always
  type: bool
  sample: false
unit_state:
  description: State and sub-state of the unit. V(null) without O(unit).
  returned: always
  type: str
  sample: active/running
tokens_per_second:
  description: Rate of the last request for tokens, from its usage and duration. V(null) without one that succeeded.
  returned: always
  type: float
  sample: 42.1
answer:
  description: What the server generated for it.
  returned: always
  type: str
  sample: Paris
fingerprint:
  description:
    - Digest of the first tokens of the known answer. Hosts with the same release and the same cards give the same.
    - V(null) without O(known_answer), and for vLLM before 0.10.2, which does not tell the tokens.
  returned: always
  type: str
  sample: 5d41402abc4b2a76
stacks:
  description:
    - Where the Python code of a stalled server is, by C(py-spy dump), where py-spy is on the host, on C(PATH), in the
      environment that runs the module, in that of the role P(modelfleet.serving.host_tools#role), or in vLLM's own.
    - It is never installed for this. The processes are read without stopping them, for 5 seconds each.
    - Empty for a server that is not stalled. RV(evidence) says why it is empty for one that is.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Process ID.
      type: int
      sample: 4711
    process:
      description: Name of the process.
      type: str
      sample: VLLM::Worker_TP0
    thread:
      description: Name of the thread.
      type: str
      sample: MainThread
    frames:
      description: Its functions with file and line, the innermost first.
      type: list
      elements: str
      sample: ["ncclCommInitRank (pynccl_wrapper.py:412)", "__init__ (pynccl.py:140)"]
gpus:
  description: The GPUs at the last look. Values that a card does not tell are V(null).
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Number of the GPU.
      type: int
      sample: 0
    memory_used_bytes:
      description: Memory in use by anybody.
      type: int
      sample: 78383153152
    memory_total_bytes:
      description: Memory there is.
      type: int
      sample: 102641958912
    utilization_percent:
      description: Share of the last sample period in which a kernel ran.
      type: int
      sample: 0
    power_mw:
      description: Power draw in milliwatts.
      type: int
      sample: 85000
    ours_bytes:
      description: Memory in use by the service's processes.
      type: int
      sample: 78000000000
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.modelfleet.serving.plugins.module_utils import _diagnosis, _jmespath, _watch
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import Patience, View, wait

#: seconds that a look in check mode waits for tokens it has asked for
LOOK_LIMIT = 15.0

KNOWN_ANSWER: dict[str, t.Any] = {
    "prompt": {"type": "str"},
    "messages": {"type": "list", "elements": "dict"},
    "pattern": {"type": "str"},
    "query": {"type": "str"},
    "max_tokens": {"type": "int", "default": 32, "no_log": False},
    "logprobs": {"type": "bool", "default": False},
    "attempts": {"type": "int", "default": 2},
    "extra_body": {"type": "dict"},
}

EARLIER_START: dict[str, t.Any] = {
    "stages": {"type": "list", "elements": "dict", "required": True},
    "shards_total": {"type": "int"},
    "label": {"type": "str", "default": "the last start"},
}

ARGUMENTS: dict[str, t.Any] = {
    "unit": {"type": "str"},
    "pid": {"type": "int"},
    "log_file": {"type": "path"},
    "log_offset": {"type": "int", "default": 0},
    "url": {"type": "str"},
    "model": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "verify_listener": {"type": "bool", "default": True},
    "completion": {"type": "bool", "default": True},
    "completion_timeout": {"type": "float", "default": 120.0},
    "known_answer": {
        "type": "dict",
        "options": KNOWN_ANSWER,
        "mutually_exclusive": [("prompt", "messages")],
        "required_one_of": [("prompt", "messages")],
    },
    "stall_timeouts": {"type": "dict"},
    "timeout": {"type": "float"},
    "max_restarts": {"type": "int", "default": 0},
    "poll_interval": {"type": "float", "default": 2.0},
    "checkpoint_bytes": {"type": "int"},
    "earlier_starts": {"type": "list", "elements": "dict", "options": EARLIER_START},
    "cache_paths": {"type": "list", "elements": "path"},
    "library_path": {"type": "path"},
    "progress_file": {"type": "path"},
}


def commands(module: AnsibleModule) -> t.Callable[[t.Sequence[str]], tuple[int, str, str]]:
    """``run_command`` that answers instead of failing when the program is missing, as journalctl is in containers."""

    def run(arguments: t.Sequence[str]) -> tuple[int, str, str]:
        try:
            status, out, err = module.run_command(
                list(arguments), handle_exceptions=False, environ_update={"LC_ALL": "C", "SYSTEMD_COLORS": "0"}
            )
        except OSError as exc:
            return 127, "", f"{arguments[0]}: {exc.strerror or exc}"
        return status, out, err

    return run


def teller(module: AnsibleModule) -> t.Callable[[View], None]:
    """Writes each view to the progress file; a full disk must not end the wait."""
    progress = ProgressFile(module.params["progress_file"])

    def tell(view: View) -> None:
        try:
            progress.write(_diagnosis.as_progress(view))
        except OSError as exc:
            module.debug(f"progress file: {exc}")

    return tell


def main() -> None:
    module = AnsibleModule(
        ARGUMENTS,
        mutually_exclusive=[("unit", "pid")],
        required_one_of=[("unit", "pid")],
        supports_check_mode=True,
    )
    params = module.params
    if (params["known_answer"] or {}).get("query") and not _jmespath.HAS_JMESPATH:
        module.fail_json(msg=missing_required_lib("jmespath"), exception=_jmespath.JMESPATH_IMPORT_ERROR)
    try:
        sources = _watch.sources(params, commands(module))
        judge = Judge(_watch.judge_config(params))
    except (_watch.OptionError, ValueError) as exc:
        module.fail_json(msg=str(exc), exception=exc)
    patience = Patience(params["poll_interval"], params["timeout"], LOOK_LIMIT if module.check_mode else None)
    view = wait(sources, judge, patience, time.monotonic, teller(module))
    view = _watch.examiner(commands(module)).examine(view)
    secrets = [params["api_key"]] if params["api_key"] else []
    result = _diagnosis.as_result(view, secrets)
    if view.status.verdict == "ready":
        module.exit_json(**result)
    message = _diagnosis.message(_watch.target(params), view, secrets)
    if module.check_mode:
        module.exit_json(msg=message, **result)
    module.fail_json(msg=message, **result)


if __name__ == "__main__":
    main()
