# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What goes wrong with a vLLM server, as its log, systemd and the kernel say it: a row each, with cause and remedy.

The rows were read from the sources of vLLM 0.10 to 0.33 and from public reports; ``source`` names them. The order
matters only within one line: the first row that matches a line names it, so narrow rows come before wide ones.
"""

from __future__ import annotations

import typing


class Signature(typing.NamedTuple):
    """One known line and what it means."""

    id: str
    #: ``failure``, ``shutdown`` (an orderly stop) or ``heartbeat`` (alive, says nothing about progress)
    kind: str
    #: rows with the same trouble share a group
    group: str
    #: ``fatal``; ``warn`` and ``info`` are printed by healthy starts; ``watch``: a normal line after which starts hang
    severity: str
    #: texts one of which every match contains: the cheap test before the pattern
    needles: tuple[str, ...]
    pattern: str
    cause: str
    remedy: str
    versions: str
    source: str
    example: str
    #: who says it: ``service``, ``systemd`` or ``kernel``
    side: str = "service"
    #: ``generic``: says that something failed, not what; any specific line beats it
    rank: str = "specific"
    #: the server cannot come up after this line, even while its process still lives
    ends: bool = False
    #: for ``watch``: the stage that hangs
    stage: str = ""


SIGNATURES = (
    Signature(
        id="shm_broadcast",
        kind="heartbeat",
        group="waiting",
        severity="info",
        needles=("No available shared memory broadcast block found in ",),
        pattern=r"No available shared memory broadcast block found in (?P<s>\d+) second",
        cause=(
            "the engine has waited one more minute for its workers (VLLM_RINGBUFFER_WARNING_INTERVAL, 60 s): "
            "normal while they load, compile or tune, and the only line a deadlock prints"
        ),
        remedy="none by itself: whether the server moves is decided by its processes and GPUs",
        versions="0.10-0.33 (INFO from 0.11, DEBUG before)",
        source="vllm-project/vllm#27313, #16841, #46611; shm_broadcast.py",
        example=(
            "No available shared memory broadcast block found in 60 seconds. This typically happens when some "
            "processes are hanging"
        ),
    ),
    Signature(
        id="waiting_engine",
        kind="heartbeat",
        group="waiting",
        severity="info",
        needles=(" remote core engine proc(s) to ",),
        pattern=r"Waiting for (?P<l>\d+) local, (?P<r>\d+) remote core engine proc\(s\) to (?P<what>connect|start)",
        cause="the API server waits for the engine, every 10 s, with VLLM_LOGGING_LEVEL=DEBUG",
        remedy="none: it is a heartbeat of VLLM_LOGGING_LEVEL=DEBUG",
        versions="0.10-0.33",
        source="vLLM v1/engine/utils.py",
        example="Waiting for 1 local, 0 remote core engine proc(s) to start.",
    ),
    Signature(
        id="kv_triton_mla_fp8_old",
        kind="failure",
        group="kv_dtype_unsupported",
        severity="fatal",
        needles=(
            "FP8 Triton MLA not yet supported",
            "TritonMLA V1 with FP8 KV cache not yet supported",
        ),
        pattern=r"TritonMLA V1 with FP8 KV cache not yet supported|FP8 Triton MLA not yet supported",
        cause="TRITON_MLA (the only dense MLA backend on SM120) refuses FP8 KV before 0.18",
        remedy="vLLM >= 0.18, or --kv-cache-dtype bfloat16 (0.15-0.17), or null the checkpoint entries (0.14)",
        versions="0.10-0.17",
        source="vllm-project/vllm#35577, #34597",
        example="NotImplementedError: TritonMLA V1 with FP8 KV cache not yet supported",
    ),
    Signature(
        id="no_valid_attn_kv",
        kind="failure",
        group="kv_dtype_unsupported",
        severity="fatal",
        needles=("No valid attention backend found for ",),
        pattern=r"No valid attention backend found for \S+.*TRITON_MLA: \[[^\]]*kv_cache_dtype not supported",
        cause='modelopt checkpoint resolved kv "auto" to fp8_e4m3 and every MLA backend refused it',
        remedy="vLLM >= 0.18, or --kv-cache-dtype bfloat16 (0.15-0.17), or null the checkpoint entries (0.14)",
        versions="0.14-0.17",
        source="vllm-project/vllm#32732",
        example=(
            "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576, "
            "kv_cache_dtype=fp8_e4m3, use_mla=True). Reasons: {FLASH_ATTN_MLA: [kv_cache_dtype not supported, "
            "compute capability not supported], TRITON_MLA: [kv_cache_dtype not supported]}."
        ),
    ),
    Signature(
        id="no_valid_attn_sparse",
        kind="failure",
        group="sparse_mla_unsupported",
        severity="fatal",
        needles=("No valid attention backend found for ",),
        pattern=r"No valid attention backend found for \S+.*use_sparse=True",
        cause="DSA/sparse MLA (GLM-5.x, DeepSeek-V3.2) has no backend for this GPU and version",
        remedy=(
            "vLLM >= 0.24 with FlashInfer sparse MLA (FLASHINFER_MLA_SPARSE_SM120, index_topk=2048, bf16) or "
            "another engine"
        ),
        versions="0.11-0.33",
        source="vllm-project/vllm#38006, #45317, #53963; local-inference-lab/rtx6kpro troubleshooting",
        example=(
            "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576, "
            "dtype=torch.bfloat16, kv_cache_dtype=auto, use_mla=True, use_sparse=True). Reasons: {}."
        ),
    ),
    Signature(
        id="no_valid_attn",
        kind="failure",
        group="attention_backend",
        severity="fatal",
        needles=(
            "No valid attention backend found for",
            "Selected backend ",
        ),
        pattern=(
            r"No valid attention backend found for|"
            r"Selected backend \S+ is not valid for this configuration\. Reason: (?P<why>.*)"
        ),
        cause="no backend accepts this head size, dtype, kv dtype and compute capability together",
        remedy="read the Reasons list; drop --attention-backend or --block-size, change --kv-cache-dtype",
        versions="0.11-0.33",
        source="flashinfer-ai/flashinfer#2166; platforms/cuda.py",
        example=(
            "ValueError: Selected backend AttentionBackendEnum.FLASHINFER_MLA is not valid for this "
            "configuration. Reason: ['sparse not supported', 'compute capability not supported']"
        ),
    ),
    Signature(
        id="smem_overflow",
        kind="failure",
        group="kv_dtype_unsupported",
        severity="fatal",
        needles=(
            "out of resource: shared memory",
            "OutOfResources",
        ),
        pattern=(
            r"OutOfResources: out of resource: shared memory|"
            r"out of resource: shared memory, Required: (?P<need>\d+), Hardware limit: (?P<have>\d+)"
        ),
        cause=(
            "a Triton kernel wants more shared memory than the card has: FP8 decode of TRITON_MLA asks for "
            "102,400 bytes, compute capability 12.0 has 101,376"
        ),
        remedy="--kv-cache-dtype bfloat16, or a view without the checkpoint's FP8 KV entries",
        versions="0.18-0.33",
        source="vllm-project/vllm#46721, #53748",
        example=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 102400, Hardware "
            "limit: 101376. Reducing block sizes or `num_stages` may help."
        ),
    ),
    Signature(
        id="dcp_fp8",
        kind="failure",
        group="dcp_fp8",
        severity="fatal",
        needles=("DCP not support ",),
        pattern=r"DCP not support (?:fp8|scaled) kvcache now",
        cause="MLA with decode-context-parallel > 1 and FP8 KV, before 0.25; raised after the weights are loaded",
        remedy="vLLM >= 0.25, or DCP=1, or bf16 KV",
        versions="0.10.2-0.24",
        source="vllm-project/vllm#34795, #40609, #44044, #32010",
        example="AssertionError: DCP not support fp8 kvcache now.",
    ),
    Signature(
        id="nvfp4_required_fields",
        kind="failure",
        group="quant_config_edited",
        severity="fatal",
        needles=("NVFP4 quantization requires the following fields in ",),
        pattern=r"NVFP4 quantization requires the following fields in hf_quant_config\.json: (?P<f>\[.*?\])",
        cause="the key was deleted; vLLM requires it to be present (null is fine)",
        remedy="set kv_cache_quant_algo to null instead of deleting it",
        versions="0.10-0.33",
        source="vLLM layers/quantization/modelopt.py",
        example=(
            "ValueError: NVFP4 quantization requires the following fields in hf_quant_config.json: "
            "['kv_cache_quant_algo']"
        ),
    ),
    Signature(
        id="kv_algo_type",
        kind="failure",
        group="quant_config_edited",
        severity="fatal",
        needles=("kv_cache_quant_algo must be a string",),
        pattern=r"kv_cache_quant_algo must be a string",
        cause="kv_cache_quant_algo has a non-string, non-null value",
        remedy="null or a string",
        versions="0.10-0.33",
        source="vLLM modelopt.py",
        example="ValueError: kv_cache_quant_algo must be a string, got <class 'dict'>",
    ),
    Signature(
        id="kv_algo_unknown",
        kind="failure",
        group="kv_algo_unknown",
        severity="warn",
        needles=("Unknown kv_cache_quant_algo '",),
        pattern=r"Unknown kv_cache_quant_algo '(?P<a>[^']*)' in model config",
        cause="value vLLM cannot map; falls back to auto",
        remedy="none needed: vLLM falls back to auto",
        versions="0.14-0.33",
        source="vLLM utils/torch_utils.py",
        example=(
            "WARNING: Unknown kv_cache_quant_algo 'INT4' in model config. Supported values: ['fp8', 'nvfp4']. "
            "Falling back to 'auto'."
        ),
    ),
    Signature(
        id="gpu_busy",
        kind="failure",
        group="vram_held",
        severity="fatal",
        needles=("Free memory on device ",),
        pattern=r"Free memory on device (?:\S+ )?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than",
        cause="another process (often an orphaned VLLM::Worker) holds VRAM",
        remedy="find the pid with NVML or fuser /dev/nvidia*, stop it; lower --gpu-memory-utilization",
        versions="0.10-0.33",
        source="vllm-project/vllm#20305, #55510, #34643",
        example=(
            "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU "
            "memory utilization (0.9, 19.84 GiB)."
        ),
    ),
    Signature(
        id="mem_profiling_race",
        kind="failure",
        group="vram_race",
        severity="fatal",
        needles=("Error in memory profiling. Initial free memory",),
        pattern=r"Error in memory profiling\. Initial free memory",
        cause="VRAM was released by another process while vLLM measured it (previous instance still dying)",
        remedy="wait for VRAM to reach idle before starting",
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_worker.py",
        example=(
            "AssertionError: Error in memory profiling. Initial free memory 60.2 GiB, current free memory 93.1 GiB."
        ),
    ),
    Signature(
        id="no_kv_memory",
        kind="failure",
        group="kv_no_memory",
        severity="fatal",
        needles=("No available memory for the cache blocks",),
        pattern=r"No available memory for the cache blocks",
        cause="weights + activations exceed gpu_memory_utilization x VRAM",
        remedy="raise utilisation, lower max-num-batched-tokens, more TP",
        versions="0.10-0.33",
        source="vLLM v1/core/kv_cache_planning.py",
        example=(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            "initializing the engine."
        ),
    ),
    Signature(
        id="kv_too_small",
        kind="failure",
        group="kv_too_small",
        severity="fatal",
        needles=("To serve at least one request with the model",),
        pattern=(
            r"To serve at least one request with the model(?:s|'s|s's|"
            r"s.s)?.{0,3} max seq len \((?P<len>\d+)\), \((?P<need>[\d.]+) GiB KV cache is needed, which is "
            r"larger than the available KV cache memory \((?P<have>[\d.]+) GiB\)(?:.*estimated maximum model "
            r"length is (?P<est>\d+))?"
        ),
        cause="one request of max_model_len does not fit",
        remedy="--max-model-len <est> (printed), fp8 KV, DCP",
        versions="0.10-0.33",
        source="vLLM v1/core/kv_cache_planning.py",
        example=(
            "ValueError: To serve at least one request with the models's max seq len (262144), (17.16 GiB KV "
            "cache is needed, which is larger than the available KV cache memory (9.40 GiB). Based on the "
            "available memory, the estimated maximum model length is 143600."
        ),
    ),
    Signature(
        id="cuda_oom",
        kind="failure",
        group="cuda_oom",
        severity="fatal",
        needles=(
            "CUDA out of memory",
            "CUDA error: out of memory",
            "not enough GPU memory",
        ),
        pattern=(
            r"(?:torch\.(?:cuda\.)?OutOfMemoryError: )?CUDA out of memory\. Tried to allocate (?P<n>[\d.]+ "
            r"[KMG]iB)|CUDA error: out of memory|Failed to load model - not enough GPU memory|"
            r"CUDA out of memory occurred when warming up"
        ),
        cause="VRAM exhausted; the stage tells where (load: too few GPUs; warm-up: max-num-seqs; capture: graphs)",
        remedy=(
            "by stage: more TP / lower utilisation / --max-num-seqs / --max-cudagraph-capture-size / --enforce-eager"
        ),
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity "
            "of 94.97 GiB"
        ),
    ),
    Signature(
        id="nccl_oom",
        kind="failure",
        group="nccl_oom",
        severity="fatal",
        needles=("Failed to CUDA ",),
        pattern=r"Failed to CUDA (?:calloc|malloc) (?P<n>\d+) bytes",
        cause="NCCL buffers do not fit beside the KV cache (seen with NCCL_GRAPH_FILE and utilisation 0.95)",
        remedy="--gpu-memory-utilization 0.93 or lower",
        versions="any",
        source="local-inference-lab/rtx6kpro models/kimi-k25.md",
        example="NCCL error: Failed to CUDA calloc 10485760 bytes",
    ),
    Signature(
        id="nccl_error",
        kind="failure",
        group="nccl_error",
        severity="fatal",
        needles=(
            "NCCL error: ",
            "ncclUnhandledCudaError",
            "ncclSystemError",
            "ncclInternalError",
            "DistBackendError",
        ),
        pattern=(
            r"NCCL error: (?P<e>[^\r\n]+)|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|"
            r"DistBackendError: NCCL error"
        ),
        cause="communicator failure",
        remedy="NCCL_DEBUG=INFO; check IOMMU/ACS, /dev/shm, NCCL_SOCKET_IFNAME, NCCL_DMABUF_ENABLE=0",
        versions="any",
        source="vllm-project/recipes#814; pynccl_wrapper.py",
        example="RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    Signature(
        id="nccl_watchdog",
        kind="failure",
        group="nccl_timeout",
        severity="fatal",
        needles=(
            "collective operation timeout",
            "ProcessGroupNCCL",
        ),
        pattern=(
            r"Watchdog caught collective operation timeout|ProcessGroupNCCL.{0,80}timed? ?out|"
            r"\[Rank \d+\].*collective operation timeout"
        ),
        cause="a rank is stuck or gone",
        remedy="look at the first rank to stop logging; py-spy it",
        versions="any",
        source="torch",
        example=(
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for "
            "600004 milliseconds before timing out."
        ),
    ),
    Signature(
        id="rdzv_timeout",
        kind="failure",
        group="rendezvous_timeout",
        severity="fatal",
        needles=(
            "DistStoreError: ",
            "imed out after ",
            "Timed out waiting ",
            "DistNetworkError",
            "timed out after ",
        ),
        pattern=(
            r"DistStoreError: (?:wait timeout|Timed out)|timed out after (?P<ms>\d{5,})ms|"
            r"Timed out waiting (?P<ms2>\d+)ms for|DistNetworkError"
        ),
        cause="a node or rank never joined (30 min default)",
        remedy=(
            "same vLLM version and flags on all nodes; master addr/port reachable; "
            "NCCL_SOCKET_IFNAME/GLOO_SOCKET_IFNAME/VLLM_HOST_IP"
        ),
        versions="any",
        source="vllm-project/vllm#52907, #58290, #16514",
        example="torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: /default_pg/0//2//cpu//0/2",
    ),
    Signature(
        id="ready_timeout",
        kind="failure",
        group="engine_ready_timeout",
        severity="fatal",
        ends=True,
        needles=("Timed out waiting for ",),
        pattern=r"Timed out waiting for (?:engines to send|engine core processes to start|new engine)",
        cause=(
            "API server processes gave up before the engine was ready: hard 600 s, VLLM_ENGINE_READY_TIMEOUT_S "
            "from 0.14. Only with --api-server-count > 1, DP external LB, or headless fronts; a single API "
            "server waits for ever"
        ),
        remedy=(
            "stop the unit, as engine and workers go on and hold their GPU memory; then "
            "VLLM_ENGINE_READY_TIMEOUT_S=86400 (vllm_service sets it), or before 0.14 one API server "
            "(--api-server-count 1), which waits for ever"
        ),
        versions="0.10-0.33",
        source="vllm-project/vllm#32116, #44751",
        example=(
            "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow "
            "weight loading for large models. Waited 600s"
        ),
    ),
    Signature(
        id="engine_failed",
        kind="failure",
        group="engine_start_failed",
        severity="fatal",
        rank="generic",
        ends=True,
        needles=("EngineCore failed to start.",),
        pattern=r"EngineCore failed to start\.",
        cause="generic: the cause is the first traceback above, usually in a Worker",
        remedy="look at the first traceback above it, usually of a worker",
        versions="0.10-0.33",
        source="vLLM v1/engine/core.py",
        example="EngineCore failed to start.",
    ),
    Signature(
        id="engine_init_failed",
        kind="failure",
        group="engine_start_failed",
        severity="fatal",
        rank="generic",
        ends=True,
        needles=("Engine core initialization failed. See root cause above",),
        pattern=r"Engine core initialization failed\. See root cause above\. Failed core proc\(s\): (?P<p>\{.*?\})",
        cause="the API server saw the engine fail at its start; the engine or a worker says why, further up",
        remedy=(
            "a dict like {'EngineCore': -9} carries the exit status: -9 = SIGKILL/OOM, -11 = segv, -6 = abort, "
            "-7 = SIGBUS (/dev/shm full), {} = clean exit"
        ),
        versions="0.10-0.33",
        source="vLLM v1/engine/utils.py",
        example=(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
            "{'EngineCore_DP0': -9}"
        ),
    ),
    Signature(
        id="worker_failed",
        kind="failure",
        group="worker_failed",
        severity="fatal",
        rank="generic",
        ends=True,
        needles=(
            "Executor failed.",
            "Worker failed with error",
            "WorkerProc failed to start.",
            "WorkerProc initialization failed",
        ),
        pattern=(
            r"WorkerProc failed to start\.|WorkerProc initialization failed|Worker failed with error|"
            r"Executor failed\."
        ),
        cause="a worker process failed; its own traceback says why",
        remedy="look at the first traceback above it",
        versions="0.10-0.33",
        source="vLLM v1/executor/multiproc_executor.py",
        example=(
            "Exception: WorkerProc initialization failed due to an exception in a background process. See stack "
            "trace for root cause."
        ),
    ),
    Signature(
        id="worker_died",
        kind="failure",
        group="process_died",
        severity="fatal",
        rank="generic",
        ends=True,
        needles=(
            "Worker proc ",
            "Engine core proc",
        ),
        pattern=(
            r"Worker proc (?P<w>\S+) died unexpectedly(?: \(exit code: (?P<rc>-?\d+)\))?|"
            r"Engine core proc(?:ess)? (?P<e>\S+) died unexpectedly"
        ),
        cause="a child vanished without a Python traceback",
        remedy="check kernel log for oom-kill, Xid, segfault",
        versions="0.10-0.33 (exit code from 0.26)",
        source="vLLM v1/executor/multiproc_executor.py",
        example="Worker proc VllmWorker-3 died unexpectedly, shutting down executor.",
    ),
    Signature(
        id="engine_dead",
        kind="failure",
        group="engine_dead",
        severity="fatal",
        rank="generic",
        ends=True,
        needles=(
            "EngineDeadError",
            "EngineCore encountered ",
            "engine core exited unexpectedly",
        ),
        pattern=(
            r"EngineDeadError|EngineCore encountered a fatal error|EngineCore encountered an issue|"
            r"engine core exited unexpectedly"
        ),
        cause=(
            "the engine died after its start; the API server then answers 503 and exits with status 0 within seconds"
        ),
        remedy=(
            "look at the first traceback, or in the kernel log where there is none; Restart=always, since "
            "Restart=on-failure does not restart a service that exits 0"
        ),
        versions="0.10-0.33",
        source="vLLM v1/engine/exceptions.py",
        example=(
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) "
            "for the root cause."
        ),
    ),
    Signature(
        id="st_truncated",
        kind="failure",
        group="shard_truncated",
        severity="fatal",
        needles=("SafetensorError: Error while deserializing header: ",),
        pattern=(
            r"SafetensorError: Error while deserializing header: (?:incomplete metadata, file not fully covered|"
            r"MetadataIncompleteBuffer)"
        ),
        cause="shard shorter (or longer) than its header says: interrupted download or disk full",
        remedy="delete that shard and fetch it again; verify sizes against the hub before start",
        versions="safetensors <=0.5 CamelCase, >=0.6 text",
        source="QwenLM/Qwen3-VL#264, gpustack/gpustack#815; measured here with safetensors 0.4.5-0.8.0",
        example=(
            "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete "
            "metadata, file not fully covered"
        ),
    ),
    Signature(
        id="st_not_safetensors",
        kind="failure",
        group="shard_not_data",
        severity="fatal",
        needles=("SafetensorError: Error while deserializing header: ",),
        pattern=(
            r"SafetensorError: Error while deserializing header: (?:header too (?:large|small)|HeaderToo(?:Large|"
            r"Small)|invalid header length|InvalidHeaderLength|InvalidHeader\b|invalid UTF-8 in header)"
        ),
        cause="file is empty, an LFS pointer, an HTML page or a stub",
        remedy='git lfs pull / hf download; "too large" = text file, "too small" = empty',
        versions="any",
        source="measured here",
        example="safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    ),
    Signature(
        id="st_zeroed",
        kind="failure",
        group="shard_corrupt",
        severity="fatal",
        needles=("SafetensorError: Error while deserializing header: ",),
        pattern=(
            r"SafetensorError: Error while deserializing header: (?:InvalidHeaderDeserialization|"
            r"invalid JSON in header)"
        ),
        cause="header bytes are zero or damaged (sparse file left by a crash)",
        remedy="re-download; check the filesystem",
        versions="any",
        source="safetensors/safetensors#466; measured here",
        example="safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization",
    ),
    Signature(
        id="shard_missing",
        kind="failure",
        group="shard_missing",
        severity="fatal",
        needles=(
            "FileNotFoundError: ",
            "No such file or directory: ",
        ),
        pattern=(
            r"FileNotFoundError: .*\.safetensors|"
            r'No such file or directory: "?[^"\r\n]*model-\d+-of-\d+\.safetensors'
        ),
        cause="index names a shard that is not there",
        remedy="complete the download",
        versions="any",
        source="safetensors",
        example='FileNotFoundError: No such file or directory: "/models/k/model-00012-of-00064.safetensors"',
    ),
    Signature(
        id="no_weights",
        kind="failure",
        group="no_weights",
        severity="fatal",
        needles=("Cannot find any model weights with",),
        pattern=r"Cannot find any model weights with",
        cause="directory has no *.safetensors/*.bin/*.pt",
        remedy="wrong path or incomplete download",
        versions="0.10-0.33",
        source="vLLM model_loader/default_loader.py",
        example="RuntimeError: Cannot find any model weights with `/models/k`",
    ),
    Signature(
        id="weights_uninit",
        kind="failure",
        group="weights_missing",
        severity="fatal",
        needles=("Following weights were not initialized from checkpoint",),
        pattern=r"Following weights were not initialized from checkpoint: (?P<w>.{0,200})",
        cause="checkpoint and architecture disagree, or shards missing from the index",
        remedy="re-download; right vLLM version",
        versions="0.10-0.33",
        source="vLLM model_loader/default_loader.py",
        example="ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}",
    ),
    Signature(
        id="shape_mismatch",
        kind="failure",
        group="weights_shape",
        severity="fatal",
        needles=("Tried to load weights of size ",),
        pattern=r"Tried to load weights of size (?P<a>torch\.Size\(\[[^\]]*\]\)) ?to a parameter of size",
        cause="quant ignore list or TP size does not match the checkpoint",
        remedy="fix quantization_config.ignore; other TP",
        versions="any",
        source="local-inference-lab/rtx6kpro common-issues",
        example=(
            "AssertionError: Tried to load weights of size torch.Size([512, 4096]) to a parameter of size "
            "torch.Size([512, 2048])"
        ),
    ),
    Signature(
        id="arch_unsupported",
        kind="failure",
        group="arch_unsupported",
        severity="fatal",
        needles=(
            "Model architecture ",
            "Model architectures ",
            "Unrecognized model in",
            "but Transformers does not recognize this architecture",
        ),
        pattern=(
            r"Model architectures (?P<a>\[.*?\]) are not supported for now|"
            r"Model architecture \S+ is not supported in-tree|"
            r"but Transformers does not recognize this architecture|Unrecognized model in"
        ),
        cause="vLLM or transformers too old for the model",
        remedy="newer vLLM/transformers",
        versions="any",
        source="vLLM model_executor/models/registry.py",
        example=(
            "ValueError: Model architectures ['KimiK25ForConditionalGeneration'] are not supported for now. "
            "Supported architectures: dict_keys(["
        ),
    ),
    Signature(
        id="trust_remote_code",
        kind="failure",
        group="trust_remote_code",
        severity="fatal",
        needles=(
            "`trust_remote_code=True`",
            "contains custom code which must be executed",
        ),
        pattern=(
            r"setting `trust_remote_code=True`|pass the argument `trust_remote_code=True`|"
            r"contains custom code which must be executed"
        ),
        cause="model ships Python code",
        remedy="--trust-remote-code, after reading the code (Kimi-K2.5 and MiniMax need it)",
        versions="any",
        source="vLLM transformers_utils/config.py, tokenizers/hf.py",
        example=(
            "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in "
            "the HuggingFace transformers library, consider setting `trust_remote_code=True` in LLM or using the "
            "`--trust-remote-code` flag in the CLI."
        ),
    ),
    Signature(
        id="missing_pkg",
        kind="failure",
        group="python_package_missing",
        severity="fatal",
        needles=(
            "This modeling file requires the following packages",
            "No module named '",
        ),
        pattern=(
            r"This modeling file requires the following packages.*: (?P<p>.*?)\. Run|(?:ModuleNotFoundError|"
            r"ImportError): No module named '(?P<m>[\w.]+)'"
        ),
        cause="e.g. tiktoken/blobfile for the Kimi tokenizer, fastsafetensors for --load-format",
        remedy="install it in the same venv",
        versions="any",
        source="local-inference-lab/rtx6kpro models/kimi-k25.md",
        example="ModuleNotFoundError: No module named 'fastsafetensors'",
    ),
    Signature(
        id="tokenizer",
        kind="failure",
        group="tokenizer_missing",
        severity="fatal",
        needles=(
            "Can't load tokenizer for",
            "Couldn't instantiate the backend tokenizer",
            "Can't load the configuration of",
            "does not appear to have a file named ",
        ),
        pattern=(
            r"Can't load tokenizer for|Couldn't instantiate the backend tokenizer|Can't load the configuration of|"
            r"does not appear to have a file named (?P<f>\S+)"
        ),
        cause="tokenizer/config files absent",
        remedy="download *.json, *.model, *.py, *.jinja as well as the weights",
        versions="any",
        source="transformers",
        example="OSError: /models/k does not appear to have a file named config.json.",
    ),
    Signature(
        id="tp_heads",
        kind="failure",
        group="tp_divisibility",
        severity="fatal",
        needles=(
            "Total number of attention heads ",
            "is not divisible by ",
            "must be divisible by dcp_size",
        ),
        pattern=(
            r"Total number of attention heads \((?P<h>\d+)\) must be divisible by tensor parallel size "
            r"\((?P<tp>\d+)\)|is not divisible by (?P<tp2>\d+)|must be divisible by dcp_size"
        ),
        cause="TP (or DCP) does not divide the heads / experts / hidden size",
        remedy="TP in {1,2,4,8}; PP for odd counts",
        versions="0.10-0.33",
        source="vLLM config/model.py",
        example="Value error, Total number of attention heads (64) must be divisible by tensor parallel size (6).",
    ),
    Signature(
        id="world_size",
        kind="failure",
        group="gpu_count",
        severity="fatal",
        needles=(
            "is larger than the number of available GPUs",
            "exceeds available GPUs",
            "No CUDA GPUs are available",
            "Failed to infer device type",
        ),
        pattern=(
            r"World size \((?P<w>\d+)\) is larger than the number of available GPUs \((?P<g>\d+)\)|"
            r"exceeds available GPUs|No CUDA GPUs are available|Failed to infer device type"
        ),
        cause="fewer GPUs visible than TP x PP",
        remedy="nvidia-smi -L, CUDA_VISIBLE_DEVICES, device cgroup of the unit",
        versions="0.13-0.33",
        source="vLLM config/parallel.py",
        example="Value error, World size (16) is larger than the number of available GPUs (8) in this node.",
    ),
    Signature(
        id="max_model_len",
        kind="failure",
        group="max_model_len",
        severity="fatal",
        needles=("User-specified max_model_len (",),
        pattern=r"User-specified max_model_len \((?P<n>\d+)\) is greater than the derived max_model_len",
        cause="longer than the config allows",
        remedy="lower it, or VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 with rope scaling",
        versions="0.10-0.33",
        source="vLLM config/model.py",
        example=(
            "Value error, User-specified max_model_len (921600) is greater than the derived max_model_len "
            "(max_position_embeddings=262144"
        ),
    ),
    Signature(
        id="quant_unknown",
        kind="failure",
        group="quantization",
        severity="fatal",
        needles=("Unknown quantization method: ",),
        pattern=r"Unknown quantization method: (?P<m>[^.\s]+)",
        cause="config.json names a quantisation that this vLLM does not know",
        remedy="a vLLM that lists it, or another checkpoint",
        versions="0.10-0.33",
        source="seen with vLLM 0.32.0",
        example="  Value error, Unknown quantization method: fancyquant. Must be one of ['awq', 'auto_awq']",
    ),
    Signature(
        id="config_invalid",
        kind="failure",
        group="config_file",
        severity="fatal",
        needles=("is not a valid JSON file",),
        pattern=r"config file at '(?P<f>[^']+)' is not a valid JSON file",
        cause="a JSON file of the model is truncated or was edited badly",
        remedy="fetch that file again; run the verification of the snapshot",
        versions="any",
        source="seen with vLLM 0.32.0",
        example="OSError: It looks like the config file at '/srv/models/m/config.json' is not a valid JSON file.",
    ),
    Signature(
        id="config_missing",
        kind="failure",
        group="config_file",
        severity="fatal",
        needles=(
            "Invalid repository ID or local directory specified: ",
            "Repo id must be in the form",
            "Repo id must use alphanumeric chars",
        ),
        pattern=(
            r"Invalid repository ID or local directory specified: '(?P<m>[^']*)'|"
            r"HFValidationError: Repo id must (?:be in the form|use alphanumeric chars).*"
        ),
        cause="the model folder does not exist for the service, or has no config.json",
        remedy="check the path as the user of the service: a folder it may not enter looks the same",
        versions="0.10-0.33",
        source="seen with vLLM 0.32.0",
        example="  Value error, Invalid repository ID or local directory specified: '/srv/models/variants/nocfg'.",
    ),
    Signature(
        id="cli_args",
        kind="failure",
        group="cli_error",
        severity="fatal",
        ends=True,
        needles=(": error: ",),
        pattern=(
            r"(?:vllm|api_server\.py)(?: serve)?: error: (?P<e>(?:unrecognized arguments|argument \S+|"
            r"ambiguous option|the following arguments).*)"
        ),
        cause="flag unknown to this version (exit code 2, within seconds)",
        remedy="compare with vllm serve --help=all of the installed version",
        versions="any",
        source="argparse",
        example="vllm serve: error: unrecognized arguments: --moe-backend flashinfer_b12x",
    ),
    Signature(
        id="parser_name",
        kind="failure",
        group="parser_name",
        severity="fatal",
        needles=(
            "invalid tool call parser: ",
            "invalid reasoning parser: ",
        ),
        pattern=r"invalid (?:tool call|reasoning) parser: (?P<p>\S+)",
        cause="parser not in this version",
        remedy="kimi_k2, minimax_m2, glm45/glm47, deepseek_v32",
        versions="0.10-0.33",
        source="vLLM entrypoints/common/cli_args.py",
        example="KeyError: 'invalid tool call parser: glm47 (chose from { deepseek_v3 })'",
    ),
    Signature(
        id="env_unknown",
        kind="failure",
        group="env_unknown",
        severity="warn",
        needles=("Unknown vLLM environment variable detected: ",),
        pattern=r"Unknown vLLM environment variable detected: (?P<v>\S+)",
        cause="variable removed or misspelt: ignored",
        remedy="drop it (see the removal table)",
        versions="0.17-0.33",
        source="vLLM envs.py",
        example="Unknown vLLM environment variable detected: VLLM_USE_FLASHINFER_MOE_FP4",
    ),
    Signature(
        id="port_used",
        kind="failure",
        group="port_in_use",
        severity="fatal",
        needles=(
            "Address already in use",
            "is used by process",
        ),
        pattern=r"\[Errno 98\] Address already in use|port (?P<p>\d+) is used by process",
        cause=(
            "raised in setup_server before any GPU work when the other server already listens; from 0.25 two "
            "servers that load at the same time both bind and the later one fails at listen(), after its whole "
            "load. Up to 0.24 every server binds with SO_REUSEPORT, so a second vLLM on the same port does NOT "
            "fail and shares the connections. A stale --uds path gives the same error"
        ),
        remedy="find the owner; check the port (and other units that use it) before start",
        versions="0.10-0.33",
        source="vLLM entrypoints/launcher.py create_server_socket",
        example="OSError: [Errno 98] Address already in use",
    ),
    Signature(
        id="driver_mismatch",
        kind="failure",
        group="driver_mismatch",
        severity="fatal",
        needles=(
            "Driver/library version mismatch",
            "LibRmVersionMismatch",
        ),
        pattern=r"Driver/library version mismatch|NVMLError_LibRmVersionMismatch|LibRmVersionMismatch",
        cause="driver upgraded, kernel module old",
        remedy="reboot or reload nvidia modules",
        versions="any",
        source="NVML",
        example="pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
    ),
    Signature(
        id="driver_old",
        kind="failure",
        group="driver_old",
        severity="fatal",
        needles=(
            "driver on your system is too old",
            "driver version on your system is too old",
            "is insufficient for CUDA runtime",
            "cudaErrorInsufficientDriver",
            "unsupported display driver / cuda driver combination",
            "Error 803:",
        ),
        pattern=(
            r"driver (?:version )?(?:on your system is too old|is insufficient for CUDA runtime)|"
            r"cudaErrorInsufficientDriver|unsupported display driver / cuda driver combination|Error 803:"
        ),
        cause="driver older than the CUDA build, or a compat libcuda shadows it",
        remedy="driver >= 580 for cu130 builds; remove cuda-compat from LD_LIBRARY_PATH",
        versions="any",
        source="local-inference-lab/rtx6kpro common-issues (compat tmpfs)",
        example="RuntimeError: The NVIDIA driver on your system is too old (found version 12040).",
    ),
    Signature(
        id="no_kernel_image",
        kind="failure",
        group="arch_not_built",
        severity="fatal",
        needles=(
            "no kernel image is available for execution",
            "is not compatible with the current PyTorch installation",
        ),
        pattern=(
            r"no kernel image is available for execution on the device|"
            r"is not compatible with the current PyTorch installation"
        ),
        cause="wheel has no sm_120 code",
        remedy="cu128+ torch and a vLLM build whose arch list has 12.0",
        versions="any",
        source="vllm-project/vllm#19906, gpustack/gpustack#2097",
        example="RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    Signature(
        id="cutlass_cc",
        kind="failure",
        group="kernel_not_compiled",
        severity="fatal",
        needles=("No compiled ",),
        pattern=r"No compiled (?P<k>[\w ]+?)(?: kernel)? for (?:a compute capability|CUDA device capability|SM )",
        cause="this kernel was not built for SM120",
        remedy="newer vLLM; other --moe-backend / --linear-backend; NVFP4 or INT4 instead of FP8",
        versions="any",
        source="vllm-project/vllm#32109, #43507",
        example="RuntimeError: No compiled cutlass_scaled_mm for CUDA device capability: 120",
    ),
    Signature(
        id="moe_none",
        kind="failure",
        group="moe_backend",
        severity="fatal",
        needles=(
            " MoE backend supports",
            "MoE backend ",
        ),
        pattern=(
            r"No (?P<q>\S+(?: \S+)?) MoE backend supports|"
            r"MoE backend .{1,40} does not support the deployment configuration"
        ),
        cause="no MoE kernel accepts scheme + GPU",
        remedy="--moe-backend marlin|cutlass|flashinfer_cutlass|flashinfer_b12x",
        versions="0.16-0.33",
        source="vllm-project/vllm#31085",
        example="NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
    ),
    Signature(
        id="linear_kernel_none",
        kind="failure",
        group="kernel_not_compiled",
        severity="fatal",
        needles=("Failed to find a kernel that can implement the ",),
        pattern=r"Failed to find a kernel that can implement the (?P<what>.{1,60}?) layer",
        cause="no kernel of this build runs this quantisation on this device",
        remedy="a checkpoint in another quantisation, a newer vLLM, or another --linear-backend; NVFP4 needs a GPU",
        versions="0.10-0.33",
        source="seen with vLLM 0.32.0",
        example="ValueError: Failed to find a kernel that can implement the NVFP4 linear layer. Reasons: ",
    ),
    Signature(
        id="marlin_fallback",
        kind="failure",
        group="fp4_marlin_fallback",
        severity="warn",
        needles=(
            "Your GPU does not have native support for FP4 computation",
            "Weight-only FP4 compression will be used",
        ),
        pattern=(
            r"Your GPU does not have native support for FP4 computation|"
            r"Weight-only FP4 compression will be used leveraging the Marlin kernel"
        ),
        cause="NVFP4 runs as weight-only (slower), e.g. W4A16 checkpoint or no SM120 kernel",
        remedy="informational; --moe-backend flashinfer_b12x (0.22+) is opt-in on SM120",
        versions="0.10-0.33",
        source="vllm-project/vllm#31085, #30135, #50925",
        example="Your GPU does not have native support for FP4 computation but FP4 quantization is being used.",
    ),
    Signature(
        id="moe_config",
        kind="failure",
        group="moe_untuned",
        severity="warn",
        needles=(
            "Using default MoE config",
            "Using default W8A8 Block FP8 kernel config",
        ),
        pattern=r"Using default (?:MoE|W8A8 Block FP8 kernel) config\. Performance might be sub-optimal",
        cause="no tuned Triton config for this GPU",
        remedy="informational",
        versions="0.10-0.33",
        source="yhfgyyf/vllm-deepseek-v4-sm89#34",
        example="Using default MoE config. Performance might be sub-optimal! Config file not found at /x.json",
    ),
    Signature(
        id="nvcc_missing",
        kind="failure",
        group="nvcc_missing",
        severity="fatal",
        needles=(
            "Could not find nvcc",
            "nvcc: not found",
            "nvcc not found",
            "nvcc fatal",
            "CUDA_HOME environment variable is not set",
        ),
        pattern=(
            r"Could not find nvcc|/nvcc: not found|nvcc not found|nvcc fatal|"
            r"CUDA_HOME environment variable is not set"
        ),
        cause="FlashInfer/DeepGEMM JIT needs a CUDA toolkit",
        remedy=(
            "install matching cuda-toolkit and set CUDA_HOME, or flashinfer-cubin + flashinfer-jit-cache (vllm "
            "download-kernels, 0.32+); VLLM_USE_FLASHINFER_SAMPLER=0"
        ),
        versions="0.10-0.33",
        source="vllm-project/vllm#21960, #49497, #27990",
        example="RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
    ),
    Signature(
        id="ninja",
        kind="failure",
        group="jit_build_failed",
        severity="fatal",
        needles=(
            "Ninja build failed",
            "No such file or directory: 'ninja'",
            "ninja: build stopped",
            "Error building extension",
        ),
        pattern=r"Ninja build failed|No such file or directory: 'ninja'|ninja: build stopped|Error building extension",
        cause="JIT compile failed (ninja missing, wrong nvcc/gcc, bad CUDA_HOME, full disk)",
        remedy='pip install ninja; sane CUDA_HOME (no leading ":"), wipe ~/.cache/flashinfer',
        versions="0.10-0.33",
        source="vllm-project/vllm#36077, kserve/kserve#4565",
        example="RuntimeError: Ninja build failed. Ninja output:",
    ),
    Signature(
        id="cc_missing",
        kind="failure",
        group="toolchain_missing",
        severity="fatal",
        needles=(
            "Failed to find C compiler",
            "fatal error: Python.h",
            "cannot find -lcuda",
        ),
        pattern=r"Failed to find C compiler|fatal error: Python\.h: No such file|cannot find -lcuda",
        cause="Triton needs gcc and Python headers at run time",
        remedy="build-essential, python3-dev in the unit's PATH",
        versions="any",
        source="triton",
        example="RuntimeError: Failed to find C compiler. Please specify via CC environment variable",
    ),
    Signature(
        id="ptxas",
        kind="failure",
        group="ptxas_old",
        severity="fatal",
        needles=(
            "PTXAS error",
            "Value 'sm_12",
            "ptxas fatal",
        ),
        pattern=r"ptxas fatal|PTXAS error|Value \'sm_12\d[af]?\' is not defined for option",
        cause="bundled ptxas/Triton too old for sm_120/121",
        remedy="newer Triton; TRITON_PTXAS_PATH",
        versions="any",
        source="triton",
        example="ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
    ),
    Signature(
        id="fi_version",
        kind="failure",
        group="flashinfer_mismatch",
        severity="warn",
        needles=(
            "does not match",
            "precompiled kernels are missing or do not match",
        ),
        pattern=(
            r"flashinfer[-_](?:cubin|jit[-_]cache) version .{0,40}does not match|"
            r"precompiled kernels are missing or do not match"
        ),
        cause="flashinfer-python, -cubin and -jit-cache differ",
        remedy="vllm download-kernels; FLASHINFER_DISABLE_VERSION_CHECK=1 as a last resort",
        versions="0.25-0.33",
        source="vLLM utils/flashinfer.py",
        example=(
            "FlashInfer's precompiled kernels are missing or do not match flashinfer-python 0.7.2 "
            "(flashinfer-cubin not installed)."
        ),
    ),
    Signature(
        id="compile_cache",
        kind="failure",
        group="compile_cache",
        severity="fatal",
        needles=(
            "vLLM failed to compile the model",
            "failed to get the hash of the compiled graph",
            "Expected tensors only, but got",
            "too many values to unpack",
        ),
        pattern=(
            r"vLLM failed to compile the model\..{0,200}torch_compile_cache|"
            r"failed to get the hash of the compiled graph|Expected tensors only, but got|"
            r"too many values to unpack.*inductor"
        ),
        cause="stale or half-written compile cache (two servers sharing it, upgrade, kill during save)",
        remedy="remove $VLLM_CACHE_ROOT/torch_compile_cache; VLLM_DISABLE_COMPILE_CACHE=1; one cache root per unit",
        versions="0.10-0.33",
        source="vllm-project/vllm#24915, #18851, #18956, #32033; ls1intum/edutelligence#579",
        example=(
            "RuntimeError: vLLM failed to compile the model. The most likely reason for this is that a previous "
            "compilation failed, leading to a corrupted compilation artifact. We recommend trying to remove "
            "~/.cache/vllm/torch_compile_cache and try again"
        ),
    ),
    Signature(
        id="aot_reload",
        kind="failure",
        group="compile_cache_healed",
        severity="warn",
        needles=("Compiling model again due to a load failure from",),
        pattern=r"Compiling model again due to a load failure from",
        cause="AOT artefact unreadable: recompiles by itself",
        remedy="none",
        versions="0.11.2-0.33",
        source="vLLM compilation/decorators.py",
        example="Compiling model again due to a load failure from /x/rank_0_0/model, reason: EOFError",
    ),
    Signature(
        id="hf_auth",
        kind="failure",
        group="hf_auth",
        severity="fatal",
        needles=(
            "GatedRepoError",
            "You are trying to access a gated repo",
            "RepositoryNotFoundError",
            " Client Error",
            "Invalid username or password",
            "Invalid user name or password",
            "Invalid credentials",
        ),
        pattern=(
            r"GatedRepoError|You are trying to access a gated repo|RepositoryNotFoundError|40[13] Client Error|"
            r"Invalid (?:user ?name or password|credentials)"
        ),
        cause="no access or no token",
        remedy="HF_TOKEN / accept licence / local path",
        versions="any",
        source="vast-ai/base-image#128, vllm-project/vllm#9255",
        example="huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)",
    ),
    Signature(
        id="hf_rate",
        kind="failure",
        group="hf_rate",
        severity="fatal",
        needles=(
            "429 Client Error",
            "Too Many Requests",
        ),
        pattern=r"429 Client Error|Too Many Requests",
        cause="hub rate limit",
        remedy="pre-download, HF_TOKEN, wait",
        versions="any",
        source="huggingface_hub",
        example="HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://hub.example/x",
    ),
    Signature(
        id="hf_offline",
        kind="failure",
        group="hf_offline",
        severity="fatal",
        needles=(
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "We couldn't connect to 'http",
            "outgoing traffic has been disabled",
            "Cannot find an appropriate cached snapshot",
            "MaxRetryError",
        ),
        pattern=(
            r"LocalEntryNotFoundError|OfflineModeIsEnabled|We couldn't connect to 'https?://|"
            r"outgoing traffic has been disabled|Cannot find an appropriate cached snapshot|"
            r"MaxRetryError.*huggingface"
        ),
        cause="offline and not in the cache (or cache seeded by commit without refs/)",
        remedy="give a local directory; fix HF_HOME; HF_HUB_OFFLINE",
        versions="any",
        source="vllm-project/vllm#9255",
        example=(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder "
            "for the specified revision on the local disk and outgoing traffic has been disabled."
        ),
    ),
    Signature(
        id="nofile",
        kind="failure",
        group="nofile",
        severity="fatal",
        needles=("OSError: [Errno 24] Too many open files",),
        pattern=r"(?<!errors like `)OSError: \[Errno 24\] Too many open files(?!`)",
        cause="hard RLIMIT_NOFILE below 65535 (systemd default hard limit is 524288, soft 1024)",
        remedy="LimitNOFILE=1048576",
        versions="0.10-0.33",
        source="vLLM utils/system_utils.py set_ulimit",
        example="OSError: [Errno 24] Too many open files",
    ),
    Signature(
        id="ulimit_warning",
        kind="failure",
        group="ulimit_low",
        severity="warn",
        needles=("Found ulimit of ",),
        pattern=r"Found ulimit of (?P<n>\d+) and failed to automatically increase",
        cause=(
            "printed by healthy starts too (every recording in fixtures has it); hard RLIMIT_NOFILE below 65535 "
            "(systemd default hard limit is 524288, soft 1024)"
        ),
        remedy="LimitNOFILE=1048576",
        versions="0.10-0.33",
        source="vLLM utils/system_utils.py set_ulimit",
        example=(
            "WARNING 11-30 22:55:00 [system_utils.py:294] Found ulimit of 20000 and failed to automatically "
            "increase with error current limit exceeds maximum limit. This can cause fd limit errors like "
            "`OSError: [Errno 24] Too many open files`."
        ),
    ),
    Signature(
        id="shm",
        kind="failure",
        group="shm_full",
        severity="fatal",
        needles=(
            "SIGBUS",
            "Bus error",
            "No space left on device: '/",
            "unable to mmap",
            "unable to open shared memory",
            "Error while creating shared memory segment ",
        ),
        pattern=(
            r"SIGBUS|Bus error|No space left on device: \'/(?:dev/shm|psm)|unable to (?:mmap|open shared memory)|"
            r"Error while creating shared memory segment .{0,40}nccl"
        ),
        cause="/dev/shm too small for NCCL/torch segments",
        remedy=(
            "tmpfs size (>= 8-16 GiB); PrivateTmp does not change /dev/shm, PrivateIPC= does not either; "
            "containers need --ipc=host/--shm-size"
        ),
        versions="any",
        source="NCCL",
        example="Fatal Python error: Bus error",
    ),
    Signature(
        id="memlock",
        kind="failure",
        group="memlock",
        severity="fatal",
        needles=(
            "ibv_reg_mr",
            "mlx5dv_reg_dmabuf_mr",
            "cudaHostRegister",
            "Cannot allocate memory (12)",
        ),
        pattern=(
            r"ibv_reg_mr\S* failed|mlx5dv_reg_dmabuf_mr|cudaHostRegister.{0,40}(?:failed|out of memory)|"
            r"Cannot allocate memory \(12\)"
        ),
        cause="RLIMIT_MEMLOCK too low for RDMA / pinned memory, or dmabuf unsupported",
        remedy="LimitMEMLOCK=infinity; NCCL_DMABUF_ENABLE=0",
        versions="any",
        source="vllm-project/recipes#814",
        example="NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
    ),
    Signature(
        id="permission",
        kind="failure",
        group="permission",
        severity="fatal",
        needles=(
            "PermissionError: [Errno 13] Permission denied: '",
            "Read-only file system: '",
        ),
        pattern=(
            r"PermissionError: \[Errno 13\] Permission denied: '(?P<p>[^']+)'|"
            r"Read-only file system: '(?P<p2>[^']+)'"
        ),
        cause="cache or model directory not writable by the unit user, or hidden by ProtectHome/ProtectSystem",
        remedy=(
            "own HF_HOME, VLLM_CACHE_ROOT, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, FLASHINFER_WORKSPACE_BASE, "
            "XDG_CACHE_HOME; CacheDirectory="
        ),
        versions="any",
        source="systemd",
        example="PermissionError: [Errno 13] Permission denied: '/root/.cache/vllm'",
    ),
    Signature(
        id="disk_full",
        kind="failure",
        group="disk_full",
        severity="fatal",
        needles=("[Errno 28] No space left on device",),
        pattern=r"\[Errno 28\] No space left on device",
        cause="cache or model disk full",
        remedy="free space",
        versions="any",
        source="any",
        example="OSError: [Errno 28] No space left on device",
    ),
    Signature(
        id="ima",
        kind="failure",
        group="cuda_fault",
        severity="fatal",
        needles=(
            "an illegal memory access was encountered",
            "device-side assert triggered",
            "CUBLAS_STATUS_",
            "unspecified launch failure",
        ),
        pattern=(
            r"an illegal memory access was encountered|device-side assert triggered|"
            r"CUBLAS_STATUS_(?:NOT_INITIALIZED|EXECUTION_FAILED|ALLOC_FAILED)|unspecified launch failure"
        ),
        cause="kernel bug or a sick GPU",
        remedy="CUDA_LAUNCH_BLOCKING=1; check Xid; disable MTP/autotune",
        versions="any",
        source="vllm-project/vllm#34948; flashinfer-ai/flashinfer#2708",
        example="torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    Signature(
        id="deepgemm_arch",
        kind="failure",
        group="deepgemm",
        severity="fatal",
        needles=(
            "DeepGEMM backend is not available",
            "Unsupported architecture",
        ),
        pattern=r"DeepGEMM backend is not available|Assertion error \(\S+\): Unsupported architecture",
        cause="DeepGEMM has no SM120 path in this build",
        remedy="VLLM_USE_DEEP_GEMM=0; newer vLLM",
        versions="any",
        source="flashinfer-ai/flashinfer#2166",
        example="RuntimeError: Assertion error (attention.hpp:159): Unsupported architecture",
    ),
    Signature(
        id="custom_ar_off",
        kind="failure",
        group="custom_allreduce",
        severity="warn",
        needles=("Custom allreduce is disabled because ",),
        pattern=(
            r"Custom allreduce is disabled because (?P<w>it.s not supported on more than two PCIe-only GPUs|"
            r"your platform lacks GPU P2P)"
        ),
        cause="expected on 8 PCIe GPUs: NCCL is used",
        remedy="--disable-custom-all-reduce silences it",
        versions="0.10-0.33",
        source="vLLM distributed/device_communicators/custom_all_reduce.py",
        example="Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
    ),
    Signature(
        id="fi_autotune_hang",
        kind="failure",
        group="autotune_stall",
        severity="watch",
        stage="warmup",
        needles=(
            "Running FlashInfer autotune",
            "[Autotuner]: Autotuning process starts",
        ),
        pattern=r"Running FlashInfer autotune|\[Autotuner\]: Autotuning process starts",
        cause="stall candidate: on PCIe boxes with broken P2P, or some GLM-5.x builds, the step never returns",
        remedy=(
            "--no-enable-flashinfer-autotune (kernel-config.enable_flashinfer_autotune=False); fix P2P; time "
            "limit for this stage"
        ),
        versions="0.11-0.33",
        source="vllm-project/vllm#53963, #51513; local-inference-lab/rtx6kpro#15",
        example="[Autotuner]: Autotuning process starts ...",
    ),
    Signature(
        id="nccl_hang",
        kind="failure",
        group="nccl_stall",
        severity="watch",
        stage="nccl",
        needles=("vLLM is using nccl==",),
        pattern=r"vLLM is using nccl==",
        cause=(
            "stall candidate: next line must follow in seconds. GPUs at 100%, ~140 W, memory flat, no log = P2P "
            "over IOMMU/ACS deadlock"
        ),
        remedy=(
            "NCCL_P2P_DISABLE=1 to confirm; amd_iommu=off/iommu=off, ACS off, nvidia_uvm uvm_disable_hmm=1, "
            "NCCL_P2P_LEVEL=PHB/SYS; LD_PRELOADed GPU shims"
        ),
        versions="any",
        source="vllm-project/vllm#33041, #50430, #12292, #51513; Project-HAMi/HAMi#2641",
        example="vLLM is using nccl==2.28.9",
    ),
    Signature(
        id="load_hang",
        kind="failure",
        group="load_stall",
        severity="watch",
        stage="weights",
        needles=(
            "Starting to load model",
            "Loading model from scratch",
        ),
        pattern=r"Starting to load model|Loading model from scratch",
        cause="stall candidate: TP>2 on PCIe Blackwell can hang right after this line",
        remedy=(
            "NCCL_P2P_DISABLE=1 to confirm; amd_iommu=off/iommu=off, ACS off, nvidia_uvm uvm_disable_hmm=1, "
            "NCCL_P2P_LEVEL=PHB/SYS"
        ),
        versions="any",
        source="vllm-project/vllm#42063",
        example="Starting to load model x...",
    ),
    Signature(
        id="watchdog_dump",
        kind="failure",
        group="watchdog",
        severity="warn",
        needles=("[Watchdog]Dumped stack to ",),
        pattern=r"\[Watchdog\]Dumped stack to (?P<f>\S+) due to (?P<r>.+)",
        cause="vLLM itself saw a stuck main thread and wrote the stacks",
        remedy="read that file",
        versions="0.33",
        source="vLLM utils/watch_dog.py (--watchdog-config dump_dir)",
        example="[Watchdog]Dumped stack to /var/log/vllm/VLLM_STACK_DUMP_for_engine_0_12.log due to feed timeout",
    ),
    Signature(
        id="k_oom",
        kind="failure",
        group="host_oom",
        severity="fatal",
        side="kernel",
        needles=(
            "Out of memory: Killed process",
            "Memory cgroup out of memory: Killed process",
            "oom-kill:",
        ),
        pattern=(
            r"(?:Memory cgroup out of memory|Out of memory): Killed process (?P<pid>\d+) \((?P<comm>[^)]+)\)|"
            r"oom-kill:.*task=(?P<comm2>[^,]+),pid=(?P<pid2>\d+)"
        ),
        cause=(
            "memory ran out, that of the service's control group (MemoryMax=) or of the host, and the kernel's OOM "
            "killer ended a process of the service"
        ),
        remedy="remove MemoryMax/raise it, fewer loader threads, no prefetch when it exceeds RAM, swap",
        versions="any",
        source="kernel; vllm-project/vllm#4786",
        example="Out of memory: Killed process 4242 (VLLM::Worker_TP) total-vm:123kB, anon-rss:456kB",
    ),
    Signature(
        id="k_xid",
        kind="failure",
        group="gpu_xid",
        severity="fatal",
        side="kernel",
        needles=("NVRM: Xid (",),
        pattern=r"NVRM: Xid \((?P<dev>PCI:[0-9a-fA-F:.]+)\): (?P<xid>(?!(?:8|13|31|43|45|109)\b)\d+)",
        cause="GPU fault: 79 fell off the bus, 48/63/64/94/95 memory, 119/120 GSP, 74 NVLink",
        remedy="79, 119, 120, 48, 95: reset the GPU or the host; look at power and risers",
        versions="any",
        source="NVIDIA Xid list; rtx6kpro (pcie_aspm=off pcie_port_pm=off)",
        example="NVRM: Xid (PCI:0000:c1:00): 79, pid=4242, name=VLLM::Worker_TP, GPU has fallen off the bus.",
    ),
    Signature(
        id="k_xid_program",
        kind="failure",
        group="gpu_xid",
        severity="fatal",
        side="kernel",
        rank="generic",
        needles=("NVRM: Xid (",),
        pattern=r"NVRM: Xid \((?P<dev>PCI:[0-9a-fA-F:.]+)\): (?P<xid>8|13|31|43|45|109)\b",
        cause=(
            "a program did what the GPU does not permit (Xid 13, 31), hung on it (8, 109), or was ended with work on "
            "it (43, 45): the program's own lines say more"
        ),
        remedy="read the traceback; CUDA_LAUNCH_BLOCKING=1 names the kernel; another attention or MoE backend",
        versions="any",
        source="NVIDIA Xid list",
        example="NVRM: Xid (PCI:0000:c1:00): 31, pid=4242, name=VLLM::Worker_TP, Ch 00000008, MMU Fault",
    ),
    Signature(
        id="k_segv",
        kind="failure",
        group="segfault",
        severity="fatal",
        side="kernel",
        needles=("]: segfault at",),
        pattern=r"(?P<comm>VLLM::\S+|vllm|python3?\S*)\[(?P<pid>\d+)\]: segfault at",
        cause="native crash",
        remedy="core dump; another build of the library it names",
        versions="any",
        source="kernel",
        example="VLLM::Worker_TP[4242]: segfault at 10 ip 00007f sp 00007f error 4 in libnccl.so.2",
    ),
    Signature(
        id="k_aer",
        kind="failure",
        group="pcie_error",
        severity="fatal",
        side="kernel",
        needles=(
            "AER: ",
            "fallen off the bus",
            "pcieport ",
        ),
        pattern=r"AER: .*(?:Uncorrected|Fatal)|pcieport .*: (?:Surprise|Data Link) ?(?:Link )?Down|fallen off the bus",
        cause="link lost",
        remedy="pcie_aspm=off pcie_port_pm=off, reseat, lower link speed",
        versions="any",
        source="local-inference-lab/rtx6kpro common-issues",
        example="pcieport 0000:c0:01.1: AER: Uncorrected (Fatal) error received: 0000:c1:00.0",
    ),
    Signature(
        id="sd_oom",
        kind="failure",
        group="host_oom",
        severity="fatal",
        side="systemd",
        ends=True,
        needles=(
            "A process of this unit has been killed by the OOM killer",
            "Failed with result 'oom-kill'",
        ),
        pattern=r"A process of this unit has been killed by the OOM killer|Failed with result \'oom-kill\'",
        cause="systemd noticed the kill (OOMPolicy)",
        remedy="remove MemoryMax= or raise it, fewer loader threads, no prefetch when it exceeds RAM, swap",
        versions="any",
        source="systemd",
        example="vllm.service: A process of this unit has been killed by the OOM killer.",
    ),
    Signature(
        id="sd_kill",
        kind="failure",
        group="killed",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Main process exited, code=killed, status=", "Main process exited, code=dumped, status="),
        pattern=r"Main process exited, code=(?:killed|dumped), status=(?P<s>\d+)/(?P<n>\w+)",
        cause=(
            "a signal ended the main process: 9/KILL is the OOM killer or an operator, 15/TERM a stop, 6/ABRT, "
            "7/BUS and 11/SEGV a crash"
        ),
        remedy="look in the kernel log (journalctl -k) for the OOM killer, Xid or segfault at that time",
        versions="any",
        source="systemd",
        example="vllm.service: Main process exited, code=killed, status=9/KILL",
    ),
    Signature(
        id="sd_exit",
        kind="failure",
        group="exited",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Main process exited, code=exited, status=",),
        pattern=r"Main process exited, code=exited, status=(?P<s>\d+)(?:/(?P<n>\S+))?",
        cause=(
            "the main process ended by itself: 1 a Python error, 2 a bad flag, 200/CHDIR, 203/EXEC, 217/USER, "
            "226/NAMESPACE, 243/CREDENTIALS the unit could not start it"
        ),
        remedy=(
            "203: the path of ExecStart=; 217: the user; 200: WorkingDirectory=; 226: a path of the sandbox "
            "options; 1 and 2: the last lines of the log"
        ),
        versions="any",
        source="systemd",
        example="vllm.service: Main process exited, code=exited, status=203/EXEC",
    ),
    Signature(
        id="sd_spawn",
        kind="failure",
        group="exited",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Failed at step ",),
        pattern=r"Failed at step (?P<step>[A-Z_]+) spawning (?P<path>.+?): (?P<why>.+)",
        cause="systemd could not start the program",
        remedy="the option of the unit that the step is about",
        versions="any",
        source="systemd.exec(5)",
        example="vllm.service: Failed at step EXEC spawning /opt/vllm/bin/vllm: No such file or directory",
    ),
    Signature(
        id="sd_control",
        kind="failure",
        group="exited",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Control process exited, code=",),
        pattern=r"Control process exited, code=(?P<how>\w+), status=(?P<s>\d+)(?:/(?P<n>\S+))?",
        cause="a command that the unit runs before or after the program failed (ExecStartPre=, ExecStartPost=)",
        remedy="what that command says, in the lines before",
        versions="any",
        source="seen with systemd 252",
        example="vllm.service: Control process exited, code=exited, status=3/NOTIMPLEMENTED",
    ),
    Signature(
        id="sd_condition",
        kind="failure",
        group="not_started",
        severity="fatal",
        side="systemd",
        ends=True,
        needles=("was skipped because ", "Condition check resulted in "),
        pattern=(
            r"was skipped because (?:of (?:an unmet|a failed) condition check \((?P<check>[^)]*)\)|"
            r"no trigger condition checks were met|all trigger condition checks failed)|"
            r"Condition check resulted in .* being skipped"
        ),
        cause="a Condition...= of the unit is not met on this host, so systemd did not start it",
        remedy="make the condition true, or take it out of the unit: systemctl cat shows it",
        versions="any",
        source="systemd.unit(5); seen with systemd 252",
        example="vllm.service was skipped because of an unmet condition check (ConditionPathExists=/dev/nvidia0).",
    ),
    Signature(
        id="sd_assert",
        kind="failure",
        group="not_started",
        severity="fatal",
        side="systemd",
        ends=True,
        needles=("Starting requested but asserts failed", "Assertion failed for "),
        pattern=r"Starting requested but asserts failed|^Assertion failed for ",
        cause="an Assert...= of the unit is not met on this host, so systemd did not start it",
        remedy="make it true, or take it out of the unit: systemctl cat shows it",
        versions="any",
        source="systemd.unit(5); seen with systemd 252",
        example="vllm.service: Starting requested but asserts failed.",
    ),
    Signature(
        id="sd_dependency",
        kind="failure",
        group="not_started",
        severity="fatal",
        side="systemd",
        ends=True,
        needles=("Dependency failed for ", "failed with result 'dependency'"),
        pattern=r"^Dependency failed for |/start failed with result 'dependency'",
        cause="a unit that this one needs could not be started (Requires=, BindsTo=), so systemd did not start it",
        remedy="systemctl --failed names it; mend and start it first",
        versions="any",
        source="systemd.unit(5); seen with systemd 252",
        example="Dependency failed for vllm.service - vLLM server kimi.",
    ),
    Signature(
        id="sd_restart",
        kind="failure",
        group="crash_loop",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Scheduled restart job, restart counter is at ",),
        pattern=r"Scheduled restart job, restart counter is at (?P<n>\d+)",
        cause="the service ended and systemd starts it again: a restart loop",
        remedy="mend what ended it the first time; systemctl stop ends the loop",
        versions="any",
        source="systemd",
        example="vllm.service: Scheduled restart job, restart counter is at 3.",
    ),
    Signature(
        id="sd_failed",
        kind="failure",
        group="exited",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Failed with result '",),
        pattern=r"Failed with result '(?P<r>[^']+)'",
        cause="systemd took the service as failed",
        remedy="systemctl status and the lines before it",
        versions="any",
        source="systemd",
        example="vllm.service: Failed with result 'exit-code'.",
    ),
    Signature(
        id="sd_done",
        kind="failure",
        group="exited",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Deactivated successfully",),
        pattern=r"Deactivated successfully",
        cause="the service ended with status 0, as it also does after its engine died",
        remedy="look at the lines before it; Restart=always brings such a service back",
        versions="any",
        source="systemd",
        example="vllm@tiny.service: Deactivated successfully.",
    ),
    Signature(
        id="sd_start_timeout",
        kind="failure",
        group="start_timeout",
        severity="fatal",
        side="systemd",
        ends=True,
        needles=("tart operation timed out. Terminating", "tart-pre operation timed out. Terminating"),
        pattern=r"[Ss]tart(?:-pre)? operation timed out\. Terminating",
        cause="TimeoutStartSec shorter than the load (matters only for Type=notify/oneshot or ExecStartPost probes)",
        remedy="Type=exec and TimeoutStartSec=infinity",
        versions="any",
        source="systemd",
        example="vllm.service: start operation timed out. Terminating.",
    ),
    Signature(
        id="sd_stop_timeout",
        kind="failure",
        group="stop_timeout",
        severity="warn",
        side="systemd",
        needles=("' timed out. Killing",),
        pattern=r"State '(?:stop-sigterm|final-sigterm|stop-\S+)' timed out\. Killing",
        cause="TimeoutStopSec too short",
        remedy="TimeoutStopSec >= --shutdown-timeout + 30",
        versions="any",
        source="systemd",
        example="vllm.service: State 'stop-sigterm' timed out. Killing.",
    ),
    Signature(
        id="sd_left",
        kind="failure",
        group="orphans",
        severity="fatal",
        side="systemd",
        needles=(
            "Found left-over process ",
            "Unit process ",
        ),
        pattern=(
            r"Unit process (?P<pid>\d+) \((?P<comm>[^)]+)\) remains running after unit stopped|"
            r"Found left-over process (?P<pid2>\d+) \((?P<c2>[^)]+)\)"
        ),
        cause="KillMode=process/mixed misuse left workers holding VRAM",
        remedy="KillMode=control-group (default) or mixed; ExecStopPost check",
        versions="any",
        source="systemd; vllm-project/vllm#55510",
        example=(
            "vllm.service: Found left-over process 21950 (VLLM::EngineCor) in control group while starting unit. "
            "Ignoring."
        ),
    ),
    Signature(
        id="sd_limit",
        kind="failure",
        group="crash_loop",
        severity="fatal",
        side="systemd",
        rank="generic",
        ends=True,
        needles=("Start request repeated too quickly",),
        pattern=r"Start request repeated too quickly",
        cause="restart loop hit StartLimit",
        remedy="mend the first failure, then systemctl reset-failed",
        versions="any",
        source="systemd",
        example="vllm.service: Start request repeated too quickly.",
    ),
    Signature(
        id="sd_stopping",
        kind="shutdown",
        group="stopping",
        severity="info",
        side="systemd",
        needles=("Stopping ",),
        pattern=r"^Stopping \S",
        cause=(
            "systemd was told to stop the service: by systemctl stop or restart, by a unit that it is bound to or in "
            "conflict with, or by a shutdown of the host"
        ),
        remedy="systemctl start it, after finding out who stopped it: sudo and ssh write to the journal",
        versions="any",
        source="seen with systemd 252",
        example="Stopping vllm@kimi.service - vLLM server kimi...",
    ),
    Signature(
        id="sd_client",
        kind="shutdown",
        group="stopping",
        severity="info",
        side="systemd",
        needles=(": Sent signal SIG",),
        pattern=r": Sent signal (?P<n>SIG(?:TERM|INT|QUIT|ABRT|KILL)) to \w+ process \d+ .* on client request",
        cause="somebody sent the service a signal by systemctl kill",
        remedy="find out who: sudo and ssh write to the journal",
        versions="any",
        source="seen with systemd 252",
        example="vllm@kimi.service: Sent signal SIGTERM to main process 265 (vllm) on client request.",
    ),
    Signature(
        id="sh_trigger",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=(
            "[shutdown] API server: shutdown triggered",
            "[shutdown] EngineCore: trigger received signal=",
        ),
        pattern=(
            r"\[shutdown\] API server: shutdown triggered|"
            r"\[shutdown\] EngineCore: trigger received signal=(?P<sig>\w+)"
        ),
        cause="the server was asked to stop (SIGTERM or SIGINT)",
        remedy="find who stopped it: systemctl status, the journal around that time",
        versions="0.23-0.33",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example="[shutdown] API server: shutdown triggered",
    ),
    Signature(
        id="sh_begun",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=(
            "Shutdown initiated (timeout=",
            "Shutting down",
        ),
        pattern=r"Shutdown initiated \(timeout=|^INFO:\s+Shutting down$",
        cause="the server was asked to stop (SIGTERM or SIGINT)",
        remedy="find who stopped it: systemctl status, the journal around that time",
        versions="0.18-0.33",
        source="seen with vLLM 0.20.0; uvicorn",
        example="(EngineCore pid=813) INFO 11-30 22:56:32 [core.py:1238] Shutdown initiated (timeout=0)",
    ),
    Signature(
        id="sh_interrupt",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=("KeyboardInterrupt",),
        pattern=r"^KeyboardInterrupt(?:: terminated)?\s*$",
        cause="the server was asked to stop while it started (SIGTERM or SIGINT)",
        remedy="find who stopped it: systemctl status, the journal around that time",
        versions="0.10-0.33",
        source="vLLM entrypoints",
        example="KeyboardInterrupt: terminated",
    ),
    Signature(
        id="sh_drain",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=("[shutdown] EngineCore: ",),
        pattern=(
            r"\[shutdown\] EngineCore: (?:draining in-flight requests|"
            r"aborting in-flight requests) count=(?P<n>\d+)"
        ),
        cause="drain only with --shutdown-timeout > 0 (0.18+)",
        remedy="nothing to mend: it belongs to a stop",
        versions="0.23-0.33",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example="[shutdown] EngineCore: draining in-flight requests count=3 timeout=60s",
    ),
    Signature(
        id="sh_workers",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=("[shutdown] Executor: workers still running after ",),
        pattern=r"\[shutdown\] Executor: workers still running after (?P<w>grace period|SIGTERM)",
        cause="worker ignored the request; SIGTERM then SIGKILL after 4 s",
        remedy="nothing to mend: it belongs to a stop",
        versions="0.23-0.33",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example="[shutdown] Executor: workers still running after grace period; sending SIGTERM count=2",
    ),
    Signature(
        id="sh_parent",
        kind="shutdown",
        group="stopping",
        severity="info",
        needles=("Parent process exited, terminating worker",),
        pattern=r"Parent process exited, terminating worker",
        cause="EngineCore died: workers follow (death pipe). EngineCore itself has no such pipe up to 0.33",
        remedy="nothing to mend: it belongs to a stop",
        versions="0.10.1-0.33",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example="Parent process exited, terminating worker queues",
    ),
    Signature(
        id="sh_uv",
        kind="shutdown",
        group="stopped",
        severity="info",
        needles=(
            "Application shutdown complete.",
            "Finished server process",
        ),
        pattern=r"Application shutdown complete\.|Finished server process",
        cause="uvicorn end",
        remedy="nothing to mend: it belongs to a stop",
        versions="all",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example="INFO:     Application shutdown complete.",
    ),
    Signature(
        id="sh_leak",
        kind="shutdown",
        group="stopped",
        severity="info",
        needles=("resource_tracker: There appear to be ",),
        pattern=r"resource_tracker: There appear to be (?P<n>\d+) leaked (?:shared_memory|semaphore) objects",
        cause="normal noise after a kill",
        remedy="nothing to mend: it belongs to a stop",
        versions="all",
        source="vLLM entrypoints/launchers/launcher.py, v1/engine/core.py, v1/executor/multiproc_executor.py",
        example=(
            "UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown"
        ),
    ),
)

BY_ID = {row.id: row for row in SIGNATURES}


__all__ = ("BY_ID", "SIGNATURES", "Signature")
