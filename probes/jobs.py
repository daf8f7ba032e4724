"""Which probes a run consists of, and what each measures where the user did not say."""

from collections.abc import Sequence
from pathlib import Path

from infopt.probes.findings import Part
from infopt.probes.latency import latency, models_to_measure
from infopt.probes.session import Job
from infopt.probes.setting import Setting
from infopt.probes.verify import verify
from infopt.profiles.geometry import ModelProfile

# What the decoder multiplies in where nothing was asked for: what serving uses on a GPU; on a CPU what all of them can.
WEIGHTS = {"cpu": "fp32", "cuda": "bf16"}
DRAFTED = (4,)
DRAFTS = ("ngram", "bits:3", "exit:20")
OUTPUT_TOKENS, QUICK_OUTPUT_TOKENS = 64, 24


def all_jobs() -> list[Job]:
    """Everything, what calibrates first: a run that is stopped keeps the most useful."""
    from infopt.probes.bandwidth import bandwidth
    from infopt.probes.compute import compute
    from infopt.probes.links import links
    from infopt.probes.power import power
    from infopt.probes.transfer import transfer

    return [
        Job("bandwidth", bandwidth),
        Job("compute", lambda setting: compute(setting, None)),
        latency_job(),
        verify_job(),
        draft_job(),
        Job("transfer", transfer),
        Job("links", lambda setting: links(setting, None)),
        Job("power", power),
    ]


def latency_job(
    model: ModelProfile | None = None,
    weights: str | None = None,
    kv: str | None = None,
    batches: Sequence[int] = (),
    contexts_tokens: Sequence[int] = (),
    single: bool = False,
) -> Job:
    """Decode steps of the model and of a second size, or of two sizes where none is named."""

    def begin(setting: Setting) -> Part:
        for one in models_to_measure(setting, model, single):
            yield from latency(setting, one, weights or WEIGHTS[setting.runtime.kind], kv, batches, contexts_tokens)

    return Job("latency", begin)


def verify_job(model: ModelProfile | None = None, weights: str | None = None, batches: Sequence[int] = ()) -> Job:
    """Verification with the model, or with the smaller of the two that `probe latency` takes."""

    def begin(setting: Setting) -> Part:
        chosen = model or models_to_measure(setting)[0]
        yield from verify(setting, chosen, weights or WEIGHTS[setting.runtime.kind], batches)

    return Job("verify", begin)


def draft_job(
    target: str | None = None,
    drafts: Sequence[str] = (),
    prompts: Path | None = None,
    drafted: Sequence[int] = (),
    temperature: float = 0.0,
    output_tokens: int | None = None,
) -> Job:
    """Acceptance of each draft, with real weights."""

    def begin(setting: Setting) -> Part:
        from infopt.probes.drafting.probe import draft

        tokens = output_tokens or (QUICK_OUTPUT_TOKENS if setting.quick else OUTPUT_TOKENS)
        yield from draft(setting, target, drafts or DRAFTS, prompts, drafted or DRAFTED, temperature, tokens)

    return Job("draft", begin)


def endpoint_job(url: str, prompts: Path | None, output_tokens: int | None, temperature: float) -> Job:
    """Acceptance as a server reports it."""

    def begin(setting: Setting) -> Part:
        from infopt.probes.endpoint import endpoint

        tokens = output_tokens or (QUICK_OUTPUT_TOKENS if setting.quick else OUTPUT_TOKENS)
        yield from endpoint(setting.tell, url, prompts, tokens, temperature)

    return Job("endpoint", begin, elsewhere=True)
