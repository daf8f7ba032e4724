"""Cost and energy: the price of a request divided between prompt and answer, and joules of a token."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.ledgers.cost import attributed_prices, prefill_share, usd_per_million_tokens
from infopt.ledgers.energy import Power, energy, parse_power
from infopt.ledgers.estimate import Estimate
from infopt.profiles.resolve import resolve_model
from infopt.reports.schemas import schema_text
from infopt.studies.cost import Load, Month, NoMonth, month
from infopt.studies.planning import Cost, Plan, plan
from infopt.studies.scenarios import Request

PLAN = ("plan", "--model", "70b", "--isl", "2000", "--osl", "300", "--batch", "32", "--hw")


@cache
def planned(model: str = "8b", hw: str = "h100", **request: Any) -> Plan:
    return plan(resolve_model(model), resolve_hardware(hw), Request(**request))


def cost_of(p: Plan) -> Cost:
    assert p.cost is not None
    return p.cost


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(["8b", "gpt-oss-20b"]),
    hw=st.sampled_from(["h100:1", "h100:2", "h200:4"]),
    batch=st.integers(1, 64),
    isl=st.integers(1, 6000),
    osl=st.integers(1, 2000),
    dp=st.sampled_from([1, 2]),
)
def test_the_attributed_prices_times_their_tokens_are_the_price_of_a_request(
    model: str, hw: str, batch: int, isl: int, osl: int, dp: int
) -> None:
    """Prompt and answer of one request, against what its output tokens cost in all."""
    dp = 1 if hw.endswith(":1") else dp
    found = plan(
        resolve_model(model),
        resolve_hardware(hw),
        Request(input_tokens=isl, output_tokens=osl, batch=batch, dp=dp),
    )
    cost, e = cost_of(found), found.estimate
    if not isinstance(e, Estimate):
        assert cost.usd_per_million_input_tokens_attributed is None
        return
    assert cost.usd_per_million_input_tokens_attributed is not None
    assert cost.usd_per_million_output_tokens_attributed is not None
    assert cost.usd_per_million_output_tokens is not None
    assert cost.prefill_share is not None
    parts = cost.usd_per_million_input_tokens_attributed * isl + cost.usd_per_million_output_tokens_attributed * osl
    assert parts == pytest.approx(cost.usd_per_million_output_tokens * osl, rel=1e-9)
    assert 0 < cost.prefill_share <= 1
    assert cost.usd_per_million_output_tokens_attributed >= 0


@given(share=st.floats(0, 1), usd=st.floats(0.01, 1000), rate=st.floats(0.1, 1e5), isl=st.integers(1, 10**6))
def test_the_parts_sum_to_the_whole_for_any_numbers(share: float, usd: float, rate: float, isl: int) -> None:
    parts = attributed_prices(usd, rate, share, isl, 300)
    total = parts.usd_per_million_input_tokens * isl + parts.usd_per_million_output_tokens * 300
    assert total == pytest.approx(usd_per_million_tokens(usd, rate) * 300, rel=1e-9)


def test_the_prompt_is_charged_what_it_takes_from_the_others() -> None:
    """The stall of B - 1 prompts over OSL tokens, turned round."""
    e = planned(input_tokens=2000, output_tokens=300, batch=32).estimate
    assert isinstance(e, Estimate)
    stall = next(term.value for term in e.terms if term.name == "prefill stall")
    assert e.prompt_work_s == pytest.approx(stall * 300 / 31)
    share = e.prompt_work_s / ((e.ttft_s + 300 * e.tpot_s) / 32)
    assert cost_of(planned(input_tokens=2000, output_tokens=300, batch=32)).prefill_share == pytest.approx(share)


def test_a_prompt_that_takes_longer_than_the_request_is_all_of_it() -> None:
    assert prefill_share(2.0, 1.0) == 1.0


def test_replicas_that_share_nothing_cost_what_one_of_them_does() -> None:
    one = cost_of(planned("8b", "h100:1", input_tokens=1000, output_tokens=200, batch=8))
    four = cost_of(planned("8b", "h100:4", input_tokens=1000, output_tokens=200, batch=32, dp=4))
    assert four.usd_per_hour == pytest.approx(4 * one.usd_per_hour)
    for name in ("usd_per_million_input_tokens_attributed", "usd_per_million_output_tokens_attributed"):
        assert getattr(four, name) == pytest.approx(getattr(one, name))


def test_a_longer_prompt_takes_a_larger_share_and_a_longer_answer_a_smaller() -> None:
    def share(isl: int, osl: int) -> float:
        found = cost_of(planned(input_tokens=isl, output_tokens=osl, batch=16)).prefill_share
        assert found is not None
        return found

    assert share(4000, 300) > share(1000, 300) > share(100, 300)
    assert share(1000, 100) > share(1000, 1000)


def test_a_batch_divides_the_price_of_answers_and_hardly_that_of_prompts() -> None:
    small, large = (cost_of(planned(input_tokens=1000, output_tokens=300, batch=batch)) for batch in (2, 64))
    assert small.usd_per_million_output_tokens_attributed is not None
    assert large.usd_per_million_output_tokens_attributed is not None
    assert large.usd_per_million_output_tokens_attributed < small.usd_per_million_output_tokens_attributed / 5
    assert large.usd_per_million_input_tokens_attributed == pytest.approx(
        small.usd_per_million_input_tokens_attributed, rel=0.01
    )


def test_without_an_estimate_nothing_is_attributed() -> None:
    found = planned("8b", "h100", input_tokens=1000, output_tokens=300, batch=8, weights="int4")
    cost = cost_of(found)
    assert not isinstance(found.estimate, Estimate)
    assert cost.usd_per_million_output_tokens_at_floor > 0
    attributed = (cost.usd_per_million_input_tokens_attributed, cost.usd_per_million_output_tokens_attributed)
    assert (*attributed, cost.prefill_share, cost.usd_per_million_output_tokens) == (None, None, None, None)
    assert found.energy is not None
    assert (found.energy.joules_per_output_token, found.energy.output_tokens_per_joule) == (None, None)


def test_energy_is_power_over_throughput() -> None:
    found = planned("70b", "h100:4", input_tokens=2000, output_tokens=300, batch=32)
    assert isinstance(found.estimate, Estimate)
    assert found.energy is not None
    assert found.energy.watts == 4 * 700
    assert found.energy.kind == "assumed"
    assert found.energy.joules_per_output_token == pytest.approx(2800 / found.estimate.output_tokens_per_s)
    share = replace(found.energy, joules_per_output_token=4.0)
    assert share.output_tokens_per_joule == 0.25


def test_a_measured_power_replaces_the_tdp_and_a_device_without_one_has_no_energy() -> None:
    measured = energy(Power(device_watts=500.0), 700.0, 2, 100.0)
    assert measured is not None
    assert (measured.watts, measured.kind, measured.joules_per_output_token) == (1000.0, "measured", 10.0)
    share = energy(Power(tdp_share=0.5), 700.0, 2, 100.0)
    assert share is not None
    assert (share.watts, share.kind, share.source) == (700.0, "assumed", "50% of the TDP")
    assert energy(Power(), None, 2, 100.0) is None


@pytest.mark.parametrize("text", ["550", "550W", " 550 w", "550.0"])
def test_power_is_read_as_watts(text: str) -> None:
    assert parse_power(text) == Power(device_watts=550.0)


@pytest.mark.parametrize("text", ["", "W", "0", "-5", "0%", "120%", "nan", "inf", "550 kW", "1e9"])
def test_what_is_no_power_is_refused(text: str) -> None:
    with pytest.raises(InfoptError, match="--watts"):
        parse_power(text)


def test_json_has_cost_and_energy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "h100:4", "--watts", "550W", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    cost, used = data["cost"], data["energy"]
    parts = cost["usd_per_million_input_tokens_attributed"] * 2000
    parts += cost["usd_per_million_output_tokens_attributed"] * 300
    assert parts == pytest.approx(cost["usd_per_million_output_tokens"] * 300)
    assert (used["watts"], used["kind"]) == (2200.0, "measured")
    assert used["joules_per_output_token"] * used["output_tokens_per_joule"] == pytest.approx(1)


def test_the_page_says_what_prompts_cost_and_what_the_power_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "h100:4"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "of the machine's time" in text
    assert "2,800 W: TDP, a ceiling" in text


def test_a_bad_power_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "h100:4", "--watts", "much"]) == 2
    assert capsys.readouterr().err.startswith("infopt: --watts 'much'")


LOAD = Load(rate_per_s=5.0, baseline_usd=30000.0, one_off_usd=2000.0)


def served_70b() -> Plan:
    return planned("70b", "h100:4", input_tokens=2000, output_tokens=300, batch=32)


def month_of(load: Load) -> Month:
    found = month(served_70b(), load)
    assert isinstance(found, Month)
    return found


@given(rate=st.floats(0.01, 500))
def test_the_fewest_replicas_that_serve_the_rate_are_rented(rate: float) -> None:
    found = month_of(Load(rate))
    assert found.replicas * found.served_per_s >= rate * (1 - 1e-6)
    assert found.replicas == 1 or (found.replicas - 1) * found.served_per_s < rate
    assert 0 < found.busy_share <= 1 + 1e-6
    assert found.gpus == 4 * found.replicas
    assert found.usd == pytest.approx(found.replicas * cost_of(served_70b()).usd_per_hour * 730)


def test_a_full_machine_costs_what_the_plan_says_and_an_idle_one_more() -> None:
    price = cost_of(served_70b()).usd_per_million_output_tokens
    full = month_of(Load(month_of(LOAD).served_per_s))
    assert (full.replicas, full.usd_per_million_output_tokens) == (1, pytest.approx(price))
    half = month_of(Load(full.served_per_s / 2))
    assert half.usd_per_million_output_tokens == pytest.approx(2 * full.usd_per_million_output_tokens)


def test_saving_and_payback_are_against_the_baseline() -> None:
    found = month_of(LOAD)
    assert found.saving_usd == pytest.approx(30000 - found.usd)
    assert found.payback_months == pytest.approx(2000 / (30000 - found.usd))
    dearer = month_of(replace(LOAD, baseline_usd=100.0))
    assert dearer.saving_usd is not None
    assert dearer.saving_usd < 0
    assert dearer.payback_months == math.inf
    assert month_of(Load(5.0)).saving_usd is None
    assert month_of(Load(5.0, one_off_usd=10.0)).payback_months is None


def test_hours_scale_the_rent_and_nothing_else() -> None:
    whole, part = month_of(Load(5.0)), month_of(Load(5.0, hours=73.0))
    assert part.usd == pytest.approx(whole.usd / 10)
    assert part.replicas == whole.replicas
    assert part.usd_per_million_output_tokens == pytest.approx(whole.usd_per_million_output_tokens)


@pytest.mark.parametrize(
    ("hw", "says"),
    [("mi250x", "--price mi250x=USD"), ("l4", "no measurements"), ("h100:4", "does not fit")],
)
def test_without_price_or_estimate_a_month_says_why(hw: str, says: str) -> None:
    model = "405b" if hw == "h100:4" else "8b"
    found = month(planned(model, hw, context_tokens=4096), LOAD)
    assert isinstance(found, NoMonth)
    assert says in found.reason


MONTHLY = (*PLAN, "h100:4", "--monthly", "5/s", "--baseline-usd", "$30000", "--one-off-usd", "2000")


def test_a_month_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for form in ("table", "json", "csv", "md"):
        assert run([*MONTHLY, "--format", form]) == 0
        texts[form] = capsys.readouterr().out
    data = json.loads(texts["json"])
    jsonschema.validate(data, json.loads(schema_text("plan")))
    assert data["month"]["replicas"] == 2
    assert data["month"]["usd"] == pytest.approx(2 * 730 * data["cost"]["usd_per_hour"])
    assert max(len(line) for line in texts["table"].splitlines()) <= 80
    for form in ("table", "md"):
        assert "$23,301.60 a month" in texts[form]
    assert "month.payback_months" in texts["csv"].splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*PLAN, "h100:4", "--baseline-usd", "5"), "--monthly 5/s"),
        ((*PLAN, "h100:4", "--monthly", "5"), "a unit is needed"),
        ((*PLAN, "h100:4", "--monthly", "5/s", "--hours", "9000"), "at most 744"),
        (("plan", "--model", "70b", "--monthly", "5/s"), "--hw"),
    ],
)
def test_a_month_that_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(list(arguments)) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
