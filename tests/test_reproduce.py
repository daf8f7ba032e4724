"""`reproduce`: every number of the documents stands beside a computed one, and the assumption really makes it true."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.ledgers.cost import usd_per_million_tokens
from infopt.ledgers.queueing import static_loss_ratio
from infopt.reports.reproduce_report import as_dict, csv_text, markdown, render
from infopt.studies import claim_speculation
from infopt.studies.claim_figures import FIGURES, evaluate
from infopt.studies.claims import CLAIMS, Assumption, Claim, Computation, Document, load_documents
from infopt.studies.reproduce import Item, _item, reproduce

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "documents"

ITEMS = {item.id: item for item in reproduce()}


def value(id: str, name: str) -> float:
    return ITEMS[id].values[name]


def low(id: str) -> float:
    ours = ITEMS[id].ours
    assert ours is not None
    return ours.low


# What nobody can compute from geometry and prices: quality, similarity, behaviour of users, somebody's bill.
NOT_COMPUTABLE = {
    *("d3-quality-int8", "d3-quality-int4", "d3-quality-int3", "d3-quality-int2"),
    *("d3-semantic-threshold", "d3-semantic-hits", "d3-saving-30"),
}


def test_ids_are_unique_and_carry_their_document() -> None:
    ids = [claim.id for document in load_documents() for claim in document.claims]
    assert len(set(ids)) == len(ids) == len(ITEMS)
    assert all(item.id.startswith(f"d{item.document}-") for item in ITEMS.values())


def test_what_is_not_computed_is_listed() -> None:
    assert {item.id for item in ITEMS.values() if item.ours is None} == NOT_COMPUTABLE
    assert all(ITEMS[id].status == "depends" for id in NOT_COMPUTABLE)


def test_every_claim_says_what_makes_it_true() -> None:
    for item in ITEMS.values():
        assert item.statement
        assert item.assumption
        assert "{" not in item.assumption
        assert not re.search(r"nan|None", item.assumption)


def test_a_claim_that_depends_names_the_number_where_it_flips() -> None:
    quality = {id for id in NOT_COMPUTABLE if "quality" in id or "threshold" in id}
    for item in ITEMS.values():
        if item.status == "depends" and item.id not in quality:
            assert item.values, item.id


@pytest.mark.parametrize(
    ("id", "status"),
    [
        ("d1-batch-1-bytes", "agrees"),
        ("d1-batch-64-bytes", "agrees"),
        ("d1-batch-1-amortized", "agrees"),
        ("d1-batch-8-amortized", "agrees"),
        ("d1-batch-64-amortized", "agrees"),
        ("d1-batch-8-tpot", "differs"),
        ("d1-batch-64-tpot", "differs"),
        ("d1-kv-32k", "differs"),
        ("d1-kv-32k-quantized", "differs"),
        ("d1-effective-batch-4", "depends"),
        ("d1-kv-share-10", "depends"),
        ("d1-skip-below-10", "depends"),
        ("d1-printed-speedup", "differs"),
        ("d2-replicas-decode", "depends"),
        ("d3-kv-32k", "agrees"),
        ("d3-h100-flops", "agrees"),
        ("d3-h100-bandwidth", "agrees"),
        ("d3-with-cache", "agrees"),
        ("d3-without-cache", "agrees"),
        ("d3-int4-one-h100", "agrees"),
        ("d3-parallel-from-175b", "differs"),
        ("d3-ttft-attention", "differs"),
        ("d3-stack-gain", "differs"),
        ("d3-cost-naive", "differs"),
        ("d3-cost-reduction", "agrees"),
        ("d3-semantic-hits", "depends"),
    ],
)
def test_status(id: str, status: str) -> None:
    assert ITEMS[id].status == status


@pytest.mark.parametrize(
    ("id", "ours", "tolerance"),
    [
        # Geometry of Llama-3.1-70B worked by hand: 80 layers, 8 KV heads of 128, 69.5e9 parameters read.
        ("d1-kv-32k", 2 * 80 * 8 * 128 * 2 * 32768, 1e-12),
        ("d1-batch-1-bytes", 2 * 69_503_033_344, 1e-4),
        ("d1-batch-64-tpot", (2 * 69_503_033_344 + 64 * 327_680) / 3e12, 1e-5),
        ("d1-batch-64-amortized", (2 * 69_503_033_344 / 64 + 327_680) / 3e12, 1e-5),
        ("d3-rate-vllm", 8 * (139.01 + 0.671) / (139.01 + 8 * 0.671), 1e-3),
        ("d3-cost-reduction", 5 / 0.06, 1e-12),
        ("d3-stack-gain", 80, 1e-12),
        # Two all-reduces a layer of 8,192 bytes over 450 GB/s against 2 P / (8 x 989.4 TFLOP/s).
        ("d2-replicas-prefill", 1 + 64 * 2 * 7 / 8 * 8192 / 450e9 / (2 * 6.98e9 / (8 * 989.4e12)), 0.02),
        # One head of 128: 2 x 4 bytes per score through 3.35 TB/s against 4 x 128 FLOP at 989.4 TFLOP/s.
        ("d3-flash-attention", (8 / 3.35e12) / (512 / 989.4e12), 1e-9),
    ],
)
def test_ours_against_hand_calculation(id: str, ours: float, tolerance: float) -> None:
    assert low(id) == pytest.approx(ours, rel=tolerance)


def test_the_two_figures_for_kv_at_32k() -> None:
    """5.24 GB is 8-bit KV over 32,000 tokens; 16 bits give 10.49, over 32,768 tokens 10.74 and 5.37."""
    assert value("d1-kv-32k", "eight") == 5_242_880_000
    assert value("d1-kv-32k", "eight_k") == 5_368_709_120
    assert value("d1-kv-32k", "sixteen") == 10_485_760_000
    assert low("d3-kv-32k") == 10_737_418_240


def test_the_cost_table_implies_one_rent() -> None:
    implied = [value(f"d3-cost-{row}", "hour") for row in ("naive", "vllm", "int4", "speculation", "prompt-cache")]
    assert implied == pytest.approx([0.9, 0.864, 0.864, 0.864, 0.864])
    assert value("d3-rate-naive", "needed") == pytest.approx(7e12, rel=0.01)


def test_attention_reaches_half_of_prefill_near_106k_tokens() -> None:
    assert value("d3-ttft-attention", "root") == pytest.approx(106e3, rel=0.02)


# (claim, name of the value that makes theirs true): it must lie in theirs, ends within the tolerance given.
MAKES_TRUE = [
    ("d1-batch-8-tpot", "amortized", 0.02),
    ("d1-batch-64-tpot", "amortized", 0.05),
    ("d1-one-device", "int4", 0.0),
    ("d1-one-device", "large", 0.0),
    ("d1-kv-32k", "eight", 0.02),
    ("d1-kv-32k-quantized", "four", 0.02),
    ("d3-bits-int4", "payload", 0.0),
    ("d3-bits-int3", "payload", 0.0),
    ("d3-bits-int2", "payload", 0.0),
    ("d3-memory-int4", "payload", 0.0),
    ("d3-memory-int3", "payload", 0.02),
    ("d3-memory-int2", "payload", 0.05),
    ("d3-stack-gain", "without", 0.0),
    ("d3-rate-prompt-cache", "all", 1e-9),
    ("d3-cost-reduction", "rates", 1e-9),
]


@pytest.mark.parametrize(("id", "name", "tolerance"), MAKES_TRUE)
def test_the_assumption_makes_theirs_true(id: str, name: str, tolerance: float) -> None:
    theirs = ITEMS[id].theirs
    assert theirs is not None
    assert theirs.low * (1 - tolerance) <= value(id, name) <= theirs.high * (1 + tolerance)


# (figure, what the flip stands for, its value by id and name): put back into the formula it gives the threshold.
def figure(name: str, **given: str | float) -> float:
    return FIGURES[name].function(**given)


SEVENTY: dict[str, str | float] = {"model": "70b", "hw": "h100-sxm-80gb", "gpus": 4, "weights": "bf16", "kv": "bf16"}


def test_flips_put_back_give_the_threshold() -> None:
    tokens = value("d1-effective-batch-4", "tokens")
    assert figure("batch_at_equal_reads", **SEVENTY, tokens=round(tokens)) == pytest.approx(4, rel=1e-3)
    batch = value("d1-kv-share-10", "batch")
    assert figure("kv_share", **SEVENTY, tokens=32768, batch=1) * batch == pytest.approx(0.1)
    draft = {**SEVENTY, "draft": "8b", "tokens": 2048, "batch": 1, "drafted": 5}
    needed = value("d1-skip-below-10", "eight")
    assert figure("speculation_saving", **draft, acceptance=needed) == pytest.approx(0.1, rel=1e-6)
    at = value("d1-printed-speedup", "at")
    assert figure("speculation_gain", **draft, acceptance=at) == pytest.approx(figure("printed_speedup", **draft))
    for cycle, name in ((4 / 3, "verify_three"), (1.25, "verify_four")):
        batch = value("d3-speculation-gain", name)
        assert figure("verify_cost", **SEVENTY, tokens=2048, batch=batch, drafted=5) == pytest.approx(cycle, rel=1e-6)
    weak = value("d1-speculation-large-batch", "weak")
    one = {**SEVENTY, "draft": "llama-3.2-1b", "tokens": 2048, "drafted": 5, "acceptance": 0.4}
    fewer, more = (figure("speculation_gain", **one, batch=batch) for batch in (int(weak) - 1, int(weak) + 2))
    assert fewer > 1.1 > more
    prompt = value("d3-flash-attention", "two")
    same = {"model": "70b", "hw": "h100-sxm-80gb", "passes": 4}
    assert figure("fused_prefill_gain", **same, tokens=prompt) == pytest.approx(2, rel=1e-6)
    uses = value("d3-prompt-cache-saving", "uses")
    prices = {"read_price": 0.1, "write_price": 1.25}
    assert figure("api_saving", shared=1.0, reuses=uses, **prices) == pytest.approx(0.8)
    root = value("d3-ttft-attention", "root")
    assert figure("attention_share", model="70b", tokens=root) == pytest.approx(0.5)
    batch = value("d3-rate-int4", "batch")
    same_int4 = {**SEVENTY, "weights": "int4_awq", "tokens": 2048}
    assert figure("format_gain", **same_int4, batch=round(batch)) == pytest.approx(1.5, rel=0.01)
    low_end = value("d3-training-cost", "low")
    training = {"model": "70b", "hw": "h100-sxm-80gb", "flop_share": 0.4}
    assert figure("training_cost", **training, training_tokens=low_end) == pytest.approx(1e6)
    assert figure("rent_per_month", hw="h100-sxm-80gb", gpus=value("d3-serving-cost", "high")) == pytest.approx(1e7)


def test_printed_formula_cannot_decide() -> None:
    """It has no acceptance in it: one value, between a draft that is always wrong and one that is always right."""
    assert value("d1-printed-speedup", "worst") < 1 < value("d1-printed-speedup", "best")
    printed = ITEMS["d1-printed-speedup"].theirs
    assert printed is not None
    assert value("d1-printed-speedup", "worst") < printed.low < value("d1-printed-speedup", "best")


def test_static_loss_near_the_measured_traces() -> None:
    """Means of 3,000 draws of 64 from the Azure 2023 traces (spread 0.77 and 2.15) and Mooncake's (0.73)."""
    for spread, drawn in ((0.7714, 2.99), (2.147, 11.99), (0.7294, 3.73)):
        assert static_loss_ratio(64, spread) == pytest.approx(drawn, rel=0.25)


