"""What one rank does in `probe links`: join the others, run each collective at each size, time it.

`python -m infopt.probes.links_rank ORDER` is how the probe starts a rank of its own. Ranks line up with a small
all-reduce before every timed run. A run is as long as it is for the slowest rank. On a GPU the lining up, both events
and the collective are enqueued while the stream sleeps, so that launching them costs nothing. Not yet run on GPUs.

The first rank gathers through torch's key-value store, which the ranks needed to meet and which works wherever they
met; no second process group is made for it.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.ranks import LOST_OTHERS, Place, leave_with_parent, machine
from infopt.probes.runtime import Runtime, need_torch, open_runtime
from infopt.probes.sampling import Operation, Sample, sample
from infopt.units import format_bytes

Collective = Literal["all_reduce", "all_gather", "send_recv"]
COLLECTIVES: tuple[Collective, ...] = ("all_reduce", "all_gather", "send_recv")
FORMAT, ELEMENT_BYTES = "fp32", 4
WARM_UPS = 5  # the first runs of a size connect, allocate and choose an algorithm
_MOST_VALUE = 255  # whole numbers this small are summed exactly in fp32, by any number of ranks below 60,000
_SLEEP_CYCLES = 500_000  # some 0.25 ms: longer than launching what is timed


class LostOthersError(InfoptError):
    """A rank could not reach the others, or the library between them failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every rank runs: message sizes, timed runs of each, and how long to wait for one another."""

    sizes_bytes: tuple[int, ...]
    runs: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Timed:
    """One collective at one size.

    size_bytes  of the whole message, as nccl-tests counts it: the tensor that is summed, the gathered whole, what one
                rank sends
    seconds     of each run, the slowest rank's;  clean  whether no rank was interrupted in it
    nodes       machines the ranks are on
    """

    collective: Collective
    size_bytes: int
    seconds: list[float]
    clean: list[bool]
    ranks: int
    nodes: int
    backend: str


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that met. `nodes` is known to the first rank only, 0 elsewhere."""

    runtime: Runtime
    place: Place
    store: Any
    backend: str
    nodes: int

    def gather(self, key: str, value: object) -> list[Any]:
        """`value` of every rank, in the first rank; nothing elsewhere. Keys are used once."""
        return gather(self.store, self.place, key, value)


def gather(store: Any, place: Place, key: str, value: object) -> list[Any]:
    """See `Group.gather`."""
    store.set(f"{key}/{place.rank}", json.dumps(value))
    if place.rank:
        return []
    return [json.loads(store.get(f"{key}/{rank}")) for rank in range(place.ranks)]


def backend_of(runtime: Runtime) -> str:
    """NCCL between GPUs, gloo between CPUs; raises InfoptError where torch was built without it."""
    distributed = runtime.torch.distributed
    wanted = "nccl" if runtime.kind == "cuda" else "gloo"
    built = distributed.is_available() and getattr(distributed, f"is_{wanted}_available")()
    if not built:
        raise InfoptError(
            f"probe links: torch {runtime.torch.__version__} was built without {wanted}, which joins "
            f"{'GPUs' if wanted == 'nccl' else 'CPUs'}; install a build that has it"
        )
    return wanted


def rank_runtime(kind: str, local_rank: int) -> Runtime:
    """The device of a rank: its own GPU (the only one it sees, or that of its number), or one thread."""
    if kind == "cpu":
        return open_runtime("cpu", 1)
    seen = need_torch().cuda.device_count()  # opening another GPU, to look, would leave a context there
    return open_runtime(f"cuda:{local_rank if seen > 1 else 0}")


