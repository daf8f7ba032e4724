"""Tokens of a cache block against what the version takes."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.engines import in_versions
from infopt.profiles.flag_data import flag_table
from infopt.profiles.flag_tables import answer_at, lookup

FLAG = "--block-size"
# One engine only, whose kernels on NVIDIA's devices want multiples of 16, whatever the option lists.
KERNELS_FROM = "0.11"


def check(case: Case) -> Iterator[Hit]:
    """Sizes of versions without a list, and of an unknown one; lists of known versions are those of `choices`."""
    asked, version = case.value("block_tokens"), case.deployment.version
    if case.deployment.engine != "vllm" or not isinstance(asked, int):
        return
    at = case.deployment.said_at("block_tokens")
    if version is not None:
        answer = lookup("vllm", version, FLAG)
        kernels = in_versions(version, KERNELS_FROM, None) and _nvidia(case)
        if answer.flag is not None and (not answer.flag.choices or kernels) and asked % 16:
            yield Hit(
                f"a block of {asked} tokens is no multiple of 16"
                + (": no attention backend of this version has a kernel for it" if kernels else ""),
                at=at,
                severity="error" if kernels else None,
                confidence="likely",
            )
        return
    listed = _listed()
    if asked not in listed:
        shown = ", ".join(map(str, sorted(listed)))
        yield Hit(
            f"a block of {asked} tokens: versions with a list of sizes take {shown}",
            at=at,
            confidence="likely",
            remedy="16, or no block size at all",
        )


def _nvidia(case: Case) -> bool:
    return case.device is not None and case.device.accelerator.vendor == "nvidia"


def _numbers(choices: tuple[str, ...]) -> list[int]:
    return sorted(int(choice) for choice in choices if choice.isdigit())


def _listed() -> set[int]:
    """Sizes any version with a list takes."""
    table = flag_table("vllm")
    answers = (answer_at(table, at, FLAG) for at in range(len(table.releases)))
    return {n for answer in answers if answer.flag is not None for n in _numbers(answer.flag.choices)}


RULE = Rule(
    id="block-size",
    summary="the cache block is of a size this version does not take",
    severity="warning",
    why="The engine prints its usage and exits, or no attention backend has a kernel for it.",
    remedy="16, or leave it to the engine.",
    check=check,
    source="flag tables (profiles/data/flag_tables): a list of sizes up to 0.13, none in newer versions",
)
