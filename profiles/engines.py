"""Engines: how each divides the memory of a device, with the versions its constants hold for.

One folder per engine, one record per version range, named after the first version it holds for. An engine that treats
a processor's memory by rules of its own has a second folder for that.
"""

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from infopt.errors import InfoptError, unknown_name
from infopt.records import Record, load_record, names_in, read_yaml

ENGINES = Path(__file__).parent / "data" / "engines"
ON_PROCESSORS = Path(__file__).parent / "data" / "engines_on_processors"
# The decoder of `infopt probe`: planned like an engine, so that what was measured can be met; it serves nobody. Its
# steps stand in for an engine that was not measured on a device.
PROBE_ENGINE = "torch"

Budget = Literal["share_of_total", "static_share", "share_after_load", "exact"]


# Of a version: numbers of 18 digits at most, none behind them.
_NUMBERS = re.compile(r"[0-9]{1,18}(?![0-9])(?:\.[0-9]{1,18}(?![0-9]))*+(?!\.?[0-9])")


class Span(Record):
    """A constant with its interval: what was seen, or how far an assumption may be off."""

    value: float
    low: float
    high: float
    kind: Literal["measured", "assumed", "source_code"]
    source: str


class ByParallelism(Record):
    """A constant that jumps when collectives are set up: one device, or several."""

    single: Span
    parallel: Span

    def at(self, world: int) -> Span:
        return self.single if world == 1 else self.parallel


class DeviceDefault(Record):
    """A default that depends on the device: the first row counts whose floor is reached and that leaves it not out.

    not_devices  beginnings of accelerator ids that do not count
    """

    min_device_gib: float
    not_devices: list[str] = Field([])
    value: int


class EngineConstants(Record):
    """Memory behaviour of one engine over a range of versions.

    budget                share_of_total: utilization x total holds everything but the CUDA context (vLLM);
                          static_share: holds weights and KV only (SGLang); share_after_load: of what is free
                          once weights are loaded (TensorRT-LLM); exact: buffers are allocated to size (llama.cpp)
    logits_copies         peak float32 copies of (max_num_seqs x vocab) logits in the warm-up
    layer_streams         hidden-size activations alive beside the 3 x intermediate of a feed-forward
    activation_base_bytes what is left of the activation peak
    expert_workspace      factor on the workspace of grouped expert products; formats in no_expert_workspace
                          run kernels that need none
    unchunked_profile     warm-up runs max_model_len tokens at once (engines without chunked prefill)
    expert_padding        [hidden, intermediate] multiples to which expert matrices of a weight format are padded
    windows               grouped: layers in groups over one pool of equal pages, windows capped; full: every
                          token of every layer is kept; cells: a fixed ring per window
    state_pages           pages a sequence holds per recurrent layer by default: 1, or 2 where states are kept
                          for prefix reuse; each drafted token adds one
    experts_over_dp       experts are split over tp x dp even without expert parallelism
    margin_bytes          memory the engine leaves free by itself
    token_line            what the engine prints as its KV size: blocks (blocks // groups x block) or
                          requests (concurrency x max_model_len)
    block_multiple_tokens a block must be a multiple of this many tokens, or the engine refuses to start
    limits_per_rank       the default limits of sequences and tokens are of each rank: tp x pp times as many in all
    preempts              a sequence whose block is missing evicts the last to run, which computes all anew later
    takes_all_memory      utilization multiplies all memory of a device, whatever part of it is usable (a processor's)
    """

    engine: str
    until: str | None = None
    known: bool
    budget: Budget
    utilization: float
    utilization_meaning: str
    graphs_in_budget: bool
    block_tokens: int
    block_align_tokens: int = 16
    windows: Literal["grouped", "full", "cells"]
    state_pages: int = 1
    experts_over_dp: bool = False
    margin_bytes: float = 0.0
    chunked_as_full: bool = True
    null_block: bool = False
    token_line: Literal["blocks", "requests"] = "blocks"
    block_multiple_tokens: int = 1
    limits_per_rank: bool = False
    preempts: bool = False
    takes_all_memory: bool = False
    logits_copies: Span
    layer_streams: Span
    activation_base_bytes: Span
    expert_workspace: Span
    no_expert_workspace: list[str] = Field([])
    unchunked_profile: bool = False
    non_torch_bytes: ByParallelism
    context_bytes: ByParallelism
    graph_bytes: Span
    warmup_copies: float = 1.0
    expert_padding: dict[str, list[int]] = Field({})
    max_num_seqs: list[DeviceDefault]
    max_num_batched_tokens: list[DeviceDefault]
    source: str


