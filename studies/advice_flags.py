"""The option that makes a change in the engine that was observed, and whether its version takes it."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import yaml

from infopt.boundaries.chunked_prefill import resident
from infopt.boundaries.drafting import method_of
from infopt.boundaries.engine_settings import refused_by, setting, written
from infopt.boundaries.parallelism import choose
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Judgement, Technique
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario
from infopt.observing.observation import Observation
from infopt.profiles.engine_flags import engine_flags
from infopt.studies.commands import serve_command

# Where the option follows from another scenario: its start line beside the present one.
BY_SCENARIO = ("kv-quantization", "weight-quantization", "parallelism", "more-sequences")
GIB = 2**30
_VERSION = re.compile(r"(?<![\w.])(?:b\d+|\d+(?:\.\d+)+(?:\.post\d+)?)")


@dataclass(frozen=True, slots=True)
class Setting:
    """What to set.

    text      options as they are typed, or words; empty where the engine has none for it
    versions  of the engine it was looked up for
    note      why a version does not take it, or is not known to; empty where all do
    by_hand   what no option does, and what stands for a name that infopt cannot know
    """

    text: str
    versions: tuple[str, ...]
    note: str
    by_hand: tuple[str, ...] = ()


def versions_of(o: Observation, given: str | None, s: Scenario) -> tuple[str, ...]:
    """The version given, the ends of the range observed, else that whose constants are used."""
    if given is not None:
        return (given,)
    return tuple(dict.fromkeys(_VERSION.findall(o.version_guess or ""))) or (s.engine_version,)


def setting_for(
    technique: str, before: Situation, judged: Judgement, versions: Sequence[str], after: Scenario | None, on: bool
) -> Setting:
    """The setting that turns a technique on, or off.

    after  the scenario with the change, where the option follows from it
    """
    s, name = before.scenario, tuple(versions)
    if after is not None:
        text, by_hand = _beside(s, after, name[-1], on)
        note = refused_by(s.engine.engine, name, text) if text else "no option of the engine is known for it"
        return Setting(text, name, note, by_hand)
    row = setting(s.engine.engine, name[-1], technique, method_of(before) if technique == "speculative" else None)
    text = "" if row is None else written(row.enable if on else row.disable, words(before, judged))
    if not text:
        return Setting("", name, f"no option of the engine is known for it: infopt boundary {technique}")
    return Setting(text, name, refused_by(s.engine.engine, name, text))


def words(before: Situation, judged: Judgement) -> dict[str, str]:
    """What the words of a setting stand for here; one that is not known stays as it is written."""
    load = before.load
    figures = {f.name: f.value for f in judged.figures if f.value is not None}
    found: dict[str, str] = {}
    drafted = figures.get("best_drafted_tokens") or figures.get("drafted_tokens")
    if drafted is not None:
        found |= {"drafted": f"{drafted:.0f}", "verified": f"{drafted + 1:.0f}"}
    if load.draft.scenario is not None:
        found["draft"] = shlex.quote(load.draft.scenario.model.id)
    chunk = figures.get("chunk_tokens")
    if chunk is not None:
        found |= {"chunk": f"{chunk:.0f}", "budget": f"{chunk + max(1.0, resident(before) - 1):.0f}"}
    if load.offload.capacity_bytes is not None:
        found["gib"] = f"{load.offload.capacity_bytes / GIB:.0f}"
    if load.adapters.slots is not None:
        found["slots"] = str(load.adapters.slots)
    if load.adapters.rank is not None:
        found["rank"] = str(load.adapters.rank)
    return found


def scenario_after(technique: Technique, before: Situation) -> Scenario | None:
    """The scenario with a technique in use, where its option follows from that; None where it does not."""
    if technique.id == "parallelism":
        best = choose(before).best
        return None if best is None else best.scenario
    if technique.id not in BY_SCENARIO or technique.apply is None:
        return None
    try:
        return technique.apply(before, "").scenario
    except InfoptError:
        return None


def _beside(s: Scenario, after: Scenario, version: str, on: bool) -> tuple[str, tuple[str, ...]]:
    """Options that one start line has and the other has not, and what is to be done by hand."""
    old, new = (serve_command(replace(one, engine_version=version)) for one in (s, after))
    own = [name for name in (engine_flags(s.engine.engine).config_flag, "printf") if name]
    parts = [[part for part in one.parts if _option(part) not in own] for one in (old, new)]
    there = {_option(part) for part in parts[1]}
    changed = [part for part in parts[1][1:] if part not in parts[0]]
    gone = [_option(part) for part in parts[0] if _option(part) not in there]
    texts = [*_served(parts[0][0], parts[1][0]), *_keys(old.config, new.config)]
    texts += [" ".join(changed)] if changed else []
    texts += [f"leave {' and '.join(gone)} out"] if gone else []
    notes = tuple(note for note in new.notes if note not in old.notes)
    text, groups = "; ".join(texts), s.gpus // max(1, after.gpus)
    return f"{groups} servers; on each: {text}" if on and groups > 1 else text, notes


def _served(old: str, new: str) -> list[str]:
    """The model that is served in place of another."""
    before, after = shlex.split(old), shlex.split(new)
    return [f"serve {word} in place of {now}" for now, word in zip(before, after, strict=False) if now != word]


def _keys(old: str, new: str) -> list[str]:
    """Keys of a configuration file that the change sets or takes out, dotted."""
    before, after = (dict(_dotted(yaml.safe_load(text) or {})) for text in (old, new))
    found = [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]
    found += [f"leave {key} out" for key in before if key not in after]
    return [f"in the configuration file, {'; '.join(found)}"] if found else []


def _dotted(node: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(node, dict):
        yield above, node
        return
    for key, value in node.items():
        yield from _dotted(value, f"{above}.{key}".strip("."))


def _option(part: str) -> str:
    return part.split(" ", 1)[0]
