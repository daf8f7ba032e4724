"""Adapter ranks against the limit, and the limit against what the engine takes."""

import json
import re
from collections.abc import Iterator

from infopt.gate.case import Case
from infopt.gate.engine_defaults import default_of
from infopt.gate.finding import Hit, Rule
from infopt.gate.placing import whole_number

RANK = re.compile(r"(?:^|[-_/.])(?:lora[-_]?)?(?:rank|r)[-_]?(\d{1,3})(?=$|[-_/.])", re.IGNORECASE)


def check(case: Case) -> Iterator[Hit]:
    """Ranks of the adapters a file names: said in the policy, else by their names; unknown ones say nothing."""
    if case.deployment.engine not in ("vllm", "sglang"):
        return
    limit = case.value("lora_rank")
    if limit is None and case.deployment.engine == "vllm":
        limit = default_of("lora_rank")
    if limit is None or not case.value("lora_modules"):
        return
    said = case.parameter("lora-rank", "ranks")
    for name in _adapters(str(case.value("lora_modules"))):
        by_name = RANK.search(name)
        rank = next((said[key] for key in (name, name.partition("=")[0]) if key in said), None)
        if rank is None and by_name is None:
            continue
        known = whole_number(rank if rank is not None else by_name[1] if by_name else "")
        if known is not None and known > limit:
            how = "" if rank is not None else ", by its name"
            yield Hit(
                f"adapter {name.partition('=')[0]} has rank {known}{how}, --max-lora-rank is {limit}",
                at=case.deployment.said_at("lora_rank") or case.deployment.said_at("lora_modules"),
                remedy=f"--max-lora-rank {known}",
                confidence="certain" if rank is not None else "likely",
            )


def _adapters(text: str) -> Iterator[str]:
    """`name=path` pairs, or the JSON form."""
    for piece in re.findall(r"\{[^{}]*\}|\S+", text):
        if piece.startswith("{"):
            try:
                said = json.loads(piece)
            except ValueError:
                continue
            yield f"{said.get('name', '')}={said.get('path', '')}"
        else:
            yield piece


RULE = Rule(
    id="lora-rank",
    summary="an adapter's rank is above the limit",
    severity="error",
    why="The engine refuses the adapter when it is loaded: at start, or with the first request for it.",
    remedy="A limit of the largest rank; memory is taken for it in every slot.",
    check=check,
    parameters={"ranks": {}},
    source="vllm lora/peft_helper.py validate_legal, config/lora.py; vllm-project/vllm issues 2847, 29049",
)
