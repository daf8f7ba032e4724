"""The drafts a user names: ngram, ngram:N, exit:LAYERS, bits:N, or a folder or GGUF file of another model."""

import os
from collections.abc import Sequence

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.probes.decoder import Decoder
from infopt.probes.drafting.by_decoder import DecoderDraft
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.draft import Draft
from infopt.probes.drafting.early_exit import EarlyExitDraft
from infopt.probes.drafting.low_bits import low_bit_copy
from infopt.probes.drafting.model import Model, open_model
from infopt.probes.drafting.ngram import SHORTEST, NgramDraft
from infopt.probes.setting import Setting
from infopt.units import whole_of

EXPECTED = "ngram, ngram:N, exit:LAYERS, bits:N, or a folder or .gguf file of a model is expected"
LONGEST_NGRAM = 16


@dataclass(frozen=True, slots=True)
class Maker:
    """What every draft is made from."""

    setting: Setting
    target: Model
    decoder: Decoder
    choice: Choice
    longest_tokens: int

    def make(self, name: str) -> Draft:
        """The draft of a name. Errors: InfoptError for an unknown name, or a model of another vocabulary."""
        if os.path.exists(name):
            return self._other(name)
        method, colon, number = name.partition(":")
        if (
            method not in ("ngram", "exit", "bits")
            or (method != "ngram" and not colon)
            or (colon and whole_of(number) is None)
        ):
            raise InfoptError(f"--draft {name}: no such file, and no method; {EXPECTED}")
        if method == "ngram":
            return self._ngram(int(number) if number else 3)
        if method == "exit":
            return EarlyExitDraft(self.decoder, self.choice, int(number))
        return self._low_bits(int(number))

    def _ngram(self, longest: int) -> Draft:
        if not SHORTEST <= longest <= LONGEST_NGRAM:
            raise InfoptError(f"--draft ngram:{longest}: {SHORTEST} to {LONGEST_NGRAM} tokens are expected")
        return NgramDraft(longest)

    def _low_bits(self, bits: int) -> Draft:
        shape, weights = self.target.shape, self.target.weights
        copied_bytes = shape.layers * shape.layer_params * weights.embedding.dtype.itemsize
        self.setting.need(copied_bytes, f"a copy of {self.target.name} in {bits} bits")
        decoder = Decoder(self.setting.runtime, shape, low_bit_copy(weights, bits), self.longest_tokens)
        return DecoderDraft(f"bits:{bits}", decoder, self.choice, shape.vocab)

    def _other(self, path: str) -> Draft:
        model = open_model(self.setting, path, self.longest_tokens)
        problem = self.target.text.differs(model.text)
        if problem is not None:
            raise InfoptError(f"--draft {path}: its vocabulary is not the target's: {problem}")
        return DecoderDraft(
            model.name, model.decoder(self.setting, self.longest_tokens), self.choice, self.target.shape.vocab
        )


def refuse_twins(drafts: Sequence[Draft]) -> None:
    """Two drafts of one name could not be told apart in the record."""
    names = [draft.name for draft in drafts]
    for name in names:
        if names.count(name) > 1:
            raise InfoptError(f"--draft {name}: given twice, or two models of one name; rename one")
