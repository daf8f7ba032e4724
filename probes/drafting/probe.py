"""`probe draft`: what a draft yields with real weights, by the clock, beside what the arithmetic predicts.

Each prompt is decoded plainly and with each draft, back to back; the pieces of a cycle are timed apart from these runs,
at the same context, and give the prediction. Prompts are read before the clock starts: the figures are of decoding.
Not yet run on a GPU: there steps are launched kernel by kernel and wait for each token, as they do here.

    speedup measured = sum of n s_plain / sum of n s_draft      over texts of n tokens, s: seconds a token
                       s_plain / s_draft is the median over rounds of pairs run one after the other
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Acceptance
from infopt.probes.drafting.choices import Maker, refuse_twins
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.costs import Costs, measure_costs, predict
from infopt.probes.drafting.counting import per_position, shapes, share_with_draft, tokens_interval, tokens_per_step
from infopt.probes.drafting.decoding import Limits, Target
from infopt.probes.drafting.draft import Draft
from infopt.probes.drafting.model import Model, default_model, open_model
from infopt.probes.drafting.prompts import Prompt, bundled_prompts, by_kind, read_prompts
from infopt.probes.drafting.runs import Pair, contended, pair_of, speedup, texts_of
from infopt.probes.findings import Findings, Part, now
from infopt.probes.runtime import inference
from infopt.probes.sampling import Sampling
from infopt.probes.setting import Setting, scoped

LONGEST_TOKENS = 4096  # of a prompt and its answer: more is another memory problem, not another acceptance
MOST_DRAFTED = 16
ROUNDS = 3
QUICK_SAMPLING = Sampling(width=0.1, fewest=6, budget_s=2.0, warm_ups=1)
FULL_SAMPLING = Sampling(width=0.1, fewest=9, budget_s=15.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of text with its tokens, and how far each way of decoding goes: a model that drafts badly would take
    many times as long as the plain run, and its share of accepted tokens is known after fewer cycles.
    """

    kind: str
    prompts: tuple[list[int], ...]
    drafted: tuple[int, ...]
    plain: Limits
    lookups: Limits
    models: Limits
    rounds: int
    source: str


def draft(
    setting: Setting,
    target: str | None,
    drafts: Sequence[str],
    prompts: Path | None,
    drafted: Sequence[int],
    temperature: float,
    tokens: int,
) -> Part:
    """Acceptance and speedup of each draft on each kind of text; one part a kind.

    target       folder or GGUF file, None: SmolLM2-135M
    drafts       ngram[:N], exit:LAYERS, bits:N, folders or GGUF files
    prompts      the user's, None: the bundled ones
    drafted      tokens proposed at most in a cycle, each tried
    temperature  0: greedy
    tokens       written for each prompt
    Errors: InfoptError, one line, for models, drafts, prompts and numbers that cannot be used.
    """
    _check(drafted, temperature, tokens)
    given = read_prompts(prompts) if prompts is not None else bundled_prompts()
    model = open_model(setting, target if target is not None else default_model(), LONGEST_TOKENS)
    cases = list(_cases(setting, model, given, drafted, tokens, "the user's" if prompts else "bundled"))
    with scoped(setting):
        yield from _subject(setting, model, cases, drafts, temperature, tokens).measure(cases)


def _subject(
    setting: Setting, model: Model, cases: Sequence[Case], drafts: Sequence[str], temperature: float, tokens: int
) -> "Subject":
    """The target and its drafts, with caches for the longest prompt."""
    drafted = max(count for case in cases for count in case.drafted)
    longest_tokens = max(len(ids) for case in cases for ids in case.prompts) + tokens + 2 * drafted + 2
    choice = Choice(setting.runtime.torch, temperature)
    with inference(setting.runtime):
        decoder = model.decoder(setting, longest_tokens)
        maker = Maker(setting, model, decoder, choice, longest_tokens)
        made = tuple(maker.make(name) for name in drafts)
        refuse_twins(made)
        return Subject(setting, model, Target(decoder, choice, longest_tokens), made)


def _check(drafted: Sequence[int], temperature: float, tokens: int) -> None:
    for count in drafted:
        if not 1 <= count <= MOST_DRAFTED:
            raise InfoptError(f"--drafted {count}: 1 to {MOST_DRAFTED} tokens are expected")
    if not drafted or temperature < 0 or tokens < 4:
        raise InfoptError(
            "a draft probe needs drafted tokens, a temperature of 0 or more and at least 4 tokens to write"
        )


