"""What is written behind: prompts of the user, or the small sets that come with the package (data/prompts)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.drafting.text import Text
from infopt.profiles.files import LocalFile

BUNDLED = Path(__file__).resolve().parent.parent / "data" / "prompts"
KINDS = ("code", "json", "prose")
MAX_BYTES = 20_000_000
RULE = "---"  # a line of its own between prompts of a plain text
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text or a conversation, of a kind that acceptance is reported by; `where` is its file and line."""

    kind: str
    text: str
    messages: tuple[Mapping[str, str], ...]
    where: str

    def tokens(self, text: Text) -> list[int]:
        """Tokens of the prompt. Errors: InfoptError where there are none, or no template turns messages into text."""
        ids = text.chat(self.messages) if self.messages else text.encode(self.text)
        if not ids:
            raise InfoptError(f"{self.where}: the prompt makes no tokens")
        return ids


def bundled_prompts() -> list[Prompt]:
    """Code, JSON and prose written for this project."""
    return [prompt for kind in KINDS for prompt in read_prompts(BUNDLED / f"{kind}.jsonl")]


def read_prompts(path: Path) -> list[Prompt]:
    """Prompts of a file: JSON lines with `prompt`, `text` or `messages` and, if wanted, `kind`; or plain text, parted
    by lines of --- where there are any, else by blank lines.

    Errors: InfoptError, with the line, for what is neither.
    """
    text = _content(path)
    jsonl = path.suffix in (".jsonl", ".ndjson") or text.lstrip()[:1] == "{"
    prompts = list(_from_lines(text, path) if jsonl else _from_text(text, path))
    if not prompts:
        raise InfoptError(f"{path}: holds no prompts")
    return prompts


def _content(path: Path) -> str:
    with LocalFile(path) as file:
        if file.size > MAX_BYTES:
            raise InfoptError(f"{file.name}: {file.size} bytes is more than the {MAX_BYTES} read as prompts")
        data = file.read_at(0, file.size)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InfoptError(f"{path}, line {line}: is not UTF-8") from error


def _from_text(text: str, path: Path) -> Iterator[Prompt]:
    lines = text.splitlines()
    ruled = any(line.strip() == RULE for line in lines)
    piece: list[str] = []
    first = 1
    for number, line in enumerate([*lines, RULE if ruled else ""], 1):
        if (line.strip() == RULE) if ruled else not line.strip():
            if "".join(piece).strip():
                yield Prompt("text", "\n".join(piece).strip("\n"), (), f"{path}, line {first}")
            piece, first = [], number + 1
        else:
            piece.append(line)


def _from_lines(text: str, path: Path) -> Iterator[Prompt]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _prompt(line, f"{path}, line {number}")


def _prompt(line: str, where: str) -> Prompt:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InfoptError(f"{where}: not JSON: {str(error)[:100]}") from error
    if not isinstance(entry, dict):
        raise InfoptError(
            f"{where}: a JSON {type(entry).__name__}; an object with prompt, text or messages is expected"
        )
    given = [key for key in ("prompt", "text", "messages") if entry.get(key) is not None]
    if len(given) != 1:
        raise InfoptError(
            f"{where}: one of prompt, text and messages is expected, there is {' and '.join(given) or 'none'}"
        )
    kind = entry.get("kind", "text")
    if not isinstance(kind, str) or not kind.isprintable() or not 1 <= len(kind) <= 40:
        raise InfoptError(f"{where}: kind must be a short text")
    value = entry[given[0]]
    if given[0] == "messages":
        return Prompt(kind, "", _messages(value, where), where)
    if not isinstance(value, str) or not value.strip():
        raise InfoptError(f"{where}: {given[0]} must be a text that is not empty")
    return Prompt(kind, value, (), where)


def _messages(value: Any, where: str) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list) or not value:
        raise InfoptError(f"{where}: messages must be a list of objects with role and content")
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES or not isinstance(message.get("content"), str):
            raise InfoptError(f"{where}: a message needs a role ({', '.join(ROLES)}) and a content that is text")
    return tuple({"role": message["role"], "content": message["content"]} for message in value)


def by_kind(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """Prompts grouped, in the order their kinds first appear."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.kind, []).append(prompt)
    return groups
