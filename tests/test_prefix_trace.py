"""Recorded requests through a prefix cache: what is found and saved in one situation, and the pages that say so."""

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from infopt.arrivals.arrival import Arrival
from infopt.arrivals.traces import open_trace
from infopt.boundaries.load import Load, Prefix
from infopt.boundaries.prefix_caching import TECHNIQUE
from infopt.boundaries.situation import Situation
from infopt.cli import run
from infopt.cli_boundary import parse_capacity
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.prefix_cache import saved_flop
from infopt.profiles.resolve import resolve_model
from infopt.reports.prefix_trace_report import order_text
from infopt.reports.schemas import schema_text
from infopt.studies.observed import Filled
from infopt.studies.prefix_trace import Capacity, Hits, PrefixTrace, hits_by_capacity, prefix_trace, read_hits
from infopt.studies.scenarios import Request, build
from infopt.studies.trace_filled import with_trace

# Counted with the trace: ../shared/truth/traces/README.md.
PUBLISHED = {100_000: 0.3637, 50_000: 0.3546, 30_000: 0.3257, 10_000: 0.2112, 3000: 0.0650, 1000: 0.0445}
MOONCAKE = ("prefix", "--model", "8b", "--hw", "h100", "--trace", "mooncake")


@dataclass(frozen=True, slots=True)
class Given:
    """Requests by hand, one a second."""

    arrivals: tuple[Arrival, ...]
    prefix_block_tokens: int = 512
    users: int | None = None
    tenants: tuple[str, ...] = ("all",)
    requests: int | None = None
    warmup_s: float = 0.0
    warmup_requests: int = 0

    def stream(self) -> Iterator[Arrival]:
        return iter(self.arrivals)


def source(*requests: tuple[int, int, tuple[int, ...]], block_tokens: int = 512, users: int | None = None) -> Given:
    """(prompt, answer, blocks) each."""
    made = (Arrival(float(i), *lengths, blocks) for i, (*lengths, blocks) in enumerate(requests))
    return Given(tuple(made), block_tokens, users)


def shared_start(number: int, prompt: int = 2048, shared: int = 1024) -> Given:
    """Prompts that share their beginning and nothing else; blocks of 256 tokens."""
    blocks, start = prompt // 256, tuple(range(shared // 256))
    own = ((*start, *(1000 * (i + 1) + j for j in range(blocks - len(start)))) for i in range(number))
    return source(*((prompt, 256, one) for one in own), block_tokens=256)


@cache
def mooncake() -> Hits:
    return hits_by_capacity(open_trace("mooncake"), "mooncake")


def situated(model: str = "8b", hw: str = "h100:1", load: Load | None = None, **given: Any) -> Situation:
    request = Request(**({"input_tokens": 2048, "output_tokens": 256} | given))
    return Situation(build(resolve_model(model), resolve_hardware(hw), request).scenario, load)


def studied(situation: Situation, hits: Hits, *capacities: Capacity) -> PrefixTrace:
    found = prefix_trace(situation, hits, capacities)
    assert found is not None
    return found


def by_name(trace: PrefixTrace) -> dict[str, Any]:
    return {room.name: room for room in trace.rooms}


# --- counting -------------------------------------------------------------------------------------------------------


def test_hits_of_each_request_by_hand() -> None:
    """1 2 3 | 1 2 4 | 9 | 1 2 3: at the end 1, 2 and 4 are 2nd to 4th from the top, and 3 is 5th."""
    hits = read_hits(source((1500, 5, (1, 2, 3)), (1500, 5, (1, 2, 4)), (500, 5, (9,)), (1500, 7, (1, 2, 3))), "hand")
    assert [hits.found_blocks(c).tolist() for c in (0, 3, 4, 5)] == [
        [0, 0, 0, 0], [0, 2, 0, 0], [0, 2, 0, 2], [0, 2, 0, 3],
    ]  # fmt: skip
    assert hits.found_blocks(math.inf).sum() == hits.curve.hits_blocks(math.inf)
    assert (hits.mean_input_tokens, hits.mean_output_tokens) == (1250, 5.5)
    assert hits.rate_per_s == pytest.approx(4 / 3)
    # The first, the one that finds 2 like one other is none, 9 is.
    assert hits.conversations == 2


