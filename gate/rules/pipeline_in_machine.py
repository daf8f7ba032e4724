"""A pipeline inside one machine whose devices have a link: tensor parallelism is faster there."""

from collections.abc import Iterator

from infopt.boundaries.deciding import by_gain
from infopt.boundaries.parallelism import basis_of, gain_of
from infopt.boundaries.placements import placed, present
from infopt.errors import InfoptError
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.gate.situations import situation_of
from infopt.ledgers.links import machine_devices


def check(case: Case) -> Iterator[Hit]:
    """The same devices as one tensor-parallel group give more at this load."""
    situation = situation_of(case)
    if situation is None:
        return
    s = situation.scenario
    together = s.tp * s.pp
    if s.pp < 2 or s.dp > 1 or s.accelerator.link is None or together > machine_devices(s.accelerator):
        return
    if case.deployment.found.hardware.pods > 1:
        return
    here, other = present(situation), placed(situation, 1, together, 1, 1, together if s.ep > 1 else 1)
    try:
        other.scenario.check()
    except InfoptError:
        return  # heads do not divide
    if not (here.holds and other.holds):
        return
    gain, meets = gain_of(situation, here, other, [], True)
    if not meets or by_gain(gain, basis_of(here, other)) != "use":
        return
    yield Hit(
        f"pp {s.pp} inside one machine: {other.name} gives {gain.value:.2f}x in {gain.metric} at batch {s.batch}",
        at=case.deployment.said_at("pp"),
        detail=f"TPOT {1e3 * here.tpot_s(here.steps):.1f} ms becomes {1e3 * other.tpot_s(other.steps):.1f}; "
        f"{gain.low:.2f}x to {gain.high:.2f}x",
        remedy=f"--tensor-parallel-size {together}, no pipeline",
        confidence="likely",
    )


RULE = Rule(
    id="pipeline-in-machine",
    summary="pipeline stages where tensor parallelism has a fast link",
    severity="warning",
    why="A token passes the stages one after the other: a pipeline never shortens the time per token.",
    remedy="Tensor parallelism inside a machine, pipelines across machines.",
    check=check,
)
