"""Shapes of start-up logs met in public threads, in our own numbers: what was misread once stays read."""

import pytest

from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.observing.start_logs import StartLog, read_start_log
from infopt.profiles.resolve import resolve_model
from infopt.reports.start_log_report import start_log_lines
from infopt.studies.scenarios import Request
from infopt.studies.start_log import StartLogPage, start_log_page

GIB = 2**30
OLD_VLLM = (
    "INFO 03-04 10:00:00 llm_engine.py:73] Initializing an LLM engine with config: {model}, tokenizer='t', "
    "dtype=torch.bfloat16, max_seq_len=12288, tensor_parallel_size=2, quantization=None, seed=0)\n"
    "INFO 03-04 10:00:09 llm_engine.py:223] # GPU blocks: 4321, # CPU blocks: 2048\n"
)
DRAFT = """\
llama_model_loader: loaded meta data with 33 key-value pairs and 771 tensors from big.gguf (version GGUF V3 (latest))
load_tensors:        CUDA0 model buffer size = 18000.00 MiB
llama_context: n_ctx         = 16384
llama_kv_cache:      CUDA0 KV buffer size =  4096.00 MiB
llama_context:      CUDA0 compute buffer size =   310.00 MiB
srv    load_model: loading draft model 'small.gguf'
llama_model_loader: loaded meta data with 33 key-value pairs and 290 tensors from small.gguf (version GGUF V3 (latest))
load_tensors:        CUDA0 model buffer size =   500.00 MiB
llama_context: n_ctx         = 8192
llama_kv_cache:      CUDA0 KV buffer size =    96.00 MiB
llama_context:      CUDA0 compute buffer size =   298.00 MiB
main: server is listening on http://127.0.0.1:8080 - starting the main loop
"""
OLLAMA = """\
time=2026-03-04T10:00:00Z level=INFO source=server.go:444 msg="starting runner" cmd="ollama runner \
--ollama-engine --port 1"
time=2026-03-04T10:00:01Z level=INFO source=server.go:444 msg="starting runner" cmd="ollama runner --ollama-engine \
--model /blobs/sha256-0a --port 2"
time=2026-03-04T10:00:02Z level=INFO source=runner.go:1284 msg=load request="{Operation:commit LoraPath:[] Parallel:2 \
BatchSize:512 FlashAttention:Enabled KvSize:8192 KvCacheType: NumThreads:4 GPULayers:[] MultiUserCache:false}"
time=2026-03-04T10:00:02Z level=INFO source=device.go:240 msg="model weights" device=CUDA0 size="4.5 GiB"
time=2026-03-04T10:00:02Z level=INFO source=device.go:245 msg="model weights" device=CPU size="308.0 MiB"
time=2026-03-04T10:00:02Z level=INFO source=device.go:251 msg="kv cache" device=CUDA0 size="1.0 GiB"
time=2026-03-04T10:00:02Z level=INFO source=device.go:262 msg="compute graph" device=CUDA0 size="300.0 MiB"
time=2026-03-04T10:00:03Z level=INFO source=device.go:272 msg="total memory" size="6.1 GiB"
"""
RUNS = 'time=2026-03-04T10:00:04Z level=INFO source=server.go:1388 msg="llama runner started in 3.10 seconds"\n'
FAILED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900.00 MiB on device 0: cudaMalloc failed: out of memory\n"
)


def read(text: str) -> StartLog:
    return read_start_log(text, "here")


def beside(text: str, model: str, hardware: str | None = None) -> StartLogPage:
    return start_log_page(read(text), resolve_model(model), resolve_hardware(hardware) if hardware else None, Request())


@pytest.mark.parametrize(
    ("model", "name"), [("model='org/m'", "org/m"), ("model=PosixPath('/runs/m')", "/runs/m"), ('model="m"', "m")]
)
def test_the_configuration_of_an_engine_without_a_version_is_read(model: str, name: str) -> None:
    log = read(OLD_VLLM.format(model=model))
    assert (log.model, log.tp, log.context_tokens, log.dtype) == (name, 2, 12288, "bf16")
    assert log.quantization is None
    assert "4,321" in start_log_lines(start_log_page(log, None, None))


