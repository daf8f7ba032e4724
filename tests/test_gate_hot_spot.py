"""The rule on cache affinity: its number by hand, and when it says nothing."""

from pathlib import Path

import pytest

from infopt.gate.check import gate
from infopt.gate.policy_file import read_policy

RULE = "affinity-hot-spot"
FIXTURES = Path(__file__).resolve().parent / "gate" / "rules" / RULE


def hits(tmp_path: Path, file: str, workload: str) -> list[str]:
    policy = tmp_path / "infopt.yaml"
    policy.write_text(f"workload: {{{workload}}}\n", encoding="utf-8")
    found = gate([str(FIXTURES / file)], read_policy(policy))
    return [finding.message for finding in found.findings if finding.rule == RULE]


def test_the_share_of_the_most_popular_prefix_by_hand(tmp_path: Path) -> None:
    """p_1 = 1 / sum of i^-1.2 over ten prefixes; four replicas of which one is its home."""
    first = 1 / sum(i**-1.2 for i in range(1, 11))
    said = hits(tmp_path, "bad.yaml", "prefixes: 10, prefix_skew: 1.2, routing: affinity")
    assert len(said) == 1
    assert f"{4 * first:.2f} times the mean load" in said[0]


@pytest.mark.parametrize(
    "workload",
    [
        "prefixes: 10, prefix_skew: 1.2, routing: random",
        "prefixes: 10, prefix_skew: 1.2",
        "prefix_skew: 1.2, routing: affinity",
        "prefixes: 1000, prefix_skew: 0, routing: affinity",
    ],
)
def test_it_says_nothing_where_it_does_not_know_or_load_is_even(tmp_path: Path, workload: str) -> None:
    assert hits(tmp_path, "bad.yaml", workload) == []


def test_one_prefix_has_one_home(tmp_path: Path) -> None:
    said = hits(tmp_path, "bad.yaml", "prefixes: 1, routing: affinity")
    assert "4.00 times" in said[0]
    assert "75% of the capacity" in said[0]
