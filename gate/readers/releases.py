"""Objects that install a chart with values of their own: HelmRelease of Flux, Application of Argo CD, HelmChart of k3s.

What they hold is values, as a mapping or as text; the chart itself is elsewhere.
"""

from collections.abc import Iterator, Mapping

from infopt.gate.found import Found
from infopt.gate.nodes import Node, Text, get, inside, mapping, text
from infopt.gate.outside import shown_path
from infopt.gate.readers import (
    app_template,
    kubeai,
    modelservice,
    own_chart,
    production_stack,
    vllm_chart,
)
from infopt.gate.readers import nim as nim_forms
from infopt.gate.readers.pods import items_of

KINDS = {"HelmRelease": "helm.toolkit.fluxcd.io/", "Application": "argoproj.io/", "HelmChart": "helm.cattle.io/"}
CHARTS = (production_stack, modelservice, kubeai, nim_forms, app_template, vllm_chart, own_chart)


def recognises(document: Node) -> bool:
    """Whether the object installs a chart whose values are read here."""
    group = KINDS.get(str(get(document, "kind")))
    return group is not None and str(get(document, "apiVersion")).startswith(group)


def read(document: Node, outside: Mapping[str, Text]) -> Iterator[Found]:
    """What the first reader of values that knows them finds."""
    for values in _values(document, outside):
        reader = next((one for one in CHARTS if one.recognises(values)), None)
        if reader is not None:
            yield from reader.read(values, outside)


def _values(document: Node, outside: Mapping[str, Text]) -> Iterator[Node]:
    spec = mapping(get(document, "spec"))
    sources = [get(one, "helm") for one in (spec.get("source"), *items_of(spec.get("sources")))]
    held = [spec.get("values"), *(mapping(one).get(key) for one in sources for key in ("valuesObject", "values"))]
    for one in (*held, spec.get("valuesContent")):
        if isinstance(one, dict):
            yield one
        elif (said := text(one)) is not None:
            name = text(get(document, "metadata.name"))
            yield from inside(said, shown_path(outside, f"{name}: values"))
