"""`probe verify`: what it takes to check N drafted tokens at once, t_verify(N), by batch.

Flat then linear is wrong at small N (3 tokens may take longer than 4), so every N a drafter may use is measured.
"""

from collections.abc import Sequence

from infopt.errors import InfoptError
from infopt.probes.findings import Part
from infopt.probes.passes import Pass, measured_passes, modes_of
from infopt.probes.setting import Setting
from infopt.profiles.geometry import ModelProfile

CONTEXT_TOKENS = 256
TOKENS, QUICK_TOKENS = tuple(range(1, 17)), (1, 2, 4, 8)
BATCHES, QUICK_BATCHES = (1, 4, 8), (1,)


def verify(
    setting: Setting,
    model: ModelProfile,
    weights: str,
    batches: Sequence[int] = (),
    modes: Sequence[str] | None = None,
) -> Part:
    """Passes of 1 to 16 tokens a sequence behind a context of 256, for each batch; a quick setting takes fewer.

    Errors: InfoptError for a batch below 1, a model of fewer positions, and those of `measured_passes`.
    """
    batches = tuple(batches) or (QUICK_BATCHES if setting.quick else BATCHES)
    counts = QUICK_TOKENS if setting.quick else TOKENS
    if min(batches) < 1:
        raise InfoptError("probe verify: batches must be at least 1")
    most = model.max_position_tokens
    if most is not None and most < CONTEXT_TOKENS + counts[-1]:
        raise InfoptError(
            f"probe verify: {model.id} has {most} positions, {CONTEXT_TOKENS + counts[-1]} are needed; take another"
        )
    passes = [Pass(batch, tokens, CONTEXT_TOKENS) for batch in batches for tokens in counts]
    return measured_passes(setting, model, weights, None, passes, modes_of(setting.runtime, modes))
