"""The rejection rule keeps the target's distribution, whatever the draft; wrong rules are seen."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from infopt.probes.decoder import Decoder, Shape, Weights
from infopt.probes.drafting import choosing
from infopt.probes.drafting.by_decoder import DecoderDraft
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.decoding import Limits, Target, speculative
from infopt.probes.drafting.draft import Draft, Proposal
from infopt.probes.drafting.ngram import NgramDraft
from infopt.probes.drafting.rejection import keep_greedy, keep_sampled, pick
from infopt.probes.runtime import Runtime, inference, open_runtime

pytestmark = pytest.mark.xdist_group("torch")

VOCAB, TOKENS, WRONG_TOKENS, RUN = 6, 20_000, 2_500, 2_500
LEAST_P_VALUE = 1e-3


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return open_runtime("cpu", 1)


def markov(runtime: Runtime, seed: int, sharpness: float) -> Decoder:
    """A decoder without layers: the next token depends on the last alone, so every conditional can be counted."""
    torch = runtime.torch
    draw = torch.Generator().manual_seed(seed)
    shape = Shape(0, 16, 1, 1, 16, 16, VOCAB, tied=False)
    embedding = torch.randn(VOCAB, 16, generator=draw)
    head = torch.randn(VOCAB, 16, generator=draw) * sharpness / 4
    return Decoder(runtime, shape, Weights(embedding, head, torch.ones(16), ()), RUN + 64)


def transitions(decoder: Decoder) -> Any:
    """The exact p(next | last), [vocab, vocab]."""
    torch = decoder.runtime.torch
    tokens = torch.arange(VOCAB).unsqueeze(1)
    return decoder.forward(tokens, decoder.cache(VOCAB, 1), 0)[:, 0].double().softmax(-1)


class TableDraft(NgramDraft):
    """Draws from another chain's table, cheaply: the distribution is what matters here."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table, self.rows, self.random = table.float(), table.tolist(), random.Random(0)

    def propose(self, ids: Sequence[int], count: int) -> Proposal:
        tokens = [ids[-1]]
        for _ in range(count):
            tokens += self.random.choices(range(VOCAB), self.rows[tokens[-1]])
        return Proposal(tokens[1:], self.table[tokens[:-1]])


class CertainDraft(NgramDraft):
    """Certain of one token, whatever stands before."""

    def propose(self, ids: Sequence[int], count: int) -> Proposal:
        return Proposal([1] * count)


def draft_of(runtime: Runtime, choice: Choice, name: str) -> Draft:
    """From a model like the target to drafts that are nothing like it."""
    if name == "another model":
        return DecoderDraft("other", markov(runtime, 2, 1.0), choice, VOCAB)
    if name == "sharp":
        return TableDraft(transitions(markov(runtime, 3, 4.0)))
    return NgramDraft() if name == "lookup" else CertainDraft()


