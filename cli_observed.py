"""`--observed`: what was read off a running server stands for what was not given."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infopt.boundaries.load import Load
    from infopt.boundaries.steps import Curve
    from infopt.cli_options import ScenarioOptions
    from infopt.profiles.geometry import ModelProfile
    from infopt.studies.observed import Filled


MOST_SHOWN = 8


def unknown_keys(path: Path | None, names: Sequence[str]) -> list[str]:
    """What to say of the keys of a file that are not known: nothing, or one line."""
    if not names:
        return []
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    shown = f"{', '.join(names[:MOST_SHOWN])}{more}"
    return [f"{path}: {shown}: not a key that is known; left out"]


@dataclass(frozen=True, slots=True)
class ObservedOptions:
    """What was read off a running server, in place of what is not given."""

    observed: Annotated[
        Path | None,
        typer.Option("--observed", metavar="FILE.json", help="What `infopt observe --json` read off a running server."),
    ] = None

    def filled(
        self, model: "ModelProfile", scenario: "ScenarioOptions", load: "Load | None" = None, curve: "Curve" = ()
    ) -> "Filled":
        """Request and load with the observation; keys of its file that are not known are told."""
        from infopt.boundaries.load import Load
        from infopt.cli import tell
        from infopt.observing.observation import read_observation
        from infopt.studies.observed import with_observed

        o = read_observation(self.observed) if self.observed is not None else None
        tell(unknown_keys(self.observed, o.ignored if o else ()))
        return with_observed(o, model, scenario.hardware(), scenario.request(), load or Load(), curve)
