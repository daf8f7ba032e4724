"""Energy of a token: a ceiling from the board power, or what was measured.

    watts = devices x (TDP x share, or a measured power of one device)
    joules per output token = watts / output_tokens_per_s
A share of 1 is a ceiling: no device draws more than its TDP for long, and a memory-bound step draws less.
Ignored: the host, cooling, conversion losses, and that an idle device draws less.
"""

from typing import Literal

from infopt.errors import InfoptError
from infopt.frozen import dataclass

Kind = Literal["measured", "assumed"]
MEASURED: Kind = "measured"
ASSUMED: Kind = "assumed"


@dataclass(frozen=True, slots=True)
class Power:
    """What one device draws: a measured power, or a share of its TDP."""

    device_watts: float | None = None
    tdp_share: float = 1.0


@dataclass(frozen=True, slots=True)
class Energy:
    """Power of all devices, and energy of an output token, None without an estimate of throughput.

    kind  measured where the user gave a power, assumed where it is a share of the TDP
    """

    watts: float
    kind: Kind
    joules_per_output_token: float | None
    source: str

    @property
    def output_tokens_per_joule(self) -> float | None:
        return None if self.joules_per_output_token is None else 1 / self.joules_per_output_token


def energy(power: Power, tdp_watts: float | None, gpus: int, output_tokens_per_s: float | None) -> Energy | None:
    """Energy of a deployment, None where neither a power nor a TDP is known.

    >>> energy(Power(), 700.0, 4, 700.0).joules_per_output_token
    4.0
    >>> energy(Power(device_watts=400.0), 700.0, 4, 700.0).output_tokens_per_joule
    0.4375
    """
    if power.device_watts is not None:
        watts, kind, source = power.device_watts * gpus, MEASURED, "measured, --watts"
    elif tdp_watts is not None:
        watts, kind, source = tdp_watts * power.tdp_share * gpus, ASSUMED, _share_words(power.tdp_share)
    else:
        return None
    joules = None if output_tokens_per_s is None else watts / output_tokens_per_s
    return Energy(watts, kind, joules, source)


def _share_words(share: float) -> str:
    return "TDP, a ceiling" if share == 1 else f"{share:.0%} of the TDP"


def parse_power(text: str, option: str = "--watts") -> Power:
    """`550` or `550W` of one device, or `70%` of its TDP.

    >>> parse_power("70%")
    Power(device_watts=None, tdp_share=0.7)
    """
    plain = text.strip()
    number = plain.removesuffix("%").removesuffix("W").removesuffix("w").strip()
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    share = plain.endswith("%")
    if not 0 < value <= (100 if share else 1e6):
        raise InfoptError(f"{option} {text!r} is no power of one device: write 550, 550W, or 70% of its TDP")
    return Power(tdp_share=value / 100) if share else Power(device_watts=value)
