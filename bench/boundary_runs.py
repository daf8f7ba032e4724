"""Pairs of single streams, static batches, speculative and live runs (boundary_evidence.py)."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from boundary_served import Pair, as_placed, batch_gain, pair, placed_gain, tpot_gain

from infopt.boundaries.continuous_batching import residence_s
from infopt.boundaries.deciding import threshold
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Gain, Verdict
from infopt.errors import InfoptError
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.scenario import Scenario
from infopt.profiles.resolve import resolve_model
from infopt.studies.scenarios import Request, build
from infopt.studies.speed_single import is_single_stream, single_scenario
from infopt.studies.speed_speculation import accepted_lengths, run_key, speculation_checks
from infopt.studies.speed_truth import SpeedRow, published_device, seconds_per_token, served_model, speed_terms

ENGINES_OF_2024 = {"vllm": "0.5.0", "tensorrt-llm": "0.12.0"}
# Live runs by their name: the model whose geometry ran, on a device without step constants.
LIVE_MODELS = {
    "comp": "HuggingFaceTB/SmolLM2-135M",
    "q05": "Qwen/Qwen2.5-0.5B",
    "t11": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
}
LIVE_DEVICE = "ryzen-9-7950x"


def single_weights(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """Time per token of one sequence on a local engine in two formats."""
    groups: dict[tuple[Any, ...], dict[str, list[tuple[SpeedRow, Scenario]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.flagged or not is_single_stream(row) or row.metric != "tg_tok_s":
            continue
        try:
            s = single_scenario(row)
        except InfoptError:
            continue
        lengths = (row.input_tokens, row.output_tokens)
        key = (row.prefix, row.model, row.gpu, row.gpus, row.tp, row.engine, *lengths, "spec" in row.note.lower())
        groups[key][row.weight_format].append((row, s))
    for formats in groups.values():
        ordered = sorted(formats, key=lambda name: -bits(formats[name][0][1]))
        for at, wide in enumerate(ordered):
            for narrow in ordered[at + 1 :]:
                (one, s), (other, t) = formats[wide][0], formats[narrow][0]
                before, after = Situation(s), Situation(t)
                gain = tpot_gain(before, after)
                measured = seconds_per_token(one) / seconds_per_token(other)
                # Sizes measured by the engine's own release: what boundary says of it.
                name = f"{s.engine.engine}, {s.accelerator.memory_class}"
                yield pair("weights", name, f"{one.id} {wide} {narrow}", gain, before.basis_with(after), measured)


def bits(s: Scenario) -> float:
    return sum(count * s.weight_bits[part] for part, count in s.model.params_by_part.items())


def static_scenario(row: SpeedRow) -> Scenario:
    """A run of one static batch of equal requests."""
    model, weights = served_model(row, speed_terms())
    engine = {"vllm": "vllm", "tensorrt-llm": "tensorrt-llm", "llama.cpp": "llama.cpp"}[
        row.engine.split(" ")[0].lower()
    ]
    request = Request(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        batch=row.concurrency,
        gpus=row.gpus,
        tp=row.tp,
        engine=engine,
        engine_version=ENGINES_OF_2024[engine],
        weights=weights,
    )
    device = HardwareChoice(published_device(row.gpu), None, row.gpu)
    s = build(model, device, request).scenario
    return replace(s, max_num_seqs=max(s.max_num_seqs, s.batch))


def static(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """Static batches of 2024 engines: tokens/s of a larger batch, and of more devices."""
    by: dict[tuple[Any, ...], dict[tuple[int, int], tuple[SpeedRow, Situation]]] = defaultdict(dict)
    for row in rows:
        if row.prefix not in ("arg", "argq") or row.flagged or not row.engine.startswith(("vLLM", "TensorRT")):
            continue
        try:
            situation = Situation(static_scenario(row))
        except (InfoptError, KeyError):
            continue
        if situation.fits and row.tp and row.concurrency:
            key = (row.model, row.gpu, row.engine, row.weight_format, row.input_tokens, row.output_tokens)
            by[key].setdefault((row.tp, row.concurrency), (row, situation))
    for runs in by.values():
        for (tp, batch), (row, situation) in runs.items():
            where = f"{row.engine} 2024, {situation.scenario.accelerator.id.split('-')[0]}"
            first = runs.get((tp, 1))
            if batch > 1 and first is not None:
                gain = batch_gain(first[1], situation)
                basis = situation.steps.basis
                yield pair("batch", f"{where}, from 1", f"{row.id} {batch}", gain, basis, row.value / first[0].value)
            narrow = runs.get((1, batch))
            if tp > 1 and narrow is not None:
                gain = placed_gain(
                    as_placed(narrow[1]), as_placed(situation), lambda option, steps: 1 / option.rate_per_s(steps)
                )
                basis = situation.steps.basis
                yield pair("parallelism", f"{where}, TP 1 to {tp}", row.id, gain, basis, row.value / narrow[0].value)


def spark(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """Decode tokens/s of llama.cpp with more sequences."""
    runs = [row for row in rows if row.prefix == "spark" and row.metric == "output_tok_s" and not row.flagged]
    ones = {(row.model, row.input_tokens): row for row in runs if row.concurrency == 1}
    for row in runs:
        first, batch = ones.get((row.model, row.input_tokens)), row.concurrency or 1
        if first is None or batch == 1:
            continue
        try:
            s = single_scenario(replace(row, metric="tg_tok_s"))
        except InfoptError:
            continue
        alone = Situation(s)
        many = Situation(replace(s, batch=batch))
        context = (row.input_tokens or 0) + (row.output_tokens or 0) / 2

        def of(a: Any, b: Any, context: float = context, batch: int = batch) -> float:
            return batch * a.step_s(1, context) / b.step_s(batch, context)

        gain = alone.gain_over(many, "throughput", of)
        yield pair(
            "batch",
            "llama.cpp, DGX Spark, from 1",
            f"{row.id} {batch}",
            gain,
            many.steps.basis,
            row.value / first.value,
        )


def speculation(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """Speedups where the accepted length is stated."""
    lengths = accepted_lengths(rows)
    for row in rows:
        if row.metric != "spec_speedup" or row.flagged or not row.prefix.startswith("spec"):
            continue
        for check in speculation_checks(row, lengths.get(run_key(row))):
            if check.predicted is None:
                continue
            name = "its source's cycle" if check.group == "speculation" else "cycle from steps"
            gain = Gain(check.predicted, check.low or 0.0, check.high or 0.0, "tpot")
            yield Pair("speculation", f"{row.prefix}, {name}", row.id, gain, worth(gain.value), "estimate", row.value)


def worth(ratio: float) -> Verdict:
    return "use" if ratio >= threshold("worth_ratio") else "skip"


def live(path: Path) -> Iterator[Pair]:
    """Tokens/s of more clients over one on a real server, given one prompt and the steps by clients."""
    with path.open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle, delimiter="\t") if row["kind"] == "rand"]
    for name, model in LIVE_MODELS.items():
        runs = {int(row["conc"]): row for row in rows if row["name"] == name}
        prompt, output = int(runs[1]["plen"]), int(runs[1]["olen"])
        request = Request(input_tokens=prompt, output_tokens=output, batch=max(runs), engine="vllm")
        s = build(resolve_model(model), resolve_hardware(LIVE_DEVICE), request).scenario
        points = {float(clients): float(row["itl_p50"]) / 1e3 for clients, row in runs.items()}
        curve = tuple(sorted((points | {float(prompt): float(runs[1]["srv_prefill"]) / 1e3}).items()))
        here = Situation(s, curve=curve)
        for clients, row in runs.items():
            if clients > 1:
                ratio = clients * residence_s(here, here.steps, 1) / residence_s(here, here.steps, clients)
                measured = float(row["out_tok_s"]) / float(runs[1]["out_tok_s"])
                gain = Gain(ratio, ratio, ratio, "throughput")
                yield pair("batch", "live vLLM on a CPU, steps given", f"{name} {clients}", gain, "curve", measured)


def run_pairs(rows: Sequence[SpeedRow]) -> Iterator[Pair]:
    """All of a truth file."""
    for of_rows in (single_weights, static, spark, speculation):
        yield from of_rows(rows)
