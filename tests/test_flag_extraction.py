"""tools/flags_*: flags from small sources of both styles, written here, and the merge into rows."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from infopt.profiles.flag_data import Flag, FlagTable, Release, flag_table

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture(scope="module", autouse=True)
def _tools_on_path():
    sys.path.insert(0, str(TOOLS))
    yield
    sys.path.remove(str(TOOLS))


def tool(name: str) -> ModuleType:
    return __import__(name)


LITERAL = """
import argparse
from dataclasses import dataclass

SHAPES = ["round", "square"]
METHODS = {"fp8": Fp8Config, "awq": AWQConfig}


class Colour(str, enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class EngineArgs:
    length: int | None = None
    share: float = 0.5 * 2
    colour: Colour = Colour.RED

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--length", "-l", type=int, default=EngineArgs.length)
        parser.add_argument("--share", type=float, default=EngineArgs.share)
        parser.add_argument("--colour", default=EngineArgs.colour, choices=[c.value for c in Colour])
        parser.add_argument("--shape", choices=[*SHAPES, None], default="round")
        parser.add_argument("--method", choices=[*METHODS, None])
        parser.add_argument("--fast", action="store_true", help="[DEPRECATED] Please use `--speed` instead.")
        parser.add_argument("--chunked", action=StoreBoolean, nargs="?", const="True")
        parser.add_argument("--paths", nargs="+", type=nullable_str)
        parser.add_argument("--from-env", default=envs.SOMETHING)
        return parser


class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser):
        parser = EngineArgs.add_cli_args(parser)
        parser.add_argument("--quiet", action="store_true")
        return parser
"""

LITERAL_SERVER = """
from vllm.engine.arg_utils import AsyncEngineArgs


def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--port", type=int, default=8000)
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
"""

CONFIG = """
from dataclasses import field
from typing import Literal, Optional

Format = Literal["auto", "small"]
More = Literal[Format, "large"]


@config
class Inner:
    x: int = 1


@config
class CacheConfig:
    block: int = 16
    memory_bytes: Optional[int] = None
    format: Format = "auto"
    kind: More = "auto"
    open: Format | str = "auto"
    reuse: bool | None = None
    names: list[str] = field(default_factory=list)
    extra: dict[str, int] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    token: bool | str | None = None
    old: int = Field(default=3, ge=0)
    '''Deprecated: use `--block` instead.'''
"""

CONFIG_ARGS = """
from vllm.config import CacheConfig


def get_kwargs(cls):
    for field in fields(cls):
        if type_hints == {bool, str, type(None)}:
            pass
        elif contains_type(type_hints, int):
            sized = {"memory_bytes"}
            if name in sized:
                kwargs[name]["type"] = human_readable_int


class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        cache_group = parser.add_argument_group(title="CacheConfig")
        cache_group.add_argument("--block", "-b", **cache_kwargs["block"])
        cache_group.add_argument("--memory-bytes", **cache_kwargs["memory_bytes"])
        cache_group.add_argument("--format", **cache_kwargs["format"])
        cache_group.add_argument("--kind", **cache_kwargs["kind"])
        cache_group.add_argument("--open", **cache_kwargs["open"])
        cache_group.add_argument("--enable-reuse", **{**cache_kwargs["reuse"], "default": None})
        cache_group.add_argument("--names", **cache_kwargs["names"])
        cache_group.add_argument("--extra", **cache_kwargs["extra"])
        cache_group.add_argument("--inner", **cache_kwargs["inner"])
        cache_group.add_argument("--token", **cache_kwargs["token"])
        old = cache_kwargs["old"]
        old["default"] = 7
        cache_group.add_argument("--old", **old)
        return parser
"""

CONFIG_SERVER = """
from vllm.engine.arg_utils import EngineArgs


@config
class BaseFrontend:
    quiet: bool = False

    @classmethod
    def customize(cls, kwargs):
        return kwargs

    @classmethod
    def _customize_cli_kwargs(cls, kwargs):
        kwargs["origins"]["type"] = json.loads
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        kwargs = get_kwargs(cls)
        kwargs = cls._customize_cli_kwargs(kwargs)
        group = parser.add_argument_group(title="x")
        for key, value in kwargs.items():
            group.add_argument(f"--{key.replace('_', '-')}", **value)
        return parser


