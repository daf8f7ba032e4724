"""NIM containers: what the image itself decides, in whichever form it stands.

The model is in the image's name. Which profile runs (precision, tensor and pipeline parallel) is chosen at start by the
devices found: what a profile's name does not say is taken as all devices of the pod, tensor parallel, and told.
"""

import re
from dataclasses import replace

from infopt.gate.addresses import is_place
from infopt.gate.engines import split_image
from infopt.gate.found import Argument, Found, argument_of
from infopt.gate.nodes import Text, at

REPOSITORY = re.compile(r"(?:.*/)?nim/([\w.-]+/[\w.-]+)")
# vllm-bf16-tp4-pp1, tensorrt_llm-h100-fp8-tp2-pp1-throughput
PROFILE = re.compile(r"(?:vllm|sglang|tensorrt_llm)-.*?\btp(\d{1,3})(?:-pp(\d{1,3}))?.*")
TENSOR, PIPELINE = "--tensor-parallel-size", "--pipeline-parallel-size"
# What is served instead of the image's own model: by 2.x, by the multi-LLM image of 1.x.
MODELS = {"NIM_MODEL_PATH", "NIM_MODEL_NAME"}
# Images without a model of their own.
FREE = ("/llm-nim", "/model-free-nim")
SIZES = {"NIM_TENSOR_PARALLEL_SIZE", "NIM_PIPELINE_PARALLEL_SIZE"}


def completed(found: Found) -> Found:
    """A NIM container with the model its image holds and the placement its profile has."""
    return _placed(_named(found))


def _named(found: Found) -> Found:
    said = found.model is not None and not is_place(found.model)
    if found.image is None or said or MODELS & set(found.environment):
        return found
    match = REPOSITORY.fullmatch(split_image(found.image)[0])
    if match is None or "$" in match[1] or "{" in match[1] or match[1].endswith(FREE):
        return found
    image = found.image
    return replace(found, model=at(match[1], image.line, image.column, image.style))


def _placed(found: Found) -> Found:
    if SIZES & set(found.environment) or any(one.text.startswith(TENSOR) for one in found.added):
        return found
    profile = found.environment.get("NIM_MODEL_PROFILE")
    match = PROFILE.fullmatch(profile.strip()) if profile is not None else None
    if profile is not None and match is not None:
        return replace(found, added=(*found.added, *_of_profile(match, profile)))
    count, counted = found.hardware.count, found.hardware.counted_at
    if not count or counted is None:
        return found
    why = "by its number alone" if profile else "which the file leaves to NIM"
    assumed = f"tensor parallel over all {count} devices of the pod: the profile, {why}, may use fewer"
    size = at(str(count), counted.line, counted.column, counted.style)
    return replace(
        found,
        added=(*found.added, argument_of(TENSOR, size, "resources")),
        assumed=(*found.assumed, assumed) if count > 1 else found.assumed,
    )


def _of_profile(match: re.Match[str], profile: Text) -> tuple[Argument, ...]:
    sizes = ((TENSOR, match[1]), (PIPELINE, match[2] or "1"))
    return tuple(
        argument_of(option, at(size, profile.line, profile.column, profile.style), "env NIM_MODEL_PROFILE")
        for option, size in sizes
    )
