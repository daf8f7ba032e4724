"""The pages: what is computed in them is as computed now, outputs are what commands print, every link leads somewhere.

Stale pages are refreshed by the tool that the failure names. Commands shown without their output are run by
tests/test_docs_commands.py.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import calibrations
import pytest
from scripts import script

from infopt import cli_probe
from infopt.cli import run
from infopt.hardware.host import host_memory_bytes, processor_name
from infopt.probes.session import Job, Outcome
from infopt.reports.schemas import schema_names
from infopt.studies.claim_figures import FIGURES
from infopt.studies.reproduce import reproduce

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
WRITTEN = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("index", "sources", "memory", "formats"))]
REFRESH = "stale: run `python tools/{}`"


def tool(name: str) -> ModuleType:
    """A script of tools/, which is no package."""
    return script(f"tools/{name}.py")


TABLES = tool("docs_tables")
FORMULAS = tool("docs_formulas")
SESSIONS = tool("docs_sessions")
COMMANDS = tool("docs_cli")
SCHEMAS = tool("docs_schemas")
# Schemas of files that are read: docs/policy.md, docs/calibration.md, and by hand in docs/json.md.
READ = {"policy", "calibration", "run"}


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def fenced(language: str, text: str) -> list[str]:
    """Contents of the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shown(pattern: str) -> list[str]:
    """Arguments of the command lines without output that begin as the pattern says."""
    texts = [block for path in PAGES for block in fenced("sh", text_of(path))]
    found = (re.match(rf"infopt (?P<arguments>{pattern}[^#|]*)", line) for text in texts for line in text.splitlines())
    return sorted({match["arguments"].strip() for match in found if match})


def test_formulas_are_those_of_the_code() -> None:
    assert text_of(ROOT / "docs" / "formulas.md") == FORMULAS.page(), REFRESH.format("docs_formulas.py")


def test_every_ledger_is_in_the_formulas() -> None:
    names = {path.stem for path in FORMULAS.ledgers()}
    assert names | set(FORMULAS.HELPERS) == {path.stem for path in (ROOT / "ledgers").glob("*.py")}


@pytest.mark.parametrize("page", TABLES.pages())
def test_computed_parts_are_current(page: str) -> None:
    """Tables between markers, and the output under every `$ infopt` line."""
    text = text_of(ROOT / page)
    assert TABLES.filled(text) == text, REFRESH.format("docs_tables.py")


def test_every_block_is_used_once() -> None:
    used = [name for page in TABLES.pages() for name in re.findall(r"<!-- begin: ([\w-]+) -->", text_of(ROOT / page))]
    assert sorted(used) == sorted(TABLES.BLOCKS)


def test_a_stale_page_would_be_noticed() -> None:
    text = text_of(ROOT / "docs" / "formats.md")
    assert TABLES.filled(text.replace("10.74", "10.73")) == text


@pytest.mark.parametrize("page", SESSIONS.PAGES, ids=lambda page: page.stem)
def test_sessions_print_what_is_shown(page: Path) -> None:
    """The commands of a page, one after the other in one empty folder, and all that they print."""
    assert SESSIONS.filled(text_of(page)) == text_of(page), REFRESH.format("docs_sessions.py")


def test_every_console_block_is_compared() -> None:
    """Each belongs to a page whose outputs are computed, and is written so that it is found."""
    for path in PAGES:
        for block in fenced("console", text_of(path)):
            assert block.startswith("$ "), path.name
            if path not in SESSIONS.PAGES:
                assert block.startswith("$ infopt "), path.name
                assert block.count("\n$ ") == 0, path.name
                assert path.relative_to(ROOT).as_posix() in TABLES.pages()


def test_a_session_is_one_shell() -> None:
    """Files are written before the commands below them; the status of the last command is kept; the end is noticed."""
    page = "```yaml\n# a/b.yaml\nx: 1\n```\n\n```console\n$ cat a/b.yaml\nold\n$ false\n$ echo $?\n```\n"
    assert SESSIONS.outputs(page) == ["# a/b.yaml\nx: 1\n", "", "1\n"]
    assert "$ cat a/b.yaml\n# a/b.yaml\nx: 1\n$ false\n$ echo $?\n1\n```" in SESSIONS.filled(page)
    with pytest.raises(ValueError, match="ended after 0 commands"):
        SESSIONS.outputs("```console\n$ exit 3\n```\n")


def test_a_change_of_a_file_is_of_one_place() -> None:
    assert SESSIONS.changed("a\nb\n", "-b\n+c\n") == "a\nc\n"
    with pytest.raises(ValueError, match="stands 2 times"):
        SESSIONS.changed("b\nb\n", "-b\n+c\n")


