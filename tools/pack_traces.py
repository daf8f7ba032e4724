"""Packs request traces for the package: python tools/pack_traces.py [FOLDER]

FOLDER (default ../shared/truth/traces) holds the files named below, as their sources publish them. The text is packed
as it is, so nothing of it is lost, and the same text gives the same bytes. Writes arrivals/data/traces/*.xz and prints
what arrivals/data/traces.yaml has to say of each: requests and the SHA-256 of the text.
"""

import hashlib
import lzma
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "arrivals" / "data" / "traces"
FILES = {
    "azure_conv.csv": "azure-conv.csv.xz",
    "azure_code.csv": "azure-code.csv.xz",
    "mooncake_conversation.jsonl": "mooncake.jsonl.xz",
}


def pack(text: bytes) -> bytes:
    """The smallest xz of a text, checked to give the text back."""
    packed = lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
    if lzma.decompress(packed) != text:
        raise SystemExit("the packed text does not give the text back")
    return packed


def main(folder: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, target in FILES.items():
        text = (folder / name).read_bytes()
        (TARGET / target).write_bytes(pack(text))
        requests = len(text.splitlines()) - name.endswith(".csv")
        size = (TARGET / target).stat().st_size
        print(f"{target}: {size} bytes, requests {requests}, sha256 {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "truth" / "traces")
