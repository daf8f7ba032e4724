"""docs/performance.md, of what bench/peers.yaml asks and bench/peers_measured.yaml answers."""

from typing import Any

GIB, MIB = 2**30, 2**20

INTRODUCTION = """\
# Performance

How fast `infopt` starts, plans, searches, sweeps and gates, beside other tools that were asked the same on the same
machine in the same minutes. `make peers-install` installs them, `make peers` measures; this page is written by
`python bench/peers.py --write`. See [accuracy](accuracy.md) for how near the answers are to measurements, and the
[README](../README.md#beside-other-tools) for KV caches that are harder than this one.
"""

METHOD = """\
## What was measured, and what was not

- Every tool is the release named here in an environment of its own, `infopt` its wheel. Rounds are paired: one of each
  in turn, after one round that fills the caches and is not counted. Times are by the clock, the median with its
  quartiles in parentheses; processor time is user and system together; memory is the most that the process held.
- Nothing reaches a network. kvfit, hf-mem, hfit and vramscout read models from the hub: a server on loopback
  ([bench/peers_hub.py](../bench/peers_hub.py)) stands in for it and answers at once, with files made of the geometry
  that `infopt` has in its catalogue. Their real times add the network's.
- Start-up is `--help`, which every tool has but GenZ, a library: there it is the import. What is asked of each stands
  word for word in [bench/peers.yaml](../bench/peers.yaml).
- Not measured: a first start with cold caches, other systems than this one, graphical and interactive parts, and
  whether an answer is right where this page shows no right one. One question is no survey of a tool.
- A fast start is worth something in scripts, completion and CI. Somebody who plans once does not notice it.
"""

SEARCH_NOTE = """\
Both look for deployments under the same limits; in the rows to compare, weights and cache are in BF16. A scenario is a
placement with a number of sequences. aiconfigurator looks at some forty batch sizes, also varies how many prompt tokens
share a step, and looks each up in measured kernel times; `infopt` computes every number of sequences from constants
that were fitted to served runs. aiconfigurator can also search prefill and decode on separate devices, which `infopt`
cannot; it was told not to. It names `aisimulate` as its successor.
"""


def table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def spread(values: list[float], digits: int = 2) -> str:
    """A median with its quartiles."""
    low, median, high = values
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def milliseconds(values_s: list[float]) -> str:
    return spread([value * 1e3 for value in values_s], 0)


def mebibytes(value: float) -> str:
    return f"{value / MIB:,.0f}"


def title(asked: dict[str, Any], name: str) -> str:
    """The tool with its version; infopt is of the checkout."""
    version = asked["tools"][name].get("version")
    return f"{name} {version}" if version else f"**{name}**"


def targets(measured: dict[str, Any]) -> str:
    lines = [
        f"- {target['words']}: {'holds' if target['holds'] else '**does not hold**'}" for target in measured["targets"]
    ]
    return "\n".join(["## Targets", "", *lines, ""])


