"""`infopt sweep`: lists of values, or a file of cases."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from infopt.cli import ALWAYS_GOOD, app, tell
from infopt.cli_options import CalibrationOption, Online


def axis(option: str, help: str) -> Any:
    """An option that takes several values."""
    return typer.Option(option, metavar="LIST", show_default=False, help=help)


@app.command(epilog=f"{ALWAYS_GOOD[:-1]}, 3 no rows.")
def sweep(
    cases: Annotated[str | None, typer.Option("--cases", metavar="FILE.csv|-", help="Rows instead of a grid.")] = None,
    model: Annotated[str | None, axis("--model", "70b,8b")] = None,
    hw: Annotated[str | None, axis("--hw", "h100,h200,'2x rtx 4090'")] = None,
    gpus: Annotated[str | None, axis("--gpus", "Devices in all.")] = None,
    tp: Annotated[str | None, axis("--tp", "1,2,4 or 1:8:x2")] = None,
    pp: Annotated[str | None, axis("--pp", "Pipeline stages.")] = None,
    dp: Annotated[str | None, axis("--dp", "Replicas.")] = None,
    ep: Annotated[str | None, axis("--ep", "Devices that experts are split over.")] = None,
    weights: Annotated[str | None, axis("--weights", "bf16,fp8,int4")] = None,
    kv: Annotated[str | None, axis("--kv", "bf16,fp8")] = None,
    engine: Annotated[str | None, axis("--engine", "vllm,sglang,tensorrt-llm,llama.cpp")] = None,
    engine_version: Annotated[str | None, axis("--engine-version", "0.19.1,0.20.0")] = None,
    util: Annotated[str | None, axis("--util", "0.9,0.95")] = None,
    ctx: Annotated[str | None, axis("--ctx", "8k,32k or 8k:128k:8k")] = None,
    isl: Annotated[str | None, axis("--isl", "Input tokens.")] = None,
    osl: Annotated[str | None, axis("--osl", "Output tokens.")] = None,
    batch: Annotated[str | None, axis("--batch", "1:256 or 1:256:x2")] = None,
    calibration: CalibrationOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help=".csv, .jsonl or .parquet.")] = None,
    format: Annotated[
        Literal["csv", "json", "parquet"] | None, typer.Option("--format", help="Default: as FILE is named, else csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, the same as --format json.")] = False,
    online: Online = False,
) -> None:
    """Many scenarios: every combination of the options, or the rows of a file.

    \b
    infopt sweep --model 70b --hw h100,h200 --tp 1,2,4,8 --batch 1:256 --ctx 8k,32k --weights bf16,fp8 --out grid.csv
    infopt sweep --cases cases.csv --out results.parquet
    infopt sweep --cases - --hw h100 --json < models.csv

    Values are separated by commas; a:b counts from a to b, a:b:c in steps of c, a:b:x2 by doubling. A row that
    cannot be has an error, and the others are computed. With --cases, options fill the columns the file lacks.
    """
    from infopt.reports.sweep_output import format_of, run_sweep
    from infopt.studies.sweep_cases import open_sweep

    options = {
        "model": model, "hw": hw, "gpus": gpus, "tp": tp, "pp": pp, "dp": dp, "ep": ep, "weights": weights, "kv": kv,
        "engine": engine, "engine_version": engine_version, "util": util,
        "ctx": ctx, "isl": isl, "osl": osl, "concurrency": batch,
    }  # fmt: skip
    with open_sweep(cases, options, online=online, calibration=calibration) as rows:
        tell(rows.notes)
        outcome = run_sweep(rows, out, "json" if json else format or format_of(out))
    tell([*rows.said(), *outcome.lines()])
    raise typer.Exit(outcome.exit_status)
