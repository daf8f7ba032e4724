"""Reads `infopt.yaml`: strictly, with line and column in every error; the keys are the tables below.

The same tables make the JSON Schema (`gate/policy_schema.py`).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from infopt.errors import InfoptError, nearest
from infopt.frozen import dataclass
from infopt.gate.engines import engines
from infopt.gate.nodes import Node, Text, at, documents
from infopt.gate.policy import Accepted, Margins, Override, Policy, RulePolicy, Said, Targets, Workload
from infopt.gate.policy_kinds import (
    COUNT,
    DATE,
    FLOAT,
    HARDWARE,
    RATE,
    SECONDS,
    SEVERITY,
    SHARE,
    TEXT,
    TOKENS,
    USD,
    VERSION,
    Kind,
    kind_of,
    one_of,
    value_of,
)
from infopt.gate.reading import text_of
from infopt.gate.rules.registry import catalogue, rule
from infopt.records import Record

DEFAULT_FILE = "infopt.yaml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section: the record's field it fills, and the kind of its value."""

    field: str
    kind: Kind
    required: bool = False


Table = Mapping[str, Key]
WORKLOAD: Table = {
    "input_tokens": Key("input_tokens", TOKENS),
    "output_tokens": Key("output_tokens", TOKENS),
    "rate": Key("rate_per_s", RATE),
    "concurrency": Key("concurrency", COUNT),
    "shared_prefix_tokens": Key("shared_prefix_tokens", TOKENS),
    "prefix_share": Key("prefix_share", SHARE),
    "prefixes": Key("prefixes", COUNT),
    "prefix_skew": Key("prefix_skew", FLOAT),
    "routing": Key("routing", one_of("random", "least-loaded", "affinity")),
}
TARGETS: Table = {
    "ttft": Key("ttft_s", SECONDS),
    "tpot": Key("tpot_s", SECONDS),
    "goodput": Key("goodput_share", SHARE),
    "start": Key("start_s", SECONDS),
    "usd_per_million_output_tokens": Key("usd_per_million_output_tokens", USD),
}
MARGINS: Table = {"memory": Key("memory_share", SHARE), "latency": Key("latency_share", SHARE)}
SECTIONS: Mapping[str, tuple[Table, type[Record]]] = {
    "workload": (WORKLOAD, Workload),
    "targets": (TARGETS, Targets),
    "margins": (MARGINS, Margins),
}
SAID: Table = {
    "match": Key("match", TEXT, required=True),
    "model": Key("model", TEXT),
    "gpu": Key("gpu", HARDWARE),
    "engine": Key("engine", one_of(*engines())),
    "engine_version": Key("engine_version", VERSION),
}
ACCEPTED: Table = {
    "rule": Key("rule", TEXT, required=True),
    "match": Key("match", TEXT),
    "reason": Key("reason", TEXT),
    "until": Key("until", DATE),
}
OVERRIDE_KEYS = ("match", "hardware", *SECTIONS, "rules")
KEYS = ("hardware", *SECTIONS, "rules", "overrides", "deployments", "accept")


def find_policy(path: Path | None) -> Policy:
    """The policy of a file, of `infopt.yaml` here, or an empty one."""
    if path is not None:
        return read_policy(path)
    here = Path(DEFAULT_FILE)
    return read_policy(here) if here.is_file() else Policy()


def read_policy(path: Path) -> Policy:
    """The policy of a file. Errors: InfoptError with line and column."""
    nodes = list(documents(text_of(str(path)), str(path)))
    if len(nodes) > 1:
        raise InfoptError(f"{path}: holds {len(nodes)} YAML documents; a policy is one")
    return _Reader(str(path)).policy(nodes[0] if nodes else None)


