"""Scenarios as somebody types them, and what the commands answer."""

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from properties.worlds import HARDWARE, catalogue_model, requests

from infopt.cli import run
from infopt.studies.model_view import find_models
from infopt.studies.scenarios import Request

# Options by the fields of a request.
OPTIONS = {
    "context_tokens": "ctx",
    "input_tokens": "isl",
    "output_tokens": "osl",
    "batch": "batch",
    "gpus": "gpus",
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "ep": "ep",
    "engine": "engine",
    "engine_version": "engine_version",
    "weights": "weights",
    "kv": "kv",
    "utilization": "util",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "kv_pool_bytes": "kv_pool",
}
SAME = 1e-12  # a power of an array may differ from that of a number in its last bit
LEDGERS = ("memory", "bandwidth", "compute", "estimate", "energy")
LIMITS = {"max_num_seqs", "max_num_batched_tokens", "kv_pool"}


@dataclass(frozen=True)
class Told:
    """What a command printed, and its status."""

    status: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ask(*words: str) -> Told:
    """A command run in this process; what it does not catch is raised."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = run(words)
    return Told(status, out.getvalue(), error.getvalue())


def words(options: dict[str, Any]) -> list[str]:
    """Options as they are typed."""
    found: list[str] = []
    for name, value in options.items():
        found += [f"--{name.replace('_', '-')}", str(value)]
    return found


def without(options: dict[str, Any], names: Sequence[str] | set[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def options_of(model: str, hardware: str, request: Request) -> dict[str, Any]:
    """Only what was asked for."""
    given = {option: getattr(request, field) for field, option in OPTIONS.items()}
    given["kv_pool"] = f"{request.kv_pool_bytes}B" if request.kv_pool_bytes is not None else None
    return {"model": model, "hw": hardware} | {name: value for name, value in given.items() if value is not None}


@st.composite
def typed(draw: Any, limits: bool = True) -> dict[str, Any]:
    """Options of `plan` for a model and hardware of the catalogue; possible or not."""
    model = draw(st.sampled_from(find_models(None)))
    found = options_of(model, draw(st.sampled_from(HARDWARE)), draw(requests(catalogue_model(model))))
    return found if limits else without(found, LIMITS)


def planned(options: dict[str, Any]) -> Any:
    """The plan of options that some engine can run."""
    told = ask("plan", *words(options), "--json")
    assume("error" not in told.json)
    return told.json


def same(value: Any) -> Any:
    return pytest.approx(value, rel=SAME) if isinstance(value, float) else value


def assert_same_figures(one: Any, other: Any, sections: tuple[str, ...] = LEDGERS) -> None:
    """Every figure of some sections of two plans."""
    for section in sections:
        if one[section] is None or other[section] is None:
            assert one[section] == other[section]
            continue
        assert one[section].keys() == other[section].keys()
        for name, value in one[section].items():
            assert other[section][name] == same(value), f"{section}.{name}"
