"""Single-stream rows as scenarios: one sequence, a local engine, weights as its own files store them.

Which parts of a model an engine's format covers, and in how many bits, is data (`data/speed_terms.yaml`); files of one
format keep some parts wider (a GGUF file of gpt-oss holds experts in MXFP4 and the rest in Q8_0).
"""

import re
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import Scenario
from infopt.studies.scenarios import Request, build
from infopt.studies.speed_truth import SpeedRow, published_device, published_model, speed_terms

# Engines without a memory record of their own are laid out as this one; only its step time is asked for.
LAYOUT_ENGINE = "llama.cpp"


def is_single_stream(row: SpeedRow) -> bool:
    """A rate or a time per token of one sequence, of a source that measured those or on a local engine."""
    return row.metric in ("tpot_ms", "tg_tok_s") and row.concurrency == 1 and _of_source(row, "single_stream")


def is_single_prefill(row: SpeedRow) -> bool:
    """The first token of one request, or the rate at which a prompt was read."""
    timed = row.metric in ("ttft_ms", "pp_tok_s") and row.concurrency == 1 and row.input_tokens is not None
    return timed and _of_source(row, "single_prefill")


def _of_source(row: SpeedRow, kind: str) -> bool:
    """Sources listed for a kind; of any other source what ran on an engine that serves nobody else."""
    words = speed_terms()
    first = row.engine.split(" ")[0].lower()
    local = any(row.engine.lower().startswith(start) for start, _ in words["local_engines"])
    known = first in words["served_engines"] or row.prefix in words["informs"]
    return row.prefix in words[kind] or (local and not known)


def first_token_seconds(row: SpeedRow) -> float:
    """The time a prompt took, from either metric."""
    return (row.input_tokens or 0) / row.value if row.metric == "pp_tok_s" else row.value / 1e3


def cached_tokens(row: SpeedRow) -> int:
    """Tokens before the prompt, which some benchmarks state as a depth."""
    found = re.search(r"at depth (\d{1,9})", row.note)
    return int(found.group(1)) if found else 0


def single_scenario(row: SpeedRow) -> Scenario:
    """The scenario of one sequence on a local engine; raises InfoptError where the row does not suffice.

    The mean context of a decode step is the depth before it plus half of what is generated.
    """
    words = speed_terms()
    if row.gpus is None:
        raise InfoptError("devices not stated")
    engine = local_engine(row.engine, words)
    release = words["releases"].get(f"{row.prefix} {engine}", engine)
    model = published_model(row.model)
    name, bits = stored_bits(row.weight_format, engine, words)
    request = Request(
        input_tokens=max(1, row.input_tokens or 1),
        output_tokens=row.output_tokens or 1,
        gpus=row.gpus,
        tp=row.tp or row.gpus,
        pp=row.pp or 1,
        engine=LAYOUT_ENGINE,
        weights=name,
        kv="fp16",
    )
    device = HardwareChoice(published_device(row.gpu), None, row.gpu)
    s = build(replace(model, quantization=None), device, request).scenario
    return replace(s, engine=s.engine.model_copy(update={"engine": release}), weight_bits={**s.weight_bits, **bits})


def local_engine(text: str, words: dict[str, Any]) -> str:
    """The engine a published column means."""
    for start, name in words["local_engines"]:
        if text.lower().startswith(start):
            return str(name)
    raise InfoptError(f"engine {text!r} is not described")


def stored_bits(text: str, engine: str, words: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Format record, and bits per weight of the parts that differ from it, of a published format under an engine."""
    key = text.lower().replace("-", "_")
    mean = re.fullmatch(r"(\w+?)_(\d{1,3}(?:\.\d{1,18})?)bpw", key)
    if mean:
        key = mean.group(1)
    found = words["local_formats"].get(f"{engine} {key}") or words["local_formats"].get(key)
    if found is None:
        raise InfoptError(f"weight format {text!r} is not described")
    bits = {part: float(value) for part, value in found.get("bits", {}).items()}
    if mean:
        bits |= dict.fromkeys(found["stated"], float(mean.group(2)))
    return found["format"], bits