@contextmanager
def joined(runtime: Runtime, place: Place, timeout_s: float) -> Iterator[Group]:
    """Meet the other ranks; part from them in the end."""
    backend, timeout = backend_of(runtime), timedelta(seconds=timeout_s)
    distributed = runtime.torch.distributed
    with reaching_others(place, f"{place.ranks} ranks did not meet at {place.url} within {timeout_s:g} s"):
        met, _, _ = next(distributed.rendezvous(place.url, place.rank, place.ranks, timeout=timeout))
        met.set_timeout(timeout)
        store = distributed.PrefixStore("infopt", met)
        distributed.init_process_group(
            backend,
            store=distributed.PrefixStore("group", met),
            rank=place.rank,
            world_size=place.ranks,
            timeout=timeout,
            device_id=runtime.device if runtime.kind == "cuda" else None,
        )
    try:
        with reaching_others(place, "the ranks met, and lost each other"):
            machines = gather(store, place, "machine", machine())
        yield Group(runtime, place, store, backend, len(set(machines)))
    finally:
        distributed.destroy_process_group()


@contextmanager
def reaching_others(place: Place, what: str) -> Iterator[None]:
    """Whatever torch.distributed raises, in one line that names this rank."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise LostOthersError(f"probe links: rank {place.rank} of {place.ranks}: {what}: {said}") from error


def measure_ranks(runtime: Runtime, place: Place, plan: Plan) -> Iterator[Timed]:
    """Every collective at every size; the first rank yields what all of them took, the others yield nothing.

    Errors: LostOthersError where another rank is gone, InfoptError where a collective computes a wrong result.
    """
    with joined(runtime, place, plan.timeout_s) as group:
        for collective in COLLECTIVES:
            for wanted_bytes in plan.sizes_bytes:
                what = f"{collective} of {format_bytes(wanted_bytes)}"
                with reaching_others(place, what):
                    exchange = EXCHANGES[collective](group, wanted_bytes)
                    own = timed_runs(group, exchange, plan.runs)
                    right = exchange.right()
                    gathered = group.gather(f"{collective}/{wanted_bytes}", [right, *map(list, zip(*own, strict=True))])
                if not right:
                    raise InfoptError(f"probe links: {what} gives a wrong result on rank {place.rank}")
                if gathered:
                    yield slowest(group, collective, exchange.size_bytes, what, gathered)
                del exchange
                runtime.release()


def slowest(group: Group, collective: Collective, size_bytes: int, what: str, gathered: Sequence[Any]) -> Timed:
    """Runs of all ranks as one: the slowest rank's time, clean where no rank was interrupted."""
    wrong = [rank for rank, (right, _, _) in enumerate(gathered) if not right]
    if wrong:
        raise InfoptError(f"probe links: {what} gives a wrong result on rank {wrong[0]}")
    seconds = [max(run) for run in zip(*(seconds for _, seconds, _ in gathered), strict=True)]
    clean = [all(run) for run in zip(*(clean for _, _, clean in gathered), strict=True)]
    return Timed(collective, size_bytes, seconds, clean, group.place.ranks, group.nodes, group.backend)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective at one size.

    size_bytes  that is moved, by the rule of `Timed`: what was asked for, to the next whole number of elements
    prepare     puts the tensors back to what they were before a run
    right       whether the last run left what it should have
    """

    size_bytes: int
    prepare: Callable[[], object]
    run: Callable[[], object]
    right: Callable[[], bool]


def timed_runs(group: Group, exchange: Exchange, runs: int) -> list[tuple[float, bool]]:
    """Seconds of each run on this rank, and whether nobody interrupted it; all ranks run equally many."""
    flag = group.runtime.torch.zeros(1, device=group.runtime.device)

    def line_up() -> None:
        group.runtime.torch.distributed.all_reduce(flag)

    taken = []
    for number in range(WARM_UPS + runs):
        exchange.prepare()
        if group.runtime.kind == "cuda":
            one = _enqueued(group.runtime, line_up, exchange.run)
        else:
            line_up()
            one = sample(group.runtime, Operation("", lambda _: exchange.run(), exchange.size_bytes, "bytes"), number)
        taken.append((one.seconds, one.clean))
    return taken[WARM_UPS:]


def _enqueued(runtime: Runtime, line_up: Callable[[], None], run: Callable[[], object]) -> Sample:
    torch = runtime.torch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    runtime.synchronize()
    torch.cuda._sleep(_SLEEP_CYCLES)
    line_up()
    start.record()
    run()
    end.record()
    end.synchronize()
    return Sample(start.elapsed_time(end) / 1e3, True, 1.0)


def _pattern(group: Group, elements: int, rank: int) -> Any:
    """What a rank contributes: the same random whole numbers everywhere, plus its number."""
    torch = group.runtime.torch
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, _MOST_VALUE + 1, (elements,), generator=generator, dtype=torch.float32)
    return numbers.add_(rank).to(group.runtime.device)


def _all_reduce(group: Group, wanted_bytes: int) -> Exchange:
    """Sum over ranks, in place."""
    torch, ranks = group.runtime.torch, group.place.ranks
    elements = math.ceil(wanted_bytes / ELEMENT_BYTES)
    mine = _pattern(group, elements, group.place.rank)
    work = torch.empty_like(mine)

    def right() -> bool:
        expected = _pattern(group, elements, 0).mul_(ranks).add_(ranks * (ranks - 1) // 2)
        return bool(torch.equal(work, expected))

    return Exchange(
        elements * ELEMENT_BYTES,
        prepare=lambda: work.copy_(mine),
        run=lambda: torch.distributed.all_reduce(work),
        right=right,
    )


def _all_gather(group: Group, wanted_bytes: int) -> Exchange:
    """Everybody ends with the pieces of all."""
    torch, ranks = group.runtime.torch, group.place.ranks
    elements = math.ceil(wanted_bytes / ELEMENT_BYTES / ranks)
    mine = _pattern(group, elements, group.place.rank)
    whole = torch.empty(ranks * elements, dtype=mine.dtype, device=mine.device)
    gather_whole = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor

    def right() -> bool:
        pieces = whole.view(ranks, elements)
        return all(bool(torch.equal(pieces[rank], _pattern(group, elements, rank))) for rank in range(ranks))

    return Exchange(
        ranks * elements * ELEMENT_BYTES,
        prepare=lambda: whole.fill_(-1),
        run=lambda: gather_whole(whole, mine),  # by its name since torch 2.13, or before
        right=right,
    )


def _send_recv(group: Group, wanted_bytes: int) -> Exchange:
    """A ring: everybody sends to the next rank and receives from the one before, at the same time."""
    torch, place = group.runtime.torch, group.place
    elements = math.ceil(wanted_bytes / ELEMENT_BYTES)
    before, after = (place.rank - 1) % place.ranks, (place.rank + 1) % place.ranks
    mine = _pattern(group, elements, place.rank)
    received = torch.empty_like(mine)
    distributed = torch.distributed

    def run() -> None:
        both = [
            distributed.P2POp(distributed.isend, mine, after),
            distributed.P2POp(distributed.irecv, received, before),
        ]
        for request in distributed.batch_isend_irecv(both):
            request.wait()

    return Exchange(
        elements * ELEMENT_BYTES,
        prepare=lambda: received.fill_(-1),
        run=run,
        right=lambda: bool(torch.equal(received, _pattern(group, elements, before))),
    )


EXCHANGES: dict[Collective, Callable[[Group, int], Exchange]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "send_recv": _send_recv,
}


def main(arguments: Sequence[str]) -> int:
    """A rank of one machine, as `links` starts it: prints what `measure_ranks` yields, one JSON object a line."""
    leave_with_parent()
    order = json.loads(arguments[0])
    place = Place(order["rank"], order["ranks"], order["rank"], order["url"])
    plan = Plan(tuple(order["sizes_bytes"]), order["runs"], order["timeout_s"])
    try:
        for timed in measure_ranks(rank_runtime(order["kind"], place.rank), place, plan):
            fields = {name: getattr(timed, name) for name in Timed.__slots__}
            sys.stdout.write(json.dumps(fields) + "\n")
            sys.stdout.flush()
    except InfoptError as error:
        sys.stderr.write(f"infopt: {error}\n")
        return LOST_OTHERS if isinstance(error, LostOthersError) else error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
