"""A deployment of a file as options of our own command line, so that other commands can be asked about it."""

from collections.abc import Iterator

from infopt.errors import InfoptError, UndeterminedError
from infopt.gate.case import Case
from infopt.gate.check import gate
from infopt.gate.policy import Policy
from infopt.gate.reading import Overrides


def options_of(path: str, name: str | None, policy: Policy, overrides: Overrides) -> dict[str, str]:
    """Options by their names (`--model`, `--hw`, ...; a switch has an empty value) of the one deployment of a file.

    name  which one, where the file holds several
    Errors: InfoptError for a file that cannot be read or holds none, or several and no name; UndeterminedError where
    the file does not say enough for a plan.
    """
    found = gate([path], policy, overrides)
    if found.errors:
        raise InfoptError(found.errors[0])
    cases = [one.case for one in found.checked if name in (None, one.case.deployment.found.name)]
    names = ", ".join(dict.fromkeys(one.case.deployment.found.name for one in found.checked))
    if not cases:
        raise InfoptError(f"{path}: no deployment" + (f" called {name}; there is {names}" if names else " was found"))
    if len(cases) > 1:
        raise InfoptError(f"{path}: several deployments: {names}; say which with --named NAME")
    return dict(_options(path, cases[0]))


def _options(path: str, case: Case) -> Iterator[tuple[str, str]]:
    """What the plan of the case rests on."""
    if case.plan is None or case.model is None:
        missing = "; ".join(f"{one.fact}: {one.settle}" for one in case.unknown) or case.refused
        raise UndeterminedError(f"{path}: not known: {missing}")
    s = case.plan.scenario
    yield "--model", case.model.id
    yield "--hw", s.accelerator.id
    counts = {"--gpus": s.gpus, "--tp": s.tp, "--pp": s.pp, "--dp": s.dp, "--ep": s.ep}
    yield from ((option, str(count)) for option, count in counts.items() if count > 1 or option == "--gpus")
    yield "--engine", s.engine.engine
    yield "--engine-version", s.engine_version
    if s.weight_format != (case.model.quantization.format if case.model.quantization else case.model.compute_dtype):
        yield "--weights", s.weight_format
    yield "--kv", s.kv_format
    yield "--ctx", str(s.context_tokens)
    yield "--util", f"{s.utilization:g}"
    yield "--max-num-seqs", str(s.max_num_seqs)
    yield "--max-num-batched-tokens", str(s.max_num_batched_tokens)
    if case.value("lora"):
        yield "--adapters", str(case.value("lora_slots", 1))
        yield from ((("--rank", str(case.value("lora_rank"))),) if case.value("lora_rank") else ())
    if case.value("eager"):
        yield "--eager", ""
