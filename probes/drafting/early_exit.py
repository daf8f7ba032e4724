"""Drafts of the target's own first layers and its head. They are not trained for it here, as LayerSkip models are."""

from collections.abc import Sequence

from infopt.errors import InfoptError
from infopt.probes.decoder import Cache, Decoder
from infopt.probes.drafting.by_decoder import DecoderDraft
from infopt.probes.drafting.choosing import Choice


class EarlyExitDraft(DecoderDraft):
    """The first `layers` of the target, on the target's own cache: what these layers write there, its verification
    writes again, the same numbers. So nothing is read twice, and a draft kept whole leaves nothing unread.
    """

    reads = (1,)

    def __init__(self, decoder: Decoder, choice: Choice, layers: int) -> None:
        whole = len(decoder.weights.layers)
        if not 1 <= layers < whole:
            raise InfoptError(f"--draft exit:{layers}: 1 to {whole - 1} layers of the target's {whole} are expected")
        super().__init__(f"exit:{layers}", decoder, choice, decoder.shape.vocab, layers)

    def begin(self, prompt: Sequence[int], cache: Cache) -> None:
        """Take the target's cache, where the prompt is."""
        self.cache, self.cached = cache, len(prompt) - 1

    def rewind(self, length: int) -> None:
        """The target has written every layer of what it kept."""
        self.cached = length
