"""Multi-token-prediction layers: stored in the checkpoint, used only when speculating.

Each is one more decoder layer with its own norms and a projection of two hidden vectors into one; some
checkpoints also repeat the embedding and the head in it.
"""

from infopt.profiles.families import Family
from infopt.profiles.geometry import LayerRun
from infopt.profiles.hf_keys import Keys
from infopt.profiles.hf_layers import BLOCKS
from infopt.profiles.hf_runs import Layers


def mtp(keys: Keys, record: Family, runs: tuple[LayerRun, ...]) -> tuple[dict[str, int], int, int]:
    """Stored parameters by part, number of layers, and cache elements a token (all MTP layers together)."""
    layers = keys.maybe("mtp_layers") or 0
    if record.mtp == "none" or layers == 0:
        return {}, 0, 0
    if record.mtp == "blocks":
        return _blocks(keys, record, layers)
    hidden, vocab = keys.count("hidden"), keys.count("vocab")
    model = next((run for run in reversed(runs) if run.mixer.kind != "recurrent"), runs[-1])
    per_layer = model.params_per_layer
    joint = 2 * hidden * hidden
    norms = 3 * hidden
    if record.mtp == "qwen":  # one projection and three norms for the whole module
        params = layers * per_layer + joint + norms
    else:
        params = layers * (per_layer + joint + norms + record.mtp_copies * hidden * vocab)
    return {"mtp": params}, layers, layers * model.mixer.cache_elements_per_token


def mtp_note(keys: Keys, record: Family) -> tuple[str, ...]:
    """Layers the config declares and the record has no rule for."""
    layers = keys.maybe("mtp_layers") if record.mtp == "none" else None
    return (f"{layers} multi-token-prediction layers are declared; if stored, they are not counted",) if layers else ()


def _blocks(keys: Keys, record: Family, layers: int) -> tuple[dict[str, int], int, int]:
    """Modules of several one-block layers (`mtp_layers_block_type`), each block with its norm."""
    hidden = keys.count("hidden")
    names = keys.items("mtp_layers_block_type") or list(keys.text("mtp_hybrid_override_pattern") or "")
    counter = Layers(keys, record)
    kinds = [BLOCKS.get(str(name)) for name in names]
    if not kinds or None in kinds:
        raise keys.error("mtp_layers_block_type does not name the blocks of the multi-token-prediction layers")
    runs = [counter.run(0, *kind) for kind in kinds if kind is not None]
    params = layers * (sum(run.params_per_layer for run in runs) + 2 * hidden * hidden + 3 * hidden)
    return {"mtp": params}, layers, layers * sum(run.mixer.cache_elements_per_token for run in runs)