def counted(runtime: Runtime, name: str, tokens: int) -> tuple[Any, Any]:
    """Transitions of so many tokens, and how many of each the target's own distribution expects."""
    torch = runtime.torch
    choice = Choice(torch, 1.0)
    counts = torch.zeros(VOCAB, VOCAB, dtype=torch.float64)
    with inference(runtime):
        decoder = markov(runtime, 1, 1.0)
        draft = draft_of(runtime, choice, name)
        target = Target(decoder, choice, RUN + 64)
        for seed in range(tokens // RUN):
            choice.reseed(seed)
            prompt = [seed % VOCAB]
            target.begin(prompt)
            draft.begin(prompt, target.cache)
            written, cycles = speculative(target, draft, prompt, 2, Limits(RUN, RUN))
            assert sum(cycle.kept + 1 for cycle in cycles) == len(written)
            pairs = torch.tensor([prompt + written[:-1], written])
            counts.view(-1).index_add_(0, pairs[0] * VOCAB + pairs[1], torch.ones(len(written), dtype=torch.float64))
        return counts, counts.sum(1, keepdim=True) * transitions(decoder)


def p_value(torch: Any, counts: Any, expected: Any) -> float:
    """Tail of the chi-square distribution: the upper incomplete gamma function."""
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = VOCAB * (VOCAB - 1)
    return float(torch.special.gammaincc(torch.tensor(freedom / 2, dtype=torch.float64), statistic / 2))


@pytest.mark.parametrize("name", ["another model", "sharp", "lookup"])
def test_the_targets_distribution_is_kept(runtime: Runtime, name: str) -> None:
    counts, expected = counted(runtime, name, TOKENS)
    assert counts.sum() >= TOKENS
    assert expected.min() > 5  # where the chi-square distribution holds
    assert p_value(runtime.torch, counts, expected) > LEAST_P_VALUE


def always(p: Any, drafted: Sequence[int], q: Any, chances: Sequence[float]) -> tuple[int, int]:
    return len(drafted), pick(p[len(drafted)], chances[-1])


def from_target(p: Any, drafted: Sequence[int], q: Any, chances: Sequence[float]) -> tuple[int, int]:
    kept, _ = keep_sampled(p, drafted, q, chances)
    return kept, pick(p[kept], chances[-1])


@contextmanager
def rule(monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., tuple[int, int]]) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "keep_sampled", wrong)
        yield


@pytest.mark.parametrize("wrong", [always, from_target])
@pytest.mark.parametrize("name", ["sharp", "one token"])
def test_wrong_rules_are_seen(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., tuple[int, int]], name: str
) -> None:
    with rule(monkeypatch, wrong):
        assert p_value(runtime.torch, *counted(runtime, name, WRONG_TOKENS)) < LEAST_P_VALUE


def test_a_draft_that_is_the_target_is_always_kept(runtime: Runtime) -> None:
    torch = runtime.torch
    p = torch.rand(4, VOCAB, generator=torch.Generator().manual_seed(0)).softmax(-1)
    assert keep_sampled(p, [0, 1, 2], p[:3], [0.999999, 0.999999, 0.999999, 0.0]) == (3, 0)


def test_what_stays_has_the_smaller_of_both_chances(runtime: Runtime) -> None:
    torch = runtime.torch
    p, q = torch.tensor([[0.2, 0.8], [0.5, 0.5]]), torch.tensor([[0.8, 0.2]])
    # Token 0 stays with 0.2 / 0.8; else only token 1 is left.
    assert keep_sampled(p, [0], q, [0.2499, 0.9]) == (1, 1)
    assert keep_sampled(p, [0], q, [0.2501, 0.0]) == (0, 1)
    # A draft certain of its token: it stays with p, else anything but it.
    assert keep_sampled(p, [1], None, [0.7999, 0.1]) == (1, 0)
    assert keep_sampled(p, [1], None, [0.8001, 0.999]) == (0, 0)


def test_picking_follows_the_weights(runtime: Runtime) -> None:
    torch = runtime.torch
    weights = torch.tensor([0.0, 1.0, 0.0, 3.0, 0.0])
    assert [pick(weights, chance) for chance in (0.0, 0.2499, 0.25, 0.9999999)] == [1, 1, 3, 3]


def test_greedy_keeps_the_common_beginning() -> None:
    assert keep_greedy([3, 1, 4, 1], [3, 1, 5]) == (2, 4)
    assert keep_greedy([3, 1, 4, 1], [3, 1, 4]) == (3, 1)
    assert keep_greedy([3], []) == (0, 3)


def test_the_chain_is_worth_testing(runtime: Runtime) -> None:
    """The drafts differ from the target by enough that a wrong rule shows, and no transition is impossible."""
    with inference(runtime):
        p, q = (transitions(markov(runtime, seed, 1.0)) for seed in (1, 2))
    assert 0.2 < float((p - q).abs().sum(1).mean()) / 2 < 0.9
    assert float(p.min()) > 0.002
    assert math.isclose(float(p.sum()), VOCAB)
