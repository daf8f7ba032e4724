"""`infopt checklist`: the deployment, the lists, what was observed, and who signed."""

import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infopt.cli import app, command, emit, tell, verdict_status
from infopt.cli_load import LoadOptions
from infopt.cli_observed import unknown_keys
from infopt.cli_options import OutputOptions, OwnScenario, ScenarioOptions, takes, without_options
from infopt.cli_page import PageOptions
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.reports.pages.page import Page
    from infopt.studies.checklist import Checked, Typed
    from infopt.studies.checklist_answers import Signature

CHECKLIST_STATUSES = (
    "Exit status: 0 every item passes, 1 one fails, 2 wrong usage or unreadable input, "
    "4 one must still be measured or signed."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which lists, and what answers them beside the ledgers."""

    applied: Annotated[
        list[str],
        typer.Option(
            "--with", metavar="A,B", show_default=False, help="Techniques in use: speculative,kv-offload; repeatable."
        ),
    ] = field(default_factory=list)
    items: Annotated[
        list[Path],
        typer.Option("--items", metavar="FILE.yaml", show_default=False, help="Items of your own; repeatable."),
    ] = field(default_factory=list)
    observed: Annotated[
        Path | None, typer.Option("--observed", metavar="FILE.json", help="What was read off a running server.")
    ] = None
    answers: Annotated[
        Path | None, typer.Option("--answers", metavar="FILE.yaml", help="What people answered, by item.")
    ] = None
    signed: Annotated[
        list[str],
        typer.Option("--signed", metavar="ITEM=NAME", show_default=False, help="NAME stands for an item; repeatable."),
    ] = field(default_factory=list)
    deployment: Annotated[
        Path | None,
        typer.Option("--deployment", metavar="FILE", help="A deployment file in place of the options it answers."),
    ] = None
    named: Annotated[
        str | None, typer.Option("--named", metavar="NAME", help="Which deployment of that file, where it has several.")
    ] = None

    def signatures(self) -> "dict[str, Signature]":
        """Every answer by item."""
        from infopt.studies.checklist_answers import merged, read_answers, signed

        return merged(read_answers(self.answers) if self.answers is not None else {}, signed(self.signed))

    def techniques_in_use(self) -> tuple[str, ...]:
        """The names, one by one."""
        return tuple(name.strip() for text in self.applied for name in text.split(",") if name.strip())


@app.command(epilog=CHECKLIST_STATUSES)
@takes(OwnScenario, LoadOptions, ListOptions, PageOptions, OutputOptions)
def checklist(
    scenario: OwnScenario,
    load: LoadOptions,
    lists: ListOptions,
    page: PageOptions,
    output: OutputOptions,
    allow_undetermined: Annotated[
        bool, typer.Option("--allow-undetermined", help="Exit 0 where items wait for a measurement or a name.")
    ] = False,
) -> None:
    """The checklist before production: each item answered by a number, an observation, or a person.

    \b
    infopt checklist --model 70b --hw h100:4 --isl 2k --osl 300 --batch 32 --tpot 40ms
    infopt checklist --model 8b --hw l40s --ctx 8k --observed observed.json --answers answers.yaml --format md
    infopt checklist --model 8b --hw l40s --ctx 8k --items ours.yaml --html checklist.html
    infopt checklist --deployment k8s/chat.yaml --isl 2k --osl 300 --batch 32

    An option that is not given (--method, --adapters, ...) says that the deployment does not have it.
    """
    page.check()
    words = shlex.split(command())[2:]
    if lists.deployment is not None:
        scenario, load, words = _from_file(scenario, load, lists.deployment, lists.named, words)
    elif lists.named is not None:
        raise InfoptError("--named without --deployment: it names a deployment of a file")
    if not scenario.model:
        raise InfoptError("--model is missing: name it, or give the --deployment FILE that serves it")
    if scenario.hw is None:
        raise InfoptError("--hw is missing: a checklist is of one deployment, such as --hw h100:4")
    found = _checked(scenario, load, lists, words)
    tell(unknown_keys(lists.observed, found.ignored))
    from infopt.reports.render import render_checklist

    page.write(lambda command: _page(found, command))
    emit(render_checklist(found, output.form))
    raise typer.Exit(verdict_status(found.passes, allow_undetermined))


def _page(found: "Checked", command: str) -> "Page":
    from infopt.reports.pages.checklist_page import checklist_page

    return checklist_page(found, command)


def _from_file(
    scenario: OwnScenario, load: LoadOptions, path: Path, name: str | None, words: list[str]
) -> tuple[OwnScenario, LoadOptions, list[str]]:
    """The options with what a deployment file says, and the words as if they had been typed; typed ones win."""
    from infopt.gate.as_options import options_of
    from infopt.gate.policy import Policy
    from infopt.gate.reading import Overrides

    overrides = Overrides(scenario.model or None, scenario.engine_version, scenario.hw)
    said = options_of(str(path), name, Policy(), overrides)
    typed = {word.partition("=")[0] for word in words}
    new = {option: value for option, value in said.items() if option not in typed or option in ("--model", "--hw")}
    kept_words = without_options(words, {"--deployment", "--named", "--model", "-m", "--hw"} & typed)
    return (
        _filled(scenario, new),
        _filled(load, new),
        [*kept_words, *(word for pair in new.items() for word in pair if word)],
    )


def _filled(family: Any, said: dict[str, str]) -> Any:
    """An option family with values by their options' names, each read as its option reads it."""
    given: dict[str, Any] = {}
    for one in fields(family):
        option = one.type.__metadata__[0]  # type: ignore[union-attr]
        name = next((n for n in (option.default, *option.param_decls) if n in said), None)
        if name is not None:
            parse = option.parser
            given[one.name] = True if not said[name] else parse(said[name]) if parse is not None else said[name]
    return replace(family, **given)


def _checked(scenario: ScenarioOptions, load: LoadOptions, lists: ListOptions, words: list[str]) -> "Checked":
    from infopt.observing.observation import read_observation
    from infopt.profiles.resolve import resolve_model
    from infopt.studies.checklist import checklist as study
    from infopt.studies.checklist import lists_of
    from infopt.studies.checklist_context import Deployment

    asked = lists_of(lists.items)
    answers = lists.signatures()
    deployment = Deployment(
        model=resolve_model(scenario.model, online=scenario.online),
        hardware=scenario.hardware(),
        request=scenario.request(),
        load=load.load(scenario),
        curve=load.curve(),
        applied=lists.techniques_in_use(),
        observed=read_observation(lists.observed) if lists.observed is not None else None,
        offloads=any(word.partition("=")[0] == "--offload" for word in words),
    )
    return study(deployment, asked, answers, typed(words))


def typed(words: list[str]) -> "Typed":
    """Those of the words that describe the deployment."""
    from infopt.studies.checklist import Typed

    plan = option_names(ScenarioOptions)
    every = plan | option_names(LoadOptions)
    kv, weights = (
        {name: valued for name, valued in every.items() if name not in left_out}
        for left_out in (("--kv", "--to-kv"), ("--weights", "--to-weights"))
    )
    return Typed(kept(words, every), kept(words, plan), kept(words, kv), kept(words, weights))


def option_names(family: type[Any]) -> dict[str, bool]:
    """The options of a family as they are typed, and whether a value follows."""
    found: dict[str, bool] = {}
    for one in fields(family):
        kind, option = one.type.__origin__, one.type.__metadata__[0]  # type: ignore[union-attr]
        found |= {name: kind is not bool for name in (option.default, *option.param_decls) if str(name).startswith("-")}
    return found


def kept(given: list[str], names: dict[str, bool]) -> str:
    """Those of the typed words that are options of `names`, with their values, for a command to be copied."""
    words: list[str] = []
    for place, word in enumerate(given):
        name, equals, _ = word.partition("=")
        if name not in names:
            continue
        words.append(word)
        if names[name] and not equals and place + 1 < len(given):
            words.append(given[place + 1])
    return shlex.join(words)