def _cases(
    setting: Setting, model: Model, given: Sequence[Prompt], drafted: Sequence[int], tokens: int, whose: str
) -> Iterator[Case]:
    """Kinds with their prompts in tokens. A quick run takes one prompt of each, a third of the tokens plainly."""
    most = LONGEST_TOKENS - tokens - 2 * max(drafted) - 2
    if most < 1:
        raise InfoptError(f"--osl {tokens}: prompt and output together are at most {LONGEST_TOKENS} tokens")
    quick, ends, source = setting.quick, model.text.ends, f"infopt probe draft, {whose} prompts"
    plain = Limits(-(-tokens // 3) if quick else tokens, tokens, ends)
    models = Limits(tokens, -(-tokens // (6 if quick else 2)), ends)
    for kind, prompts in by_kind(given).items():
        chosen = []
        for prompt in prompts[:1] if quick else prompts:
            ids = prompt.tokens(model.text)
            if len(ids) > most:
                raise InfoptError(f"{prompt.where}: {len(ids)} tokens; a draft probe takes prompts up to {most}")
            chosen.append(ids)
        lookups, rounds = Limits(tokens, tokens, ends), 1 if quick else ROUNDS
        yield Case(kind, tuple(chosen), tuple(drafted), plain, lookups, models, rounds, source)


@dataclass(frozen=True, slots=True)
class Subject:
    """A target with its drafts."""

    setting: Setting
    model: Model
    target: Target
    drafts: tuple[Draft, ...]

    def measure(self, cases: Sequence[Case]) -> Part:
        """Each kind in turn; pieces are timed before each, before the first alone where it is quick."""
        total = sum(len(case.prompts) * case.rounds * len(case.drafted) for case in cases) * len(self.drafts)
        done, began, costs = 0, time.perf_counter(), None
        for case in cases:
            pairs: dict[tuple[str, int], list[Pair]] = {}
            # Modes of torch are left before a part is handed over: what runs then is not ours.
            with inference(self.setting.runtime):
                costs = costs if costs is not None and self.setting.quick else self._costs(case)
                for pair in self._pairs(case):
                    pairs.setdefault((pair.draft, pair.most_drafted), []).append(pair)
                    done, spent = done + 1, time.perf_counter() - began
                    self.setting.tell(f"drafts on {case.kind}", spent, spent / done * total)
            found = tuple(self._acceptance(case, pairs[key], costs) for key in sorted(pairs))
            yield Findings(acceptance=found, notes=self._notes() if case is cases[0] else ())

    def _pairs(self, case: Case) -> Iterator[Pair]:
        """Each draft and plain decoding in turn, on each prompt, round by round."""
        for number, ids in enumerate(case.prompts):
            for round_ in range(case.rounds):
                for draft, count in self._order(case, round_):
                    limits = case.models if draft.reads else case.lookups
                    yield pair_of(self.target, draft, ids, count, case.plain, limits, (number, round_))

    def _order(self, case: Case, round_: int) -> list[tuple[Draft, int]]:
        """Drafts in another order each round, so that none always follows the same."""
        order = [(draft, count) for draft in self.drafts for count in case.drafted]
        at = round_ % len(order)
        return order[at:] + order[:at]

    def _costs(self, case: Case) -> Costs:
        """Pieces at the mean context of the case."""
        mean = sum(map(len, case.prompts)) // len(case.prompts) + case.plain.tokens // 2
        whole = [token for ids in case.prompts for token in ids]
        context = (whole * (mean // len(whole) + 1))[:mean]
        sampling = QUICK_SAMPLING if self.setting.quick else FULL_SAMPLING
        return measure_costs(self.target, self.drafts, context, max(case.drafted), sampling, self.setting.tell)

    def _acceptance(self, case: Case, pairs: Sequence[Pair], costs: Costs) -> Acceptance:
        draft, drafted = pairs[0].draft, pairs[0].most_drafted
        greedy = not self.target.choice.temperature
        texts = texts_of(pairs, greedy)
        cycles = [cycle for text in texts for cycle in text]
        emitted = tokens_per_step(cycles)
        low, high = tokens_interval(texts)
        predicted = predict(costs, draft, shapes(cycles), emitted)
        return Acceptance(
            target=self.model.name,
            draft=draft,
            text=case.kind,
            sampling=self.target.choice.name,
            temperature=float(self.target.choice.temperature),
            drafted=drafted,
            per_position=per_position(cycles, drafted),
            share_with_draft=share_with_draft(cycles),
            tokens_per_step=emitted,
            tokens_per_step_low=low,
            tokens_per_step_high=high,
            tokens=sum(cycle.kept + 1 for cycle in cycles),
            step_s=predicted.step_s,
            verify_s=predicted.verify_s,
            draft_s=predicted.draft_s,
            speedup_measured=speedup(pairs),
            speedup_predicted=predicted.speedup_predicted,
            speedup_printed=predicted.speedup_printed,
            contended=costs.contended(draft) or contended(self.setting.runtime.kind, pairs),
            taken=now(),
            source=f"{case.source}: {len(case.prompts)} texts, {case.rounds} rounds, {self.model.format}",
        )

    def _notes(self) -> tuple[str, ...]:
        return tuple(
            f"{draft.name} is computed in {self.model.format}: its drafting time is that, not a packed kernel's"
            for draft in self.drafts
            if draft.name.startswith("bits:")
        )
