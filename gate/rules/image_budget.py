"""The token budget of a step against one image that must be taken whole."""

import re
from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.model_support import WholeImages, support
from infopt.profiles.catalogue import catalogue_config, catalogue_names
from infopt.profiles.engines import in_versions

CHECKED_FROM = "0.8.5"
NO_IMAGES = re.compile(r"""['"]?image['"]?\s*[:=]\s*0\b""")
# Before 0.11 the engine's record has the larger default for these devices too; 0.9.2 took it from them (arg_utils.py).
SMALL_DEFAULT, EXCEPT = 2048, "a100"


def check(case: Case) -> Iterator[Hit]:
    """What the file says, else the default of the version."""
    version, model = case.deployment.version, case.model
    if case.deployment.engine != "vllm" or model is None or version is None or case.value("text_only"):
        return
    if not in_versions(version, CHECKED_FROM, None) or NO_IMAGES.search(str(case.value("images") or "")):
        return
    row = next((row for row in support().whole_images if model.architecture in row.architectures), None)
    budget = None if row is None or not _applies(row, model.id) else _budget(case, row, version)
    if row is None or budget is None or budget >= row.tokens:
        return
    said = case.deployment.said_at("max_num_batched_tokens")
    default = "" if said is not None else ", vLLM's default here"
    yield Hit(
        f"an image takes {row.tokens:,} tokens at once, a step {budget:,}{default}",
        at=said or case.deployment.said_at("model"),
        detail="images of this model attend both ways, so prompts are not cut inside one",
        remedy=f"--max-num-batched-tokens {2 ** (row.tokens - 1).bit_length()}, or "
        """--limit-mm-per-prompt '{"image": 0}' for text alone""",
    )


def _applies(row: WholeImages, model_id: str) -> bool:
    if not row.where:
        return True
    config = catalogue_config(model_id) if model_id in catalogue_names() else {}
    text = config.get("text_config")
    return isinstance(text, dict) and all(text.get(key) == said for key, said in row.where.items())


def _budget(case: Case, row: WholeImages, version: str) -> int | None:
    said = case.value("max_num_batched_tokens")
    if isinstance(said, int):
        return said
    if case.plan is None or case.device is None or in_versions(version, row.raised_from, None):
        return None
    default = case.plan.scenario.max_num_batched_tokens
    return min(default, SMALL_DEFAULT) if EXCEPT in case.device.accelerator.id else default


RULE = Rule(
    id="image-budget",
    summary="a step takes fewer tokens than one image",
    severity="error",
    why="The engine compares both when it starts, and stops.",
    remedy="A larger budget, or no images.",
    check=check,
    source="vllm v1/core/encoder_cache_manager.py; vllm-project/vllm issue 42687, vllm-project/recipes issue 441",
)
