"""Prompts from files, counted acceptance, predicted speedups: no model needed."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.probes.drafting.costs import Costs, predict
from infopt.probes.drafting.counting import per_position, shapes, share_with_draft, tokens_interval, tokens_per_step
from infopt.probes.drafting.decoding import Cycle
from infopt.probes.drafting.ngram import NgramDraft
from infopt.probes.drafting.prompts import BUNDLED, KINDS, bundled_prompts, by_kind, read_prompts
from infopt.probes.drafting.runs import Pair, Run, contended, speedup, texts_of
from infopt.probes.sampling import Operation, Timing


def lines(path: Path, *entries: object) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_json_lines(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    path = lines(tmp_path / "a.jsonl", {"prompt": "x", "kind": "code"}, {"text": "y", "id": 3}, {"messages": messages})
    first, second, third = read_prompts(path)
    assert (first.kind, first.text, first.messages) == ("code", "x", ())
    assert (second.kind, second.text) == ("text", "y")
    assert third.messages == tuple(messages)
    assert third.where == f"{path}, line 3"
    assert list(by_kind([first, second, third])) == ["code", "text"]


def test_plain_text_is_parted_by_blank_lines_or_rules(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\n\nthree\n")
    assert [(p.text, p.where) for p in read_prompts(path)] == [
        ("one\ntwo", f"{path}, line 1"),
        ("three", f"{path}, line 5"),
    ]
    path.write_text("one\n\ntwo\n---\nthree\n")
    assert [p.text for p in read_prompts(path)] == ["one\n\ntwo", "three"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"prompt": "x"}\n{"prompt": }\n', "line 2: not JSON"),
        (b'{"prompt": "x"}\n\n[1]\n', "line 3: a JSON list"),
        (b'{"prompt": "x", "text": "y"}\n', "line 1: one of prompt, text and messages .* prompt and text"),
        (b'{"question": "x"}\n', "line 1: one of prompt, text and messages .* none"),
        (b'{"prompt": " "}\n', "line 1: prompt must be a text"),
        (b'{"prompt": 3}\n', "line 1: prompt must be a text"),
        (b'{"prompt": "x", "kind": 3}\n', "line 1: kind must be"),
        (b'{"messages": []}\n', "line 1: messages must be a list"),
        (b'{"messages": [{"role": "robot", "content": "x"}]}\n', "line 1: a message needs a role"),
        (b'{"messages": ["x"]}\n', "line 1: a message needs a role"),
        (b'{"prompt": "x"}\n\xff\n', "line 2: is not UTF-8"),
        (b"\n\n", "holds no prompts"),
        (b"", "holds no prompts"),
    ],
)
def test_bad_files_name_the_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(InfoptError, match=words) as caught:
        read_prompts(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_or_a_folder_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(InfoptError, match=path.name):
            read_prompts(path)


def test_the_bundled_prompts_are_ours_and_of_three_kinds() -> None:
    groups = by_kind(bundled_prompts())
    assert tuple(groups) == KINDS
    assert all(len(prompts) >= 3 for prompts in groups.values())
    for kind in KINDS:
        for line in (BUNDLED / f"{kind}.jsonl").read_text().splitlines():
            assert json.loads(line)["source"] == "written for infopt, Apache-2.0"


def test_lookup_proposes_what_followed_last() -> None:
    draft = NgramDraft(3)
    ids = [1, 2, 3, 9, 1, 2, 3, 8, 5, 1, 2, 3]
    assert draft.propose(ids, 4).tokens == [8, 5, 1, 2]
    # Asked again nothing has changed; the match of two tokens serves where three are new; new tokens find nothing.
    assert draft.propose(ids, 2).tokens == [8, 5]
    assert draft.propose([*ids, 7, 2, 3], 2).tokens == [7, 2]
    assert draft.propose([*ids, 7, 2, 3, 6], 2).tokens == []
    # Cut where the text ends.
    assert NgramDraft(3).propose([4, 4, 4], 4).tokens == [4]


def test_lookup_forgets_the_text_before() -> None:
    draft = NgramDraft(2)
    assert draft.propose([1, 2, 3, 1, 2], 1).tokens == [3]
    draft.begin([5, 1, 2], None)  # type: ignore[arg-type]
    assert draft.propose([5, 1, 2], 1).tokens == []


def test_positions_count_only_cycles_that_drafted_them() -> None:
    cycles = [Cycle(4, 4), Cycle(4, 1), Cycle(2, 2), Cycle(0, 0)]
    assert per_position(cycles, 4) == [1.0, 2 / 3, 0.5, 0.5]
    assert per_position([Cycle(0, 0)], 4) == []
    assert share_with_draft(cycles) == 0.75
    assert tokens_per_step(cycles) == 1 + 7 / 4


def test_the_interval_covers_the_truth() -> None:
    """Texts of one rate: about 95 % of the intervals hold its mean, far fewer would show, and so would all."""
    draw, covered, rate = random.Random(1), 0, 0.6
    truth = 1 + rate * 2
    for seed in range(60):
        texts = [[Cycle(2, draw.choices((0, 2), (1 - rate, rate))[0]) for _ in range(25)] for _ in range(8)]
        low, high = tokens_interval(texts, seed)
        assert low < high
        covered += low <= truth <= high
    assert 50 <= covered <= 60


def test_texts_that_differ_widen_the_interval() -> None:
    alike = [[Cycle(2, 2), Cycle(2, 0)] * 20 for _ in range(4)]
    unlike = [[Cycle(2, 2)] * 40 if i % 2 else [Cycle(2, 0)] * 40 for i in range(4)]
    (low, high), (lower, higher) = tokens_interval(alike), tokens_interval(unlike)
    assert higher - lower > 2 * (high - low)


def test_one_rate_predicts_what_cycles_yield() -> None:
    """(1 - a^(g+1)) / (1 - a) against simulated cycles of independent tokens."""
    draw = random.Random(2)
    for rate in (0.3, 0.6, 0.9):
        for drafted in (1, 4, 8):
            kept = [next((i for i in range(drafted) if draw.random() >= rate), drafted) for _ in range(4_000)]
            simulated = tokens_per_step([Cycle(drafted, k) for k in kept])
            assert simulated == pytest.approx((1 - rate ** (drafted + 1)) / (1 - rate), rel=0.05)


def timing(seconds: float, contended: bool = False) -> Timing:
    return Timing(Operation("x", lambda _: None, 1, "tokens"), seconds, seconds, seconds, 9, 9, 0.0, contended)


def test_the_prediction_mixes_the_lengths_that_were_drafted() -> None:
    costs = Costs(
        {0: timing(10.0), 1: timing(14.0), 2: timing(18.0)},
        {("ngram", 0): timing(0.5), ("exit:3", 1): timing(3.0), ("bits:2", 1): timing(6.0), ("bits:2", 2): timing(7.0)},
    )
    # Half of the cycles had nothing to verify: their step is a plain one.
    looked_up = predict(costs, "ngram", Counter({(1, 0): 2, (1, 1): 1, (1, 2): 1}), 1.5)
    assert (looked_up.step_s, looked_up.verify_s, looked_up.draft_s) == (10.0, 13.0, 0.5)
    assert looked_up.speedup_predicted == pytest.approx(1.5 * 10 / 13.5)
    # A draft that was kept whole leaves two tokens to read.
    copied = predict(costs, "bits:2", Counter({(1, 2): 3, (2, 2): 1}), 2.0)
    assert copied.draft_s == pytest.approx((3 * 12 + 13) / 4)
    assert copied.speedup_predicted == pytest.approx(20 / (18 + copied.draft_s))
    early = predict(costs, "exit:3", Counter({(1, 2): 1}), 1.0)
    assert early.speedup_printed == pytest.approx((2 * 3 + 10) / (18 + 3))
    assert early.speedup_predicted < 1 < 16 / 12


def test_contended_pieces_are_named_so() -> None:
    costs = Costs({0: timing(1.0)}, {("x", 1): timing(1.0, contended=True), ("ngram", 0): timing(1e-6, contended=True)})
    assert costs.contended("x")
    assert not costs.contended("y")
    assert not costs.contended("ngram")
    assert Costs({0: timing(1.0, contended=True)}, {}).contended("y")


def pair(text: int, round_: int, plain_s: float, drafted_s: float, tokens: int = 10, ours: float = 1.0) -> Pair:
    written = tuple(range(tokens))
    cycles = (Cycle(1, 1), Cycle(1, 0))
    return Pair("d", 1, text, round_, Run(written, plain_s, ours), Run(written, drafted_s, ours), cycles)


def test_speedup_weighs_texts_by_their_time_and_takes_the_median_pair() -> None:
    pairs = [pair(0, 0, 10.0, 5.0), pair(0, 1, 10.0, 5.0), pair(0, 2, 10.0, 50.0), pair(1, 0, 30.0, 30.0)]
    assert speedup(pairs) == pytest.approx(40 / 35)


def test_greedy_rounds_repeat_the_same_cycles() -> None:
    pairs = [pair(0, 0, 1, 1), pair(0, 1, 1, 1), pair(1, 0, 1, 1)]
    assert [len(text) for text in texts_of(pairs, greedy=True)] == [2, 2]
    assert [len(text) for text in texts_of(pairs, greedy=False)] == [4, 2]
    assert shapes(texts_of(pairs, greedy=True)[0]) == {(1, 1): 2}


def test_pairs_that_disagree_or_had_no_processor_are_contended() -> None:
    assert not contended("cpu", [pair(0, i, 10.0, 5.0 + 0.1 * i) for i in range(4)])
    assert contended("cpu", [pair(0, i, 10.0, 5.0 + 3.0 * i) for i in range(4)])
    assert contended("cpu", [pair(0, i, 10.0, 5.0, ours=0.7) for i in range(4)])


def test_cycles_that_all_did_the_same_leave_a_doubt() -> None:
    """Nothing kept in 30 cycles does not prove that nothing ever is; nor does it show where nothing was drafted."""
    assert tokens_interval([[Cycle(4, 0)] * 10] * 3) == (1.0, pytest.approx(1.4))
    assert tokens_interval([[Cycle(4, 4)] * 10] * 3) == (pytest.approx(4.6), 5.0)
    assert tokens_interval([[Cycle(0, 0)] * 10] * 3) == (1.0, 1.0)
