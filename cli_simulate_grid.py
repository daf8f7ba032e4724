"""`simulate --vary NAME=V1,V2`: every combination of values of simulate's own options; where many simulations run."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infopt.cli_options import number, takes
from infopt.cli_page import PageOptions
from infopt.errors import InfoptError, unknown_name

if TYPE_CHECKING:
    from infopt.cli_options import Format
    from infopt.cli_simulate import ShownOptions
    from infopt.studies.simulate import Job

SWITCHES = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}
WorkersOption = Annotated[
    int | None, number("--workers", "Processes that simulate; default: as many as there are processors.")
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Simulate on this dask cluster, tcp://host:8786."),
]


@dataclass(frozen=True, slots=True)
class GridOptions:
    """Several configurations at once, and where they are simulated."""

    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=V1,V2",
            show_default=False,
            help="These values of an option of this command: chunk=512,2k; of a switch: on,off. Repeatable: all "
            "combinations, in a table.",
        ),
    ] = field(default_factory=list)
    workers: WorkersOption = None
    scheduler: SchedulerOption = None

    def check(self, shown: "ShownOptions") -> None:
        """Refuse what is of many simulations where there is one, and the other way round."""
        if not self.vary and (self.workers is not None or self.scheduler is not None):
            raise InfoptError("--workers and --scheduler are for many simulations: add --vary NAME=V1,V2")
        single = (shown.curves, shown.plot, shown.rows, shown.save, shown.compare)
        if self.vary and any(single):
            raise InfoptError("--curves, --plot, --rows, --save and --compare are not of many: leave --vary out")


def varied(
    records: Sequence[Any],
    options: GridOptions,
    form: "Format",
    job_of: "Callable[[Sequence[Any]], Job]",
    page: PageOptions,
) -> tuple[str, int]:
    """All configurations in one form, and the exit status; written as a page where one is asked for."""
    from infopt.reports.simulate_grid_report import render_grid
    from infopt.studies.simulate_grid import simulated_grid
    from infopt.studies.simulate_many import attempt

    flags = switches(records)
    axes = [parse_axis(text, flags) for text in options.vary]
    names = [name for name, _ in axes]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InfoptError(f"--vary {twice[0]}: given twice; list all its values once")
    values = list(product(*(given for _, given in axes)))
    laid = [with_values(records, names, one, flags) for one in values]
    jobs = [attempt(job_of, one) for one in laid]
    grid = simulated_grid(names, values, jobs, options.workers, options.scheduler)
    if page.html is not None:
        from infopt.reports.pages.simulate_grid_page import simulate_grid_page

        page.write(lambda command: simulate_grid_page(grid, command))
    return render_grid(grid, form), grid.exit_status


def switches(records: Sequence[Any]) -> dict[str, str | None]:
    """The options that may be varied, without dashes: of a switch the field it sets, None of the others."""
    parser = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

    @parser.command(add_help_option=False)
    @takes(*(type(record) for record in records))
    def options(*given: Any) -> None: ...

    command: Any = typer.main.get_command(parser)
    return {
        name.removeprefix("--"): parameter.name if parameter.is_flag else None
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--")
    }


def parse_axis(text: str, flags: dict[str, str | None]) -> tuple[str, tuple[str, ...]]:
    """`chunk=512,2k` as a name and its values.

    >>> parse_axis("chunk=512, 2k", {"chunk": None})
    ('chunk', ('512', '2k'))
    """
    name, equals, rest = text.partition("=")
    name, values = name.strip().lstrip("-").replace("_", "-"), tuple(value.strip() for value in rest.split(","))
    if not equals or not all(values):
        raise InfoptError(f"--vary {text}: not NAME=V1,V2, such as chunk=512,2k")
    if name not in flags:
        raise unknown_name("option", name, flags, f"--vary {text}: NAME is an option of simulate, without its dashes")
    if flags[name] and (wrong := [value for value in values if value.lower() not in SWITCHES]):
        raise InfoptError(f"--vary {text}: --{name} is a switch: on or off, not {wrong[0]}")
    if len(set(values)) < len(values):
        raise InfoptError(f"--vary {text}: a value is there twice")
    return name, values


def with_values(
    records: Sequence[Any], names: Sequence[str], values: Sequence[str], flags: dict[str, str | None]
) -> list[Any]:
    """The option records with these values in place of their own."""
    from infopt.cli_overlay import overlaid

    pairs = list(zip(names, values, strict=True))
    set_to = {flag: SWITCHES[value.lower()] for name, value in pairs if (flag := flags[name])}
    text = shlex.join([word for name, value in pairs if not flags[name] for word in (f"--{name}", value)])
    laid = overlaid(records, text, "--vary")
    return [replace(one, **{name: on for name, on in set_to.items() if hasattr(one, name)}) for one in laid]
