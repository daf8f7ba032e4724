"""`infopt mcp`: the read-only server for assistants, on standard input and output."""

from pathlib import Path
from typing import Annotated

import typer

from infopt.cli import app
from infopt.cli_load import above_zero
from infopt.errors import InfoptError


@app.command(epilog="Exit status: 0 the client has closed standard input, 2 wrong usage, 130 stopped by a signal.")
def mcp(
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="Files of this folder may be read; without it, none."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", parser=above_zero("--timeout", "time"), metavar="TIME", help="Most time of a call."),
    ] = "60s",  # type: ignore[assignment]  # parsed like what is given
) -> None:
    """Serve plan, boundary, search, simulate, gate and the catalogues to assistants over MCP, read-only.

    \b
    infopt mcp
    infopt mcp --root ./deploy --timeout 30s

    Speaks the Model Context Protocol on standard input and output. Nothing is measured, written or fetched.
    """
    if root is not None and not root.is_dir():
        raise InfoptError(f"--root {root}: there is no such folder")
    from infopt.mcp_server import serve

    serve(None if root is None else root.resolve(), timeout)
