"""Devices a pod claims by dynamic resource allocation: ResourceClaim and ResourceClaimTemplate of the same tree."""

import re
from collections.abc import Iterator, Mapping

from infopt.gate.found import Hardware
from infopt.gate.nodes import Node, Text, at, get, integer, text
from infopt.gate.outside import Outside

# Classes of devices that compute, as the drivers of NVIDIA, AMD and Intel call them.
CLASSES = re.compile(r"(gpu|mig)\.(nvidia|amd|intel)\.com")
PRODUCT = re.compile(r"""\.productName\s*==\s*["']([^"']{1,80})["']""")
FORMS = (
    ("resourceClaimTemplateName", "ResourceClaimTemplate", "spec.spec"),
    ("resourceClaimName", "ResourceClaim", "spec"),
)


def claimed(claims: list[Node], outside: Mapping[str, Text]) -> Hardware | None:
    """Devices of claims that name an object of the tree; None where they ask for none that is known."""
    requests = [request for claim in claims for request in _requests(claim, outside)]
    return _asked(requests)


def _asked(requests: list[Node]) -> Hardware | None:
    """Devices of the requests of a claim; how many is not known where one asks for all."""
    counts: list[int | None] = []
    named: list[tuple[str, Text]] = []
    first: Text | None = None
    for request in requests:
        exact = request if get(request, "exactly") is None else get(request, "exactly")
        of_class = text(get(exact, "deviceClassName"))
        if of_class is None or not CLASSES.fullmatch(of_class):
            continue
        first = first or text(get(exact, "count")) or of_class
        every = str(get(exact, "allocationMode")) == "All"
        counts.append(None if every else integer(get(exact, "count")) or 1)
        for selector in _listed(get(exact, "selectors")):
            said = text(get(selector, "cel.expression"))
            match = PRODUCT.search(said) if said is not None else None
            if said is not None and match is not None:
                named.append(("productName", at(match[1], said.line, said.column)))
    if first is None:
        return None
    count = None if None in counts else sum(one for one in counts if one is not None)
    place = None if count is None else at(str(count), first.line, first.column)
    return Hardware(count=count, counted_at=place, resource="claim", named=tuple(named))


def _requests(claim: Node, outside: Mapping[str, Text]) -> Iterator[Node]:
    if not isinstance(outside, Outside):
        return
    for key, kind, spec in FORMS:
        name = text(get(claim, key))
        if name is None:
            continue
        found = (one for one in outside.objects(kind) if get(one, "metadata.name") == name)
        yield from _listed(get(next(found, None), f"{spec}.devices.requests"))


def _listed(node: Node) -> list[Node]:
    return node if isinstance(node, list) else []
