"""Commands run where no connection can be made, with secrets in their environment."""

import os
import secrets
import shlex
import subprocess
import sys
from pathlib import Path

SEALED = Path(__file__).resolve().parent / "safety" / "sealed"
# Made up anew for each run. One shape, so that one search finds whichever leaked.
MARK = "Zq7" + secrets.token_hex(12)
TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "INFOPT_API_KEY",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "WANDB_API_KEY",
)
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


def environment(home: Path) -> dict[str, str]:
    """Of a user who has every token there is, in variables and files, and proxies everywhere."""
    (home / ".netrc").write_text(f"machine huggingface.co login me password {MARK}\n", encoding="utf-8")
    (home / ".cache" / "huggingface").mkdir(parents=True, exist_ok=True)
    (home / ".cache" / "huggingface" / "token").write_text(f"hf_{MARK}", encoding="utf-8")
    kept = {name: text for name, text in os.environ.items() if name not in ("HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT")}
    return {
        **kept,
        **dict.fromkeys(TOKENS, f"hf_{MARK}"),
        **dict.fromkeys(PROXIES, f"http://me:{MARK}@127.0.0.1:9"),
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "INFOPT_DATA": str(home),
        "TMPDIR": str(home),
        "COLUMNS": "80",
        "PYTHONPATH": str(SEALED),
        "SEALED_LOG": str(home / "connections.txt"),
    }


def run_sealed(command: list[str], folder: Path, home: Path, most_s: float = 120) -> "subprocess.CompletedProcess[str]":
    """A program that can reach nobody; its standard input is at its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=most_s,
        check=False,
    )


def infopt(line: str) -> list[str]:
    return [sys.executable, "-m", "infopt", *shlex.split(line)]


def tried(home: Path) -> str:
    """Connections that were tried, one a line."""
    log = home / "connections.txt"
    return log.read_text(encoding="utf-8") if log.exists() else ""


def leaked(*folders: Path) -> list[str]:
    """Files under the folders that hold a secret, but for those where this module put it."""
    own = (".netrc", "token")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.name not in own]
    return [str(path) for path in files if MARK.encode() in path.read_bytes()]
