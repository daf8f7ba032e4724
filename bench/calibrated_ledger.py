"""How well the ledger, calibrated with few steps of this device, predicts the others: measured here, one thread.

    python bench/calibrated_ledger.py [--runs 3] [--weights fp32 bf16] [--json FILE]

All steps of a run are timed in turn. The weights of all models are views of one block of memory as large as the
largest model, far larger than any cache: each step reads as many bytes as it would of its own. On a machine that is
shared, a step is as long as it had the processor: what it waited for others is left out.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from infopt.hardware.calibration import Step
from infopt.probes.decoder import Decoder, Layer, Shape, Weights, shape_of
from infopt.probes.passes import Pass, forward, operation, step_of, whole
from infopt.probes.runtime import Runtime, inference, open_runtime
from infopt.probes.sampling import Sample, Sampling, Timing, measure, summarize
from infopt.probes.setting import Setting
from infopt.profiles.catalogue import load_catalogue_model
from infopt.studies.step_evidence import (
    BETWEEN,
    CONTEXT_TOKENS,
    LARGE,
    OUTSIDE,
    SMALL,
    Evidence,
    markdown,
    read_evidence,
    rows,
    write_evidence,
)

CURVE, COARSE_CURVE = (1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 4, 8, 16)
PASSES = {
    SMALL: [Pass(n, 1, CONTEXT_TOKENS) for n in CURVE] + [Pass(1, 1, c) for c in (1024, 4096)],
    LARGE: [Pass(n, 1, CONTEXT_TOKENS) for n in COARSE_CURVE] + [Pass(1, 1, c) for c in (1024, 2000)],
    **{m: [Pass(n, 1, CONTEXT_TOKENS) for n in (1, 2, 4, 8)] + [Pass(1, 1, c) for c in (1024, 4096)] for m in BETWEEN},
    OUTSIDE: [Pass(1, 1, CONTEXT_TOKENS), Pass(1, 1, 1024)],
}
SAMPLING = Sampling(width=0.03, fewest=7, most=15, budget_s=90.0, warm_ups=1)


def weights_in(block: Any, shape: Shape, ones: Any) -> Weights:
    """Weights of a shape as views of a block, one behind the other; the input embedding shares the head's place."""
    at = 0

    def matrix(rows: int, columns: int) -> Any:
        nonlocal at
        view = block[at : at + rows * columns].view(rows, columns)
        at += rows * columns
        return view

    norm = ones[: shape.hidden]
    layers = tuple(
        Layer(
            norm=norm,
            qkv=matrix(shape.qkv, shape.hidden),
            out=matrix(shape.hidden, shape.q_heads * shape.head_dim),
            ff_norm=norm,
            gate_up=matrix(2 * shape.intermediate, shape.hidden),
            down=matrix(shape.hidden, shape.intermediate),
        )
        for _ in range(shape.layers)
    )
    head = matrix(shape.vocab, shape.hidden)
    return Weights(head, head, norm, layers)


def measured_steps(runtime: Runtime, weights: str) -> list[Step]:
    """Every step of PASSES in one format."""
    models = {name: load_catalogue_model(name) for name in PASSES}
    shapes = {name: shape_of(model) for name, model in models.items()}
    dtype, torch = runtime.dtype(weights), runtime.torch
    with inference(runtime):
        block = torch.empty(max(shape.read_params() for shape in shapes.values()), dtype=dtype)
        block.uniform_(-0.02, 0.02)
        ones = torch.ones(max(shape.hidden for shape in shapes.values()), dtype=dtype)
        asked, operations = [], []
        for name, passes in PASSES.items():
            decoder = Decoder(runtime, shapes[name], weights_in(block, shapes[name], ones), max(p.end for p in passes))
            for p in passes:
                asked.append((models[name], p))
                operations.append(operation(runtime, f"{name}: {p.name}", forward(runtime, decoder, p), p, "eager"))
        timings = [undisturbed(runtime, timing) for timing in measure(runtime, operations, SAMPLING)]
    setting = Setting(runtime)
    return [
        step_of(setting, model, weights, "eager", p, spread, model.layers)
        for (model, p), timing in zip(asked, timings, strict=True)
        if (spread := whole([timing], [model.layers], model.layers)) is not None
    ]


def undisturbed(runtime: Runtime, timing: Timing) -> Timing:
    """The same by the time a sample had the processor (one thread: its processor time)."""
    samples = [replace(sample, seconds=sample.seconds * sample.ours) for sample in timing.samples]
    return summarize(runtime, timing.operation, [Sample(s.seconds, True, s.ours) for s in samples], SAMPLING.width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--weights", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--json", type=Path, help="keep the measured steps, so that `--from` can read them")
    parser.add_argument("--from", type=Path, dest="source", help="steps of earlier runs instead of measuring")
    options = parser.parse_args()
    if options.source is not None:
        evidence = read_evidence(options.source)
    else:
        runtime, runs = open_runtime("cpu", 1), []
        for _ in range(options.runs):
            runs.append([step for weights in options.weights for step in measured_steps(runtime, weights)])
            evidence = Evidence(runtime.name, 1, runs)
            if options.json is not None:
                write_evidence(evidence, options.json)
    print("\n".join(markdown(rows(evidence.runs))))


if __name__ == "__main__":
    main()
