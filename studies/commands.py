"""The engine command line of a scenario: what to paste to start one replica as it was planned."""

import os
import shlex
from collections.abc import Iterator

from infopt.frozen import dataclass
from infopt.ledgers.scenario import Scenario
from infopt.profiles.engine_flags import EngineFlags, engine_flags

CONFIG_FILE = "engine.yaml"


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command that starts one replica, and what must be done by hand.

    parts   the program with its fixed arguments, then each option with its value; quoted for a shell
    words   the same as the program receives it
    config  text of the configuration file that the words name; empty where there is none
    """

    parts: tuple[str, ...]
    notes: tuple[str, ...]
    words: tuple[str, ...]
    config: str

    @property
    def text(self) -> str:
        return " ".join(self.parts)


def serve_command(s: Scenario) -> Command:
    """Start line of one replica; its limit of sequences is the scenario's `max_num_seqs`."""
    known = engine_flags(s.engine.engine)
    model, notes = _model(s, known)
    told = facts(s, known)
    words = [[word.format(model=model) for word in known.start]]
    config: dict[str, str] = {}
    for flag in known.flags:
        value = told[flag.fact]
        if value is None or value == flag.default or not flag.holds_for(s.engine_version):
            continue
        if flag.config_key:
            config[flag.config_key] = value
        else:
            words.append([flag.flag] if flag.bare else [flag.flag, value])
    if config:
        words.append([known.config_flag, CONFIG_FILE])
    parts = [shlex.join(group) for group in words]
    text = _yaml(config)
    if text:
        quoted = shlex.quote(text.replace("\n", "\\n"))
        parts.insert(0, f"printf {quoted} > {CONFIG_FILE} &&")
    flat = tuple(word for group in words for word in group)
    return Command(tuple(parts), (*notes, *_placement_notes(s)), flat, text)


def facts(s: Scenario, known: EngineFlags) -> dict[str, str | None]:
    """What flags can say of a scenario, as text; None for what need not be said."""
    shares = s.sharing_replicas > 1
    own_cache = s.kv_format == s.model.compute_dtype
    return {
        "tp": str(s.tp),
        "pp": str(s.pp),
        "dp": str(s.dp),
        "ep": str(s.ep),
        "attention_world": str(s.tp * s.dp if shares else s.tp),
        "shares_experts": "true" if shares else None,
        "experts_whole": "true" if s.ep > 1 else None,
        "context_tokens": str(s.context_tokens),
        "all_context_tokens": str(s.context_tokens * s.max_num_seqs * s.dp),
        "sequences": str(s.max_num_seqs),
        "all_sequences": str(s.max_num_seqs * s.dp),
        "batched_tokens": str(s.max_num_batched_tokens),
        "utilization": f"{s.utilization:g}",
        "kv_format": None if own_cache else known.kv_formats.get(s.kv_format),
        "quantization": known.converts.get(s.weight_format) if _converted(s) else None,
        "row_split": "row" if s.tp > 1 else None,
    }


def _stored_format(s: Scenario) -> str:
    return s.model.quantization.format if s.model.quantization else s.model.compute_dtype


def _converted(s: Scenario) -> bool:
    """Whether the weights are a 16-bit checkpoint served in another format."""
    return s.model.quantization is None and s.weight_format != s.model.compute_dtype


def _model(s: Scenario, known: EngineFlags) -> tuple[str, list[str]]:
    """The model as the engine takes it, and what stands for one that infopt cannot name."""
    named = _name(s)
    as_stored = s.weight_format == _stored_format(s)
    makes_it = _converted(s) and s.weight_format in known.converts
    notes = []
    if makes_it:
        notes.append(
            f"{s.weight_format}: made of the 16-bit checkpoint while loading; a checkpoint of it starts faster"
        )
    if known.model_is_file:
        if named.lower().endswith(".gguf") and as_stored:
            return named, notes
        return f"MODEL-{s.weight_format}.gguf", [f"MODEL-{s.weight_format}.gguf: {s.model.id} as a GGUF file"]
    if as_stored or makes_it:
        return named, notes
    placeholder = f"CHECKPOINT-{s.weight_format.upper()}"
    return placeholder, [f"{placeholder}: a checkpoint of {s.model.id} quantized to {s.weight_format}"]


def _name(s: Scenario) -> str:
    """Repository, or the file or folder the geometry was read from."""
    path = s.model.source
    if s.model.source_kind in ("file", "gguf") and os.path.exists(path):
        return os.path.dirname(path) or "." if os.path.basename(path) == "config.json" else path
    return s.model.id


def _placement_notes(s: Scenario) -> Iterator[str]:
    """What a command line for one machine leaves out."""
    node = s.accelerator.devices_per_node
    if node and s.gpus > node:
        yield f"{s.gpus} devices span {-(-s.gpus // node)} machines: the engine needs its own multi-node start there"
    if s.kv_format != s.model.compute_dtype and s.kv_format not in engine_flags(s.engine.engine).kv_formats:
        yield f"{s.engine.engine} takes no option for a {s.kv_format} cache"


def _yaml(config: dict[str, str]) -> str:
    """The configuration file: dotted keys become nested ones."""
    lines: list[str] = []
    for key, value in config.items():
        outer, _, inner = key.partition(".")
        lines += [f"{outer}:", f"  {inner}: {value}"] if inner else [f"{outer}: {value}"]
    return "".join(f"{line}\n" for line in lines)
