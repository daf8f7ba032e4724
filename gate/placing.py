"""How an engine spreads a model over the devices of a deployment, and how much context a request may have.

    devices   tp x pp x dp (x prefill context parallel)
    attention data parallel inside tp (SGLang, TensorRT-LLM): attention copied, experts split: tp / n, dp n, ep tp
    llama.cpp and Ollama take every device they see: layers are dealt out (pp), rows split (tp)
    TGI takes every device it sees where it is not told how many
Sources: facts of each engine's options in data/settings; llama.cpp tools/server README (--split-mode);
text-generation-inference launcher/src/main.rs (find_num_shards).
"""

import re

from infopt.frozen import dataclass
from infopt.gate.deployment import Deployment
from infopt.gate.engine_defaults import default_of, versions_of
from infopt.profiles.engines import in_versions
from infopt.profiles.geometry import ModelProfile

# Engines that start with a shorter context where theirs does not fit, if the file asks for none.
SHORTENS = frozenset({"sglang", "tgi", "tensorrt-llm", "llama.cpp", "ollama"})
# Engines that spread a model over every device they see.
TAKES_ALL = frozenset({"tgi", "llama.cpp", "ollama"})
# Engines that leave layers in host memory where devices do not hold them all.
SPILLS = frozenset({"ollama", "llama.cpp"})
AUTO = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """Degrees as the engine counts them.

    attention_dp  replicas of attention inside tp
    attention_tp  ranks one replica's heads are split over
    whole         experts are kept whole on a rank (expert parallel)
    devices       of one serving group
    """

    tp: int
    pp: int
    dp: int
    attention_dp: int
    whole: bool
    devices: int

    @property
    def attention_tp(self) -> int:
        return max(1, self.tp // self.attention_dp)

    @property
    def replicas(self) -> int:
        """Groups that each serve their own sequences."""
        return self.dp * self.attention_dp


@dataclass(frozen=True, slots=True)
class Context:
    """Tokens of a full-length request and sequences at once that memory is reserved for.

    said      the file asks for this length
    shortens  the engine takes a shorter one where it does not fit
    how       what was taken for granted, "" for nothing
    """

    tokens: int | None
    sequences: int = 1
    said: bool = False
    shortens: bool = False
    how: str = ""


def placement_of(deployment: Deployment) -> Placement:
    """Degrees of a deployment; 1 for what is not said."""
    tp, pp, dp = (_count(deployment, name) for name in ("tp", "pp", "dp"))
    engine, granted = deployment.engine, granted_devices(deployment)
    attention_dp = _attention_dp(deployment, tp, dp)
    if engine in ("llama.cpp", "ollama"):
        tp, pp = _dealt(deployment, granted or 1)
    elif engine == "tgi" and "tp" not in deployment.settings and deployment.value("sharded") != "false":
        tp = granted or 1
    if engine == "sglang" and deployment.value("attention_dp_in_tp"):
        dp = 1
    whole = bool(deployment.value("expert_parallel")) or _count(deployment, "ep") > 1
    return Placement(tp, pp, dp, attention_dp, whole, tp * pp * dp * _count(deployment, "pcp"))


def _count(deployment: Deployment, name: str) -> int:
    return max(1, int(deployment.value(name, 1) or 1))


def _attention_dp(deployment: Deployment, tp: int, dp: int) -> int:
    """Replicas of attention inside tp; a number that does not divide tp is none."""
    switched = deployment.value("attention_dp_in_tp")
    wanted = int(deployment.value("attention_dp", 1) or 1)
    if switched:
        wanted = dp if deployment.engine == "sglang" else tp
    return wanted if wanted >= 1 and tp % wanted == 0 else 1


def _dealt(deployment: Deployment, devices: int) -> tuple[int, int]:
    """tp and pp of an engine that takes every device it sees."""
    mode = str(deployment.value("split_mode", "layer"))
    if mode == "none":
        return 1, 1
    return (devices, 1) if mode in ("row", "tensor") else (1, devices)


def whole_number(text: object) -> int | None:
    """A whole number as a file writes it; None for what is none, or has more digits than anything that is counted.

    >>> whole_number("24"), whole_number("-1"), whole_number("9" * 5000)
    (24, None, None)
    """
    word = str(text).strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


def granted_devices(deployment: Deployment) -> int | None:
    """Devices of one serving group: those of a pod times its pods; None where the file does not say."""
    hardware = deployment.found.hardware
    if hardware.count is None:
        return None
    nodes = int(deployment.value("nodes", 1) or 1)
    return hardware.count * (hardware.pods if hardware.pods > 1 else nodes)


def asked_devices(deployment: Deployment) -> int:
    """Devices this file's pods must bring: all, or this node's part where others are started elsewhere."""
    placed = placement_of(deployment)
    local = deployment.value("dp_local")
    if local and placed.dp > 1 and deployment.found.hardware.pods == 1:
        return placed.devices // placed.dp * max(1, int(local))
    return placed.devices


def context_of(deployment: Deployment, model: ModelProfile) -> Context:
    """The longest request, and for how many of them memory is reserved."""
    asked, limit = deployment.value("context_tokens"), model.max_position_tokens
    if deployment.engine == "llama.cpp":
        return _slots(deployment, limit)
    if deployment.engine == "ollama":
        tokens = asked or default_of("ollama_context_tokens")
        how = "" if asked else f"context {tokens} tokens: Ollama's default on devices below 24 GB"
        return Context(tokens, max(1, int(deployment.value("max_num_seqs", 1) or 1)), bool(asked), not asked, how)
    if asked == AUTO:
        return Context(limit, shortens=True, how="context: the longest that fits")
    own = default_of("tgi_context_tokens")
    if asked in (None, 0) and _limited_by_tgi(deployment) and (limit or 0) > own:
        return Context(own, shortens=True, how=f"context {own} tokens: TGI's default")
    if asked in (None, 0):
        shortens = deployment.engine in SHORTENS
        return Context(limit, shortens=shortens, how=f"context {limit} tokens: the model's own limit")
    return Context(int(asked), said=True)


def _limited_by_tgi(deployment: Deployment) -> bool:
    version = deployment.version
    return (
        deployment.engine == "tgi" and version is not None and in_versions(version, *versions_of("tgi_context_tokens"))
    )


def _slots(deployment: Deployment, limit: int | None) -> Context:
    """llama.cpp: -c is of all slots; -np gives each its part, without it they share the whole."""
    whole, slots = deployment.value("whole_context_tokens"), deployment.value("max_num_seqs")
    tokens = whole or limit
    if not slots or slots < 0 or deployment.value("unified_cache") or tokens is None:
        how = "" if whole else f"context {tokens} tokens: the model's own limit"
        return Context(tokens, said=bool(whole), shortens=not whole, how=how)
    each = tokens // slots
    how = f"context {each} tokens: {tokens} over {slots} slots"
    return Context(max(1, each), slots, bool(whole), not whole, how)


def spills(deployment: Deployment) -> bool:
    """Whether the engine leaves layers in host memory: no number of layers given, -fit not switched off."""
    told = str(deployment.value("gpu_layers", "auto") or "auto").lower() not in ("auto", "-1")
    fitted = str(deployment.value("fit", "on")).lower() not in ("off", "false", "0")
    return deployment.engine in SPILLS and not told and fitted


def on_processor(deployment: Deployment) -> bool:
    """Whether the file has the engine run without any device."""
    image = str(deployment.found.image or "").lower()
    if deployment.engine == "llama.cpp":
        return deployment.value("gpu_layers") in (0, "0") and not deployment.found.hardware.resource
    built = deployment.engine in ("vllm", "sglang") and any(part == "cpu" for part in re.split(r"[^a-z0-9]+", image))
    return built or deployment.value("device") == "cpu"
