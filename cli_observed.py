"""`--observed`: what was read off a running server stands for what was not given."""

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
        tell(f"{self.observed}: {name} is not a key that is known; it is left out" for name in (o.ignored if o else ()))
        return with_observed(o, model, scenario.hardware(), scenario.request(), load or Load(), curve)
