"""The pre-deployment checklist: each item answered by a number, an observation, or a person."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.terms import Caveat
from infopt.profiles.checklists import Checklist, Item, commands, filled, with_own
from infopt.profiles.engines import engine_name, need_server
from infopt.studies import checklist_checks as checks
from infopt.studies.checklist_answers import Signature, refuse_unknown
from infopt.studies.checklist_context import FEATURE_WORDS, FEATURES, Answer, Context, Deployment, Status, needs


@dataclass(frozen=True, slots=True)
class Typed:
    """Options as they were typed, for commands to be copied.

    scenario  all that describe the deployment
    plan      those that `infopt plan` takes
    without_kv, without_weights  all but the format of the cache, of the weights
    """

    scenario: str
    plan: str
    without_kv: str
    without_weights: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An item with its answer.

    status     computed, or what a person made of it
    command    what would measure or settle it; empty where that takes words (`item.how`)
    applies    whether the deployment has what the item is about
    signature  who stands for it, None where nobody does yet
    """

    order: int
    item: Item
    answer: Answer
    status: Status
    command: str
    applies: bool
    signature: Signature | None


@dataclass(frozen=True, slots=True)
class Section:
    """The items of one list."""

    title: str
    source: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """The whole list.

    features     what the deployment uses, in words
    assumptions  what was filled in
    ignored      keys of the observation that are not known
    """

    context: Context
    sections: tuple[Section, ...]
    features: tuple[str, ...]
    assumptions: tuple[Caveat, ...]
    ignored: tuple[str, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for section in self.sections for entry in section.entries)

    def count(self, status: Status) -> int:
        """Items of a status."""
        return sum(entry.status == status for entry in self.entries)

    @property
    def left_out(self) -> int:
        """Items that pass because the deployment has nothing they are about."""
        return sum(not entry.applies and entry.status == "pass" for entry in self.entries)

    @property
    def passes(self) -> bool | None:
        """False where any fails, None where any needs a measurement or a person."""
        if self.count("fail"):
            return False
        return None if self.count("needs-measurement") else True


def lists_of(paths: Sequence[Path]) -> tuple[Checklist, ...]:
    """The shipped lists and a team's own, every name in them known."""
    found = with_own(paths)
    own = found[len(found) - len(paths) :] if paths else ()
    for path, one in zip(paths, own, strict=True):
        for item in one.items:
            checks.refuse_unknown(item, str(path))
    return found


def checklist(
    deployment: Deployment,
    lists: Sequence[Checklist],
    answers: Mapping[str, Signature],
    typed: Typed,
) -> Checked:
    """The lists answered for a deployment.

    Errors: InfoptError for a placement no engine runs, an engine that serves nobody, an answer to an unknown item, a
    pass against a number without a note.
    """
    need_server(engine_name(deployment.request.engine))
    refuse_unknown(answers, [item.id for one in lists for item in one.items])
    context = Context(deployment)
    words = command_words(context, typed)
    sections, order = [], 0
    for one in lists:
        entries = []
        for item in one.items:
            order += 1
            entries.append(entry(order, item, context, words, answers.get(item.id)))
        sections.append(Section(one.title, one.source, tuple(entries)))
    features = tuple(FEATURE_WORDS[name] for name, has in FEATURES.items() if has(context))
    ignored = deployment.observed.ignored if deployment.observed is not None else ()
    assumptions = (*context.assumed, *context.plan.assumptions)
    return Checked(context, tuple(sections), features, assumptions, ignored)


def entry(order: int, item: Item, context: Context, words: Mapping[str, str], signature: Signature | None) -> Entry:
    """One item: does it apply, what does its check say, what does a person say."""
    applies = not item.applies_to or any(context.uses(feature) for feature in item.applies_to)
    answer = _answer(item, context) if applies else _without(item)
    command = filled(answer.settle or item.command, words)
    return Entry(order, item, answer, _status(item, answer, signature), command, applies, signature)


def _answer(item: Item, context: Context) -> Answer:
    if item.check is None:
        return needs(f"no ledger computes it: answered by the {item.who}")
    return checks.run(item, context)


def _without(item: Item) -> Answer:
    none = " and no ".join(FEATURE_WORDS[feature] for feature in item.applies_to)
    return Answer("pass", None, "", f"does not apply: no {none}")


def _status(item: Item, answer: Answer, signature: Signature | None) -> Status:
    """A person settles what is open; against a number only with a reason."""
    if signature is None:
        return answer.status
    if signature.status == "pass" and answer.status == "fail" and not signature.note.strip():
        raise InfoptError(
            f"{item.id}: signed by {signature.by}, but the number fails it ({answer.reason}); "
            "to pass it all the same, give the reason as `note` in --answers"
        )
    return signature.status


def command_words(context: Context, typed: Typed) -> dict[str, str]:
    """What the words in braces stand for here."""
    s, known = context.scenario, commands()
    server, now, plain = known.server, context.situation.scenario, context.deployment.model.compute_dtype
    lengths = {
        "model": shlex.quote(s.model.id),
        "isl": str(s.input_tokens),
        "osl": str(s.output_tokens),
        "server": server,
    }
    vendor = known.vendors.get(s.accelerator.vendor, known.vendors["other"])

    def benchmark(at_once: int) -> str:
        prompts = str(at_once * known.prompts_per_request)
        return filled(known.benchmark, {**lengths, "at_once": str(at_once), "prompts": prompts})

    observe = filled(known.observe, lengths)
    return {
        **lengths,
        "scenario": typed.scenario,
        "plan": typed.plan,
        "before_kv": f"{typed.without_kv} --to-kv {now.kv_format}",
        "before_weights": f"{typed.without_weights} --weights {plain} --to-weights {now.weight_format}",
        "batch": str(s.batch),
        "benchmark": benchmark(s.batch),
        "benchmark_alone": benchmark(1),
        "topology": vendor.topology,
        "driver": vendor.driver,
        "memory": vendor.memory,
        "batch_metrics": observe,
        "prefix_metrics": observe,
        "acceptance_metrics": filled(known.acceptance, lengths),
        "preemption_metrics": observe,
    }
