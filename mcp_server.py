"""The MCP server on standard input and output: lists the tools, and has each call answered by a confined process."""

import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infopt import __version__
from infopt.cli_stop import ENDING
from infopt.errors import MissingExtraError
from infopt.mcp_guard import confine
from infopt.mcp_tools import answer, tools

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.lowlevel import Server

PROCESSES = 2
STOPPED = 130
INSTRUCTIONS = (
    "Capacity planning for LLM inference, computed: does a model fit, how fast can it be, which optimization pays, "
    "are deployment files sound. Units: bytes, seconds, tokens; 32k tokens are 32768; times and rates as text with a "
    "unit, such as 40ms and 5/s. null is not known. Nothing is measured, written or fetched."
)


def serve(root: Path | None, most_s: float) -> None:
    """Serve until standard input ends; files are read under `root` only, and a call may take `most_s` seconds.

    Raises MissingExtraError without the SDK.
    """
    try:
        import anyio
        import mcp.server.stdio  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("infopt mcp", "mcp") from error
    # Two of its threads wait for a process that was ended, and asyncio warns of the one that comes second.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    anyio.run(_serve, root, most_s)


async def _serve(root: Path | None, most_s: float) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    serving = server(root, most_s)
    async with stdio_server() as (requests, replies):
        async with anyio.create_task_group() as group:
            if os.name == "posix":
                group.start_soon(_end_on_signal, group.cancel_scope)
            await serving.run(requests, replies, serving.create_initialization_options())
            group.cancel_scope.cancel()
            return
        # Stopped by a signal: calls are ended by now, but the thread that waits for input cannot be.
        os._exit(STOPPED)


async def _end_on_signal(scope: Any) -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, *ENDING) as signals:
        async for _ in signals:
            scope.cancel()


def server(root: Path | None, most_s: float) -> "Server[Any]":
    """The server, on no transport yet."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    limiter = anyio.CapacityLimiter(PROCESSES)

    async def list_tools(context: Any, parameters: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed())

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        if parameters.name not in tools():
            raise MCPError(types.INVALID_PARAMS, f"no tool {parameters.name!r}; there are {', '.join(tools())}")
        return result(await _computed(parameters.name, parameters.arguments or {}, root, most_s, limiter))

    return Server(
        "infopt",
        version=__version__,
        title="infopt",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _computed(
    name: str, arguments: dict[str, Any], root: Path | None, most_s: float, limiter: Any
) -> dict[str, Any]:
    """The answer of a call by another process, which is killed where the call is cancelled or takes too long."""
    import anyio
    from anyio import to_process

    try:
        with anyio.fail_after(most_s):
            return await to_process.run_sync(confined_answer, name, arguments, root, cancellable=True, limiter=limiter)
    except TimeoutError:
        return {"error": f"{name}: not answered within {most_s:g} s, so it was stopped: ask for less"}
    except anyio.BrokenWorkerProcess:
        return {"error": f"{name}: the process that computed it ended without an answer: ask for less"}


_confined: list[Path | None] = []


def confined_answer(name: str, arguments: dict[str, Any], root: Path | None) -> dict[str, Any]:
    """The answer of a call, by a process that may read `root` and nothing else from its first call on."""
    if not _confined:
        confine(root)
        _confined.append(root)
    return answer(name, arguments, root)


def listed() -> "list[types.Tool]":
    """The tools as the protocol tells them."""
    import mcp_types as types

    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=hints,
        )
        for tool in tools().values()
    ]


def result(found: Mapping[str, Any]) -> "types.CallToolResult":
    """An answer as the protocol tells it: the page as text, the object beside it."""
    import mcp_types as types

    if "error" in found:
        return types.CallToolResult(content=[types.TextContent(type="text", text=found["error"])], is_error=True)
    text = types.TextContent(type="text", text=found["text"])
    return types.CallToolResult(content=[text], structured_content=found["data"])
