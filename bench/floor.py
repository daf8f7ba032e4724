"""The smallest program of our kind: one Typer command, one option, one pydantic model, one YAML record, printed.

No version of infopt built on these three libraries can start faster than this; `startup.py` measures the ratio.
"""

from pathlib import Path

import typer
import yaml
from pydantic import BaseModel


class Gpu(BaseModel):
    id: str
    memory_bytes: int
    bandwidth_bytes_per_s: float


RECORD = Path(__file__).with_name("floor.yaml")

app = typer.Typer()


@app.command()
def show(record: Path = RECORD) -> None:
    print(Gpu.model_validate(yaml.load(record.read_text(), Loader=yaml.CSafeLoader)))


if __name__ == "__main__":
    app()
