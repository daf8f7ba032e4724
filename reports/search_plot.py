"""The Pareto front as a picture: what latency costs, and what it leaves of a device. Matplotlib is loaded only here."""

from pathlib import Path

from infopt.reports.pictures import drawing, saved
from infopt.studies.search import Deployment, Search

MARKERS = "os^Dv"
SIZE_INCHES = (11.0, 4.5)


def draw(result: Search, path: Path) -> None:
    """Two panels over the latency of a whole answer: price of a million tokens, output tokens per second and device."""
    figure = drawing(path).Figure(figsize=SIZE_INCHES, layout="constrained")
    price, devices = figure.subplots(1, 2)
    for label, color, marker, rows in _series(result):
        priced = [d for d in rows if d.usd_per_million_output_tokens is not None]
        style = {"color": color, "marker": marker, "linestyle": "", "alpha": 0.8}
        price.plot([d.e2e_s for d in priced], [d.usd_per_million_output_tokens for d in priced], label=label, **style)
        devices.plot([d.e2e_s for d in rows], [d.output_tokens_per_s_per_gpu for d in rows], label=label, **style)
    price.set(ylabel="US dollars per million output tokens", xlabel="seconds for the whole answer")
    devices.set(ylabel="output tokens per second and device", xlabel="seconds for the whole answer")
    devices.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(f"{result.model.id}: deployments within the targets")
    saved(figure, path)


def _series(result: Search) -> list[tuple[str, str, str, list[Deployment]]]:
    """Deployments by device (colour) and weight format (marker)."""
    groups: dict[tuple[str, str], list[Deployment]] = {}
    for d in result.front:
        s = d.replica.scenario
        groups.setdefault((s.accelerator.id, s.weight_format), []).append(d)
    devices = list(dict.fromkeys(device for device, _ in groups))
    weights = list(dict.fromkeys(name for _, name in groups))
    return [
        (
            f"{device}, {name}",
            f"C{devices.index(device) % 10}",
            MARKERS[weights.index(name) % len(MARKERS)],
            rows,
        )
        for (device, name), rows in groups.items()
    ]