class _Reader:
    """Reads nodes; `place` is where a node without a place of its own stands."""

    def __init__(self, file: str) -> None:
        self.file = file

    def policy(self, node: Node) -> Policy:
        start = _start(node)
        keys = self.mapping({} if node is None else node, start, KEYS)
        common = self.common(keys)
        return Policy(
            **common,
            overrides=self.each(keys.get("overrides"), keys, "overrides", self.override),
            deployments=self.each(keys.get("deployments"), keys, "deployments", self.said),
            accept=self.each(keys.get("accept"), keys, "accept", self.accepted),
            file=self.file,
        )

    def common(self, keys: Mapping[str, Node]) -> dict[str, Any]:
        """What the file and its overrides both hold."""
        found: dict[str, Any] = {}
        if "hardware" in keys:
            found["hardware"] = self.scalar(HARDWARE, keys["hardware"], _key(keys, "hardware"))
        for section, (table, record) in SECTIONS.items():
            if section in keys:
                found[section] = record(**self.fields(keys[section], _key(keys, section), table))
        if "rules" in keys:
            found["rules"] = self.rules(keys["rules"], _key(keys, "rules"))
        return found

    def override(self, node: Node, place: Text) -> Override:
        keys = self.mapping(node, place, OVERRIDE_KEYS)
        if "match" not in keys:
            raise self.wrong(place, "overrides: an entry needs `match`, a glob")
        return Override(match=self.scalar(TEXT, keys["match"], _key(keys, "match")), **self.common(keys))

    def said(self, node: Node, place: Text) -> Said:
        return Said(**self.fields(node, place, SAID), line=_start(node, place).line)

    def accepted(self, node: Node, place: Text) -> Accepted:
        start = _start(node, place)
        made = Accepted(**self.fields(node, place, ACCEPTED), line=start.line, column=start.column)
        try:
            rule(made.rule)
        except InfoptError as error:
            raise self.wrong(node["rule"], str(error)) from error
        return made

    def rules(self, node: Node, place: Text) -> dict[str, RulePolicy]:
        found: dict[str, RulePolicy] = {}
        known = {r.id: r for r in catalogue()}
        for id, body in self.mapping(node, place, tuple(known), "rule").items():
            key = _key(node, id)
            if not isinstance(body, dict):
                found[str(id)] = RulePolicy(severity=self.scalar(SEVERITY, body, key))
                continue
            keys: Table = {"severity": Key("severity", SEVERITY)} | {
                name: Key(name, kind_of(default)) for name, default in known[id].parameters.items()
            }
            read = self.fields(body, key, keys)
            found[str(id)] = RulePolicy(severity=read.pop("severity", None), parameters=read)
        return found

    def fields(self, node: Node, place: Text, table: Table) -> dict[str, Any]:
        """The values of a section by field."""
        keys = self.mapping(node, place, tuple(table))
        missing = [name for name, key in table.items() if key.required and name not in keys]
        if missing:
            raise self.wrong(_start(node, place), f"`{missing[0]}` is missing")
        return {table[name].field: self.scalar(table[name].kind, keys[name], _key(keys, name)) for name in keys}

    def scalar(self, kind: Kind, node: Node, place: Text) -> Any:
        try:
            return value_of(kind, node)
        except InfoptError as error:
            raise self.wrong(node if isinstance(node, Text) else place, f"{place}: {error}") from error

    def mapping(self, node: Node, place: Text, known: tuple[str, ...], what: str = "key") -> dict[str, Node]:
        """A mapping whose keys are all known; an unknown one lists the nearest."""
        if not isinstance(node, dict):
            where = node if isinstance(node, Text) else place
            raise self.wrong(where, f"{place or 'the policy'}: must be a mapping of keys")
        for key in node:
            if key not in known:
                close = nearest(key, known)
                hint = f"nearest: {', '.join(close)}" if close else f"there are {', '.join(known)}"
                raise self.wrong(key, f"unknown {what} {str(key)!r}; {hint}")
        return node

    def each(self, node: Node, keys: Mapping[str, Node], name: str, read: Callable[[Node, Text], T]) -> list[T]:
        """The entries of a list."""
        if name not in keys:
            return []
        key = _key(keys, name)
        if not isinstance(node, list):
            raise self.wrong(node if isinstance(node, Text) else key, f"{key}: must be a list of entries")
        return [read(entry, _start(entry, key)) for entry in node]

    def wrong(self, place: Text, message: str) -> InfoptError:
        return InfoptError(f"{self.file}:{place.line}:{place.column}: {message}")


def _key(keys: Mapping[str, Node], name: str) -> Text:
    """A key where it stands."""
    return next(key for key in keys if key == name and isinstance(key, Text))


def _start(node: Node, otherwise: Text | None = None) -> Text:
    """Where a node begins: a scalar itself, the first key of a mapping."""
    first = next(iter(node), None) if isinstance(node, dict) else node
    return first if isinstance(first, Text) else otherwise or at("", 1, 1)
