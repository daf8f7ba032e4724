"""A dashboard as Grafana imports it: live figures beside the plan's lines."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from infopt import __version__
from infopt.reports.emit import without_secrets
from infopt.reports.export_prometheus import left_out_words
from infopt.reports.markdown import escape
from infopt.reports.words import engine_words, load_words, title
from infopt.studies.export import Export, Variable
from infopt.studies.export_panels import Line, Panel

# Of Grafana 11; 12 brings it to its own when it opens the dashboard.
SCHEMA_VERSION = 39
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 12, 8, 2
WORDS_HEIGHT = 5
BAND = ("plan: interval, low", "plan: interval, high")
COLOURS = {"floor": "purple", "estimate": "blue", "target": "red", "break-even": "orange"}
WINDOWS = ("1m", "5m", "15m", "30m", "1h")


def dashboard_text(found: Export, command: str) -> str:
    """The dashboard as JSON."""
    return json.dumps(dashboard(found, command), ensure_ascii=False, indent=2) + "\n"


def dashboard(found: Export, command: str) -> dict[str, Any]:
    """The dashboard as data."""
    return {
        "uid": "infopt-" + hashlib.sha256(found.name.encode("utf-8", "replace")).hexdigest()[:16],
        "title": f"infopt: {plain(found.name)}",
        "description": plain(f"What runs beside the plan of {title(found.plan)}. Made by infopt {__version__}."),
        "tags": ["infopt", found.metrics.engine],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": list(_variables(found))},
        "panels": [_words(found, command), *(_panel(panel, i) for i, panel in enumerate(found.panels))],
    }


def plain(text: str) -> str:
    """Text in which Grafana finds no variable.

    >>> plain("a $model [[b]]")
    'a ?model ?b]]'
    """
    return re.sub(r"\$|\[\[", "?", text)


def _variables(found: Export) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }
    for variable in found.variables:
        yield _label_values(variable)
    windows = list(dict.fromkeys((*WINDOWS, found.window)))
    yield {
        "name": "window",
        "label": "rates over",
        "type": "custom",
        "query": ",".join(windows),
        "current": {"text": found.window, "value": found.window, "selected": True},
        "options": [{"text": w, "value": w, "selected": w == found.window} for w in windows],
        "hide": 0,
        "multi": False,
        "includeAll": False,
    }


def _label_values(variable: Variable) -> dict[str, Any]:
    """One name where there is one, else all at first."""
    one = variable.current is not None
    current = variable.current if one else "$__all"
    return {
        "name": variable.name,
        "label": variable.name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": variable.query, "refId": f"{variable.name}-values"},
        "definition": variable.query,
        "refresh": 2,
        "sort": 1,
        "multi": not one,
        "includeAll": not one,
        **({} if one else {"allValue": ".*"}),
        "current": {"text": current if one else "All", "value": current, "selected": True},
        "hide": 0,
    }


def _words(found: Export, command: str) -> dict[str, Any]:
    """What was planned, and how this was made."""
    lines = [
        f"{title(found.plan)}; {engine_words(found.plan)}; {load_words(found.plan)}",
        f"Lines are the plan's: floor (nothing is faster), estimate with the interval of nine in ten measurements, "
        f"target. Live figures are of {found.metrics.engine}.",
        *found.notes,
        *left_out_words(found),
        f"Made by {without_secrets(command)}",
    ]
    content = "\n\n".join(escape(plain(line)) for line in lines)
    return {
        "id": 1,
        "type": "text",
        "title": "The plan",
        "gridPos": {"x": 0, "y": 0, "w": WIDTH * COLUMNS, "h": WORDS_HEIGHT},
        "options": {"mode": "markdown", "content": content},
    }


def _panel(panel: Panel, index: int) -> dict[str, Any]:
    row, column = divmod(index, COLUMNS)
    live = [_target(series.query, f"{series.legend} {{{{instance}}}}") for series in panel.series]
    constant = [_target(f"vector({line.value:.6g})", line.legend) for line in panel.lines]
    targets = [{**target, "refId": chr(ord("A") + n)} for n, target in enumerate([*live, *constant])]
    return {
        "id": index + 2,
        "type": "timeseries",
        "title": panel.title,
        "description": plain(panel.says),
        "datasource": DATASOURCE,
        "gridPos": {"x": column * WIDTH, "y": WORDS_HEIGHT + row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "targets": targets,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {"drawStyle": "line", "lineWidth": 1, "thresholdsStyle": {"mode": "line"}},
                "thresholds": {"mode": "absolute", "steps": list(_steps(panel))},
            },
            "overrides": [_look(line) for line in panel.lines],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _target(query: str, legend: str) -> dict[str, Any]:
    return {"datasource": DATASOURCE, "expr": query, "legendFormat": legend, "editorMode": "code", "range": True}


def _steps(panel: Panel) -> Iterator[dict[str, Any]]:
    """Green, and red where an alert fires."""
    alarm = next((line for line in panel.lines if line.alarm), None)
    below = alarm is not None and alarm.alarm == "below"
    yield {"color": "red" if below else "green", "value": None}
    if alarm is not None:
        yield {"color": "green" if below else "red", "value": alarm.value}


def _look(line: Line) -> dict[str, Any]:
    """Dashed; the interval as a band."""
    colour = next((COLOURS[name] for name in COLOURS if name in line.legend), "semi-dark-blue")
    properties = [
        {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}},
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
        {"id": "custom.fillOpacity", "value": 10 if line.legend == BAND[1] else 0},
    ]
    if line.legend == BAND[1]:
        properties.append({"id": "custom.fillBelowTo", "value": BAND[0]})
    return {"matcher": {"id": "byName", "options": line.legend}, "properties": properties}
