"""All layers of a config, counted, equal neighbours joined."""

from dataclasses import replace

from infopt.profiles.families import Family, changed
from infopt.profiles.geometry import FeedForward, LayerRun, Mixer, MixerKind
from infopt.profiles.hf_compressed import compressed
from infopt.profiles.hf_feed_forward import NO_FEED_FORWARD, feed_forward
from infopt.profiles.hf_keys import Keys
from infopt.profiles.hf_layers import layer_count, layer_plan, norm_width
from infopt.profiles.hf_mixers import attention
from infopt.profiles.hf_recurrent import RECURRENT, recurrent

# A layer of this kind, in a family of that attention, is:
_ATTENTION: dict[tuple[str, str], MixerKind] = {
    ("grouped", "full"): "full",
    ("grouped", "sparse"): "full",
    ("grouped", "window"): "window",
    ("grouped", "chunked"): "chunked",
    ("grouped", "shared"): "shared",
    ("grouped", "shared_window"): "shared",
    ("latent", "full"): "latent",
    ("indexed", "full"): "indexed",
    ("indexed", "borrowed_index"): "indexed",
    ("compressed", "compressed_sparse"): "indexed",
    ("compressed", "compressed_heavy"): "latent",
    ("compressed", "window"): "latent",
}


class Layers:
    """Counts one layer after another, remembering what it has counted.

    Layers of one kind are equal unless the config holds a value per layer (`Keys.per_layer`).
    """

    def __init__(self, keys: Keys, record: Family) -> None:
        self.keys = keys
        self.record = record
        self._views: dict[str, tuple[Keys, Family]] = {}
        self._seen: dict[tuple[str, str], LayerRun] = {}

    def view(self, kind: str) -> tuple[Keys, Family]:
        """The config and the conventions as layers of `kind` read them."""
        if kind not in self._views:
            changes = self.record.kinds.get(kind)
            record = changed(self.record, changes) if changes else self.record
            self._views[kind] = (self.keys.under(record), record)
        return self._views[kind]

    def run(self, index: int, mixer_kind: str, ff_kind: str) -> LayerRun:
        """Layer `index`, as a run of one."""
        known = self._seen.get((mixer_kind, ff_kind))
        if known is not None:
            return known
        mixer_keys, mixer_record = self.view(mixer_kind)
        ff_keys, ff_record = self.view(ff_kind)
        mixer_keys.layer = ff_keys.layer = self.keys.layer = index
        mixer = mixer_of(mixer_keys, mixer_record, mixer_kind)
        ff = feed_forward_of(ff_keys, ff_record, ff_kind)
        run = LayerRun(1, mixer, ff, self.record.norms_per_layer * norm_width(self.keys, self.record))
        if not (mixer_keys.per_layer or ff_keys.per_layer or self.keys.per_layer):
            self._seen[mixer_kind, ff_kind] = run
        self.keys.layer = None
        return run


def layer_runs(keys: Keys, record: Family) -> tuple[LayerRun, ...]:
    """Every layer of the config in order, equal neighbours joined."""
    counter = Layers(keys, record)
    runs: list[LayerRun] = []
    for index, (mixer_kind, ff_kind) in enumerate(layer_plan(keys, record, layer_count(keys, record))):
        layer = counter.run(index, mixer_kind, ff_kind)
        if runs and replace(runs[-1], layers=1) == layer:
            runs[-1] = replace(runs[-1], layers=runs[-1].layers + 1)
        else:
            runs.append(layer)
    return tuple(runs)


def mixer_of(keys: Keys, record: Family, kind: str) -> Mixer:
    """The mixer of a layer of `kind`, with the recurrent one beside it where the family has one."""
    if kind == "recurrent":
        return recurrent(keys, record)
    if kind == "none":
        return Mixer("none")
    if kind == "linear":  # attention replaced by one matrix
        return Mixer("none", linear_params=keys.count("hidden") ** 2)
    actual = _ATTENTION.get((record.attention, kind))
    if actual is None:
        raise keys.error(f"{record.attention} attention has no layers of kind {kind!r}")
    mixer = compressed(keys, record, kind) if record.attention == "compressed" else attention(keys, record, actual)
    if kind == "shared_window":
        mixer = replace(mixer, window_tokens=keys.count("sliding_window"))
    if record.beside is None:
        return mixer
    other = RECURRENT[record.beside](keys, record)
    return replace(
        mixer,
        linear_params=mixer.linear_params + other.linear_params,
        small_params=mixer.small_params + other.small_params,
        state=other.state,
        variant=other.variant,
    )


def feed_forward_of(keys: Keys, record: Family, kind: str) -> FeedForward:
    """The feed-forward of a layer of `kind`, with the family's further matrices and vectors of the layer."""
    ff = feed_forward(keys, record, kind) if kind != "none" else NO_FEED_FORWARD
    if not record.layer_linear and not record.layer_small:
        return ff
    return replace(
        ff,
        mlp_params=ff.mlp_params + sum(keys.evaluate(term) for term in record.layer_linear),
        small_params=ff.small_params + sum(keys.evaluate(term) for term in record.layer_small),
    )
