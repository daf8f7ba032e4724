"""The figures of an observation, from what counters grew by and what gauges say.

decoded tokens    = output tokens - first tokens (the prompt's own pass gives those)
tokens_per_step   = decoded tokens / steps that gave an answer tokens, summed over answers; steps without a draft
                    are among them. Where they are not counted: itl / tpot; else the engine's own average; else
                    decoded / (decoded - accepted), since a step gives what it accepts and one token
effective_batch   = (answer steps + first tokens) / steps of the engine, of each engine; else the mean of a gauge
by Little's law   = decoded tokens/s x time per output token, else requests/s x time in the server
                    (N = lambda W, https://doi.org/10.1287/opre.9.3.383)
tpot_s            = where no histogram has it: time of answer steps / decoded tokens
draft_share       = drafts / answer steps
acceptance_per_position[i] = accepted at position i / drafts
prompt_tokens     = of requests that finished, else of all: vLLM V0 counts a prompt once for each of its chunks
prefix_hit_share  = hits / queries, unknown at 0 / 0
kv_pool_tokens    = as the engine says, else blocks x tokens of a block
"""

from collections.abc import Sequence
from typing import Any

from infopt.observing.observation import Spread, spread_of
from infopt.observing.readings import ROUNDED, Readings
from infopt.observing.windows import Snapshot
from infopt.probes.draft_counters import Counts, counts_of

APART = 0.25  # of each other: two ways to count the batch that contradict
MOVING = 0.5  # the batch of one half of the scrapes against the other's
SCRAPES = 6  # from which a moving load is looked for
MOST_PER_STEP = 64  # tokens a step gives a sequence: no draft and no bundle of steps is longer


