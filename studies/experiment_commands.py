"""What to run for a step of the ladder: the engine's start line, and how its measurement becomes a saved run.

The start line is that of `search` (studies/commands.py) with the options of knobs it does not say
(data/experiment/knobs.yaml, boundaries/data/engine_settings); an option that the version does not take is noted.
"""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from infopt.boundaries.engine_settings import refused_by, setting, written
from infopt.frozen import dataclass
from infopt.studies.commands import serve_command
from infopt.studies.experiment_trial import Tried
from infopt.studies.experiment_variables import Scalar, all_knobs
from infopt.studies.saved_run import SavedRun

PREFIX_CACHING = "prefix-caching"
LOCAL = ("file", "gguf")


@dataclass(frozen=True, slots=True)
class Start:
    """How the engine is started; notes on what is done by hand or not taken."""

    text: str
    notes: tuple[str, ...]


def start_of(tried: Tried) -> Start:
    """The start line of one replica as it was simulated."""
    run, simulation = tried.found
    # The plan's context is of a mean request; what was simulated takes longer ones.
    s = replace(simulation.plan.scenario, context_tokens=simulation.ready.setup.max_tokens)
    command = serve_command(s)
    extra = [text for text in _extra(run, s.engine.engine, s.engine_version) if text.split()[0] not in command.words]
    notes = [note for text in extra if (note := refused_by(s.engine.engine, (s.engine_version,), text))]
    return Start(" ".join((command.text, *extra)), (*command.notes, *notes))


def _extra(run: SavedRun, engine: str, version: str) -> Iterator[str]:
    """Options of knobs that were set and that a start line does not say."""
    set_ones = {name: value for name, value in run.configuration.items() if name not in run.defaulted}
    for known in all_knobs().knobs:
        value = set_ones.get(known.id)
        if engine in known.flag and value not in (None, False):
            yield known.flag[engine].format(value)
    wanted = set_ones.get("prefix_caching")
    row = setting(engine, version, PREFIX_CACHING)
    if wanted is not None and row is not None:
        text = written(row.enable if wanted else row.disable, {})
        if text.startswith("-"):
            yield text


def save_line(tried: Tried, observed: str, out: str) -> str:
    """The command that makes a saved run of the measurement of a step."""
    run, _ = tried.found
    job = tried.job
    model = job.model.source if job.model.source_kind in LOCAL else job.model.id
    words = [
        "infopt",
        "experiment",
        "save",
        "--observed",
        observed,
        "--model",
        model,
        "--hw",
        job.hardware.accelerator.id,
    ]
    for known in all_knobs().knobs:
        value = run.configuration.get(known.id)
        if known.id in ("model", "network", "model_revision") or known.id in run.defaulted or value in (None, "off"):
            continue
        if known.option is not None and not (known.option in ("--pp", "--dp") and value == 1):
            if known.id != "engine" or value != "vllm":
                words += [known.option, _typed(value)]
        elif known.id == "prefix_caching":
            words += ["--set", f"{known.id}={_typed(value)}"]
    return shlex.join([*words, "--out", out])


def _typed(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
