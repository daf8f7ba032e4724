"""`infopt observe --log FILE`: an engine's start-up log beside the memory ledger."""

from pathlib import Path
from typing import TYPE_CHECKING

from infopt.cli import FAILS, GOOD, emit, tell

if TYPE_CHECKING:
    from infopt.cli_observe import Known, WatchOptions
    from infopt.cli_options import OutputOptions, OwnScenario
    from infopt.observing.observation import Observation
    from infopt.observing.start_logs import StartLog
    from infopt.studies.start_log import StartLogPage


def log_page(log: Path, known: "Known", scenario: "OwnScenario") -> "StartLogPage":
    """The log beside the ledger of the model it names, or that was named."""
    from infopt.observing.start_logs import read_start_log_file
    from infopt.studies.start_log import start_log_page

    read = read_start_log_file(log)
    return start_log_page(read, known.served(read.model), known.hardware, scenario.request())


def finish_log(
    page: "StartLogPage", known: "Known", watching: "WatchOptions", output: "OutputOptions", calibrate: Path | None
) -> int:
    """Print and write it; the exit status: 1 where the engine refused to start."""
    from infopt.cli_troubles import Troubles
    from infopt.files import write_text
    from infopt.reports.json_report import dumps
    from infopt.reports.observe_report import Added, as_dict
    from infopt.reports.start_log_report import start_log_json, start_log_lines, start_log_markdown

    data = {"start_log": start_log_json(page)}
    told, troubles = list[str](), Troubles()

    def record() -> str:
        return dumps(as_dict(observation_of_log(page.log), troubles.in_json(Added((), data))))

    if watching.out is not None:
        with troubles:
            write_text(watching.out, record() + "\n")
            told.append(f"written to {watching.out}; use it with --observed {watching.out}")
    if calibrate is not None:
        from infopt.studies.start_log_memory import calibrate_memory

        with troubles:
            terms = calibrate_memory(page, known.hardware, calibrate)
            told.append(f"{len(terms)} terms of memory written to {calibrate}; use it with --calibration {calibrate}")
    if output.form == "json":
        emit(record())
    else:
        emit(start_log_markdown(page) if output.form == "md" else start_log_lines(page))
    tell(told)
    return troubles.told(FAILS if page.log.refusal is not None else GOOD)


def observation_of_log(log: "StartLog") -> "Observation":
    """What a start-up log says that an observation has a name for: the engine and its pool."""
    from infopt.observing.observation import Observation

    return Observation(
        engine=log.engine,
        version_guess=log.engine_version,
        model=log.model,
        source=log.source,
        prefix_caching=log.prefix_caching,
        kv_pool_tokens=log.kv_pool_tokens,
        kv_pool_bytes=log.worst("kv_pool_bytes"),
        block_tokens=log.block_tokens,
        blocks=log.kv_blocks,
        max_concurrency=log.max_concurrency,
    )