def test_every_requests_hits_add_up_to_the_curve() -> None:
    hits = mooncake()
    for capacity, share in PUBLISHED.items():
        assert hits.found_blocks(capacity).sum() / hits.curve.asked_blocks == pytest.approx(share, abs=5e-5)
    # All prompts of the trace begin with the same block; the next one tells conversations apart.
    seconds = {arrival.prefix[1] for arrival in open_trace("mooncake").stream() if len(arrival.prefix) > 1}
    assert hits.conversations == pytest.approx(len(seconds), rel=0.001)


def test_requests_longer_than_the_model_are_left_out_of_everything() -> None:
    given = source((600, 5, (1, 2)), (3000, 1100, (1, 2, 3, 4, 5, 6)), (600, 5, (1, 2)))
    hits = read_hits(given, "long", most_tokens=4096)
    assert (hits.left_out, hits.curve.requests, hits.curve.asked_blocks) == (1, 2, 4)
    with pytest.raises(InfoptError, match="all 3 requests are longer than the model's 100 tokens"):
        read_hits(given, "long", most_tokens=100)


def test_a_trace_without_ids_is_refused_where_hits_are_asked_for() -> None:
    azure = open_trace("azure-conv")
    with pytest.raises(InfoptError, match="azure-conv: no prefix ids: hits cannot be counted"):
        hits_by_capacity(azure, "azure-conv")
    hits = read_hits(azure, "azure-conv")
    assert hits.curve.asked_blocks == 0
    assert hits.mean_input_tokens == pytest.approx(1155, abs=1)


def test_a_closed_loop_has_no_rate() -> None:
    assert read_hits(source((10, 5, (1,)), (10, 5, (1,)), users=2), "closed").rate_per_s is None


def test_requests_go_to_caches_by_chance_and_always_the_same() -> None:
    """Four caches of the whole trace find less than one; where the second use of a block lands is one in four."""
    one, four = (read_hits(shared_start(400), "start", caches) for caches in (1, 4))
    assert four.curve.hit_share(math.inf) == pytest.approx(4 / 8 * 396 / 400)
    assert one.curve.hit_share(math.inf) == pytest.approx(4 / 8 * 399 / 400)
    again = read_hits(shared_start(400), "start", 4)
    assert np.array_equal(four.rooms, again.rooms)
    # Each cache sees a quarter, and needs what lies between two of its own requests, as the one does.
    assert four.curve.needed_blocks(1.0) == pytest.approx(one.curve.needed_blocks(1.0))


# --- in one situation -----------------------------------------------------------------------------------------------


def test_a_uniform_trace_saves_what_the_technique_says() -> None:
    """Every prompt but the first finds 1,024 of 2,048 tokens: the section's means are the technique's figures."""
    hits, number = read_hits(shared_start(500), "start"), 500
    room = by_name(studied(situated(batch=8), hits))["the pool"]
    share = 0.5 * (number - 1) / number
    assert room.hit_tokens_share == pytest.approx(share)
    answer = TECHNIQUE.judge(situated(batch=8, load=Load(prefix=Prefix(hit_share=share))))
    figures = {figure.name: figure.value for figure in answer.figures}
    assert room.cached_tokens == pytest.approx(figures["cached_tokens"])
    # The first request finds nothing, the others 1,024: their mean is not that of one that finds the mean.
    model = situated().scenario.model
    assert room.saved_flop == pytest.approx(saved_flop(model, 1024) * (number - 1) / number)
    assert room.saved_flop == pytest.approx(figures["saved_flop"], rel=0.01)
    assert room.ttft_s == pytest.approx(figures["ttft_s"])
    assert room.saved_ttft_s == pytest.approx(figures["saved_ttft_s"], rel=0.01)
    assert room.saved_machine_s > 0
    assert room.saved_machine_share == pytest.approx(room.saved_machine_s / situated().steps.prompt_s(2048))