def test_expected_tokens() -> None:
    assert claim_speculation.expected_tokens(5, 0.0) == 1
    assert claim_speculation.expected_tokens(5, 1.0) == 6
    assert claim_speculation.expected_tokens(2, 0.5) == 1.75


@given(st.integers(1, 16), st.floats(0, 1), st.floats(0, 1))
def test_expected_tokens_lie_between_one_and_all(drafted: int, a: float, b: float) -> None:
    low_end, high_end = sorted((a, b))
    fewer, more = (claim_speculation.expected_tokens(drafted, share) for share in (low_end, high_end))
    assert 1 <= fewer <= more * (1 + 1e-9)
    assert more <= (drafted + 1) * (1 + 1e-9)


@given(st.floats(1, 1e5), st.floats(0.001, 100))
def test_rent_and_price_are_inverse(rate: float, price: float) -> None:
    assert usd_per_million_tokens(figure("implied_rent", price=price, rate=rate), rate) == pytest.approx(price)


def test_one_document_at_a_time() -> None:
    split = [item for number in (1, 2, 3) for item in reproduce(number)]
    assert [item.id for item in split] == list(ITEMS)
    with pytest.raises(InfoptError, match="documents 1, 2, 3"):
        reproduce(4)


def claim(**changes: object) -> Claim:
    base: dict[str, object] = {
        "id": "t",
        "section": "s",
        "statement": "s",
        "theirs": ["2x"],
        "unit": "ratio",
        "ours": [Computation(compute="quotient", given={"over": 4.0, "under": 2.0})],
        "assumption": Assumption(text="none"),
    }
    return Claim.model_validate({**base, **changes})