def test_a_bare_value_ends_where_the_next_option_begins() -> None:
    """`config: model=` once was an option `config` with the value `model=`."""
    log = read("a V1 LLM engine (v0.19.0) with config: model='org/m', structured=Config(backend='auto'), dtype=half)")
    assert (log.model, log.dtype) == ("org/m", "fp16")


def test_a_profile_on_one_line() -> None:
    log = read(
        "Memory profiling results: total_gpu_memory=31.25GiB initial_memory_usage=9.10GiB peak_torch_memory=10.40GiB "
        "memory_usage_post_profile=9.12GiB non_torch_memory=0.42GiB kv_cache_size=17.30GiB gpu_memory_utilization=0.90"
    )
    assert log.kv_pool_bytes == pytest.approx(17.30 * GIB)
    assert log.worst("total_bytes") == pytest.approx(31.25 * GIB)
    assert log.worst("non_torch_bytes") == pytest.approx(0.42 * GIB)
    assert log.utilization_share == 0.9


@pytest.mark.parametrize(
    "line",
    [
        "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.7700 "
        "is equivalent to --gpu-memory-utilization=0.7601 without CUDA graph memory profiling.",
        "In v0.19, CUDA graph memory profiling will be enabled by default. To try it now, increase "
        "--gpu-memory-utilization from 0.7700 to 0.7811 to maintain the same effective KV cache size.",
        "The current --gpu-memory-utilization=0.7700 is equivalent to --gpu-memory-utilization=0.7601 without CUDA "
        "graph memory profiling. To maintain the same effective KV cache size as before, increase it.",
    ],
)
def test_the_utilization_a_remark_repeats(line: str) -> None:
    assert read(line).utilization_share == 0.77


def test_a_pool_in_bytes() -> None:
    log = read(
        "Free memory on device (43.90/44.40 GiB) on startup. Desired GPU memory utilization is (0.9, 39.96 GiB). "
        "Actual usage is 20.5 GiB for weight, 1.4 GiB for peak activation, 0.2 GiB for non-torch memory, and 1 GiB for "
        "CUDAGraph memory. Current kv cache memory in use is 19112604467 bytes."
    )
    assert log.kv_pool_bytes == 19112604467


def test_weights_of_any_format_are_read() -> None:
    log = read(
        "Load weight end. elapsed=4.10 s, type=M, quant=fp8, fmt=e4m3, other=1, avail mem=70.1 GB, mem usage=7.25 GB."
    )
    assert log.worst("weights_bytes") == 7.25 * GIB


SWA = "[2026-03-04 10:00:00 TP0] SWAKVPool mem usage: 30.00 GB, swa size: 80000, full size: 100000\n"
SUB_POOL = "[2026-03-04 10:00:00 TP0] KV Cache is allocated. #tokens: 80000, K size: 12.00 GB, V size: 12.00 GB\n"


def test_a_total_of_pools_counts_where_the_pools_are_not_printed() -> None:
    assert (read(SWA).kv_pool_bytes, read(SWA).kv_pool_tokens) == (30 * GIB, 100000)
    both = read(SUB_POOL + SUB_POOL.replace("12.00", "3.00") + SWA)
    assert (both.kv_pool_bytes, both.kv_pool_tokens) == (30 * GIB, 100000)
    assert both.ranks[0].kv_pool_figures == 2


def test_state_beside_keys_and_values_is_of_the_pool() -> None:
    state = "Mamba Cache is allocated. max_mamba_cache_size: 90, conv_state size: 0.10GB, ssm_state size: 3.40GB"
    ranked = "[2026-03-04 10:00:00 TP0] " + state
    assert read(SUB_POOL + ranked).kv_pool_bytes == pytest.approx(27.5 * GIB)
    steps = ", intermediate_ssm_state_cache size: 1.00GB, intermediate_conv_window_cache size: 0.25GB"
    assert read(SUB_POOL + ranked + steps).kv_pool_bytes == pytest.approx(28.75 * GIB)


