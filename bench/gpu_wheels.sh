#!/usr/bin/env bash
# The Python packages that bench/gpu_validate.sh needs beside torch and triton, as wheels in .whl/ for another machine.
#
#   bench/gpu_wheels.sh [PYTHON_VERSION]        3.12 where none is given: that of the image the wheels are for
set -euo pipefail
cd "$(dirname "$0")/.."
version="${1:-3.12}"
platforms=(manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux1_x86_64)
rm -rf .whl && mkdir .whl
python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
    "${platforms[@]/#/--platform=}" --dest .whl \
    'pydantic>=2.12,<3' 'typer>=0.29,<0.30' 'rich>=14,<16' annotated-types typing-inspection typing-extensions \
    markdown-it-py mdurl pygments shellingham click annotated-doc 'gguf>=0.17' 'tokenizers>=0.20' \
    'nvidia-ml-py>=12.560' 'PyYAML>=6.0.1,<7'
# pydantic pins the core it was built with.
core="$(unzip -p .whl/pydantic-2*.whl '*/METADATA' | sed -n 's/^Requires-Dist: pydantic-core==\([^;]*\).*/\1/p' | tr -d ' ')"
python3 -m pip download -q --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
    "${platforms[@]/#/--platform=}" --dest .whl "pydantic-core==$core"
ls -l .whl
