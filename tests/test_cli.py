"""The command line as a program: exit statuses, one-line errors, closed pipes, help."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from infopt import __version__
from infopt.cli import run

COMMANDS = (
    ["plan"],
    ["search"],
    ["sweep"],
    ["reproduce"],
    ["validate"],
    ["schema"],
    ["models", "list"],
    ["models", "show"],
    ["models", "import"],
    ["hardware", "list"],
    ["hardware", "show"],
)
PLAN = ("plan", "--model", "8b", "--hw", "h100", "--ctx", "8k")


def one_line(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], status: int = 2) -> str:
    """Run, expect this status, nothing on stdout and one line on stderr, and return the line."""
    assert run(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("infopt: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_a_plan_that_fits_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PLAN) == 0
    printed = capsys.readouterr()
    assert "FITS" in printed.out
    assert printed.err == ""


def test_a_plan_that_does_not_fit_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "70b", "--hw", "h100", "--ctx", "32k"]) == 1
    assert "DOES NOT FIT" in capsys.readouterr().out


def test_choices_are_0_where_any_fits_and_1_where_none_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "8b", "--ctx", "8k"]) == 0
    assert run(["plan", "--model", "405b", "--ctx", "128k", "--gpus", "1"]) == 1
    assert "holds it" in capsys.readouterr().out


@pytest.fixture
def uncounted_audio(tmp_path: Path) -> str:
    """A config whose audio encoder cannot be counted: the text decoder is known, the whole is not."""
    config = {
        "architectures": ["TalkerForConditionalGeneration"],
        "model_type": "talker",
        "text_config": {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "vocab_size": 32064,
            "max_position_embeddings": 4096,
            "torch_dtype": "float16",
        },
        "audio_config": {"model_type": "some_new_encoder"},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def test_ignorance_is_4_unless_it_is_allowed(uncounted_audio: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "--model", uncounted_audio, "--hw", "h100", "--ctx", "4k"]
    assert run([*plan, "--json"]) == 4
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory["fits"] is None
    assert memory["unknown"]
    assert run(plan) == 4
    assert "UNDETERMINED" in capsys.readouterr().out
    assert run([*plan, "--allow-undetermined"]) == 0
    assert run([*plan, "--text-only"]) == 0


def test_a_definite_no_stands_whatever_is_unknown(uncounted_audio: str) -> None:
    plan = ["plan", "--model", uncounted_audio, "--hw", "custom:8GB:0.3TB/s", "--ctx", "4k"]
    assert run([*plan, "--allow-undetermined"]) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--ctx", "-1"),
        ("--ctx", "0"),
        ("--ctx", "nan"),
        ("--ctx", "1e400"),
        ("--ctx", "32q"),
        ("--ctx", "1.0001"),
        ("--isl", "-5"),
        ("--osl", "inf"),
        ("--batch", "nan"),
        ("--batch", "0"),
        ("--batch", "1.5"),
        ("--util", "1.5"),
        ("--util", "0"),
        ("--util", "-0.1"),
        ("--util", "nan"),
        ("--tp", "0"),
        ("--tp", "3"),
        ("--pp", "-2"),
        ("--pp", "100"),
        ("--dp", "two"),
        ("--ep", "8"),
        ("--gpus", "0"),
        ("--price", "h100"),
        ("--price", "h100=-1"),
        ("--price", "h100=nan"),
        ("--weights", "fp9"),
        ("--kv", "int2"),
        ("--engine", "vlm"),
        ("--engine-version", "new"),
        ("--format", "xml"),
        ("--hw", ""),
        ("--hw", "h1000"),
        ("--hw", "h100:0"),
        ("--model", ""),
        ("--model", "lama-3.1-8b"),
        ("--model", "./no-such-folder"),
    ],
)
def test_bad_values_are_one_line(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    one_line(capsys, [*PLAN, option, value])


def test_unknown_names_list_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Llama-3.1-8B" in one_line(capsys, ["plan", "--model", "lama-3.1-8b", "--hw", "h100"])
    assert "--ctx" in one_line(capsys, [*PLAN, "--ctxx", "8k"])
    assert "'plan'" in one_line(capsys, ["plam"])
    assert "fp8" in one_line(capsys, [*PLAN, "--weights", "fp9"])
    assert "1, 2, 4, 8" in one_line(capsys, [*PLAN, "--tp", "3", "--gpus", "3"])


@pytest.mark.parametrize(
    "arguments", [["plan"], ["plan", "--hw", "h100"], [*PLAN, "--ctx"], ["models"], ["schema", "x"]]
)
def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    one_line(capsys, arguments)


@pytest.mark.parametrize("json_option", [["--json"], ["--format", "json"], ["--format=json"]])
def test_errors_are_json_too(capsys: pytest.CaptureFixture[str], json_option: list[str]) -> None:
    assert run(["plan", "--model", "nope", "--hw", "h100", *json_option]) == 2
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["exit_status"] == 2
    assert printed.err == f"infopt: {error['message']}\n"


def test_no_command_prints_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_an_example_and_the_exit_statuses(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run([*command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"infopt {' '.join(command)}" in text.partition("Options:")[0].partition("Usage:")[2]
    assert "Exit status: 0" in text


def test_help_says_what_32k_is(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["plan", "--help"]):
        run(arguments)
        assert "32768" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"infopt {__version__}\n"


def test_synonyms_of_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for name in ("--ctx", "--context", "--max-model-len"):
        assert run(["plan", "-m", "8b", "--hw", "h100", name, "8k", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("infopt.profiles.resolve.resolve_model", interrupt)
    assert run(PLAN) == 130


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "infopt", *arguments]


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    """More than a pipe holds is printed, and one byte of it read."""
    process = subprocess.Popen(
        program("plan", "--model", "8b", "--json"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert errors == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            program(*PLAN), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.returncode == 2
    assert finished.stderr.startswith("infopt: the output cannot be written")
    assert finished.stderr.count("\n") == 1


def test_an_ascii_terminal_gets_ascii(tmp_path: Path) -> None:
    finished = subprocess.run(
        program(*PLAN),
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert finished.stdout.isascii()
    assert b"####" in finished.stdout


def test_a_hostile_name_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b]0;x\x07\u202e.yaml"
    for arguments in (["gate", name], ["sweep", "--cases", name], [*PLAN, "--observed", name]):
        assert run(arguments) == 2
        said = capsys.readouterr().err.removesuffix("\n")
        assert said.isprintable()
        assert "\\u202e.yaml" in said


def test_a_document_is_utf8_on_an_ascii_terminal_too(tmp_path: Path) -> None:
    finished = subprocess.run(
        program(*PLAN, "--format", "md"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert "✅" in finished.stdout.decode("utf-8")
    assert not finished.stderr


def test_no_colour_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    run(PLAN)
    assert "\x1b" not in capsys.readouterr().out


def test_one_price_and_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "--price", "h100=2.49", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["usd_per_hour"] == 2.49
