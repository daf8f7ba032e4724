"""`probe draft --endpoint URL`: how many drafted tokens a running server accepts, on prompts one gives it.

Any OpenAI-compatible server that reports acceptance: vLLM and llama.cpp by the counters of /metrics, older llama.cpp
servers and SGLang by what their answers hold (probes/data/draft_counters). Prompts are sent one after the other; what
the counters grow by meanwhile is theirs, as long as nobody else uses the server. Where somebody does, it is said.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.calibration import Acceptance
from infopt.probes.draft_counters import (
    CounterNames,
    Counts,
    Estimate,
    counts_of,
    counts_of_replies,
    difference,
    engine_of,
    estimate,
)
from infopt.probes.drafting.prompts import Prompt, bundled_prompts, by_kind, read_prompts
from infopt.probes.findings import Findings, Part, now
from infopt.probes.metrics_text import Metrics, parse_metrics
from infopt.probes.sampling import Told
from infopt.probes.server import Server

COMPLETIONS, CHAT, METRICS = "/v1/completions", "/v1/chat/completions", "/metrics"
_OTHERS_SHARE = 0.1  # by which tokens the server counts may differ from those of our answers
_WIDE = 0.2  # of tokens per step: an interval that is said to be wide
_GUESS_S = 5.0  # of one answer, until the first has come


def endpoint(
    tell: Told,
    url: str,
    prompts: Path | None = None,
    output_tokens: int = 256,
    temperature: float = 0.0,
    environment: Mapping[str, str] = os.environ,
) -> Part:
    """Acceptance by kind of text, as the server at `url` counts it; one part a kind.

    prompts        JSON lines or text; without it the small sets of the package
    output_tokens  at most, of each answer
    Errors: InfoptError where nothing answers, what answers is no such server, wants a key, reports no drafts, or was
    restarted in between.
    """
    kinds = by_kind(bundled_prompts() if prompts is None else read_prompts(prompts))
    talk = Talk.begin(Server(url, environment), output_tokens, temperature)
    total = sum(len(group) for group in kinds.values())
    begun, done = time.monotonic(), 0
    tell("draft: asking the server", 0.0, _GUESS_S * total)
    drafts_seen = False
    for kind, group in kinds.items():
        before = talk.scrape()
        replies = []
        for prompt in group:
            replies.append(talk.ask(prompt))
            done += 1
            spent = time.monotonic() - begun
            tell(f"draft: {kind}", spent, spent * total / done)
        yield found(talk, kind, replies, before, talk.scrape(), drafts_seen)
        drafts_seen = True  # or that part had been an error


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation with one server.

    model    it serves;  names  of its counters, None for an engine nobody knows
    silence  why /metrics says nothing, None where it does
    """

    server: Server
    model: str
    names: CounterNames | None
    silence: str | None
    output_tokens: int
    temperature: float

    @classmethod
    def begin(cls, server: Server, output_tokens: int, temperature: float) -> "Talk":
        """Which model, whose server, and whether it has metrics."""
        model, owner = served(server)
        metrics, silence = read_metrics(server)
        return cls(server, model, engine_of(owner, metrics), silence, output_tokens, temperature)

    def scrape(self) -> Metrics | None:
        """The metrics now; None where there never were any. Errors: InfoptError where there were."""
        if self.silence:
            return None
        metrics, silence = read_metrics(self.server)
        if metrics is None:
            raise InfoptError(f"{self.server.base}: {silence}, where there were metrics before; measure again")
        return metrics

    def ask(self, prompt: Prompt) -> Mapping[str, Any]:
        """One answer; a text goes to completions, and to chat where there are none."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.output_tokens,
            "temperature": self.temperature,
            "stream": False,
        }
        if self.names is not None and self.names.request:
            body[self.names.request] = True
        if not prompt.messages:
            reply = self.server.post(COMPLETIONS, {**body, "prompt": prompt.text})
            if reply.status not in (404, 405):
                return self.server.object(COMPLETIONS, reply)
        messages = list(prompt.messages) or [{"role": "user", "content": prompt.text}]
        return self.server.object(CHAT, self.server.post(CHAT, {**body, "messages": messages}))


def served(server: Server) -> tuple[str, str | None]:
    """The first model a server lists, and who it says owns it."""
    path = "/v1/models"
    listed = server.object(path, server.get(path)).get("data")
    first = listed[0] if isinstance(listed, list) and listed else None
    name = first.get("id") if isinstance(first, dict) else None
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= 300:
        raise InfoptError(f"{server.base}{path}: lists no model; is it an OpenAI-compatible server?")
    owner = first.get("owned_by") if isinstance(first, dict) else None
    return name, owner if isinstance(owner, str) else None


def read_metrics(server: Server) -> tuple[Metrics | None, str | None]:
    """What /metrics says, or why it says nothing."""
    reply = server.get(METRICS)
    if reply.status != 200:
        return None, f"{METRICS} answers {server.meaning(reply)}"
    try:
        return parse_metrics(reply.body, server.base + METRICS), None
    except InfoptError as error:
        return None, str(error)


def found(
    talk: Talk,
    kind: str,
    replies: Sequence[Mapping[str, Any]],
    before: Metrics | None,
    after: Metrics | None,
    drafts_seen: bool,
) -> Findings:
    """Acceptance on one kind of text, from whatever the server counts; `drafts_seen` on another kind before."""
    own = counts_of_replies(replies, talk.names)
    counted = None
    if talk.names is not None and before is not None and after is not None:
        counted = difference(counts_of(before, talk.names), counts_of(after, talk.names), talk.names.engine)
    counts, by = chosen(talk, own, counted, after, drafts_seen)
    said = estimate(counts)
    notes = list(_others(own, counted)) if by == METRICS else []
    contended = bool(notes)
    if said.high - said.low > _WIDE * said.tokens_per_step:
        notes.append(f"{said.low:.2f} to {said.high:.2f} tokens a step is what {said.steps:.0f} steps can tell")
    source = f"{talk.names.engine if talk.names else 'server'}, {by}: {said.how}"
    record = _record(talk, kind, said, source, contended)
    return Findings(acceptance=(record,), notes=tuple(f"draft: {kind}: {note}" for note in notes))


def chosen(
    talk: Talk, own: Counts, counted: Counts | None, after: Metrics | None, drafts_seen: bool
) -> tuple[Counts, str]:
    """The counts to believe, and where they are from: what says most comes first.

    Errors: InfoptError where nothing says anything about drafts.
    """
    if counted is not None and counted.accepted is not None and _speculates(talk, after):
        return replace(counted, requests=own.requests), METRICS
    if own.steps or (own.accepted is not None and own.drafted):
        return own, "answers"
    if counted is not None and counted.steps:
        return replace(counted, requests=own.requests), METRICS
    if counted is not None and counted.accept_length:
        return Counts(own.tokens, own.requests, accept_length=counted.accept_length), f"gauge of {METRICS}"
    if drafts_seen and own.tokens is not None:
        return replace(own, accepted=0.0, drafted=0.0, drafts=0.0), "answers, none of which had a draft"
    raise InfoptError(_no_drafts(talk, after))


def _speculates(talk: Talk, after: Metrics | None) -> bool:
    """Whether counters mean that drafts are made: some engines count 0 where they do not speculate."""
    if talk.names is None or after is None:
        return False
    return talk.names.only_when_enabled or bool(counts_of(after, talk.names).drafted)


def _no_drafts(talk: Talk, after: Metrics | None) -> str:
    """One line: what was looked for, and what is there instead."""
    base = talk.server.base
    if talk.names is None:
        reason = talk.silence or "its metrics are of no engine that is known"
        return f"{base} reports no drafts: {reason}; vLLM, llama.cpp and SGLang are read"
    if after is None:
        return f"{base} ({talk.names.engine}) reports no drafts in its answers, and {talk.silence}"
    unknown = talk.names.unknown(after)
    others = f" (it counts {', '.join(unknown[:5])}, which this version does not know)" if unknown else ""
    return f"{base} ({talk.names.engine}) reports no drafts: speculation is not enabled{others}"


def _others(own: Counts, counted: Counts | None) -> Iterator[str]:
    """Whether somebody else used the server meanwhile, or another server behind its address answered."""
    if counted is None or counted.tokens is None or not own.tokens:
        return
    if abs(counted.tokens - own.tokens) > _OTHERS_SHARE * own.tokens + own.requests:
        yield (
            f"the server counted {counted.tokens:.0f} tokens where our answers have {own.tokens:.0f}: others used it, "
            "or several servers answer at this address"
        )


def _record(talk: Talk, kind: str, said: Estimate, source: str, contended: bool) -> Acceptance:
    return Acceptance(
        target=talk.model,
        draft="the server's own",
        text=kind,
        sampling="greedy" if talk.temperature == 0 else "sampled",
        temperature=float(talk.temperature),
        drafted=said.drafted,
        per_position=list(said.per_position),
        share_with_draft=said.share_with_draft,
        tokens_per_step=said.tokens_per_step,
        tokens_per_step_low=said.low,
        tokens_per_step_high=said.high,
        tokens=said.tokens,
        contended=contended,
        taken=now(),
        source=source,
    )
