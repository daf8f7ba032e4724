"""Recipes of vllm-project/recipes: a model, its variants, and the options each is served with.

Every variant is a deployment of its own: the recipe leaves the devices open, and says only how much memory they must
have together.
"""

from collections.abc import Iterator, Mapping

from infopt.gate.found import Argument, Found
from infopt.gate.nodes import Node, Text, at, get, items, mapping, text

FORM = "vLLM recipe"


def recognises(document: Node) -> bool:
    """A model with an id, and variants of it."""
    return isinstance(get(document, "model.model_id"), Text) and isinstance(get(document, "variants"), dict)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """One deployment for each variant."""
    model = text(get(document, "model.model_id"))
    least = text(get(document, "model.min_vllm_version"))
    name = text(get(document, "meta.slug")) or model
    for key, variant in mapping(get(document, "variants")).items():
        if not isinstance(key, Text) or not isinstance(variant, dict):
            continue
        memory = text(variant.get("vram_minimum_gb"))
        asked = f"devices with {memory} GB together by the recipe; --gpu says which" if memory else "--gpu"
        yield Found(
            name=f"{name}/{key}",
            form=FORM,
            line=key.line,
            arguments=(
                *_words(get(document, "model.base_args"), "model.base_args"),
                *_words(variant.get("extra_args"), f"variants.{key}.extra_args"),
            ),
            environment={
                str(one): value
                for of in (get(document, "model.base_env"), variant.get("extra_env"))
                for one, value in mapping(of).items()
                if isinstance(value, Text)
            },
            model=text(variant.get("model_id")) or model,
            engine="vllm",
            version=_version(least),
            missing=(("GPU count", asked),),
        )


def _words(node: Node, path: str) -> Iterator[Argument]:
    for position, word in enumerate(items(node)):
        if isinstance(word, Text):
            line, column = word.within(0)
            yield Argument(str(word), line, column, f"{path}[{position}]")


def _version(least: Text | None) -> Text | None:
    """The oldest version the recipe holds for."""
    return at(least.lstrip(">=v "), least.line, least.column) if least is not None else None
