"""What counts as one variable, and the data behind it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.studies.experiment_variables import OFF, Scalar, all_knobs, differences, knob, knobs, parsed

BASE: dict[str, Scalar] = {
    "network": "LlamaForCausalLM, 32 layers, 8030261248 parameters",
    "model": "meta-llama/Llama-3.1-8B",
    "weights": "bf16",
    "kv": "bf16",
    "engine": "vllm",
    "engine_version": "0.19.1",
    "gpus": 1,
    "tp": 1,
    "pp": 1,
    "dp": 1,
    "ep": 1,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "prefix_caching": True,
    "batching": "continuous",
    "static_batch": None,
    "static_wait_s": None,
    "speculation": OFF,
    "drafted_tokens": None,
}


def variables(defaulted: tuple[str, ...] = (), **changed: Any) -> list[str]:
    return [change.variable for change in differences(BASE, BASE | changed, defaulted).changes]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"max_num_seqs": 64}, ["max_num_seqs"]),
        ({"max_num_seqs": 64, "max_num_batched_tokens": 2048}, ["max_num_seqs", "max_num_batched_tokens"]),
        ({"tp": 2, "gpus": 2}, ["tp"]),
        ({"tp": 2, "gpus": 4, "dp": 2}, ["tp", "dp"]),
        ({"weights": "fp8", "model": "RedHatAI/Meta-Llama-3.1-8B-FP8"}, ["weights"]),
        ({"model": "someone/fine-tune"}, ["model"]),
        ({"weights": "fp8", "model": "other/X-FP8", "network": "MixtralForCausalLM"}, ["network", "weights"]),
        ({"weights": "fp8", "kv": "fp8"}, ["weights", "kv"]),
        ({"engine": "sglang", "engine_version": "0.5.23"}, ["engine"]),
        ({"engine_version": "0.20.0"}, ["engine_version"]),
        ({"speculation": "ngram", "drafted_tokens": 4}, ["speculation"]),
        ({"batching": "static", "static_batch": 32, "static_wait_s": 2.0}, ["batching"]),
        ({"batching": "static", "static_batch": 32, "kv": "fp8"}, ["kv", "batching"]),
    ],
)
def test_one_variable_is_told_from_two(changed: dict[str, Scalar], expected: list[str]) -> None:
    assert variables(**changed) == expected


def test_the_same_devices_split_otherwise_are_one_variable() -> None:
    four = BASE | {"gpus": 4, "tp": 4}
    found = differences(four, four | {"tp": 2, "dp": 2}).changes
    assert [change.variable for change in found] == ["placement"]
    assert [name for name, _, _ in found[0].knobs] == ["tp", "dp"]


def test_changing_how_and_how_far_is_drafted_is_two() -> None:
    drafting = BASE | {"speculation": "ngram", "drafted_tokens": 4}
    found = differences(drafting, drafting | {"speculation": "eagle", "drafted_tokens": 2}).changes
    assert [change.variable for change in found] == ["speculation", "drafted_tokens"]


def test_what_nobody_set_comes_along() -> None:
    changed = {"engine": "sglang", "engine_version": "0.5.23", "max_num_seqs": 4096}
    assert variables(("max_num_seqs",), **changed) == ["engine"]
    assert variables((), **changed) == ["engine", "max_num_seqs"]


def test_a_default_that_differs_alone_is_a_change() -> None:
    """Two versions of infopt or a hardware-dependent default: nothing else explains it."""
    assert variables(("max_num_seqs",), max_num_seqs=256) == ["max_num_seqs"]


def test_what_only_one_run_states_is_not_equal() -> None:
    found = differences(BASE, BASE | {"eager": True})
    assert found.unknown == (("eager", "B"),)
    assert not found.changes


def test_parts_of_what_was_turned_on_need_not_be_stated_before() -> None:
    without = {name: value for name, value in BASE.items() if name != "drafted_tokens"}
    found = differences(without, BASE | {"speculation": "ngram", "drafted_tokens": 4})
    assert not found.unknown
    assert [change.variable for change in found.changes] == ["speculation"]


SETTABLE = ("max_num_seqs", "kv", "prefix_caching", "engine_version", "max_num_batched_tokens")
OTHER: dict[str, Scalar] = {
    "max_num_seqs": 7,
    "kv": "fp8",
    "prefix_caching": False,
    "engine_version": "0.20.0",
    "max_num_batched_tokens": 512,
}


@given(st.sets(st.sampled_from(SETTABLE)))
def test_independent_knobs_are_counted_one_by_one(names: set[str]) -> None:
    changed = {name: OTHER[name] for name in names}
    assert set(variables(**changed)) == names
    back = differences(BASE | changed, BASE).changes
    assert {change.variable for change in back} == names


def test_the_data_name_only_knobs() -> None:
    named = {name for known in knobs().values() for name in (*known.follows, known.part_of) if name is not None}
    together = {name for group in all_knobs().together for name in (*group.knobs, group.while_equal)}
    assert named | together <= set(knobs())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_num_seqs", "256", 256),
        ("utilization", "0.95", 0.95),
        ("prefix_caching", "no", False),
        ("speculation", "off", "off"),
        ("drafted_tokens", "off", None),
        ("flag.enable-dbo", "1", "1"),
        ("flag.max-num-batched-tokens", "1", "1"),
    ],
)
def test_values_are_read_by_the_kind_of_knob(name: str, text: str, value: Scalar) -> None:
    assert parsed(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("max_num_seqs", "many", "a number is expected"),
        ("max_num_seqs", "nan", "a number is expected"),
        ("max_num_seqs", " ", "no value"),
        ("prefix_caching", "maybe", "yes or no"),
        ("max_num_sequences", "3", "max_num_seqs"),
        ("flag.", "3", "unknown knob"),
        ("flag.api-key", "3", "is not written into a saved run"),
        ("flag.hf_token", "hf_x", "is not written into a saved run"),
    ],
)
def test_what_cannot_be_a_knob_is_refused(name: str, text: str, says: str) -> None:
    with pytest.raises(InfoptError, match=says):
        parsed(name, text)


def test_quality_is_asked_of_formats_and_models_only() -> None:
    assert {name for name, known in knobs().items() if known.quality} == {
        *("network", "model", "model_revision", "weights", "kv")
    }
    assert not knob("flag.anything").quality