def test_blocks_become_bytes_and_sequences() -> None:
    """Llama-3.1-8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 a token; two devices hold half each."""
    one = studied(situated(), mooncake())
    assert one.block_bytes == 131_072 * 512
    pool = by_name(one)["the pool"]
    assert pool.device_bytes == pytest.approx(situated().memory.kv_pool_bytes_per_gpu)
    assert pool.blocks == int(situated().memory.kv_pool_bytes_per_gpu // one.block_bytes)
    assert pool.sequences == pytest.approx(pool.device_bytes / 131_072 / (12_035 + 343), rel=0.002)
    two = studied(situated(hw="h100:2"), mooncake())
    assert two.block_bytes == one.block_bytes / 2
    assert two.enough is not None
    assert one.enough is not None
    assert two.enough.stored_bytes == pytest.approx(one.enough.stored_bytes)
    fp8 = studied(situated(kv="fp8"), mooncake())
    assert fp8.block_bytes == one.block_bytes / 2


def test_running_requests_keep_a_part_of_the_pool() -> None:
    trace = studied(situated(batch=16), mooncake())
    held = trace.rooms[1].device_bytes, by_name(trace)["the pool"].device_bytes
    assert trace.running == 16
    assert trace.beside.name == "beside 16 running"
    assert held[1] - held[0] == pytest.approx(16 * 131_072 * (12_035 + 343 / 2), rel=0.002)
    # More than fit hold all of it.
    full = studied(situated(batch=500), mooncake())
    assert full.running == situated(batch=500).memory.max_sequences
    assert full.beside.hit_share <= trace.beside.hit_share


def test_more_memory_never_finds_less_and_enough_finds_nearly_all() -> None:
    trace = studied(
        situated("70b", "h100:8", batch=16), mooncake(), Capacity("3", blocks=3), Capacity("9TB", device_bytes=9e12)
    )
    rooms = trace.rooms
    assert [room.blocks for room in rooms] == sorted(room.blocks for room in rooms)
    for name in ("hit_share", "hit_tokens_share", "saved_flop", "saved_machine_s", "saved_ttft_s"):
        values = [getattr(room, name) for room in rooms]
        assert values == sorted(values), name
    assert trace.enough is not None
    most = by_name(trace)["unbounded"].hit_share
    assert trace.enough.room.hit_share == pytest.approx(0.95 * most, abs=2e-4)
    assert not trace.enough.in_pool
    assert trace.enough.reuse_share == pytest.approx(trace.enough.room.hit_tokens_share - trace.beside.hit_tokens_share)


def test_blocks_of_a_hybrid_waste_what_fills_none() -> None:
    """Blocks of 1,056 tokens: of each prompt up to that much that was found is computed again."""
    trace = studied(situated("Qwen/Qwen3.6-35B-A3B", "h200:1"), mooncake())
    room = by_name(trace)["unbounded"]
    assert trace.engine_block_tokens == 1056
    assert room.hit_share == pytest.approx(0.3664, abs=5e-5)
    assert room.hit_tokens_share < 0.34


def test_without_step_times_there_are_flop_only() -> None:
    room = studied(situated(hw="custom:80GB:3.35TB/s"), mooncake()).rooms[0]
    assert room.saved_flop > 0
    assert (room.saved_machine_s, room.ttft_s, room.saved_ttft_s) == (None, None, None)


def test_pools_of_replicas_are_one_with_affinity() -> None:
    """Four pools taken as one hold what four times the pool does."""
    four = situated(hw="h100:4", tp=1, dp=4, load=Load(prefix=Prefix(routing="affinity")))
    together, alone = studied(four, mooncake()), studied(situated(), mooncake())
    assert by_name(together)["the pool"].hit_share == by_name(alone)["4 x the pool"].hit_share
    apart = studied(four, hits_by_capacity(open_trace("mooncake"), "mooncake", caches=4))
    assert by_name(apart)["the pool"].hit_share < by_name(together)["the pool"].hit_share
    assert by_name(apart)["unbounded"].hit_share == pytest.approx(by_name(apart)["unbounded"].shuffled_hit_share)


def test_nothing_comes_back() -> None:
    hits = read_hits(source(*((500, 5, (i,)) for i in range(20))), "once")
    trace = studied(situated(), hits)
    assert trace.enough is None
    assert {room.hit_share for room in trace.rooms} == {0.0}
    assert {room.saved_ttft_s for room in trace.rooms} == {0.0}
    assert order_text(trace) == "no block comes back, in any order"


@pytest.mark.parametrize(("model", "hw"), [("70b", "h100:1"), ("state-spaces/mamba-2.8b-hf", "h100:1")])
def test_where_there_is_no_pool_of_blocks_there_is_no_section(model: str, hw: str) -> None:
    assert prefix_trace(situated(model, hw), mooncake()) is None


def drawn(requests: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """Independent requests for 2,000 prompts of 20 blocks by Zipf's law."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3)))
    weights = np.arange(1, 2001.0) ** -0.9
    asked = rng.choice(2000, size=requests, p=weights / weights.sum()).tolist()
    return [(20 * 512, 100, tuple(range(20 * i, 20 * i + 20))) for i in asked]


def test_the_page_says_whether_requests_are_independent() -> None:
    independent = order_text(studied(situated(), read_hits(source(*drawn(6000)), "drawn")))
    assert "within" in independent
    assert independent.endswith("about as soon as in random order")
    sessions = order_text(studied(situated(), mooncake(), Capacity("30000", blocks=30_000)))
    assert "Che's approximation finds 0.19, counted 0.33" in sessions
    assert sessions.endswith("3.1 times as soon as in random order: sessions, not independent requests")
    turns = source(*((512, 5, (i % 3000,)) for i in range(9000)))
    late = order_text(studied(situated(), read_hits(turns, "turns")))
    assert late.endswith("1.3 times as late as in random order: not independent requests")


# --- in place of what was not given ---------------------------------------------------------------------------------


def filled(request: Request, prefix: Prefix | None = None, **given: Any) -> Filled:
    start = Filled(request, Load(prefix=prefix or Prefix()), ())
    return with_trace(mooncake(), resolve_model("8b"), resolve_hardware("h100:1"), start, **given)


def test_what_was_typed_stands() -> None:
    taken = filled(Request())
    assert (taken.request.input_tokens, taken.request.output_tokens) == (12_035, 343)
    assert taken.load.prefix.hit_share == pytest.approx(0.0442, abs=1e-4)
    assert [caveat.id for caveat in taken.assumed] == ["lengths", "prefix", "prefixes"]
    own = filled(Request(input_tokens=900, output_tokens=90), Prefix(hit_share=0.2))
    assert (own.request.input_tokens, own.request.output_tokens, own.load.prefix.hit_share) == (900, 90, 0.2)
    assert own.assumed == ()
    assert filled(Request(), Prefix(shared_tokens=500)).load.prefix.hit_share is None
    tight = filled(Request(context_tokens=4096))
    assert tight.request.input_tokens is None
    assert "do not fit in a context of 4096" in tight.assumed[0].text


def test_a_cache_that_is_half_as_large_finds_more_in_the_same_pool() -> None:
    plain, fp8 = filled(Request()), filled(Request(), applied=("kv-fp8", "prefix"))
    assert (fp8.load.prefix.hit_share or 0) > (plain.load.prefix.hit_share or 0)


def test_slots_are_no_blocks() -> None:
    taken = filled(Request(engine="llama.cpp"))
    assert taken.load.prefix.hit_share is None
    assert "keeps the last prompt of each slot" in taken.assumed[-1].text


# --- on the command line --------------------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["boundary", *arguments]) in (0, 4)
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json_has_the_published_shares_and_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ",".join(map(str, PUBLISHED))
    data = json.loads(printed(capsys, *MOONCAKE, "--capacity", asked, "--json"))
    jsonschema.validate(data, json.loads(schema_text("boundary")))
    found = {room["name"]: room for room in data["prefix_trace"]["capacities"]}
    for capacity, share in PUBLISHED.items():
        assert found[f"{capacity} blocks"]["hit_share"] == pytest.approx(share, abs=0.005)
    assert found["unbounded"]["hit_share"] == pytest.approx(0.3664, abs=0.005)
    required = json.loads(schema_text("boundary"))["properties"]["prefix_trace"]
    assert set(required["required"]) == set(data["prefix_trace"])
    assert set(required["properties"]["capacities"]["items"]["required"]) == set(found["unbounded"])
    figures = {figure["name"]: figure["value"] for figure in data["techniques"][0]["figures"]}
    assert figures["hit_share"] == pytest.approx(found["beside 1 running"]["hit_tokens_share"])


def test_the_page_fits_and_says_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, *MOONCAKE, "--capacity", "30000, 200GB")
    assert max(map(len, out.splitlines())) <= 80
    section = " ".join(out[out.index("Trace mooncake") :].split())
    for text in (
        "12,031 requests, 12,035 in and 343 out on average",
        "30000 blocks",
        "200GB",
        "input 12035 and output 343 tokens: means of mooncake",
        "infopt boundary kv-offload --trace mooncake --reuse-share 0.311 --offload-capacity 2526GB",
    ):
        assert text in section
    page = printed(capsys, *MOONCAKE, "--format", "md")
    assert "## Trace mooncake" in page
    assert "- assumed: input 12035 and output 343 tokens: means of mooncake" in page
    assert printed(capsys, *MOONCAKE, "--format", "csv").count("\n") == 2


def test_the_offload_it_names_runs_and_pays(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(
        capsys, "kv-offload", *MOONCAKE[1:], "--reuse-share", "0.311", "--offload-capacity", "2526GB", "--json"
    )
    data = json.loads(out)
    assert data["techniques"][0]["verdict"] == "use"
    assert "prefix_trace" not in data


def test_other_techniques_take_the_lengths_of_any_trace(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "--model", "8b", "--hw", "h100", "--trace", "azure-conv", "--json"))
    assert data["workload"]["input_tokens"] == 1155
    assert any("azure-conv has no prefix ids" in one["text"] for one in data["assumptions"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prefix", "--trace", "azure-conv"), "no prefix ids: hits cannot be counted"),
        (("prefix", "--trace", "mooncakes"), "mooncake"),
        (("prefix", "--trace", "mooncake", "--capacity", "12x"), "--capacity"),
        (("prefix", "--trace", "mooncake", "--capacity", "0"), "--capacity"),
        (("prefix", "--trace", "mooncake", "--capacity", "30000,"), "--capacity"),
        (("prefix", "--capacity", "30000"), "--trace"),
        (("speculative", "--trace", "mooncake", "--capacity", "30000"), "prefix"),
    ],
)
def test_bad_input_is_one_line(arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["boundary", *arguments, "--model", "8b", "--hw", "h100"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_a_file_of_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One's own trace in Mooncake's form: the same prompt ten times, all blocks but the last token's found."""
    path = tmp_path / "own.jsonl"
    row = {"input_length": 2048, "output_length": 10, "hash_ids": [1, 2, 3, 4]}
    path.write_text("".join(json.dumps({"timestamp": 1000 * i, **row}) + "\n" for i in range(10)))
    data = json.loads(printed(capsys, *MOONCAKE[:-1], str(path), "--json"))["prefix_trace"]
    assert data["trace"] == str(path)
    last = data["capacities"][-1]
    assert last["hit_share"] == pytest.approx(0.9)
    assert last["hit_tokens_share"] == pytest.approx(0.9 * 2032 / 2048)
    assert data["enough"]["in_pool"] is True


def test_sizes_in_blocks_and_bytes() -> None:
    assert parse_capacity("30000") == Capacity("30000 blocks", blocks=30_000)
    assert parse_capacity("1.5TB") == Capacity("1.5TB", device_bytes=1.5e12)