@config
class Frontend(BaseFrontend):
    origins: list[str] = field(default_factory=lambda: ["*"])

    @classmethod
    def _customize_cli_kwargs(cls, kwargs):
        kwargs = super()._customize_cli_kwargs(kwargs)
        del kwargs["origins"]["nargs"]
        return kwargs


def make_arg_parser(parser):
    parser = Frontend.add_cli_args(parser)
    return EngineArgs.add_cli_args(parser)
"""

PARSER = """
class EnableDisableAction(BooleanOptionalAction):
    pass


class FlexibleArgumentParser(ArgumentParser):
    def parse_args(self):
        if arg.startswith("-O"):
            return ["--optimization-level"]

        def create_nested_dict():
            pass
"""


def vllm(arg_utils: str, server: str, **others: str) -> tuple[dict[str, Flag], set[str]]:
    files = {"vllm/engine/arg_utils.py": arg_utils, "vllm/entrypoints/openai/cli_args.py": server}
    flags, features = tool("flags_vllm").read(files | others)
    return flags, features


def test_literal_style():
    flags, features = vllm(LITERAL, LITERAL_SERVER)
    assert features == {"abbreviations", "equals"}
    assert flags["--method"].choices == ("None", "awq", "fp8")
    assert set(flags) == {
        *(
            "--method",
            "--port",
            "--length",
            "--share",
            "--colour",
            "--shape",
            "--fast",
            "--chunked",
            "--paths",
            "--from-env",
        ),
        "--quiet",
    }
    length = flags["--length"]
    assert (length.aliases, length.kind, length.type, length.default) == (("-l",), "value", "int", "null")
    assert (flags["--share"].type, flags["--share"].default) == ("float", "1.0")
    assert (flags["--colour"].default, flags["--colour"].choices) == ('"red"', ("blue", "red"))
    assert flags["--shape"].choices == ("None", "round", "square")
    fast = flags["--fast"]
    assert (fast.kind, fast.default, fast.status, fast.replaced_by) == ("switch", "false", "deprecated", "--speed")
    assert (flags["--chunked"].kind, flags["--chunked"].negations) == ("boolean", ())
    assert flags["--paths"].kind == "values"
    assert flags["--from-env"].default == ""


def test_config_style():
    others = {"vllm/config/__init__.py": CONFIG, "vllm/utils/argparse_utils.py": PARSER}
    flags, features = vllm(CONFIG_ARGS, CONFIG_SERVER, **others)
    assert features == {"abbreviations", "equals", "underscores", "dotted", "O_level"}
    assert (flags["--block"].aliases, flags["--block"].default, flags["--block"].type) == (("-b",), "16", "int")
    assert (flags["--memory-bytes"].type, flags["--memory-bytes"].default) == ("size", "null")
    assert flags["--format"].choices == ("auto", "small")
    assert flags["--kind"].choices == ("auto", "large", "small")
    assert flags["--open"].choices == ()
    reuse = flags["--enable-reuse"]
    assert (reuse.kind, reuse.default) == ("switch", "null")
    assert reuse.negations == ("--no-enable-reuse", "--disable-reuse")
    assert (flags["--names"].kind, flags["--names"].default) == ("values", "[]")
    assert (flags["--extra"].type, flags["--extra"].default) == ("json", "{}")
    assert (flags["--inner"].type, flags["--inner"].default) == ("json", "")
    assert flags["--token"].kind == "optional"
    old = flags["--old"]
    assert (old.default, old.status, old.replaced_by) == ("7", "deprecated", "--block")


def test_frontend_classes_are_followed_through_their_bases():
    flags, _ = vllm(CONFIG_ARGS, CONFIG_SERVER, **{"vllm/config/__init__.py": CONFIG})
    assert flags["--quiet"].negations == ("--no-quiet",)
    origins = flags["--origins"]
    assert (origins.kind, origins.type, origins.default) == ("value", "json", '["*"]')


SGLANG = """
import dataclasses
from typing import Annotated, List, Literal, Optional

