"""Shell texts read, never run: words, assignments, here-documents, what starts an engine; any text, in bounded time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.gate.engines import calls_in, lines_of
from infopt.gate.environment import expanded, unresolved
from infopt.gate.found import Argument
from infopt.gate.readers.shell_script import read
from infopt.gate.shell import commands, split


def words(script: str) -> list[list[str]]:
    """The words of every command."""
    return [[word.text for word in command.words] for command in commands(script) if command.words]


def started(script: str) -> list[tuple[str, list[str]]]:
    """Engine and arguments of everything a script starts."""
    calls = calls_in(Argument(script, 1, 1, ""), {})
    return [(call.engine, [word.text for word in call.arguments]) for call in calls]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b  c' \"d e\" f\\ g", [["a", "b  c", "d e", "f g"]]),
        ("a --x='1 2'\"3\"4", [["a", "--x=1 234"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("ab\\\ncd", [["abcd"]]),
        ("a # b\nc", [["a"], ["c"]]),
        ("a#b", [["a#b"]]),
        ("a && b || c; d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("(cd /x && a) &", [["cd", "/x"], ["a"]]),
        ("f() { a; }", [["f"], ["a"]]),
        ("if ! a; then b; else c; fi", [["a"], ["b"], ["c"]]),
        ("while true; do a; done", [["true"], ["a"]]),
        ("a > log 2>&1 < in", [["a"]]),
        ("a &> log; b 2>/dev/null", [["a"], ["b"]]),
        ("a > >(tee x) b", [["a", "b"]]),
        ("a --name time --if exec", [["a", "--name", "time", "--if", "exec"]]),
        ("a $(b 'c)' d) e", [["a", "$(b 'c)' d)", "e"]]),
        ("a `b c` d", [["a", "`b c`", "d"]]),
        ('a "{\\"b\\": 1}"', [["a", '{"b": 1}']]),
        ("cat <<E\nvllm serve x\nE\na", [["cat"], ["a"]]),
        ("cat <<-'E' > f\n\tx\n\tE\na", [["cat"], ["a"]]),
    ],
)
def test_words_of_commands(script: str, expected: list[list[str]]) -> None:
    assert words(script) == expected


def test_what_stands_before_a_program_reaches_only_that_program() -> None:
    first, second, third = commands("A=1 run x\nexport B=2 C='3 4'\nD=5")
    assert (dict(first.assigned), first.exported) == ({"A": "1"}, False)
    assert (dict(second.assigned), second.exported, second.words) == ({"B": "2", "C": "3 4"}, True, ())
    assert (dict(third.assigned), third.exported) == ({"D": "5"}, False)


def test_a_here_document_stays_beside_its_command() -> None:
    first, second = commands("cat > options.yaml <<'EOF'\na: 1\nb: 2\nEOF\nnext")
    assert (first.body, first.target) == ("a: 1\nb: 2", "options.yaml")
    assert (second.body, second.words[0].text) == ("", "next")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("A='x y'\nrun $A \"$A\"", ["x", "y", "x y"]),
        ("A=x\nrun ${A}y ${B:-z}", ["xy", "z"]),
        ("A=''\nrun $A b", ["b"]),
        ("A=(--m 'x y' z)\nrun \"${A[@]}\"", ["--m", "x y", "z"]),
        ("A=(a)\nA+=(--j '{\"k\": 1}')\nrun ${A[@]}", ["a", "--j", '{"k": 1}']),
        ("A=a\nA+=b\nrun $A", ["ab"]),
        ('A="$A --x"\nrun $A', ["--x"]),
        ("A=$B\nrun $A", ["$B"]),
        ("B=$1\nrun ${2:-d} $B", ["d", "$1"]),
        ("A=1\nrun '$A' \\$", ["$A", "$"]),
        ("A=1\nB=$A\nA=2\nrun $B", ["1"]),
    ],
)
def test_variables_in_place(script: str, expected: list[str]) -> None:
    *_, last = lines_of(Argument(script, 1, 1, ""), {})
    assert [word.text for word in last.words[1:]] == expected


@pytest.mark.parametrize(
    "before",
    [
        "",
        "exec ",
        "nohup ",
        "env A=b ",
        "sudo -E env A=b C=d ",
        "A=b ",
        "numactl --cpunodebind=0 ",
        "timeout 60 ",
        "srun -N 1 --mpi=none ",
        "cd /x && ",
        "sleep 1; ",
        "true || ",
        "time ",
        "uv run --with vllm ",
        "conda run -n main ",
    ],
)
def test_an_engine_behind_what_starts_it(before: str) -> None:
    assert started(f"{before}vllm serve some/model --max-model-len 100") == [
        ("vllm", ["some/model", "--max-model-len", "100"])
    ]


@pytest.mark.parametrize(
    "script",
    [
        'bash -lc "vllm serve some/model"',
        "sh -c 'exec vllm serve some/model'",
        "bash -c \"bash -c 'vllm serve some/model'\"",
        'M=some/model\nbash -lc "vllm serve $M"',
        "CMD='vllm serve some/model'\n$CMD",
        "vllm \\\n  serve \\\n  some/model",
        "vl\\\nlm serve some/mod\\\nel",
        "/opt/venv/bin/vllm serve some/model",
    ],
)
def test_one_command_however_it_is_wrapped(script: str) -> None:
    assert started(script) == [("vllm", ["some/model"])]


@pytest.mark.parametrize(
    "script",
    ["echo vllm serve x", "# vllm serve x", "cat <<E\nvllm serve x\nE", "pip install vllm", "grep 'vllm serve' log"],
)
def test_words_that_start_nothing(script: str) -> None:
    assert started(script) == []


def test_a_word_keeps_its_line_and_column() -> None:
    (call,) = calls_in(Argument("# first\nvllm serve x \\\n   --max-model-len 5\n", 10, 3, "run"), {})
    assert [(word.text, word.line, word.column) for word in call.arguments] == [
        ("x", 11, 14),
        ("--max-model-len", 12, 6),
        ("5", 12, 22),
    ]


def test_what_is_not_known_is_named() -> None:
    assert unresolved("$A ${B} $(C) ${D:?e} $1 $(nproc --all) `date`") == [
        "A", "B", "C", "D", "1", "(nproc --all)", "date",
    ]  # fmt: skip


def test_values_that_grow_stop_growing() -> None:
    known = {f"A{i}": f"$A{i - 1}$A{i - 1}" for i in range(1, 60)} | {"A0": "x" * 100}
    assert len(expanded("$A59", known)) <= 100_000


ALPHABET = st.sampled_from([*"ab$ \n\\'\"`(){}[]<>&|;#=+-@:/0A", "<<E\n", "E\n", "${A:-", "$(", "A=(", "vllm serve "])
TEXTS = st.lists(ALPHABET, max_size=200).map("".join)


@settings(max_examples=300, deadline=2000)
@given(TEXTS)
def test_any_text_is_read(text: str) -> None:
    """Every command is made of its own text: no word begins outside, and words come in order."""
    for command in commands(text):
        offsets = [word.offset for word in command.words]
        assert offsets == sorted(offsets)
        assert all(0 <= offset < len(text) for offset in offsets)
    for found in read("x.sh", "vllm\n" + text):
        assert found.engine


@settings(max_examples=200, deadline=2000)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20), min_size=1, max_size=8))
def test_words_in_single_quotes_come_back(original: list[str]) -> None:
    line = "run " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in original)
    assert [word.text for word in split(line)][1:] == original


@settings(max_examples=200, deadline=2000)
@given(st.lists(st.text("abc$\"\\'{}: ", min_size=1, max_size=12), min_size=1, max_size=6))
def test_words_of_an_array_come_back(original: list[str]) -> None:
    plain = [word.replace("$", "") or "x" for word in original]
    elements = " ".join("'" + word.replace("'", "'\\''") + "'" for word in plain)
    *_, last = lines_of(Argument(f'A=({elements})\nrun "${{A[@]}}"', 1, 1, ""), {})
    assert [word.text for word in last.words][1:] == plain


HOSTILE = {
    "substitutions": "$(" * 100_000,
    "braces": "${A:-" * 40_000,
    "quotes": "\"'" * 100_000,
    "arrays": "A=(" * 60_000,
    "here-documents": "<<E\n" * 50_000,
    "redirections": "<>" * 100_000,
    "doubling": "A=x\n" + "A=$A$A\n" * 20_000,
    "chain": "A0=x\n" + "".join(f"A{i}=$A{i - 1}$A{i - 1}\n" for i in range(1, 8_000)),
    "servers": "vllm serve x\n" * 15_000,
    "shells": "bash -c '" * 20_000,
    "variables": "".join(f"A{i}=1\nB=2 run $A{i}\n" for i in range(8_000)),
    "newlines": "\n" * 200_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_texts_end_soon(kind: str) -> None:
    before = time.process_time()
    found = list(read("x.sh", "vllm\n" + HOSTILE[kind]))
    assert time.process_time() - before < 4
    assert len(found) <= 100