def test_the_pool_that_serves_is_the_last() -> None:
    """The PyTorch backend profiles with a small one."""
    log = read(
        "Max KV cache blocks per sequence: 9 [window size=288], tokens per block=32, primary blocks=300\n"
        "[MemUsageChange] Allocated 0.50 GiB for max tokens in paged KV cache (9600).\n"
        "Peak memory during memory usage profiling (torch + non-torch): 40.10 GiB, available KV cache memory when "
        "calculating max tokens: 32.00 GiB, fraction is set 0.8999999761581421, kv size is 131072. "
        "device total memory 79.19 GiB\n"
        "Max KV cache blocks per sequence: 9 [window size=288], tokens per block=32, primary blocks=8192\n"
        "[MemUsageChange] Allocated 32.00 GiB for max tokens in paged KV cache (262144).\n"
    )
    assert (log.kv_pool_tokens, log.kv_blocks, log.kv_pool_bytes) == (262144, 8192, 32 * GIB)
    assert log.utilization_share == pytest.approx(0.9)
    assert log.worst("total_bytes") == pytest.approx(79.19 * GIB)


def test_buffers_say_their_unit() -> None:
    log = read(
        "[MemUsageChange] Allocated 512.00 MiB for execution context memory.\n"
        "[MemUsageChange] Allocated 1.25 GB GPU memory for runtime buffers.\n"
        "[MemUsageChange] Allocated 256.00 KB GPU memory for decoder.\n"
    )
    assert log.worst("activation_bytes") == 1.75 * GIB + 256 * 1024


def test_tokens_and_bytes_of_an_older_runtime() -> None:
    log = read("[TensorRT-LLM][INFO] Max tokens in paged KV cache: 65536. Allocating 30064771072 bytes.")
    assert (log.kv_pool_tokens, log.kv_pool_bytes) == (65536, 28 * GIB)


def test_buffers_of_other_machines_are_devices() -> None:
    log = read(
        "load_tensors: RPC[10.0.0.7:50052] model buffer size = 9000.00 MiB\n"
        "load_tensors:   CPU_Mapped model buffer size =   400.00 MiB\n"
        "llama_kv_cache_unified: RPC[10.0.0.7:50052] KV buffer size =   512.00 MiB\n"
        "llama_context: RPC[10.0.0.7:50052] compute buffer size =   300.00 MiB\n"
    )
    assert [(rank.rank, rank.host) for rank in log.ranks] == [("RPC[10.0.0.7:50052]", False), ("CPU_Mapped", True)]
    assert log.kv_pool_bytes == 0.5 * GIB


def test_a_draft_model_is_not_the_model() -> None:
    log = read(DRAFT)
    assert (log.starts, log.started, log.model, log.context_tokens) == (1, True, "big.gguf", 16384)
    assert log.kv_pool_bytes == 4 * GIB
    assert log.worst("weights_bytes") == 18000 * 2**20
    assert log.worst("activation_bytes") == 310 * 2**20
    assert any("draft" in note for note in log.notes)
    again = read(DRAFT + DRAFT.replace("4096.00", "2048.00"))
    assert (again.starts, again.kv_pool_bytes) == (2, 2 * GIB)


def test_buffers_of_an_image_tower_add_to_the_models() -> None:
    lines = "sched_reserve:      CUDA0 compute buffer size =   301.00 MiB\n"
    tower = "alloc_compute_meta:      CUDA0 compute buffer size =   211.00 MiB\n"
    assert read(lines + tower).worst("activation_bytes") == 512 * 2**20


@pytest.mark.parametrize(
    "line",
    [
        "llama_kv_cache_init: kv_size = 8192, offload = 1, type_k = 'q8_0', type_v = 'q8_0', n_layer = 32",
        "llama_kv_cache: size =  544.00 MiB (  8192 cells,  32 layers,  1/1 seqs), K (q8_0):  272.00 MiB",
    ],
)
def test_cells_say_the_context(line: str) -> None:
    log = read(line)
    assert (log.context_tokens, log.kv_pool_tokens, log.kv_format) == (8192, 8192, "q8_0")


