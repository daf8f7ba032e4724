"""The nine models on which about forty tools were measured: stored weights, cache and state.

Right answers from geometry, agreed by engine logs where a log exists (docs/accuracy.md); the best other tool
gets 7 of the 9.
"""

import csv
from pathlib import Path

import pytest

from infopt.ledgers.cache import model_cache
from infopt.ledgers.weights import stored_weights_bytes
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.formats import kv_format_name, load_kv_format, weight_bits_by_part

TABLE = Path(__file__).with_name("data") / "nine_models.csv"
NINE = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("row", NINE, ids=[row["model"] for row in NINE])
def test_stored_weights_cache_and_state(row):
    model = load_catalogue_model(row["model"])
    cache = model_cache(model, load_kv_format(kv_format_name(model, None)))
    assert cache.full_bytes_per_token == int(row["kv_bytes_per_token"])
    held = cache.kv_bytes_per_sequence(int(row["context_tokens"])) + cache.state_bytes
    assert held / 1e9 == pytest.approx(float(row["kv_and_state_gb"]), rel=0.0005)
    _, bits = weight_bits_by_part(model, None)
    assert stored_weights_bytes(model, bits, True) / 1e9 == pytest.approx(float(row["stored_weights_gb"]), rel=0.005)
