"""The Pareto front as a picture: what latency costs, and what it leaves of a device (extra `report`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from infopt.reports.pictures import CYCLE, MARKERS, base_of, picture, scale, title
from infopt.studies.search import Deployment, Search
from infopt.units import format_count, format_seconds, format_usd

WIDTH_INCHES, HEIGHT_INCHES = 11.0, 4.8
ROOM = 1.1  # of the largest value on an axis from nought
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
        price.set(title="Price of a million output tokens")
        devices.set(title="Output tokens per second and device")
        prices = [one for d in result.front if (one := d.usd_per_million_output_tokens) is not None]
        if prices:
            _axes(price, result, prices, format_usd)
        else:
            price.set_axis_off()
            price.text(0.5, 0.5, "no price is known: --price", ha="center", transform=price.transAxes)
        _axes(devices, result, [d.output_tokens_per_s_per_gpu for d in result.front], format_count)
        devices.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="device, weights", alignment="left")
        title(figure, f"{result.model.id}: deployments within the targets")


def _axes(panel: Any, result: Search, values: Sequence[float], write: Callable[[float], str]) -> None:
    """Logarithmic where values lie far apart, else from nought."""
    times = [d.e2e_s for d in result.front]
    scale(panel.xaxis, format_seconds, base_of(times))
    scale(panel.yaxis, write, base_of(values))
    if not base_of(times):
        panel.set_xlim(0, ROOM * max(times))
    if not base_of(values):
        panel.set_ylim(0, ROOM * max(values))
    panel.set_xlabel("time of a whole answer")


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
