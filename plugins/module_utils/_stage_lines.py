# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which log lines say where a starting vLLM server is, from vLLM 0.10 to 0.33.

A new release that words a line differently is a new pattern here and an example, nothing else.
"""

from __future__ import annotations

import typing


class StageLine(typing.NamedTuple):
    """One line of a start. The first line of a stage moves the server into it."""

    id: str
    #: stage (see ``_stages.py``) that is under way once this line is out
    stage: str
    #: texts one of which every match contains: the cheap test before the pattern
    needles: tuple[str, ...]
    pattern: str
    note: str
    versions: str
    source: str
    example: str


STAGE_LINES = (
    StageLine(
        id="tqdm_load",
        stage="weights",
        needles=("% Completed | ",),
        pattern=(
            r"(?P<desc>(?:Loading|Multi-thread loading) [\w .()-]{1,80}):\s*(?P<pct>\d{1,3})% Completed \|"
            r" (?P<n>[\d.]+[kMGTP]?)/(?P<total>[\d.]+[kMGTP]?) \[(?P<elapsed>[\d:]+)<(?P<eta>[\d:?]+), "
            r"+(?P<rate>[^\]]+)\]"
        ),
        note=(
            "optional prefix, CR, text, LF; only rank 0 draws it. It counts files; Runai tensors; InstantTensor "
            "bytes; fastsafetensors groups of as many files as there are ranks. A second pass from 0 to 100 % "
            'follows for the weights of a drafter. The first state of a bar shows "?it/s"'
        ),
        versions="0.10-0.33",
        source="vLLM model_executor/model_loader/weight_utils.py _BAR_FORMAT",
        example="Loading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28:36, 34.34s/it]",
    ),
    StageLine(
        id="prefetch",
        stage="weights",
        needles=("Prefetching checkpoint files: ",),
        pattern=r"Prefetching checkpoint files: (?P<pct>\d+)% \((?P<n>\d+)/(?P<total>\d+)\)",
        note=(
            "background page-cache prefetch on NFS/Lustre or --safetensors-load-strategy=prefetch; each rank "
            "counts its own share"
        ),
        versions="0.20-0.33",
        source="vLLM weight_utils.py",
        example="Prefetching checkpoint files: 30% (3/8)",
    ),
    StageLine(
        id="api_banner",
        stage="config",
        needles=(
            "server version ",
            " version ",
        ),
        pattern=r"vLLM (?:API )?server version (?P<version>\S+)|█ +version (?P<version2>\S+)",
        note=(
            'from 0.16 a four-line logo carries "version X" and "model Y"; VLLM_DISABLE_LOG_LOGO=1 gives "vLLM '
            'server version X, serving model Y"'
        ),
        versions="0.10-0.33",
        source="vLLM entrypoints (api_server.py / common/startup.py)",
        example="vLLM API server version 0.12.0",
    ),
    StageLine(
        id="non_default_args",
        stage="config",
        needles=("non-default args: ",),
        pattern=r"non-default args: (?P<args>\{.*)",
        note="echo of the effective flags: good source for tp size, kv dtype, port",
        versions="0.10-0.33",
        source="vLLM entrypoints/common/startup.py",
        example="non-default args: {'model_tag': 'm', 'port': 5264}",
    ),
    StageLine(
        id="resolved_arch",
        stage="config",
        needles=("Resolved architecture: ",),
        pattern=r"Resolved architecture: (?P<arch>\S+)",
        note="",
        versions="0.10.1-0.33",
        source="vLLM config/model.py",
        example="Resolved architecture: GlmMoeDsaForCausalLM",
    ),
    StageLine(
        id="max_len_line",
        stage="config",
        needles=("Using max model len ",),
        pattern=r"Using max model len (?P<n>\d+)",
        note="",
        versions="0.10-0.33",
        source="vLLM config/model.py",
        example="Using max model len 202752",
    ),
    StageLine(
        id="kv_fp8_notice",
        stage="config",
        needles=("data type to store kv cache",),
        pattern=r"Using (?P<dtype>\S+) data type to store kv cache",
        note=(
            "proof that the KV cache is quantised, printed seconds after start: lets a rule fire before the "
            "weights load"
        ),
        versions="0.10-0.33",
        source="vLLM config/cache.py",
        example="Using fp8 data type to store kv cache. It reduces the GPU memory footprint",
    ),
    StageLine(
        id="engine_init",
        stage="engine",
        needles=("Initializing a V1 LLM engine (v",),
        pattern=r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\) with config:",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/engine/core.py",
        example="Initializing a V1 LLM engine (v0.16.0) with config: model='m'",
    ),
    StageLine(
        id="dp_leader",
        stage="engine",
        needles=("DP group leader: node_rank=",),
        pattern=r"DP group leader: node_rank=(?P<node>\d+)",
        note="",
        versions="0.17-0.33",
        source="vLLM v1/executor/multiproc_executor.py",
        example="DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=127.0.0.1",
    ),
    StageLine(
        id="headless",
        stage="workers",
        needles=("Launching vLLM (v",),
        pattern=r"Launching vLLM \(v[^)]+\) headless multiproc executor, with head node address (?P<addr>\S+)",
        note="secondary nodes print worker lines only; they never open HTTP",
        versions="0.11.1-0.33",
        source="vLLM entrypoints/cli/serve.py",
        example=(
            "Launching vLLM (v0.20.0) headless multiproc executor, with head node address 10.0.0.1:29501 for "
            "torch.distributed process group."
        ),
    ),
    StageLine(
        id="headless_dp",
        stage="engine",
        needles=(" data parallel engine(s) in headless mode",),
        pattern=r"Launching (?P<n>\d+) data parallel engine\(s\) in headless mode",
        note="",
        versions="0.10-0.33",
        source="vLLM entrypoints/cli/serve.py",
        example="Launching 4 data parallel engine(s) in headless mode, with head node address tcp://10.0.0.1:13345.",
    ),
    StageLine(
        id="dp_coordinator",
        stage="engine",
        needles=("Started DP Coordinator process (PID: ",),
        pattern=r"Started DP Coordinator process \(PID: (?P<pid>\d+)\)",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/engine/utils.py",
        example="Started DP Coordinator process (PID: 123)",
    ),
    StageLine(
        id="worker_init",
        stage="workers",
        needles=(" distributed_init_method=",),
        pattern=r"world_size=(?P<world>\d+) rank=(?P<rank>\d+) local_rank=\d+ distributed_init_method=",
        note="",
        versions="0.10-0.33 (INFO from 0.11.1)",
        source="vLLM distributed/parallel_state.py",
        example="world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:45215 backend=nccl",
    ),
    StageLine(
        id="nccl_found",
        stage="nccl",
        needles=("vLLM is using nccl==",),
        pattern=r"vLLM is using nccl==(?P<v>\S+)",
        note=(
            "printed BEFORE ncclCommInitRank: silence after it with GPUs at 100% util, ~140 W and flat memory is "
            "the classic P2P/IOMMU deadlock"
        ),
        versions="0.10-0.33",
        source="vLLM distributed/device_communicators/pynccl.py",
        example="vLLM is using nccl==2.28.9",
    ),
    StageLine(
        id="rank_assigned",
        stage="workers",
        needles=("is assigned as DP rank",),
        pattern=r"rank (?P<rank>\d+) in world size (?P<world>\d+) is assigned as DP rank",
        note="end of communicator set-up",
        versions="0.10-0.33",
        source="vLLM distributed/parallel_state.py",
        example=(
            "rank 0 in world size 8 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank 0, EPLB "
            "rank N/A"
        ),
    ),
    StageLine(
        id="v2_runner",
        stage="workers",
        needles=("Using V2 Model Runner",),
        pattern=r"Using V2 Model Runner",
        note="",
        versions="0.16-0.33",
        source="vLLM v1/worker/gpu_worker.py",
        example="Using V2 Model Runner",
    ),
    StageLine(
        id="model_load_start",
        stage="weights",
        needles=(
            "Starting to load model ",
            "Loading model from scratch...",
        ),
        pattern=r"Starting to load model (?P<model>\S+?)\.\.\.|Loading model from scratch\.\.\.",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py, v1/worker/gpu/model_runner.py",
        example="Starting to load model moonshotai/Kimi-K2.5...",
    ),
    StageLine(
        id="attn_backend",
        stage="weights",
        needles=(
            "attention backend out of potential backends",
            "Using AttentionBackendEnum",
            "backend on V1 engine",
        ),
        pattern=(
            r"Using (?P<backend>[A-Z0-9_]+) attention backend out of potential backends|"
            r"Using AttentionBackendEnum\.(?P<backend2>[A-Z0-9_]+) backend|Using (?P<backend3>Triton MLA|FlashMLA|"
            r"Cutlass MLA|FlashInfer(?: MLA)?|FlashAttention MLA|Flash Attention|Triton) backend on V1 engine"
        ),
        note="",
        versions='three forms: <=0.11.0 "on V1 engine"; 0.11.1+ auto; explicit flag',
        source="vLLM platforms/cuda.py",
        example="Using TRITON_MLA attention backend out of potential backends: ['TRITON_MLA'].",
    ),
    StageLine(
        id="moe_backend",
        stage="weights",
        needles=(" MoE backend",),
        pattern=r"Using '?(?P<backend>[A-Za-z0-9_ ]+?)'? (?:NvFp4|Fp8|WNA16|Mxfp4|MxFp8|Unquantized|Int8) MoE backend",
        note="",
        versions="0.14-0.33",
        source="vLLM layers/fused_moe/oracle/*.py",
        example="Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'MARLIN'].",
    ),
    StageLine(
        id="fs_type",
        stage="weights",
        needles=("Filesystem type for checkpoints: ",),
        pattern=(
            r"Filesystem type for checkpoints: (?P<fs>\S+)\. Checkpoint size: (?P<gib>[\d.]+) GiB\. Available "
            r"RAM: (?P<ram>[\d.]+) GiB"
        ),
        note="gives total bytes to read and whether the page cache can hold them",
        versions="0.20-0.33",
        source="vLLM model_loader/weight_utils.py",
        example="Filesystem type for checkpoints: EXT4. Checkpoint size: 552.10 GiB. Available RAM: 980.20 GiB.",
    ),
    StageLine(
        id="model_built",
        stage="weights",
        needles=("Initializing model took ",),
        pattern=r"Initializing model took (?P<s>[\d.]+) seconds",
        note="the parameters have their place in memory, nothing of the checkpoint is read yet",
        versions="in 0.32, not yet in 0.20",
        source="vLLM model_loader/base_loader.py",
        example="Initializing model took 0.823615 seconds",
    ),
    StageLine(
        id="bnb_load",
        stage="weights",
        needles=("Loading weights with BitsAndBytes quantization",),
        pattern=r"Loading weights with BitsAndBytes quantization",
        note="quantises while it reads; the usual bar follows",
        versions="0.10 on, gone in 0.32",
        source="vLLM model_loader/bitsandbytes_loader.py",
        example="Loading weights with BitsAndBytes quantization. May take a while ...",
    ),
    StageLine(
        id="tensorizer_done",
        stage="repack",
        needles=("Deserialized ",),
        pattern=r"Deserialized (?P<size>[\d.]+ ?\w+) in (?P<s>[\d.]+)s, ",
        note="tensorizer has no bar",
        versions="read in 0.32",
        source="vLLM model_loader/tensorizer.py",
        example="Deserialized 14.2 GB in 6.12s, 2.3 GB/s",
    ),
    StageLine(
        id="weights_loaded",
        stage="repack",
        needles=("Loading weights took ",),
        pattern=r"Loading weights took (?P<s>[\d.]+) seconds",
        note=(
            "info_once, first local rank only from 0.11.1; printed once more for a draft model. Post-processing "
            "(Marlin repack, NVFP4 swizzle) follows and is silent"
        ),
        versions="0.10-0.33",
        source="vLLM model_loader/default_loader.py",
        example="Loading weights took 67.26 seconds",
    ),
    StageLine(
        id="drafter",
        stage="weights",
        needles=("Loading drafter model...",),
        pattern=r"Loading drafter model\.\.\.",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example="Loading drafter model...",
    ),
    StageLine(
        id="model_loaded",
        stage="compile",
        needles=("Model loading took ",),
        pattern=r"Model loading took (?P<gib>[\d.]+) GiB(?: memory)? and (?P<s>[\d.]+) seconds",
        note='"GiB and" to 0.11.0 and in the V2 runner; "GiB memory and" from 0.11.1',
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example="Model loading took 56.62 GiB memory and 109.207956 seconds",
    ),
    StageLine(
        id="encoder_cache",
        stage="compile",
        needles=("Encoder cache will be initialized with a budget of ",),
        pattern=r"Encoder cache will be initialized with a budget of (?P<tok>[\d,]+) tokens",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example=(
            "Encoder cache will be initialized with a budget of 4096 tokens, and profiled with 1 image items of "
            "the maximum feature size."
        ),
    ),
    StageLine(
        id="compile_start",
        stage="compile",
        needles=(
            "Starting torch.compile",
            "Using cache directory: ",
        ),
        pattern=r"Starting torch\.compile|Using cache directory: (?P<dir>\S+) for vLLM.s torch\.compile",
        note="",
        versions='cache line 0.10-0.33; "Starting torch.compile" 0.32+',
        source="vLLM compilation/backends.py, monitor.py",
        example=(
            "Using cache directory: /root/.cache/vllm/torch_compile_cache/a/rank_0_0/backbone for vLLM's torch.compile"
        ),
    ),
    StageLine(
        id="dynamo",
        stage="compile",
        needles=("Dynamo bytecode transform time: ",),
        pattern=r"Dynamo bytecode transform time: (?P<s>[\d.]+) s",
        note="",
        versions="0.10-0.33",
        source="vLLM compilation/backends.py",
        example="Dynamo bytecode transform time: 11.97 s",
    ),
    StageLine(
        id="inductor",
        stage="compile",
        needles=(
            "Cache the graph ",
            "Compiling a graph for ",
            "Directly load ",
        ),
        pattern=(
            r"Compiling a graph for (?:compile range (?P<range>\(\d+, \d+\))|dynamic shape|general shape|"
            r"shape \S+) takes (?P<s>[\d.]+) s|Cache the graph (?:of compile range|for)|"
            r"Directly load (?:the compiled graph|the \d+-th graph|AOT compilation)"
        ),
        note="",
        versions='"dynamic/general shape" to 0.12, "compile range" from 0.13',
        source="vLLM compilation/backends.py, decorators.py",
        example="Compiling a graph for compile range (1, 8192) takes 15.97 s",
    ),
    StageLine(
        id="compile_done",
        stage="compile",
        needles=("torch.compile t",),
        pattern=r"torch\.compile (?:takes|took) (?P<s>[\d.]+) s in total",
        note="",
        versions='"takes" to 0.17, "took" from 0.18',
        source="vLLM compilation/monitor.py",
        example="torch.compile took 45.24 s in total",
    ),
    StageLine(
        id="profile_done",
        stage="kv_cache",
        needles=("Initial profiling/warmup run took ",),
        pattern=r"Initial profiling/warmup run took (?P<s>[\d.]+) s",
        note="",
        versions="0.18-0.33",
        source="vLLM compilation/monitor.py",
        example="Initial profiling/warmup run took 14.04 s",
    ),
    StageLine(
        id="cg_profile",
        stage="kv_cache",
        needles=("CUDA graph memory:",),
        pattern=r"Profiling CUDA graph memory:|Estimated CUDA graph memory: (?P<gib>[\d.]+) GiB",
        note="",
        versions="0.18-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example="Estimated CUDA graph memory: 6.04 GiB total",
    ),
    StageLine(
        id="kv_available",
        stage="kv_cache",
        needles=("Available KV cache memory: ",),
        pattern=r"Available KV cache memory: (?P<gib>-?[\d.]+) GiB",
        note='negative value precedes the "No available memory" error',
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_worker.py",
        example="Available KV cache memory: 18.51 GiB",
    ),
    StageLine(
        id="kv_size",
        stage="kv_cache",
        needles=(" KV cache size: ",),
        pattern=r"(?:GPU|CPU|[A-Z]+(?: \+ host)?) KV cache size: (?P<tok>[\d,]+) tokens",
        note="",
        versions="0.10-0.33; from 0.30 one line with the next",
        source="vLLM v1/core/kv_cache_utils.py",
        example="GPU KV cache size: 319,232 tokens",
    ),
    StageLine(
        id="kv_conc",
        stage="kv_cache",
        needles=("Maximum concurrency for ",),
        pattern=r"Maximum concurrency for (?P<len>[\d,]+) tokens per request: (?P<x>[\d.]+)x",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/core/kv_cache_utils.py",
        example="Maximum concurrency for 202,752 tokens per request: 1.57x",
    ),
    StageLine(
        id="deepgemm",
        stage="warmup",
        needles=("DeepGEMM warmup",),
        pattern=r"DeepGEMM warmup",
        note="not used on SM120",
        versions="0.14-0.33 (bar)",
        source="vLLM model_executor/warmup/deep_gemm_warmup.py",
        example="DeepGEMM warmup:   3%|▎         | 120/4096 [00:10<05:31, 12.00it/s]",
    ),
    StageLine(
        id="jit_warmup",
        stage="warmup",
        needles=("JIT kernel warmup ",),
        pattern=r"JIT kernel warmup (?:starting|finished in (?P<s>[\d.]+)s)|JIT kernel warmup \(\d+ compile keys\)",
        note="",
        versions="0.29-0.33",
        source="vLLM model_executor/warmup/kernel_warmup.py",
        example="JIT kernel warmup finished in 41.10s.",
    ),
    StageLine(
        id="fi_autotune",
        stage="warmup",
        needles=(
            "FlashInfer autotune",
            "[Autotuner]: Autotuning process",
            "Autotuning FlashInfer SM120",
        ),
        pattern=(
            r"Running FlashInfer autotune with|\[Autotuner\]: Autotuning process (?:starts|ends)|"
            r"Skipping FlashInfer autotune|Autotuning FlashInfer SM120"
        ),
        note=(
            'flashinfer format: "<asctime> - INFO - autotuner.py:256 - flashinfer.jit: ...", its own '
            "StreamHandler (stderr), no vLLM prefix"
        ),
        versions='"Running" 0.29+; flashinfer own lines 0.6+',
        source="vLLM model_executor/warmup/kernel_warmup.py, flashinfer/autotuner",
        example="[Autotuner]: Autotuning process starts ...",
    ),
    StageLine(
        id="cutedsl",
        stage="warmup",
        needles=(
            "Compiling",
            "Warming up",
        ),
        pattern=r"(?:Warming up|Compiling) CuTeDSL",
        note="",
        versions="0.26-0.33",
        source="vLLM model_executor/warmup/cutedsl_warmup.py",
        example="Compiling CuTeDSL kernels:  10%|█         | 4/40 [00:20<03:00,  5.00s/it]",
    ),
    StageLine(
        id="cg_capture",
        stage="cuda_graphs",
        needles=("Capturing CUDA graph",),
        pattern=r"Capturing CUDA graph(?:s| shapes)",
        note="",
        versions='"graph shapes" 0.10.0-0.10.1; "graphs (mode, TYPE)" 0.10.2+',
        source="vLLM v1/worker/gpu_model_runner.py",
        example="Capturing CUDA graphs (decode, FULL): 100%|██████████| 19/19 [00:05<00:00,  3.52it/s]",
    ),
    StageLine(
        id="cg_done",
        stage="cuda_graphs",
        needles=("Graph capturing finished in ",),
        pattern=r"Graph capturing finished in (?P<s>[\d.]+) secs, took (?P<gib>-?[\d.]+) GiB",
        note="",
        versions="0.10-0.33",
        source="vLLM v1/worker/gpu_model_runner.py",
        example="Graph capturing finished in 41 secs, took 2.39 GiB",
    ),
    StageLine(
        id="jit_monitor",
        stage="cuda_graphs",
        needles=("JIT monitor activated",),
        pattern=r"JIT monitor activated",
        note="",
        versions="0.21-0.33",
        source="vLLM v1/worker/gpu_worker.py, utils/jit_monitor.py",
        example="Kernel JIT monitor activated — Triton JIT compilations during inference will be logged as warnings.",
    ),
    StageLine(
        id="engine_ready",
        stage="http",
        needles=("init engine (profile, create kv cache, warmup model) took ",),
        pattern=(
            r"init engine \(profile, create kv cache, warmup model\) took (?P<s>[\d.]+) s(?:econds)?(?: "
            r"\(compilation: (?P<c>[\d.]+) s)?"
        ),
        note="",
        versions='"seconds" to 0.19, "s (compilation: ..)" from 0.20',
        source="vLLM v1/engine/core.py",
        example="init engine (profile, create kv cache, warmup model) took 234.64 s (compilation: 56.37 s)",
    ),
    StageLine(
        id="supported_tasks",
        stage="http",
        needles=(
            "Supported tasks: ",
            "Supported_tasks: ",
        ),
        pattern=r"Supported[ _]tasks: (?P<tasks>.*)",
        note="",
        versions="0.10-0.33",
        source="vLLM entrypoints",
        example="Supported tasks: ['generate']",
    ),
    StageLine(
        id="mm_warmup",
        stage="http",
        needles=("ulti-modal warmup completed in ",),
        pattern=r"(?:Readonly )?[Mm]ulti-modal warmup completed in (?P<s>[\d.]+)s",
        note="Kimi-K2.5 vision pays this after the engine is ready",
        versions="0.18-0.33",
        source="vLLM renderers/base.py",
        example="Multi-modal warmup completed in 11.996s",
    ),
    StageLine(
        id="server_starting",
        stage="http",
        needles=("Starting vLLM ",),
        pattern=r"Starting vLLM (?:API )?server(?: \d+)? on (?P<url>\S+)",
        note="port not open yet",
        versions='"API server N on" to 0.17; "server on" from 0.18',
        source="vLLM entrypoints",
        example="Starting vLLM server on http://0.0.0.0:5264",
    ),
    StageLine(
        id="uv_wait",
        stage="http",
        needles=("Waiting for application startup.",),
        pattern=r"Waiting for application startup\.",
        note="",
        versions="all",
        source="vLLM uvicorn/lifespan/on.py",
        example="INFO:     Waiting for application startup.",
    ),
    StageLine(
        id="ready",
        stage="http",
        needles=("Application startup complete.",),
        pattern=r"Application startup complete\.",
        note=(
            'the listening socket is opened milliseconds AFTER this line. "Uvicorn running on" is NOT printed by '
            "vllm serve (sockets are passed in); only the DP supervisor prints it"
        ),
        versions="all",
        source="vLLM uvicorn/lifespan/on.py",
        example="INFO:     Application startup complete.",
    ),
    StageLine(
        id="dp_supervisor",
        stage="http",
        needles=("Started DPSupervisor on ",),
        pattern=r"Started DPSupervisor on (?P<addr>\S+)",
        note="--data-parallel-multi-port-external-lb only: /health,/ready,/readyz open after every child is ready",
        versions="0.22-0.33",
        source="vLLM entrypoints/launchers/dp_supervisor.py",
        example="Started DPSupervisor on 0.0.0.0:8008",
    ),
)


__all__ = ("STAGE_LINES", "StageLine")