def version_key(text: str) -> tuple[int, ...]:
    """Comparable form of "0.19.1" or "b4701"; anything without digits is an error.

    >>> version_key("0.9") < version_key("0.19.1")
    True
    """
    found = _NUMBERS.match(text.lstrip("vVb"))
    if found is None:
        raise InfoptError(f"engine version {text[:60]!r} is not a version; write it like 0.19.1")
    return tuple(int(part) for part in found[0].split("."))


def in_versions(version: str, since: str | None, until: str | None) -> bool:
    """Whether a version lies from `since` on and before `until`; None leaves that end open.

    >>> in_versions("0.19.1", "0.9", None), in_versions("0.19.1", None, "0.19")
    (True, False)
    """
    key = version_key(version)
    return (since is None or key >= version_key(since)) and (until is None or key < version_key(until))


@cache
def engine_names() -> tuple[str, ...]:
    """Engines that serve."""
    return tuple(sorted(entry.name for entry in ENGINES.iterdir() if entry.is_dir() and entry.name != PROBE_ENGINE))


_SPELLINGS = {
    "trt": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "trt-llm": "tensorrt-llm",
    "llamacpp": "llama.cpp",
    "llama-cpp": "llama.cpp",
}


def engine_name(text: str) -> str:
    """Canonical engine name for a spelling such as `trtllm` or `llama-cpp`."""
    name = text.strip().lower()
    name = _SPELLINGS.get(name, name)
    known = (*engine_names(), PROBE_ENGINE)
    if name not in known:
        raise unknown_name("engine", text, known, f"choose one of {', '.join(known)}")
    return name


def need_server(engine: str) -> None:
    """Refuse the decoder of `infopt probe` where an engine that serves is needed."""
    if engine == PROBE_ENGINE:
        raise InfoptError(
            f"engine {engine} is the decoder of `infopt probe`, which serves nobody: plan with it, "
            f"here name {', '.join(engine_names())}"
        )


@cache
def _newest_known() -> dict[str, str]:
    """The newest version range with measured constants, by engine."""
    newest: dict[str, str] = read_yaml(ENGINES / "newest_known.yaml")
    return newest


def load_engine(text: str, version: str | None = None) -> tuple[EngineConstants, str]:
    """Constants of an engine at a version, and the version used.

    Without a version: the newest range whose constants are known from measurements.
    """
    name = engine_name(text)
    folder = ENGINES / name
    if version is None:
        since = _newest_known()[name]
        record = load_record(EngineConstants, folder, since, "engine version", "give --engine-version")
        return record, record.until or since
    ranges = sorted(names_in(folder), key=version_key)
    wanted = version_key(version)
    older = [since for since in ranges if version_key(since) <= wanted[: len(version_key(since))]]
    if not older:
        raise InfoptError(f"{name} {version} is older than the oldest version with a record ({ranges[0]})")
    return load_record(EngineConstants, folder, older[-1], "engine version", "give --engine-version"), version


def load_engine_on_processor(text: str, version: str | None = None) -> tuple[EngineConstants, str] | None:
    """Constants of an engine on a processor and the version used; None where it has no rules of its own there.

    A version older than the first whose rules were read gets those, as not known.
    """
    name = engine_name(text)
    folder = ON_PROCESSORS / name
    if not folder.is_dir():
        return None
    ranges = sorted(names_in(folder), key=version_key)
    since = [one for one in ranges if in_versions(version or ranges[-1], one, None)] or ranges[:1]
    record = load_record(EngineConstants, folder, since[-1], "engine version", "give --engine-version")
    if version is None:
        return record, record.until or since[-1]
    if not in_versions(version, since[-1], record.until):
        record = record.model_copy(update={"known": False})
    return record, version


def device_default(rows: list[DeviceDefault], device_gib: float, device_id: str) -> int:
    """The default of the first row whose floor the device reaches and that takes it (rows from large to small)."""
    for row in rows:
        if device_gib >= row.min_device_gib and not device_id.startswith(tuple(row.not_devices)):
            return row.value
    return rows[-1].value