@pytest.mark.parametrize(("name", "page"), COMMANDS.pages().items(), ids=COMMANDS.pages())
def test_command_reference_is_that_of_the_program(name: str, page: str) -> None:
    assert text_of(ROOT / "docs" / "commands" / name) == page, REFRESH.format("docs_cli.py")


def test_command_reference_has_no_other_page() -> None:
    assert {path.name for path in (ROOT / "docs" / "commands").iterdir()} == set(COMMANDS.pages())


def test_keys_are_those_of_the_schemas() -> None:
    page = text_of(SCHEMAS.PAGE)
    assert SCHEMAS.filled(page) == page, REFRESH.format("docs_schemas.py")
    assert {part["name"] for part in SCHEMAS.PART.finditer(page)} | READ == set(schema_names())


def test_keys_of_a_schema_in_words() -> None:
    table = SCHEMAS.keys("experiment_compare")
    assert (
        "| `pairs[].metrics[].better` | string or null | which way is a gain; null: neither: `higher`, `lower` |"
        in table
    )
    assert "choices[].model" not in SCHEMAS.keys("choices", "choices[]")


def test_every_option_is_in_the_reference() -> None:
    """As `--help` prints them: none is lost between families."""
    for command in ("plan", "simulate", "gate", "probe draft"):
        _, helped = TABLES.run(f"{command} --help")
        page = text_of(ROOT / "docs" / "commands" / f"{command.split()[0]}.md")
        for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", helped, re.MULTILINE):
            assert option in page or option == "--help", f"{command} {option}"


