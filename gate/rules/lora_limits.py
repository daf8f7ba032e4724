"""Limits of adapters that do not go together, or that no version takes."""

from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule

# Every rank any version takes (1 and those above 64 by later ones only).
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def check(case: Case) -> Iterator[Hit]:
    """Ranks, adapters in host memory against those in a batch, adapters where they are switched off."""
    if case.deployment.engine != "vllm":
        return
    at = case.deployment.said_at
    if case.value("lora_modules") and not case.value("lora"):
        yield Hit(
            "--lora-modules names adapters, and --enable-lora is not there",
            at=at("lora_modules"),
            remedy="--enable-lora",
            confidence="likely",
        )
    if not case.value("lora"):
        return
    rank, slots, kept = case.value("lora_rank"), case.value("lora_slots", 1), case.value("lora_host_slots")
    if isinstance(rank, int) and rank not in RANKS:
        above = [known for known in RANKS if known > rank]
        yield Hit(
            f"--max-lora-rank {rank} is not among the ranks vllm takes: {', '.join(map(str, RANKS))}",
            at=at("lora_rank"),
            remedy=f"--max-lora-rank {above[0]}" if above else f"adapters of rank {RANKS[-1]} or less",
        )
    if isinstance(kept, int) and isinstance(slots, int) and kept < slots:
        yield Hit(
            f"--max-cpu-loras {kept} is below --max-loras {slots}",
            at=at("lora_host_slots"),
            remedy=f"--max-cpu-loras {slots} or more",
        )


RULE = Rule(
    id="lora-limits",
    summary="limits of adapters contradict each other",
    severity="error",
    why="The engine stops while it reads its options, or when it loads the first adapter.",
    remedy="Ranks of the list, at least as many adapters in host memory as in a batch, and --enable-lora.",
    check=check,
    source="vllm config/lora.py (MaxLoRARanks, _validate_lora_config), v1/worker/lora_model_runner_mixin.py; "
    "vllm-project/aibrix issue 1831",
)
