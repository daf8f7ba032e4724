"""The Pareto front as a picture: what latency costs, and what it leaves of a device (extra `report`)."""

from pathlib import Path
from typing import Any

from infopt.reports.pictures import CYCLE, MARKERS, base_of, picture, scale, title
from infopt.studies.search import Deployment, Search
from infopt.units import format_count, format_seconds, format_usd

WIDTH_INCHES, HEIGHT_INCHES = 11.0, 4.8
FILLS = ("full", "none", "left", "top")  # once the colours are used up


def draw(result: Search, path: Path) -> None:
    """Two panels over the latency of a whole answer: price of a million tokens, output tokens per second and device."""
    with picture(path, WIDTH_INCHES, HEIGHT_INCHES) as figure:
        price, devices = figure.subplots(1, 2)
        for label, look, rows in _series(result):
            priced = [d for d in rows if d.usd_per_million_output_tokens is not None]
            style = {**look, "linestyle": "", "label": label}
            price.plot([d.e2e_s for d in priced], [d.usd_per_million_output_tokens for d in priced], **style)
            devices.plot([d.e2e_s for d in rows], [d.output_tokens_per_s_per_gpu for d in rows], **style)
        price.set(title="Price of a million output tokens", xlabel="time of a whole answer")
        devices.set(title="Output tokens per second and device", xlabel="time of a whole answer")
        prices = [one for d in result.front if (one := d.usd_per_million_output_tokens) is not None]
        scale(price.yaxis, format_usd, base_of(prices or [0.0]))
        scale(devices.yaxis, format_count, base_of(d.output_tokens_per_s_per_gpu for d in result.front))
        for panel in (price, devices):
            scale(panel.xaxis, format_seconds, base_of(d.e2e_s for d in result.front))
        devices.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="device, weights", alignment="left")
        title(figure, f"{result.model.id}: deployments within the targets")


def _series(result: Search) -> list[tuple[str, dict[str, Any], list[Deployment]]]:
    """Deployments by device (colour, then filling) and weight format (marker)."""
    groups: dict[tuple[str, str], list[Deployment]] = {}
    for d in result.front:
        s = d.replica.scenario
        groups.setdefault((s.accelerator.id, s.weight_format), []).append(d)
    devices = list(dict.fromkeys(device for device, _ in groups))
    weights = list(dict.fromkeys(name for _, name in groups))
    return [
        (
            f"{device}, {name}",
            {
                "color": CYCLE[devices.index(device) % len(CYCLE)],
                "fillstyle": FILLS[devices.index(device) // len(CYCLE) % len(FILLS)],
                "marker": MARKERS[weights.index(name) % len(MARKERS)],
            },
            rows,
        )
        for (device, name), rows in groups.items()
    ]
