"""`infopt models` and `infopt hardware`: what is in the catalogue, and records for it."""

from pathlib import Path
from typing import Annotated

import typer

from infopt.cli import ALWAYS_GOOD, app, emit
from infopt.cli_options import Context, Online, OutputOptions, takes

models = typer.Typer(help="List, show and import models.", rich_markup_mode=None)
hardware = typer.Typer(help="List and show accelerators.", rich_markup_mode=None)
app.add_typer(models, name="models")
app.add_typer(hardware, name="hardware")

Pattern = Annotated[str | None, typer.Argument(metavar="PATTERN", show_default=False, help="Words a name must hold.")]


@models.command("list", epilog=ALWAYS_GOOD)
@takes(OutputOptions)
def models_list(
    output: OutputOptions,
    pattern: Pattern = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="With sizes; reads every record.")] = False,
) -> None:
    """The models of the catalogue.

    \b
    infopt models list qwen3 --long
    """
    from infopt.reports.render import render_models
    from infopt.studies.model_view import find_models, views_of

    ids = find_models(pattern)
    emit(render_models(ids, views_of(ids) if long else None, output.form))


@models.command("show", epilog=ALWAYS_GOOD)
@takes(OutputOptions)
def models_show(
    output: OutputOptions,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As --model of plan takes it.")],
    ctx: Context = None,
    online: Online = False,
) -> None:
    """Geometry, parameters, active parameters and cache of one model, written out.

    \b
    infopt models show gpt-oss-120b --ctx 128k
    """
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.render import render_model
    from infopt.studies.model_view import model_view

    emit(render_model(model_view(resolve_model(model, online=online), ctx), output.form))


@models.command("import", epilog=ALWAYS_GOOD)
def models_import(
    path: Annotated[str, typer.Argument(metavar="PATH", help="config.json or its folder, .safetensors, GGUF.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write here instead of printing.")] = None,
    id: Annotated[str | None, typer.Option("--id", metavar="ORG/NAME", help="Default: the folder's name.")] = None,
) -> None:
    """A catalogue record (YAML) of a model's own files: the fields of its config that decide.

    \b
    infopt models import ./my-model/config.json --id me/my-model --out me__my-model.yaml
    """
    from infopt.files import write_text
    from infopt.reports.files import yaml_text
    from infopt.studies.model_import import import_model

    text = yaml_text(import_model(path, id))
    if out is None:
        emit(text.removesuffix("\n"))
    else:
        write_text(out, text)


@hardware.command("list", epilog=ALWAYS_GOOD)
@takes(OutputOptions)
def hardware_list(output: OutputOptions, pattern: Pattern = None) -> None:
    """The accelerators infopt knows.

    \b
    infopt hardware list h100
    """
    from infopt.reports.render import render_hardware_list
    from infopt.studies.hardware_view import find_hardware

    emit(render_hardware_list(find_hardware(pattern), output.form))


@hardware.command("show", epilog=ALWAYS_GOOD)
@takes(OutputOptions)
def hardware_show(
    output: OutputOptions,
    name: Annotated[str, typer.Argument(metavar="HARDWARE", help="As --hw of plan takes it.")],
) -> None:
    """One accelerator: each figure with its kind and source, and the calibrations stored of it.

    \b
    infopt hardware show h100
    """
    from infopt.reports.render import render_hardware
    from infopt.studies.hardware_view import shown_hardware, stored

    choice = shown_hardware(name)
    emit(render_hardware(choice, tuple(stored(choice.accelerator)), output.form))
