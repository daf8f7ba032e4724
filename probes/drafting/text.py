"""Text to tokens and back: through `tokenizers`, from tokenizer.json or from the vocabulary inside a GGUF file."""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.drafting.gguf_strings import read_strings
from infopt.profiles.files import read_json_file
from infopt.records import read_yaml

VARIANTS = Path(__file__).resolve().parent.parent / "data" / "pretokenizers.yaml"
CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type (gguf.TokenType)
_GGUF_KEYS = (
    *(f"tokenizer.ggml.{key}" for key in ("model", "pre", "tokens", "merges", "token_type")),
    *("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"),
    *("tokenizer.ggml.eot_token_id", "tokenizer.chat_template"),
)


@dataclass(frozen=True, slots=True)
class Text:
    """A tokenizer.

    tokenizer  of the library
    first      token put before a text that the tokenizer itself does not put there
    ends       tokens that end an answer
    template   Jinja text that turns messages into a prompt, None where the model has none
    special    what the template may name: bos_token, eos_token
    """

    tokenizer: Any
    first: int | None
    ends: frozenset[int]
    template: str | None
    special: Mapping[str, str]
    where: str

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids if self.first is None or ids[:1] == [self.first] else [self.first, *ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones shown."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of a conversation, up to where the answer begins.

        Errors: InfoptError where the model has no template or the template refuses the messages.
        """
        if self.template is None:
            raise InfoptError(f"{self.where}: has no chat template; give prompts as text instead of messages")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refused
        given = {"messages": messages, "add_generation_prompt": True, **self.special}
        try:
            text = environment.from_string(self.template).render(given)
        except (TemplateError, TypeError, ValueError) as error:
            raise InfoptError(f"{self.where}: its chat template fails: {_short(error)}") from error
        # The template writes the first token itself.
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def differs(self, other: "Text") -> str | None:
        """How the vocabulary of another differs; None where the same numbers are the same tokens."""
        ours, theirs = self.tokenizer.get_vocab(), other.tokenizer.get_vocab()
        if ours == theirs:
            return None
        same = sum(theirs.get(token) == number for token, number in ours.items())
        return f"{same:,} of its {len(theirs):,} tokens have the number they have among the target's {len(ours):,}"


def _short(error: Exception) -> str:
    """An error of a library in one line."""
    return " ".join(str(error).split())[:120]


def _refused(text: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(text)


def folder_text(folder: str) -> Text:
    """The tokenizer of a Hugging Face folder.

    Errors: InfoptError where there is no tokenizer.json or it cannot be read.
    """
    tokenizer = _from_file(os.path.join(folder, "tokenizer.json"), folder)
    ends: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        path = os.path.join(folder, name)
        given = read_json_file(path).get("eos_token_id") if os.path.exists(path) else None
        ends |= {number for number in (given if isinstance(given, list) else [given]) if isinstance(number, int)}
    path = os.path.join(folder, "tokenizer_config.json")
    settings = read_json_file(path) if os.path.isfile(path) else {}
    named = {name: settings.get(name) for name in ("bos_token", "eos_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    special = {name: text for name, text in texts.items() if isinstance(text, str)}
    return Text(tokenizer, None, frozenset(ends), _template(folder, settings), special, folder)


def _template(folder: str, settings: Mapping[str, Any]) -> str | None:
    """chat_template.jinja, else the template in tokenizer_config.json."""
    path = Path(folder) / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InfoptError(f"{path}: cannot be read: {error}") from error
    given = settings.get("chat_template")
    if isinstance(given, list):  # several, by name
        named = [entry for entry in given if isinstance(entry, dict) and entry.get("name") == "default"]
        given = named[0].get("template") if named else None
    return given if isinstance(given, str) else None


def gguf_text(path: str) -> Text:
    """The tokenizer inside a GGUF file; a tokenizer.json beside it goes before.

    Errors: InfoptError for a vocabulary that is not byte-level, or whose splitting is not known.
    """
    folder = os.path.dirname(os.path.abspath(path))
    found = read_strings(path, _GGUF_KEYS)
    first = found.get("tokenizer.ggml.bos_token_id") if found.get("tokenizer.ggml.add_bos_token") else None
    ends = [found.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    beside = os.path.join(folder, "tokenizer.json")
    tokenizer = _from_file(beside, path) if os.path.exists(beside) else _byte_level(found, path)
    numbers = {name: found.get(f"tokenizer.ggml.{name}_id") for name in ("bos_token", "eos_token")}
    special = {name: tokenizer.id_to_token(number) for name, number in numbers.items() if number is not None}
    return Text(
        tokenizer,
        first,
        frozenset(n for n in ends if n is not None),
        found.get("tokenizer.chat_template"),
        special,
        path,
    )


def _from_file(path: str, where: str) -> Any:
    library = need_tokenizers()
    if not os.path.isfile(path):
        raise InfoptError(f"{where}: has no tokenizer.json; fetch it from where the model came from")
    try:
        return library.Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise InfoptError(f"{path}: not a tokenizer that `tokenizers` reads: {_short(error)}") from error


def _byte_level(found: Mapping[str, Any], path: str) -> Any:
    """A byte-level tokenizer from tokens and merges."""
    library = need_tokenizers()
    kind, pre = found.get("tokenizer.ggml.model"), found.get("tokenizer.ggml.pre", "gpt-2")
    known = variants()
    if kind != "gpt2" or pre not in known:
        raise InfoptError(
            f"{path}: its vocabulary is {str(kind)[:20]}/{str(pre)[:20]}, not a byte-level one of "
            f"{', '.join(known)}; put the model's tokenizer.json beside it"
        )
    tokens, merges = found.get("tokenizer.ggml.tokens", []), found.get("tokenizer.ggml.merges", [])
    variant, parts = known[pre], []
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    model = library.models.BPE(vocabulary, pairs, ignore_merges=variant["ignore_merges"])
    tokenizer = library.Tokenizer(model)
    split = library.pre_tokenizers
    if variant["digits"]:
        parts.append(split.Digits(individual_digits=True))
    if variant["pattern"]:
        parts.append(split.Split(library.Regex(variant["pattern"]), "isolated"))
    parts.append(split.ByteLevel(add_prefix_space=False, use_regex=variant["pattern"] is None))
    tokenizer.pre_tokenizer = split.Sequence(parts)
    tokenizer.decoder = library.decoders.ByteLevel()
    kinds = zip(tokens, found.get("tokenizer.ggml.token_type", []), strict=False)
    special = [token for token, kind in kinds if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_special_tokens([library.AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


@cache
def variants() -> dict[str, Any]:
    """Ways of splitting, by the name in a GGUF file."""
    return dict(read_yaml(VARIANTS)["variants"])


def need_tokenizers() -> Any:
    """The tokenizers module, or how to get it."""
    try:
        import tokenizers
    except ImportError as error:
        raise InfoptError("a draft probe needs tokenizers: pip install 'infopt[probe]'") from error
    return tokenizers
