"""Results of llama.cpp's `llama-bench -o json|jsonl`, one observation a test, of `llama-batched-bench` and of
ik_llama.cpp's `llama-sweep-bench` as JSONL.

Sources: tools/llama-bench/llama-bench.cpp of ggml-org/llama.cpp at 0104b15 and 050fc7f (fields, avg_ns the mean over
repetitions, avg_ts = tokens / time); tools/batched-bench/batched-bench.cpp at 0a1f017.

llama-bench runs one sequence. A test with n_gen alone is n_gen decode steps of batch 1 on a context that grows from
n_depth: step = avg_ns / n_gen. A test with n_prompt alone is one prefill. A test with both times them together and
tells neither, but for those ik_llama.cpp labels tg@pp (llama-bench.cpp, TEST_KIND_GP): there the prompt is
no part of the time, and a depth. llama-batched-bench decodes `pl` sequences in step for `tg` steps: batch pl exactly,
step = t_tg / tg. llama-sweep-bench decodes `tg` steps of one sequence on `n_kv` tokens (examples/sweep-bench/README.md
of ik_llama.cpp).
"""

from collections.abc import Mapping
from typing import Any

from infopt.observing.benchmarks.figures import Figures, observation
from infopt.observing.observation import Observation, Spread

TEST = frozenset({"build_commit", "model_filename", "n_prompt", "n_gen"})
BATCHED = frozenset({"n_kv_max", "pp", "tg", "pl"})
SWEPT = frozenset({"n_kv_max", "pp", "tg", "n_kv", "t_pp", "t_tg"})  # and no pl
NS = 1e-9


def claims(result: Mapping[str, Any]) -> bool:
    """By the settings of a test of either tool."""
    return any(result.keys() >= names for names in (TEST, BATCHED, SWEPT))


def observe(result: Mapping[str, Any], where: str) -> list[Observation]:
    """The observation of one test."""
    figures = Figures(result, where)
    if result.keys() >= TEST:
        return [_test(figures)]
    return [_batched(figures) if result.keys() >= BATCHED else _swept(figures)]


def _test(figures: Figures) -> Observation:
    prompt, generated = figures.number("n_prompt"), figures.number("n_gen")
    depth = figures.optional("n_depth") or 0.0
    if (figures.text("test") or "").startswith(f"tg{generated:.0f}@"):
        prompt, depth = 0.0, depth + prompt
    if prompt + generated == 0:
        raise figures.error("n_prompt and n_gen are 0: the test did nothing")
    duration_s = figures.positive("avg_ns", "the test took no time") * NS
    number = figures.setting("build_number")
    commit = figures.text("build_commit")
    fields: dict[str, Any] = {
        "engine": "llama.cpp",
        "version_guess": f"b{number} ({commit})" if number else commit,
        "model": figures.text("model_filename"),
        "taken": figures.text("test_time"),
        "window_s": duration_s,
        "requests": 1.0,
        "prompt_tokens": depth + prompt,
        "output_tokens": generated,
    }
    notes = [_repetitions(figures, duration_s), *_settings(figures)]
    if prompt and generated:
        fields["e2e_s"] = Spread(mean=duration_s)
        notes.insert(0, f"prefill of {prompt:.0f} and {generated:.0f} steps timed together: neither is known alone")
    elif generated:
        step = Spread(mean=duration_s / generated)
        fields |= {"tpot_s": step, "itl_s": step, "effective_batch": 1.0, "tokens_per_step": 1.0, "steps": generated}
    else:
        fields["prefill_s"] = Spread(mean=duration_s)
    if depth:
        notes.append(f"{depth:.0f} tokens of context were there before the clock started")
    return observation(figures.where, {**fields, "notes": tuple(note for note in notes if note)})


def _repetitions(figures: Figures, duration_s: float) -> str | None:
    samples = figures.values("samples_ns")
    if not samples:
        return None
    apart = (max(samples) - min(samples)) * NS / duration_s
    return f"mean of {len(samples)} repetitions, fastest and slowest {apart:.1%} apart"


def _settings(figures: Figures) -> list[str]:
    """What the test ran on."""
    words = [figures.text("model_type"), figures.text("backends")]
    threads, layers = figures.setting("n_threads"), figures.setting("n_gpu_layers")
    words.append(f"{threads} threads" if threads else None)
    words.append(f"{layers} layers on the device" if layers else None)
    keys, values = figures.text("type_k"), figures.text("type_v")
    words.append(f"KV {keys}/{values}" if keys and values else None)
    said = [word for word in words if word]
    return [", ".join(said)] if said else []


def _batched(figures: Figures) -> Observation:
    batch = figures.positive("pl", "no sequence ran")
    prompt, steps = figures.number("pp"), figures.positive("tg", "nothing was decoded")
    prefill_s, decode_s = figures.number("t_pp"), figures.positive("t_tg", "the steps took no time")
    shared = figures.number("is_pp_shared") if "is_pp_shared" in figures.data else 0.0
    step = Spread(mean=decode_s / steps)
    notes = ["the batch is exact: all sequences decode in step"]
    if shared:
        notes.append(f"one prompt of {prompt:.0f} tokens shared by all sequences")
    alone = batch == 1 or shared
    fields = {
        "engine": "llama.cpp",
        "window_s": prefill_s + decode_s,
        "requests": batch,
        "prompt_tokens": prompt * batch,
        "output_tokens": steps * batch,
        "steps": steps,
        "effective_batch": batch,
        "tokens_per_step": 1.0,
        "tpot_s": step,
        "itl_s": step,
        "prefill_s": Spread(mean=prefill_s) if alone and prefill_s else None,
        "notes": tuple(notes),
    }
    return observation(figures.where, fields)


def _swept(figures: Figures) -> Observation:
    """Steps of one sequence on a context; its prefill is of tokens behind that context, and only said."""
    depth, steps = figures.number("n_kv"), figures.positive("tg", "nothing was decoded")
    decode_s = figures.positive("t_tg", "the steps took no time")
    step = Spread(mean=decode_s / steps)
    fields = {
        "engine": "llama.cpp",
        "window_s": decode_s,
        "requests": 1.0,
        "prompt_tokens": depth,
        "output_tokens": steps,
        "steps": steps,
        "effective_batch": 1.0,
        "tokens_per_step": 1.0,
        "tpot_s": step,
        "itl_s": step,
        "notes": (
            f"{depth:.0f} tokens of context were there before the clock started",
            f"prefill of {figures.number('pp'):.0f} tokens behind them: {figures.number('t_pp'):.4g} s",
        ),
    }
    return observation(figures.where, fields)
