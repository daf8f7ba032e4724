"""Measured points as people write them, `batch=1,tpot=12.1ms`, in place of the shipped constants.

A point takes what it does not say (isl, osl, weights) from the scenario it is given for. `hits=30%` are the prompt
tokens that were found in a prefix cache while it was measured.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from infopt.errors import InfoptError
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.calibrate_step import Point, calibrate
from infopt.ledgers.estimate import NoEstimate, step_clock
from infopt.ledgers.scenario import Scenario
from infopt.profiles.step_constants import StepConstants
from infopt.studies.scenarios import Built, with_weights
from infopt.units import format_seconds, parse_count, parse_seconds, parse_share, parse_tokens

KEYS = ("batch", "tpot", "isl", "osl", "weights", "hits")
OPTION = "--point"


def calibrated_constants(s: Scenario, points: Sequence[str]) -> StepConstants:
    """The class of a scenario, made to fit points measured on its device and engine.

    Errors: InfoptError for a point that cannot be read, and where the engine or device has no class to calibrate.
    """
    compiled = step_clock(s)
    if isinstance(compiled, NoEstimate):
        raise InfoptError(f"{OPTION}: nothing to calibrate: {compiled.reason}")
    return calibrate(compiled.constants, [_point(s, text, compiled.constants) for text in points])


def _point(s: Scenario, text: str, constants: StepConstants) -> Point:
    given = parse_point(text)
    if "weights" in given:
        s = with_weights(Built(s, ()), given["weights"]).scenario
    s = replace(
        s,
        batch=given["batch"],
        input_tokens=given.get("isl", s.input_tokens),
        output_tokens=given.get("osl", s.output_tokens),
    )
    context = s.decode_context_tokens
    if "isl" in given or "osl" in given:
        context = s.input_tokens + s.output_tokens / 2
    s = replace(s, decode_context_tokens=context)
    floor_s = bandwidth_ledger(s).step_floor_s
    if given["tpot"] < floor_s:
        raise InfoptError(
            f"{OPTION} {text}: a step cannot take less than {format_seconds(floor_s)} here, which its bytes need; "
            "check the batch, the lengths and the hardware"
        )
    compiled = step_clock(s)
    if isinstance(compiled, NoEstimate):
        raise InfoptError(f"{OPTION} {text}: {compiled.reason}")
    lengths, cached = (s.input_tokens, s.output_tokens), given.get("hits", 0.0) * s.input_tokens
    return Point(compiled.shape, s.sharing_batch, context, *lengths, given["tpot"], min(cached, s.input_tokens - 1.0))


def parse_point(text: str) -> dict[str, Any]:
    """`batch=64,tpot=31ms[,isl=2k][,osl=300][,weights=fp8]` by key; batch and tpot are needed.

    >>> parse_point("batch=64, tpot=31ms")
    {'batch': 64, 'tpot': 0.031}
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in KEYS or key in found:
            raise InfoptError(
                f"{OPTION} {text}: {part.strip()!r} is not one of {', '.join(f'{k}=' for k in KEYS)} once"
            )
        found[key] = _value(key, value)
    missing = [key for key in ("batch", "tpot") if key not in found]
    if missing:
        raise InfoptError(f"{OPTION} {text}: {missing[0]} is missing; write it like batch=1,tpot=12.1ms")
    return found


def _value(key: str, text: str) -> int | float | str:
    if key == "weights":
        return text
    if key == "tpot":
        return parse_seconds(text, OPTION)
    if key == "hits":
        return parse_share(text, OPTION)
    return parse_count(text, OPTION) if key == "batch" else parse_tokens(text, OPTION)