@pytest.mark.parametrize("arguments", [one for one in shown("probe") if not one.startswith("probe compare")])
def test_shown_probes_are_understood(arguments: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Options and names are right; what would be measured is not."""
    begun = []

    def nothing(options: cli_probe.ProbeOptions, jobs: Callable[[], Sequence[Job]], here: bool = True) -> Outcome:
        begun.extend(job.name for job in jobs())
        return Outcome(None, tmp_path / "here.yaml", (), (), interrupted=False)

    monkeypatch.setattr(cli_probe, "measured", nothing)
    assert run(shlex.split(arguments)) == 0
    assert begun


@pytest.mark.parametrize("arguments", shown("plan .*--calibration auto"))
def test_shown_plans_take_the_record_of_this_machine(
    arguments: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path))
    monkeypatch.setattr("infopt.hardware.detect.PROBES", ())  # no accelerator: the processor is meant
    here = calibrations.device(
        kind="cpu",
        name=processor_name(),
        accelerator=None,
        memory_bytes=host_memory_bytes()[1],
        compute_capability=None,
    )
    record = calibrations.calibration(calibrations.measurement(value=2e10), device=here)
    calibrations.written(tmp_path / "calibrations" / "here.yaml", record)
    run(shlex.split(arguments))
    printed = capsys.readouterr()
    assert "here.yaml" in printed.out, printed.err


def test_first_commands_of_the_readme_are_make_plan_and_make_test() -> None:
    head = text_of(ROOT / "README.md").splitlines()
    assert [line.split("#")[0].strip() for line in head if line.startswith("    make ")] == ["make plan", "make test"]
    assert head.index(next(line for line in head if "make plan" in line)) < 5


def test_make_plan_prints_what_the_readme_shows() -> None:
    recipe = re.search(r"^plan:.*\n\t\$\(BIN\)/(infopt .*)$", text_of(ROOT / "Makefile"), re.MULTILINE)
    assert recipe is not None
    assert fenced("console", text_of(ROOT / "README.md"))[0].startswith(f"$ {recipe[1]}\n")


def test_readme_names_the_commands_that_exist_and_no_other() -> None:
    _, helped = TABLES.run("--help")
    existing = set(re.findall(r"^  (\w+)  ", helped.partition("Commands:")[2], re.MULTILINE))
    section = text_of(ROOT / "README.md").partition("## Commands")[2]
    named = set(re.findall(r"^\| `infopt (\w+)", section, re.MULTILINE))
    assert named == existing


def test_exit_statuses_of_the_readme() -> None:
    """One command for each status that one command can show."""
    small = "plan --model 8b --ctx 8k --hw"
    for arguments, status in (
        (f"{small} h100", 0),
        ("plan --model 70b --ctx 32k --hw h100", 1),
        (f"{small} h1000", 2),
        ("plan --model nonsense", 2),
        ("plan --model 8b --hw l4 --ctx 24k --engine-version 0.33.0", 4),
    ):
        assert TABLES.run(arguments)[0] == status, arguments


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", text_of(path), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_machine_paths_and_no_advertising(path: Path) -> None:
    words = text_of(path).lower()
    hosts = "|".join(f"{name}[.]" for name in ("pypi", "pythonhosted", "npmjs"))
    assert not re.search(rf"/work/|/tmp/|{hosts}", words)
    assert not re.search(
        r"\b(blazing|seamless\w*|powerful|effortless\w*|cutting-edge|state-of-the-art|simply)\b", words
    )


def test_index_names_every_page() -> None:
    index = text_of(ROOT / "docs" / "index.md")
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, path.name


ITEMS = {item.id: item for item in reproduce()}


def low(id: str) -> float:
    ours = ITEMS[id].ours
    assert ours is not None
    return ours.low


def with_head_for_every_token() -> float:
    """Prompt at which attention overtakes the matrices of a 70B when the head runs for every token."""
    return 2 * 69_503_033_344 / (80 * 64 * 256)


# What docs/sources.md says in prose, and where the figure comes from.
PROSE = [
    ("the 139 GB of a 16-bit 70B", low("d1-batch-1-bytes") / 1e9, 139),
    ("take 46.3 ms", low("d1-batch-8-tpot") * 1e3, 46.3),
    ("60.7 ms", ITEMS["d1-batch-64-tpot"].values["with_kv"] * 1e3, 60.7),
    ("| 32,768 (32 Ki) | 10.74 GB", low("d1-kv-32k") / 1e9, 10.74),
    ("| 5.37 GB |", ITEMS["d1-kv-32k"].values["eight_k"] / 1e9, 5.37),
    ("| 32,000 | 10.49 GB | 5.24 GB", ITEMS["d1-kv-32k"].values["eight"] / 1e9, 5.24),
    ("2.62 GB |", ITEMS["d1-kv-32k-quantized"].values["four"] / 1e9, 2.62),
    ("imply $0.900 an hour", ITEMS["d3-cost-naive"].values["hour"], 0.900),
    ("$0.864 for the other four", ITEMS["d3-cost-vllm"].values["hour"], 0.864),
    ("$4.80", 0.864 * 1e6 / (50 * 3600), 4.80),
    ("$3.99 an hour", ITEMS["d3-cost-int4"].values["ours"], 3.99),
    ("6.95 TB/s", ITEMS["d3-rate-naive"].values["needed"] / 1e12, 6.95),
    ("at most 24", low("d3-rate-naive"), 24.1),
    ("about 37 billion", low("d3-parallel-from-175b") / 1e9, 37.1),
    ("at 104,450", ITEMS["d3-ttft-attention"].values["root"], 104_450),
    ("at 106,052", with_head_for_every_token(), 106_052),
    ("4.6 times slower", low("d3-flash-attention"), 4.61),
    ("about 20,000 tokens", ITEMS["d3-flash-attention"].values["two"], 20_000),
    ("3.4 times with few short sequences", low("d3-rate-int4"), 3.4),
    ("worth 7 %", (low("d3-rate-prompt-cache") - 1) * 100, 7),
    ("about a tenth of the machine's time", ITEMS["d3-rate-prompt-cache"].values["share"], 0.094),
    ("the table says 24", ITEMS["d3-stack-gain"].values["without"], 24),
]


@pytest.mark.parametrize(("words", "computed", "said"), PROSE, ids=[words for words, _, _ in PROSE])
def test_figures_in_the_prose_of_sources(words: str, computed: float, said: float) -> None:
    assert words in " ".join(text_of(ROOT / "docs" / "sources.md").split())
    assert computed == pytest.approx(said, rel=0.02)


def test_peers_table_rests_on_the_right_answers() -> None:
    """The column called right is geometry: what tests/data/nine_models.csv holds, in GiB."""
    rows = {line.split(",")[0]: line.split(",") for line in text_of(ROOT / "tests/data/nine_models.csv").splitlines()}
    for line in text_of(TABLES.PEERS).splitlines()[1:]:
        model, _, context, right, *_ = line.split(",")
        assert int(context) == int(rows[model][1])
        assert float(right) == pytest.approx(float(rows[model][4]) * 1e9 / 2**30, rel=0.005)


def test_figures_have_a_docstring_or_a_plain_name() -> None:
    """A figure whose name does not say it all has its equation beside it."""
    plain = {"kv_element", "weights_saving", "sequences_held", "device_bandwidth", "device_peak"}
    plain |= {"rent_per_hour", "rent_per_month"}
    assert {name for name, found in FIGURES.items() if not found.function.__doc__} == plain