def test_an_engine_of_ollama_is_read() -> None:
    log = read(OLLAMA + RUNS)
    assert (log.engine, log.started, log.model) == ("llama.cpp", True, "/blobs/sha256-0a")
    assert (log.context_tokens, log.max_num_seqs, log.max_num_batched_tokens) == (8192, 2, 512)
    assert log.worst("weights_bytes") == 4.5 * GIB
    assert log.kv_pool_bytes == GIB
    assert [rank.host for rank in log.ranks] == [False, True]


def test_exact_buffers_go_before_rounded_ones() -> None:
    """Where Ollama runs llama.cpp, both print."""
    log = read(OLLAMA + "load_tensors:        CUDA0 model buffer size =  4403.50 MiB\n" + RUNS)
    assert sum(rank.weights_bytes or 0.0 for rank in log.ranks) == 4403.5 * 2**20
    assert log.kv_pool_bytes == GIB


def test_what_failed_before_a_start_that_came_is_no_refusal() -> None:
    """Ollama tries with fewer layers on the device."""
    assert read(OLLAMA + FAILED).refusal is not None
    log = read(OLLAMA + FAILED + RUNS)
    assert (log.refusal, log.started) == (None, True)
    assert any("cudaMalloc" in note for note in log.notes)


def test_a_cache_of_an_unknown_context_is_not_compared() -> None:
    buffers = "load_tensors: CUDA0 model buffer size = 4403.50 MiB\nllama_kv_cache: CUDA0 KV buffer size = 512.00 MiB\n"
    unknown = beside(buffers, "llama-3.1-8b:q4_k_m", "rtx-3090")
    assert "KV cache" not in [row.name for row in unknown.rows]
    assert any("--ctx" in note for note in unknown.notes)
    known = beside(buffers + "llama_context: n_ctx         = 4096\n", "llama-3.1-8b:q4_k_m", "rtx-3090")
    assert "KV cache" in [row.name for row in known.rows]


def test_a_share_that_is_too_small_says_the_least() -> None:
    log = read(
        "Load weight end. quant=fp8, fmt=e4m3, avail mem=11.50 GB, mem usage=120.25 GB.\n"
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.85. Raise "
        "--mem-fraction-static above 0.914 (minimum viable = 1 - available/pre = 0.9131).\n"
    )
    assert log.worst("weights_bytes") == 120.25 * GIB
    assert log.refusal is not None
    assert (log.refusal.kind, log.refusal.utilization_share, log.refusal.least_share) == ("no_kv", 0.85, 0.914)


def test_a_refusal_on_a_line_of_its_own() -> None:
    wrapped = (
        "To serve at least one request with the models's max seq len (32768),\n(4.50 GiB KV cache is needed, which is "
    )
    log = read(wrapped + "larger than the available KV cache memory (3.25 GiB).\n")
    assert log.refusal is not None
    assert (log.refusal.kind, log.refusal.needed_bytes) == ("kv_too_small", 4.5 * GIB)
    assert log.context_tokens == 32768


def test_what_any_engine_prints_names_none() -> None:
    """Memory that ran out in torch once was llama.cpp's, the first of the alphabet."""
    torch_ends = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB."
    with pytest.raises(InfoptError, match="none of the lines known was found"):
        read(torch_ends)
    log = read("INFO model_runner.py:1115] Loading model weights took 8.1250 GB\n" + torch_ends)
    assert log.engine == "vllm"
    assert log.refusal is not None
    assert log.refusal.tried_bytes == 0.5 * GIB


def test_room_that_is_left_is_no_reason_to_refuse() -> None:
    """Buffers of exact size: what one could not get is held against all that is free."""
    text = (
        "llama_context: n_ctx         = 8192\nllama_kv_cache:    Vulkan0 KV buffer size =  1024.00 MiB\n"
        "ggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size 4757131264\n"
    )
    found = beside(text, "llama-3.1-8b:q8_0", "rtx-3090").verdict
    assert found is not None
    assert found.predicted is False
