"""What `models` shows of a model: its layers, its parameters by part, its cache, and what was published about it."""

from collections.abc import Iterable
from dataclasses import dataclass

from infopt.errors import unknown_name
from infopt.ledgers.cache import CacheSizes, model_cache
from infopt.ledgers.paging import layout
from infopt.ledgers.scenario import stages
from infopt.ledgers.weights import stored_weights_bytes
from infopt.profiles.catalogue import Published, aliases, catalogue_entry, catalogue_names, load_catalogue_model
from infopt.profiles.formats import kv_format_name, load_kv_format, weight_bits_by_part
from infopt.profiles.geometry import ModelProfile
from infopt.studies.derivations import CachePart, cache_parts

DEFAULT_CONTEXT_TOKENS = 32768


@dataclass(frozen=True, slots=True)
class Reserved:
    """What an engine takes for one sequence where that is not the logical bytes."""

    engine: str
    bytes_per_sequence: float
    blocks: int
    block_tokens: int
    groups: int


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model with its cache in its native type at one context.

    kv_bytes_per_sequence   logical, windows and latents exact
    reserved                what the default engine allocates on one device without parallelism
    published               what somebody else published about its size, None outside the catalogue
    """

    model: ModelProfile
    weight_format: str
    kv_format: str
    stored_weights_bytes: float
    context_tokens: int
    cache: CacheSizes
    parts: tuple[CachePart, ...]
    kv_bytes_per_sequence: float
    reserved: Reserved | None
    published: Published | None


def model_view(model: ModelProfile, context_tokens: int | None = None) -> ModelView:
    """Everything `models show` prints; the context is 32768 tokens, or the model's limit where that is less."""
    limit = model.max_position_tokens or DEFAULT_CONTEXT_TOKENS
    context = context_tokens or min(DEFAULT_CONTEXT_TOKENS, limit)
    weight_format, bits = weight_bits_by_part(model, None)
    kv_format = kv_format_name(model, None)
    kv = load_kv_format(kv_format)
    cache = model_cache(model, kv)
    return ModelView(
        model=model,
        weight_format=weight_format,
        kv_format=kv_format,
        stored_weights_bytes=stored_weights_bytes(model, bits, as_stored=True),
        context_tokens=context,
        cache=cache,
        parts=tuple(cache_parts(model, kv)),
        kv_bytes_per_sequence=float(cache.kv_bytes_per_sequence(context)),
        reserved=_reserved(model, context),
        published=catalogue_entry(model.id).published if model.id in catalogue_names() else None,
    )


def _reserved(model: ModelProfile, context_tokens: int) -> Reserved | None:
    """What the default engine takes for one sequence on one device of the first common accelerator."""
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.hardware.catalogue import common_accelerators, load_accelerator
    from infopt.studies.scenarios import Request, build

    device = HardwareChoice(load_accelerator(common_accelerators()[0]), 1, "")
    s = build(model, device, Request(context_tokens=context_tokens)).scenario
    page = layout(stages(model, 1)[0], s)
    if not page.kinds:
        return None
    engine = f"{s.engine.engine} {s.engine_version}"
    blocks = page.request_blocks(context_tokens)
    return Reserved(engine, page.request_bytes(context_tokens), blocks, page.block_tokens, page.groups)


def find_models(pattern: str | None) -> list[str]:
    """Catalogue ids that hold every word of `pattern`, whatever the case; a short name finds the model it means.

    Raises InfoptError, with the nearest names, where nothing does.
    """
    if pattern is None:
        return list(catalogue_names())
    words = pattern.lower().split()
    meant = {id for alias, id in aliases().items() if alias.lower() == pattern.lower()}
    found = [id for id in catalogue_names() if id in meant or all(word in id.lower() for word in words)]
    if not found:
        known = [*catalogue_names(), *(name.split("/")[-1] for name in catalogue_names())]
        raise unknown_name("model", pattern, known, "`infopt models list` shows all")
    return found


def short_names() -> dict[str, list[str]]:
    """The curated short names of each catalogue id."""
    names: dict[str, list[str]] = {}
    for alias, id in aliases().items():
        names.setdefault(id, []).append(alias)
    return names


def views_of(ids: Iterable[str]) -> list[ModelView]:
    """The view of each model of the catalogue."""
    return [model_view(load_catalogue_model(id)) for id in ids]