A = Annotated
CHOICES = ["auto", "fp8"]


class DeprecatedAction(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        raise ValueError(self.help)


@dataclasses.dataclass
class ServerArgs:
    model_path: A[str, Arg(help="Where.", aliases=["--model"])]
    size: A[Optional[int], Arg(help="How many.", type_parser=human_readable_int)] = None
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    kv: A[str, Arg(help="x", choices=CHOICES)] = "auto"
    mode: A[Literal["a", "b"], "help"] = "a"
    paths: A[Optional[List[str]], "help"] = None
    fast: A[bool, "help"] = False
    hidden: A[int, Arg(no_cli=True)] = 1
    plain: int = 3
    fused: A[Optional[bool], Arg(help="x", action=argparse.BooleanOptionalAction)] = None

    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--plain", type=int, default=ServerArgs.plain)
        parser.add_argument("--gone", action=DeprecatedAction, help="'--gone' is deprecated. Please use '--plain'.")
        parser.add_argument("--renamed", action=DeprecatedAliasStoreAction, new_flag="--size", type=int)
"""


def test_annotated_style():
    flags, features = tool("flags_sglang").read({"sglang/srt/server_args.py": SGLANG})
    assert features == {"abbreviations", "equals"}
    assert "--hidden" not in flags
    assert (flags["--model-path"].aliases, flags["--model-path"].default) == (("--model",), "")
    assert (flags["--size"].type, flags["--size"].default) == ("size", "null")
    assert flags["--kv"].choices == ("auto", "fp8")
    assert flags["--mode"].choices == ("a", "b")
    assert flags["--paths"].kind == "values"
    assert (flags["--fast"].kind, flags["--fast"].negations) == ("switch", ())
    assert flags["--fused"].negations == ("--no-fused",)
    assert flags["--plain"].default == "3"
    assert (flags["--gone"].status, flags["--gone"].kind, flags["--gone"].replaced_by) == (
        "refused",
        "switch",
        "--plain",
    )
    assert (flags["--renamed"].status, flags["--renamed"].replaced_by) == ("deprecated", "--size")
    assert flags["--renamed"].kind == "value"


ARG_CPP = r"""
// add_opt(common_arg({"--in-a-comment"}, ...
static void common_params_parser_init(common_params & params, llama_example ex) {
    if (ex == LLAMA_EXAMPLE_SERVER) {
        params.n_slots = -1; // auto
    }
    std::replace(arg.begin(), arg.end(), '_', '-');
    add_opt(common_arg(
        {"-c", "--ctx"}, "N",
        string_format("context, with a (bracket and \"quote\" (default: %d)", params.n_ctx),
        [](common_params & params, int value) {
            params.n_ctx = value;
        }
    ).set_env("LLAMA_ARG_CTX"));
    add_opt(common_arg(
        {"-s", "--slots"}, "N",
        string_format("slots (default: %d)", params.n_slots),
        [](common_params & params, int value) { params.n_slots = value; }
    ).set_examples({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg({"--temp"}, "T", string_format("(default: %.1f)", (double) params.sampling.temp),
        [](common_params & params, const std::string & value) { params.sampling.temp = std::stof(value); }));
    add_opt(common_arg(
        {"--split"}, "{none,layer}", "how",
        [](common_params & params, const std::string & value) {
            for (char c : value) { if (c == '"' || c == '}') { return; } }
        }
    ));
    add_opt(common_arg(
        {"-cb", "--batching"}, {"-nocb", "--no-batching"}, "help",
        [](common_params & params, bool value) { params.batching = value; }
    ));
    add_opt(common_arg(
        {"--draft"}, "N", "the argument has been removed",
        [](common_params & /*params*/, int /*value*/) { arg_removed("use --spec-n or --other-*"); }
    ));
    add_opt(common_arg(
        {"--bench"}, "another program",
        [](common_params & params) { params.bench = true; }
    ).set_examples({LLAMA_EXAMPLE_BENCH}));
    add_opt(common_arg(
        {"--range"}, "A", "B", "two values",
        [](common_params & params, const std::string & a, const std::string & b) { params.range = a + b; }
    ));
    add_opt(common_arg(
        {"--not-in-server"}, "help",
        [](common_params & params) { params.x = true; }
    ).set_excludes({LLAMA_EXAMPLE_SERVER}));
}
"""

COMMON_H = """
struct common_params_sampling {
    float temp = 0.80f; // warmth
};
struct common_params {
    int32_t n_ctx = 4096;
    int32_t n_slots = 1;
    struct common_params_sampling sampling;
};
"""


def test_cpp_style():
    flags, features = tool("flags_llama_cpp").read({"common/arg.cpp": ARG_CPP, "common/common.h": COMMON_H})
    assert features == {"underscores"}
    assert set(flags) == {"--ctx", "--slots", "--temp", "--split", "--batching", "--draft", "--range"}
    ctx = flags["--ctx"]
    assert (ctx.aliases, ctx.type, ctx.default, ctx.env) == (("-c",), "int", "4096", "LLAMA_ARG_CTX")
    assert flags["--slots"].default == "-1"
    assert (flags["--temp"].type, flags["--temp"].default) == ("float", "0.8")
    assert flags["--split"].choices == ("layer", "none")
    assert flags["--batching"].negations == ("--no-batching", "-nocb")
    assert (flags["--draft"].status, flags["--draft"].replaced_by) == ("refused", "--spec-n")
    assert flags["--range"].kind == "values"


def flag(name: str, *aliases: str, default: str = "1") -> Flag:
    return Flag(name, aliases, (), "value", "int", default, (), "", "", "")


def named(*flags: Flag) -> dict[str, Flag]:
    return {one.name: one for one in flags}


def test_rows_are_runs_without_a_change():
    merge = tool("flags_merge")
    old, new = flag("--a"), flag("--a", default="2")
    snapshots = {"0.9": named(old), "0.10": named(old), "0.11": named(new), "0.12": {}, "0.13": named(new)}
    assert merge.rows_of(snapshots) == [(old, "0.9", "0.10"), (new, "0.11", "0.11"), (new, "0.13", "0.13")]
    assert merge.in_order(["0.10", "0.9", "0.9.post1"]) == ["0.9", "0.9.post1", "0.10"]


def test_a_flag_keeps_one_name_where_both_releases_have_it():
    merge = tool("flags_merge")
    newer = flag("--tp", "--tensor-size", "-t")
    older = flag("--tensor-size", "--tp", "-t")
    (row,) = merge.rows_of({"1": named(older), "2": named(newer)})
    assert (row[0].name, row[0].aliases, row[1:]) == ("--tp", ("--tensor-size", "-t"), ("1", "2"))
    rows = merge.rows_of({"1": named(flag("--tensor-size", "-t")), "2": named(newer)})
    assert [row[0].name for row in rows] == ["--tensor-size", "--tp"]


@pytest.mark.parametrize("engine", ["llama.cpp", "sglang", "vllm"])
def test_the_data_file_is_what_the_merge_writes(engine: str, tmp_path: Path):
    """Expanding the rows into releases and merging them again gives the same file, byte by byte."""
    merge = tool("flags_merge")
    table = flag_table(engine)
    merge.write_rows(tmp_path / "again.csv", merge.rows_of(merge.snapshots_of(table)))
    data = TOOLS.parent / "profiles" / "data" / "flag_tables" / f"{engine}.csv"
    assert (tmp_path / "again.csv").read_bytes() == data.read_bytes()


def test_the_order_of_adding_does_not_matter(tmp_path: Path):
    merge = tool("flags_merge")
    snapshots = merge.snapshots_of(flag_table("sglang"))
    middle = snapshots.pop("0.5.5")
    rows = merge.rows_of(snapshots)
    releases = [Release("sglang", version, frozenset(), "", "") for version in snapshots]
    at = {release.version: place for place, release in enumerate(releases)}
    again = FlagTable("sglang", releases, [(one, at[first], at[last]) for one, first, last in rows])
    assert merge.rows_of(merge.snapshots_of(again) | {"0.5.5": middle}) == merge.rows_of(
        merge.snapshots_of(flag_table("sglang"))
    )