def answer(**changes: object) -> Item:
    return _item(Document(document=1, title="t", defaults={}, claims=[]), claim(**changes))


def three() -> list[Computation]:
    return [Computation(compute="quotient", given={"over": 3.0, "under": 1.0})]


def test_status_is_computed() -> None:
    assert answer().status == "agrees"
    assert answer(ours=three()).status == "differs"
    assert answer(ours=three(), at_least=True).status == "agrees"
    assert answer(ours=three(), theirs=["2x", "4x"]).status == "agrees"
    assert answer(ours=three(), theirs=["2x", "2.5x"]).status == "differs"
    assert answer(ours=three(), depends=True).status == "depends"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "bytes", "theirs": ["1 GB"]}, "gives ratio, the claim is in bytes"),
        ({"unit": "furlongs"}, "unknown unit 'furlongs'"),
        ({"theirs": ["twox"]}, "is not a number"),
        ({"ours": []}, "can only depend"),
        ({"ours": [Computation(compute="quotien")]}, "nearest: quotient"),
        ({"ours": [Computation(compute="quotient", given={"over": 1.0})]}, "missing 1 required"),
        ({"assumption": Assumption(text="{gone}")}, "'gone'"),
    ],
)
def test_bad_claims_are_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InfoptError, match=message) as caught:
        answer(**changes)
    assert "\n" not in str(caught.value)


