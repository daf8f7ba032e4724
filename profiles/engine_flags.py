"""How each engine is started: the program, its flags with the versions that take them, its names of formats."""

from functools import cache
from pathlib import Path

from pydantic import Field

from infopt.profiles.engines import in_versions, need_server
from infopt.records import Record, load_record

FOLDER = Path(__file__).resolve().parent / "data" / "engine_flags"


class Flag(Record):
    """One option of the command line.

    fact          what it says: a key of what studies/commands.py tells of a scenario
    flag          its name; empty where `config_key` is set
    config_key    dotted key of the engine's configuration file, where the command line has no option
    since, until  versions that take it: from `since` on, before `until`
    default       value that need not be said
    bare          the flag stands alone and means yes
    """

    fact: str
    flag: str = ""
    config_key: str = ""
    since: str | None = None
    until: str | None = None
    default: str | None = None
    bare: bool = False
    source: str = ""

    def holds_for(self, version: str) -> bool:
        """Whether this version takes it."""
        return in_versions(version, self.since, self.until)


class EngineFlags(Record):
    """Start line of an engine.

    start          program and fixed arguments; {model} is the model
    config_flag    option that names the configuration file, where flags have a config_key
    kv_formats     our names of cache formats and the engine's
    small_weights, small_kv  formats a search tries beside the model's own, more bits first
    converts       weight formats it makes of a 16-bit checkpoint while loading, by our name, with its own name
    model_is_file  it loads one file, not a repository
    """

    engine: str
    start: list[str]
    config_flag: str = ""
    kv_formats: dict[str, str]
    small_weights: list[str]
    small_kv: str
    converts: dict[str, str] = Field({})
    model_is_file: bool = False
    flags: list[Flag]
    source: str


@cache
def engine_flags(engine: str) -> EngineFlags:
    """The start line of an engine by its canonical name.

    Errors: InfoptError for the decoder of `infopt probe`, which serves nobody.
    """
    need_server(engine)
    return load_record(EngineFlags, FOLDER, engine, "engine", "see profiles/data/engine_flags")