def start(asked: dict[str, Any], measured: dict[str, Any]) -> str:
    """Times and memory of start-up and one plan."""
    found = measured["start"]
    rows = []
    for name, label in (("pass", "`python -c pass`"), ("floor", "[floor](../bench/floor.py) of our libraries")):
        one = found[name]
        cpu_ms = f"{one['cpu_s'][1] * 1e3:.0f}"
        rows.append([label, "", milliseconds(one["wall_s"]), cpu_ms, "", mebibytes(one["peak_bytes"]), "", ""])
    for name, tool in found["tools"].items():
        plan, helped = tool["plan"], tool["help"]
        rows.append(
            [
                title(asked, name),
                milliseconds(helped["wall_s"]),
                milliseconds(plan["wall_s"]),
                f"{plan['cpu_s'][1] * 1e3:.0f}",
                "" if name == "infopt" else spread(tool["ours_to_its_help"]["wall"]),
                mebibytes(plan["peak_bytes"]),
                "none" if tool["modules"] is None else f"{tool['modules']:,}",
                ", ".join(tool["watched"]) or "-",
            ]
        )
    heading = ["tool", "start-up, ms", "plan, ms", "plan, processor ms", "`infopt plan` to its start-up", "plan, MiB"]
    text = f"## Start-up and one plan\n\nThe question: {asked['question']['words']}.\n\n"
    text += table([*heading, "Python modules", "among them"], rows)
    floor = spread(found["plan_to_floor"]["wall"])
    others = {name: tool for name, tool in found["tools"].items() if name != "infopt"}
    ahead = [name for name, tool in others.items() if tool["ours_to_its_help"]["wall"][1] > 1]
    quicker = [
        name
        for name, tool in others.items()
        if tool["plan"]["wall_s"][1] < found["tools"]["infopt"]["plan"]["wall_s"][1]
    ]
    return text + (
        f"\n`infopt plan` takes {floor} times as long as the floor, the smallest program made of the same\n"
        f"libraries ([decision 6](decisions/0006-start-up-time.md)). Faster than `infopt plan` are the start-up of\n"
        f"{_listed(ahead)}, and the whole plan of {_listed(quicker)}.\n"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none of them"


def answers(asked: dict[str, Any], measured: dict[str, Any]) -> str:
    """What each answered, and what it says where nothing fits."""
    rows = []
    for name, tool in measured["start"]["tools"].items():
        answer, small = tool["answer"], tool["too_small"]
        lacks = asked["tools"][name].get("lacks", {})
        status = "-" if small["status"] is None else f"{small['status']}{', a traceback' if small['traceback'] else ''}"
        rows.append(
            [
                title(asked, name),
                f"{answer['weights'] / GIB:.1f}",
                f"{answer['kv'] / GIB:.2f}",
                _yes(answer.get("fits"), "-"),
                f"{answer['tpot'] * 1e3:.1f}" if "tpot" in answer else "-",
                _yes(small["fits"], "-"),
                status,
                "; ".join(lacks.values()),
            ]
        )
    heading = ["tool", "weights, GiB", "KV, GiB", "fits four", "TPOT, ms", "fits one", "exit status then", "why not"]
    return (
        "## Answers to it\n\nThe same plan on four H100, and on one, which cannot hold the weights. Geometry says\n"
        "131.4 GiB of weights and 10.00 GiB of KV cache; no measurement of this very load is known to us, so TPOT is\n"
        "shown and not judged.\n\n" + table(heading, rows) + "\n"
        "genz-llm leaves out the embedding, llm-analysis the head and a third of each MLP. hfit asks\n"
        "the machine that it runs on; here that has no GPU, and its status is that of a model that does not fit.\n"
    )


def _yes(value: bool | None, absent: str) -> str:
    return absent if value is None else ("yes" if value else "no")


def search(asked: dict[str, Any], measured: dict[str, Any]) -> str:
    """The same search: times, size, best answer."""
    rows = []
    for name, way in measured["search"].items():
        best = way["best"]
        rows.append(
            [
                name,
                spread(way["wall_s"]),
                f"{way['cpu_s'][1]:.2f}",
                f"{way['scenarios']:,}",
                f"{way['scenarios'] / way['wall_s'][1]:,.0f}",
                mebibytes(way["peak_bytes"]),
                f"tp {best['tp']:.0f}, {best['sequences']:.0f} sequences, {best['tokens_per_s_per_gpu']:.0f}",
            ]
        )
    heading = ["search", "seconds", "processor s", "scenarios", "scenarios/s", "MiB", "best: tokens/s per GPU"]
    text = f"## The same search\n\n{asked['search']['words']}.\n\n{table(heading, rows)}\n"
    if "aiconfigurator" in measured["search"]:
        ratio = measured["search"]["aiconfigurator"]["times_infopt"]
        text += (
            f"aiconfigurator took {spread(ratio['wall'], 1)} times as long as `infopt` by the clock,\n"
            f"{spread(ratio['cpu'], 1)} times in processor time.\n\n{SEARCH_NOTE}"
        )
    return text


def work(measured: dict[str, Any]) -> str:
    rows = [
        [name, spread(job["wall_s"]), f"{job['things'] / job['wall_s'][1]:,.0f}", mebibytes(job["peak_bytes"])]
        for name, job in measured["work"].items()
    ]
    heading = ["job", "seconds", "of them a second", "MiB"]
    return (
        "## Many at once\n\nWhole processes, from start to the last line written. None of the other tools reads cases\n"
        "or deployment files, so nothing stands beside these.\n\n" + table(heading, rows)
    )


def page(asked: dict[str, Any], measured: dict[str, Any]) -> str:
    """The whole page."""
    run = (
        f"{measured['date']}, {measured['machine']}, Python {measured['python']},\n{measured['wheel']}, "
        f"{measured['rounds']} rounds, load {measured['load']} at the end.\n"
    )
    rows = [[title(asked, name), tool["for"]] for name, tool in asked["tools"].items()]
    peers = "## The tools\n\n" + table(["tool", "what it is for"], rows)
    peers += "".join(f"\n{name} was not compared: {reason}\n" for name, reason in measured["missing"].items())
    return "\n".join(
        [
            INTRODUCTION,
            run,
            targets(measured),
            start(asked, measured),
            answers(asked, measured),
            search(asked, measured),
            work(measured),
            peers,
            METHOD,
        ]
    )