def test_every_figure_is_used() -> None:
    used = set()
    for document in load_documents():
        for one in document.claims:
            computations = [*one.ours, *one.assumption.values.values(), *([one.formula] if one.formula else [])]
            used |= {computation.compute for computation in computations}
    inner = {"draft_cost", "prefill_flop_share", "expected_tokens"}
    assert set(FIGURES) - used == inner


def test_defaults_fill_only_what_a_figure_takes() -> None:
    given = Computation(compute="hit_gain", given={"hit": 0.5})
    assert evaluate(given, {"model": "70b", "hit": 0.1}) == (2.0, "ratio")


def test_json_contract() -> None:
    data = json.loads(json.dumps(as_dict(tuple(ITEMS.values())), allow_nan=False))
    assert data["schema"] == "infopt/reproduce/1"
    for row in data["items"]:
        assert {"id", "document", "theirs", "ours", "unit", "status", "assumption"} <= set(row)
        assert row["status"] in ("agrees", "differs", "depends")
        for key in ("theirs", "ours"):
            assert row[key] is None or math.isfinite(row[key])
    rows = {row["id"]: row for row in data["items"]}
    assert (rows["d1-kv-32k"]["theirs"], rows["d1-kv-32k"]["unit"]) == (5.2e9, "bytes")
    assert (rows["d3-paged-gain"]["theirs"], rows["d3-paged-gain"]["theirs_high"]) == (2, 4)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_terminal_report_keeps_to_the_width(width: int) -> None:
    text = render(tuple(ITEMS.values()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    words = " ".join(text.split())
    assert words.count("Document ") >= 3
    assert f"{len(ITEMS)} claims:" in words


def test_other_forms_hold_every_claim() -> None:
    items = tuple(ITEMS.values())
    rows = list(csv.DictReader(io.StringIO(csv_text(items))))
    assert [row["id"] for row in rows] == list(ITEMS)
    table = markdown(items)
    assert all(item.assumption.replace("|", "\\|") in table for item in items)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the source documents are not beside this checkout")
def test_no_sentence_of_the_documents_is_copied() -> None:
    """No run of eight words of a claim, or of our pages, stands in a document."""
    words = re.compile(r"[a-z0-9$%.]+")
    for path in SHARED.glob("*.txt"):
        theirs = " ".join(words.findall(path.read_text(encoding="utf-8").lower()))
        for ours in (*CLAIMS.glob("*.yaml"), ROOT / "docs" / "sources.md", ROOT / "README.md"):
            said = words.findall(ours.read_text(encoding="utf-8").lower()) if ours.is_file() else []
            copied = [" ".join(said[i : i + 8]) for i in range(len(said) - 7) if " ".join(said[i : i + 8]) in theirs]
            assert not copied, f"{ours.name}: {copied[:3]}"