class Figures(Readings):
    """One engine's figures."""

    def all(self) -> dict[str, Any]:
        """Every field of an Observation that this text has something for."""
        output, first = self.counter("output_tokens"), self.counter("first_tokens")
        decoded = None if output is None or first is None else max(0.0, output - first)
        times = {name: self.time(name) for name in ("tpot_s", "itl_s", "ttft_s", "e2e_s", "queue_s", "prefill_s")}
        decoded = self._of_one_time(self.decoded if decoded is None else decoded)
        times["tpot_s"] = self._tpot(times["tpot_s"], decoded, times["prefill_s"])
        speculation = self._speculation(decoded, output)
        speculation["tokens_per_step"] = self._tokens_per_step(decoded, output, times)
        return {
            **times,
            **speculation,
            **self._prefixes(),
            **self._pool(),
            **self._rates(),
            "effective_batch": self._batch(first),
            "effective_batch_by_littles_law": self._by_littles_law(output if decoded is None else decoded, times),
            "waiting": self.gauge("waiting"),
            "requests": self.requests(output),
            "prompt_tokens": self.counter("finished_prompt_tokens") or self.counter("prompt_tokens"),
            "output_tokens": output,
            "steps": self.counter("steps"),
            "preemptions": self.counter("preemptions"),
        }

    def _of_one_time(self, decoded: float | None) -> float | None:
        """Decoded tokens; None where the steps that gave them cannot be those that are counted."""
        steps = self.counter("answer_steps")
        if not decoded or not steps or decoded <= MOST_PER_STEP * steps:
            return decoded
        self.notes.append(f"left out: {decoded:.6g} tokens in {steps:.6g} steps of sequences: not counted side by side")
        return None

    def _tpot(self, found: Spread | None, decoded: float | None, prefill: Spread | None) -> Spread | None:
        """The histogram's; its mean from the time of steps, or of requests after their prompts, where it has none."""
        if (found is not None and found.mean is not None) or not decoded:
            return found
        seconds, requests = self.counter("answer_seconds"), self.counter("requests")
        inference = self.counter("inference_seconds")
        if seconds is None and inference is not None and requests and prefill and prefill.mean is not None:
            seconds = max(0.0, inference - prefill.mean * requests)
        if not seconds:
            return found
        if found is None:
            return spread_of("tpot_s", seconds / decoded, decoded)
        return found.model_copy(update={"mean": seconds / decoded})

    def _tokens_per_step(
        self, decoded: float | None, output: float | None, times: dict[str, Spread | None]
    ) -> float | None:
        steps, own, accepted = self.counter("answer_steps"), self.counter("accepted"), self._accepted()
        if steps and (own is not None or decoded):
            return 1 + own / steps if own is not None else decoded / steps if decoded else None
        itl, tpot = times["itl_s"], times["tpot_s"]
        if itl and tpot and itl.mean and tpot.mean:
            return itl.mean / tpot.mean
        emitted = decoded or output
        if emitted and accepted is not None and emitted > accepted:
            return emitted / (emitted - accepted)
        lengths = self.readings("accept_length")
        said = [length for length in lengths if length > 0]
        if said:
            self.notes.append("tokens_per_step is the engine's own average of its last intervals")
            return max(1.0, sum(said) / len(said))
        return 1.0 if lengths and output else None

    def _accepted(self) -> float | None:
        """Tokens of drafts that were accepted."""
        drafts = self.names.draft_names()
        if drafts is None or drafts.accepted is None:
            return self.counter("accepted")
        return self.grown.total(drafts.prefix + drafts.accepted)

    def _drafts(self) -> Counts:
        """Counts of speculation, under the names of draft_counters or this record's own."""
        drafts, way = self.names.draft_names(), self.names.positions
        if drafts is not None:
            return counts_of(self.grown, drafts)
        positions = {} if way is None or way.label is None else self.grown.by(way.metric, way.label)
        whole = set(positions) == {str(i) for i in range(len(positions))}
        return Counts(
            accepted=self.counter("accepted"),
            drafted=self.counter("drafted"),
            drafts=self.counter("drafts"),
            per_position=tuple(positions[str(i)] for i in range(len(positions))) if whole else (),
        )

    def _speculation(self, decoded: float | None, output: float | None) -> dict[str, Any]:
        """Drafts: how often, how long, and what was accepted of them."""
        counts = self._drafts()
        if not counts.drafts:
            # Counters that are always there say nothing of whether it speculates.
            drafts = self.names.draft_names()
            is_off = counts.drafts is None or drafts is None or not drafts.only_when_enabled
            return {} if is_off or not output else {"draft_share": 0.0}
        steps, emitted = self.counter("answer_steps"), decoded or output
        if steps is None and emitted and counts.accepted is not None:
            steps = emitted - counts.accepted
        if steps is None and counts.accepted is not None:
            given = 1 + counts.accepted / counts.drafts
            self.notes.append(
                f"a step with a draft gives {given:.3g} tokens; how many steps had one is not in this text"
            )
        rates = [min(1.0, count / counts.drafts) for count in counts.per_position]
        return {
            "draft_share": min(1.0, counts.drafts / steps) if steps and steps > 0 else None,
            "drafted_tokens": None if counts.drafted is None else counts.drafted / counts.drafts,
            "acceptance_per_position": tuple(rates) if rates and rates == sorted(rates, reverse=True) else None,
        }

    def _batch(self, first: float | None) -> float | None:
        """Sequences in a step: counted over steps where that can be, else by a gauge."""
        running = self.readings("running")
        if not running and any(snapshot.slots is not None for snapshot in self.snapshots):
            running = [float(snapshot.slots) for snapshot in self.snapshots if snapshot.slots is not None]
        gauge = sum(running) / len(running) if running else None
        self._moving(running)
        counted = self._counted_batch(first)
        if counted is None:
            if gauge == 0 and self.counter("output_tokens"):
                self.notes.append("no sequence ran at any scrape, so there is no batch by the gauge")
            return gauge or None  # no step has none
        if gauge is not None and len(running) >= SCRAPES and abs(gauge - counted) > APART * max(gauge, counted):
            self.notes.append(
                f"the batch is {counted:.3g} by tokens and steps, {gauge:.3g} by the gauge (idle time counts there)"
            )
        return counted

    def _counted_batch(self, first: float | None) -> float | None:
        steps, answer_steps = self.counter("steps"), self.counter("answer_steps")
        if steps and answer_steps is not None and not self.names.at_end:
            return (answer_steps + (first or 0.0)) / steps * self._engines()
        means = self.readings("batch_mean")
        if not means or not steps or not self.steady:
            return None
        if len(self.snapshots) == 1:
            return means[-1]
        last = self._total_steps(self.snapshots[-1])
        before = self._total_steps(self.snapshots[0])
        if len(means) < len(self.snapshots) or last is None or before is None:
            return None
        if self.names.rounding(means[-1]) * last > ROUNDED * means[-1] * (last - before):
            self.notes.append(
                "the engine's mean batch since its start has too few digits for this window: by the gauge"
            )
            return None
        return max(0.0, means[-1] * last - means[0] * before) / (last - before)

    def _engines(self) -> int:
        """Engines behind the address, by the labels of their steps."""
        ways = self.names.counters.get("steps", ())
        said = [dict(labels) for way in ways for labels in way.chosen(self.grown)]
        return max(1, len({tuple(labels.get(rank) for rank in self.names.ranks) for labels in said}))

    def _total_steps(self, snapshot: Snapshot) -> float | None:
        found = [way.chosen(snapshot.metrics) for way in self.names.counters.get("steps", ())]
        return next((sum(series.values()) for series in found if series), None)

    def _moving(self, running: Sequence[float]) -> None:
        half = len(running) // 2
        if len(running) < SCRAPES:
            return
        early, late = sum(running[:half]) / half, sum(running[-half:]) / half
        if abs(early - late) > MOVING * max(early, late):
            self.notes.append(f"the load moved: a batch of {early:.3g} in the first half, {late:.3g} in the second")

    def _by_littles_law(self, tokens: float | None, times: dict[str, Spread | None]) -> float | None:
        if not self.seconds:
            return None
        tpot, e2e, requests = times["tpot_s"], times["e2e_s"], self.counter("requests")
        if tokens is not None and tpot and tpot.mean is not None:
            return tokens / self.seconds * tpot.mean
        if requests is not None and e2e and e2e.mean is not None:
            self.notes.append("Little's law counts requests in the server, those that wait too")
            return requests / self.seconds * e2e.mean
        return None

    def _prefixes(self) -> dict[str, Any]:
        """Whether prefixes are kept, and what share of prompts was found."""
        hits, queries = self._hits()
        caching = self._caching()
        if caching is None and hits:
            caching = True
        share = hits / queries if hits is not None and queries else None
        if hits is None:
            share = self.gauge("prefix_hit_share")
        return {
            "prefix_caching": caching,
            "prefix_hit_share": None if caching is False else self.share("prefix_hit_share", share),
        }

    def _hits(self) -> tuple[float | None, float | None]:
        """What was found and what was looked for, by the first way that has both."""
        for way in self.names.found:
            hits = way.hits.total(self.grown)
            queries = way.queries.total(self.grown) if way.queries else None
            misses = way.misses.total(self.grown) if way.misses else None
            if queries is None and hits is not None and misses is not None:
                queries = hits + misses
            if hits is not None and queries is not None:
                return hits, queries
        return None, None

    def _caching(self) -> bool | None:
        way = self.names.caching
        found = {} if way is None else way.chosen(self.snapshots[-1].metrics)
        said = {dict(labels).get(way.label or "") for labels in found} if way else set()
        return {"True": True, "False": False}.get(next(iter(said)) or "") if len(said) == 1 else None

    def _pool(self) -> dict[str, Any]:
        """The pool of the cache, as the last scrape has it, and how full it was."""
        tokens, block, blocks = self.last("kv_pool_tokens"), self.last("block_tokens"), self.last("blocks")
        if tokens is None and block is not None and blocks is not None:
            tokens = block * blocks
        uses = self.readings("kv_use_share")
        peaks = [max(found) for s in self.snapshots if (found := self.reading("kv_use_share", s.metrics))]
        if not uses and tokens:
            uses = peaks = [used / tokens for used in self.readings("kv_used_tokens")]
        if not uses and blocks:
            uses = peaks = [used / blocks for used in self.readings("used_blocks")]
        return {
            "kv_pool_tokens": tokens,
            "kv_pool_bytes": self.last("kv_pool_bytes"),
            "block_tokens": block,
            "blocks": blocks,
            "max_concurrency": self.last("max_concurrency"),
            "kv_use_share": self.share("kv_use_share", sum(uses) / len(uses) if uses else None),
            "kv_use_peak_share": self.share("kv_use_share", max(peaks, default=None)),
        }

    def _rates(self) -> dict[str, Any]:
        """Work per second of one device, where the engine counts it."""
        if not self.seconds:
            return {}
        found: dict[str, Any] = {}
        for name, field in (("read_bytes", "read_bytes_per_s"), ("flop", "flop_per_s")):
            for way in self.names.counters.get(name, ()):  # type: ignore[call-overload]
                series = way.chosen(self.grown)
                if any(series.values()):  # 0: the engine was not asked to count
                    found[field] = sum(series.values()) / len(series) * way.scale / self.seconds
                    break
        return found
