"""`probe draft --endpoint`: servers of every style, simulated step by step, and servers that misbehave."""

import json
import math
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.calibration import Acceptance
from infopt.probes import server as http_server
from infopt.probes.draft_counters import Counts, counts_of, difference, engines, estimate
from infopt.probes.endpoint import endpoint
from infopt.probes.findings import Findings
from infopt.probes.metrics_text import parse_metrics
from infopt.probes.sampling import quiet

DRAFTED, TOKENS, KEY = 3, 60, "sk-not-to-be-seen"


class Engine:
    """A server that decodes with drafts: what it did, and how it says so.

    share  of steps that have a draft;  steps  of each answer, as (drafted, accepted)
    """

    owner, prefix = "vllm", "vllm:"
    share = 0.7

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.tokens = self.drafts = self.drafted = self.accepted = self.emitted = 0
        self.by_position = [0] * DRAFTED
        self.all_steps: list[tuple[int, int]] = []
        self.paths: list[str] = []
        self.headers: list[str | None] = []
        self.bodies: list[dict[str, Any]] = []
        self.chat_only = self.no_metrics = False
        self.other_tokens = 0

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Decode `max_tokens`: one from the prompt, then steps."""
        self.bodies.append(body)
        left = body["max_tokens"] - 1
        steps: list[tuple[int, int]] = []
        while left > 0:
            drafted = min(DRAFTED, left - 1) if self.random.random() < self.share else 0
            accepted = 0
            while accepted < drafted and self.random.random() < 0.6:
                accepted += 1
            steps.append((drafted, accepted))
            left -= accepted + 1
        self.count(steps)
        self.tokens += body["max_tokens"] + self.other_tokens
        reply = {"choices": [{"text": "words", "message": {"content": "words"}}]}
        return reply | {"usage": {"completion_tokens": body["max_tokens"]}} | self.words(steps, reply, body)

    def count(self, steps: list[tuple[int, int]]) -> None:
        self.all_steps += steps
        for drafted, accepted in steps:
            self.accepted += accepted
            self.drafted += drafted
            if drafted:
                self.drafts += 1
                self.emitted += accepted + 1
                for i in range(accepted):
                    self.by_position[i] += 1

    def words(self, steps: list[tuple[int, int]], reply: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        return {}

    def metrics(self) -> str:
        """vLLM since V1."""
        return "\n".join(
            [
                "# TYPE vllm:generation_tokens_total counter",
                f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {float(self.tokens)}',
                'vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09',
                f'vllm:spec_decode_num_drafts_total{{engine="0"}} {float(self.drafts)}',
                f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {float(self.drafted)}',
                f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {float(self.accepted)}',
                *(
                    f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{i}"}} {float(n)}'
                    for i, n in enumerate(self.by_position)
                ),
            ]
        )

    # What the steps really were.

    @property
    def per_step(self) -> float:
        return 1 + sum(accepted for _, accepted in self.all_steps) / len(self.all_steps)

    @property
    def positions(self) -> list[float]:
        return [n / self.drafts for n in self.by_position]


class VllmThatCuts(Engine):
    """As vLLM does: a draft may reach beyond the end of an answer, and what is beyond counts as accepted."""

    outputs = 0
    counts_tokens = False

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        left = body["max_tokens"] - 1
        steps: list[tuple[int, int]] = []
        while left > 0:
            accepted = min(DRAFTED, self.random.randrange(6))
            steps.append((DRAFTED, accepted) if self.random.random() < self.share else (0, 0))
            left -= steps[-1][1] + 1
        self.count(steps)
        self.outputs += body["max_tokens"] - 1 if self.counts_tokens else len(steps)
        self.tokens += body["max_tokens"]
        return {"choices": [{"text": "words"}], "usage": {"completion_tokens": body["max_tokens"]}}

    def metrics(self) -> str:
        latencies = f'vllm:inter_token_latency_seconds_count{{engine="0",model_name="m"}} {float(self.outputs)}'
        return f"{super().metrics()}\n{latencies}"


class VllmBeforeV1(Engine):
    def metrics(self) -> str:
        return (
            f'vllm:generation_tokens_total{{model_name="m"}} {float(self.tokens)}\n'
            f'vllm:spec_decode_num_accepted_tokens_total{{model_name="m"}} {float(self.accepted)}\n'
            f'vllm:spec_decode_num_draft_tokens_total{{model_name="m"}} {float(self.drafted)}\n'
            f'vllm:spec_decode_num_emitted_tokens_total{{model_name="m"}} {float(self.emitted)}\n'
            'vllm:spec_decode_draft_acceptance_rate{model_name="m"} 0.5\n'
        )


class LlamaCpp(Engine):
    owner, prefix = "llamacpp", "llamacpp:"

    def metrics(self) -> str:
        return (
            super()
            .metrics()
            .replace("vllm:generation_tokens", "llamacpp:tokens_predicted")
            .replace("vllm:", self.prefix)
        )


class OlderLlamaCpp(LlamaCpp):
    """Counts nothing in its metrics, and says nothing in an answer that nothing was drafted for."""

    def words(self, steps: list[tuple[int, int]], reply: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        drafted, accepted = (sum(column) for column in zip(*steps, strict=True))
        return {"timings": {"predicted_n": 5} | ({"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {})}

    def metrics(self) -> str:
        return f"llamacpp:tokens_predicted_total {self.tokens}\n"


class Sglang(Engine):
    owner, prefix, share = "sglang", "sglang:", 1.0
    histogram = meta = calls = True

    def words(self, steps: list[tuple[int, int]], reply: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        if not (self.meta and body.get("return_meta_info")):
            return {}
        counts = [sum(accepted == i for _, accepted in steps) for i in range(DRAFTED + 1)]
        said: dict[str, Any] = {"spec_verify_ct": len(steps), "spec_num_correct_drafts": sum(a for _, a in steps)}
        said["spec_num_proposed_drafts"] = DRAFTED * len(steps)
        if self.histogram:
            said["spec_correct_drafts_histogram"] = counts
        return {"choices": [reply["choices"][0] | {"meta_info": said}]}

    def metrics(self) -> str:
        calls = f"sglang:spec_verify_calls_total {len(self.all_steps)}\n" if self.calls else ""
        return (
            f"sglang:generation_tokens_total {self.tokens}\n{calls}"
            f"sglang:spec_accept_length {self.per_step if self.all_steps else 0.0}\nsglang:spec_accept_rate 0.4\n"
        )


Answers = Callable[[Engine, "Handler"], bool]


class Handler(BaseHTTPRequestHandler):
    """Routes of an engine; `trouble` answers first if it wants to."""

    engine: Engine
    trouble: Answers

    def do_GET(self) -> None:
        if self.route():
            return
        if self.path == "/v1/models":
            self.say(json.dumps({"data": [{"id": "some/model", "owned_by": self.engine.owner}]}))
        elif self.path == "/metrics" and not self.engine.no_metrics:
            self.say(self.engine.metrics())
        else:
            self.say("not here", 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.route():
            return
        if self.path == "/v1/chat/completions" or (self.path == "/v1/completions" and not self.engine.chat_only):
            assert ("messages" if "chat" in self.path else "prompt") in body
            self.say(json.dumps(self.engine.answer(body)))
        else:
            self.say('{"detail": "Not Found"}', 404)

    def route(self) -> bool:
        self.engine.paths.append(self.path)
        self.engine.headers.append(self.headers["Authorization"])
        return type(self).trouble(self.engine, self)

    def say(self, text: str, status: int = 200, **headers: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on stderr."""


Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start an engine on a free port; the address comes back."""
    servers: list[ThreadingHTTPServer] = []

    def start(engine: Engine, trouble: Answers = lambda engine, handler: False) -> str:
        handler = type("One", (Handler,), {"engine": engine, "trouble": staticmethod(trouble)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    entries = [("code", "def f():"), ("code", "class A:"), ("prose", "Once"), ("prose", "upon")]
    path.write_text("".join(json.dumps({"kind": kind, "prompt": text}) + "\n" for kind, text in entries))
    return path


def ask(url: str, prompts: Path, tokens: int = TOKENS, **environment: str) -> list[Findings]:
    return list(endpoint(quiet, url, prompts, tokens, 0.0, environment))


def first(parts: list[Findings]) -> Acceptance:
    return parts[0].acceptance[0]


@pytest.mark.parametrize("engine_type", [Engine, LlamaCpp])
def test_counters_with_positions(engine_type: type[Engine], serve: Serve, prompts: Path) -> None:
    """All prompts are of one kind here, so that the engine's own books say what is right."""
    engine = engine_type()
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    parts = ask(serve(engine), prompts)
    assert len(parts) == 1
    said = first(parts)
    assert (said.target, said.text, said.sampling, said.drafted) == ("some/model", "code", "greedy", DRAFTED)
    assert said.tokens_per_step == pytest.approx(engine.per_step)
    assert said.per_position == pytest.approx(engine.positions)
    assert said.share_with_draft == pytest.approx(engine.drafts / len(engine.all_steps))
    assert said.share_with_draft < 0.95, "the engine has steps without a draft"
    assert said.tokens_per_step < 1 + engine.accepted / engine.drafts, "as the engine itself would say it"
    kept = [accepted for _, accepted in engine.all_steps]
    spread = math.sqrt(sum((n - engine.per_step + 1) ** 2 for n in kept) / len(kept) / len(kept))
    assert said.tokens_per_step_high - said.tokens_per_step == pytest.approx(1.96 * spread)
    assert said.tokens_per_step - said.tokens_per_step_low == pytest.approx(1.96 * spread)
    assert said.tokens == 4 * TOKENS
    assert not said.contended
    assert [body["max_tokens"] for body in engine.bodies] == [TOKENS] * 4
    assert [(body["temperature"], body["stream"]) for body in engine.bodies] == [(0.0, False)] * 4


def test_what_the_end_of_an_answer_cuts_off(serve: Serve, prompts: Path) -> None:
    """Seen on vLLM 0.32: 26 steps that tokens minus accepted made 23. Outputs are counted, unless they are tokens."""
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    engine = VllmThatCuts()
    said = first(ask(serve(engine), prompts, tokens=12))
    assert said.tokens_per_step == pytest.approx(engine.per_step)
    assert said.share_with_draft == pytest.approx(engine.drafts / len(engine.all_steps))
    assert len(engine.all_steps) > 4 * 11 - engine.accepted, "something is cut off"
    assert "outputs after the first" in said.source
    other = VllmThatCuts()
    other.counts_tokens = True
    assert "tokens after the first - accepted" in first(ask(serve(other), prompts, tokens=60)).source


# Between two scrapes of a real vLLM 0.32 (n-gram, 4 drafted): answers, share of steps with a draft and tokens per step
# as a client counted them from streams; shared/facts/live_engines.md, section 5.
@pytest.mark.parametrize(
    ("before", "after", "answers", "share", "per_step"), [(1, 4, 8, 0.49, 1.75), (4, 8, 16, 0.53, 1.93)]
)
def test_metrics_of_a_real_server(before: int, after: int, answers: int, share: float, per_step: float) -> None:
    folder = Path(__file__).resolve().parents[2] / "shared" / "live"
    if not folder.is_dir():
        pytest.skip("the recorded texts are not part of the repository")
    names = next(names for names in engines() if names.engine == "vLLM")
    texts = [(folder / f"metrics_ngram4_code_c{clients}.txt").read_bytes() for clients in (before, after)]
    assert [names.unknown(parse_metrics(text, "recorded")) for text in texts] == [[], []]
    counted = difference(*(counts_of(parse_metrics(text, "recorded"), names) for text in texts), "vLLM")
    said = estimate(replace(counted, requests=float(answers)))
    assert said.drafted == 4
    assert said.share_with_draft == pytest.approx(share, abs=0.005)
    # Of the answers as shown, the last step cut; what is accepted beyond makes 1 to 2 % more.
    assert counted.tokens is not None
    assert said.share_with_draft is not None
    assert (counted.tokens - answers) / said.steps == pytest.approx(per_step, abs=0.005)
    assert per_step < said.tokens_per_step < 1.02 * per_step
    assert 1 + said.share_with_draft * sum(said.per_position) == pytest.approx(said.tokens_per_step)


def test_steps_that_all_did_the_same_leave_a_doubt() -> None:
    """Nothing accepted in 30 steps does not prove that nothing ever is."""
    said = estimate(Counts(31.0, 1.0, 0.0, 120.0, 30.0, None, (0.0,) * 4))
    assert (said.low, said.tokens_per_step) == (1.0, 1.0)
    assert said.high == pytest.approx(1 + 4 * 0.1)


def test_one_part_a_kind(serve: Serve, prompts: Path) -> None:
    engine = Engine()
    told: list[tuple[str, float, float]] = []
    running = endpoint(lambda *line: told.append(line), serve(engine) + "/v1/", prompts, TOKENS, 0.7, {})
    part = next(running)
    steps = len(engine.all_steps)
    assert part.acceptance[0].tokens_per_step == pytest.approx(engine.per_step)
    rest = list(running)
    assert [r.acceptance[0].text for r in (part, *rest)] == ["code", "prose"]
    of_prose = engine.all_steps[steps:]
    assert rest[0].acceptance[0].tokens_per_step == pytest.approx(1 + sum(a for _, a in of_prose) / len(of_prose))
    assert rest[0].acceptance[0].sampling == "sampled"
    assert [what for what, _, _ in told] == ["draft: asking the server", *["draft: code"] * 2, *["draft: prose"] * 2]
    assert told[-1][1] == pytest.approx(told[-1][2])


def test_vllm_before_v1(serve: Serve, prompts: Path) -> None:
    """It counts neither drafts nor positions, and what it emits only in steps that had a draft."""
    engine = VllmBeforeV1()
    parts = ask(serve(engine), prompts)
    said = first(parts)
    assert (said.per_position, said.share_with_draft) == ([], None)
    assert "steps are not known, so those without a draft are left out" in said.source
    books = [part.acceptance[0] for part in parts]
    assert (
        min(b.tokens_per_step for b in books) <= engine.emitted / engine.drafts <= max(b.tokens_per_step for b in books)
    )


def test_llama_cpp_by_its_answers(serve: Serve, prompts: Path) -> None:
    engine = OlderLlamaCpp()
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    said = first(ask(serve(engine), prompts))
    assert said.tokens_per_step == pytest.approx(engine.per_step)
    assert (said.drafted, said.per_position, said.share_with_draft) == (None, [], None)
    assert said.source.startswith("llama.cpp, answers: ")


def test_a_kind_without_drafts(serve: Serve, prompts: Path) -> None:
    """Once another kind had some, none is a finding: one token a step."""

    def stop_drafting(engine: Engine, handler: Handler) -> bool:
        engine.share = 0.0 if len(engine.bodies) >= 2 else 1.0
        return False

    for engine in (OlderLlamaCpp(), LlamaCpp(), Engine()):
        code, prose = (part.acceptance[0] for part in ask(serve(engine, stop_drafting), prompts))
        assert code.tokens_per_step > 1.2
        assert (prose.tokens_per_step, prose.tokens_per_step_low, prose.share_with_draft) == (1.0, 1.0, 0.0)
        assert prose.per_position == []


def test_sglang_by_its_answers(serve: Serve, prompts: Path) -> None:
    engine = Sglang()
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    said = first(ask(serve(engine), prompts))
    assert said.tokens_per_step == pytest.approx(engine.per_step)
    assert said.per_position == pytest.approx([n / len(engine.all_steps) for n in engine.by_position])
    assert said.drafted == DRAFTED
    assert said.source.startswith("SGLang, answers: ")


def test_sglang_by_its_metrics(serve: Serve, prompts: Path) -> None:
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    for calls, source in ((True, "SGLang, /metrics: "), (False, "SGLang, gauge of /metrics: the server's own average")):
        engine = Sglang()
        engine.meta, engine.calls = False, calls
        said = first(ask(serve(engine), prompts))
        assert said.tokens_per_step == pytest.approx(engine.per_step)
        assert (said.per_position, said.drafted) == ([], None)
        assert said.source.startswith(source)


def test_chat_where_there_are_no_completions(serve: Serve, prompts: Path) -> None:
    engine = Engine()
    engine.chat_only = True
    prompts.write_text(
        json.dumps({"prompt": "a"}) + "\n" + json.dumps({"messages": [{"role": "user", "content": "b"}]})
    )
    ask(serve(engine), prompts)
    assert [path for path in engine.paths if "completions" in path] == [
        "/v1/completions", "/v1/chat/completions", "/v1/chat/completions",
    ]  # fmt: skip
    assert [body["messages"] for body in engine.bodies] == [
        [{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}],
    ]  # fmt: skip


def test_others_on_the_server_are_noticed(serve: Serve, prompts: Path) -> None:
    engine = Engine()
    engine.other_tokens = 40
    parts = ask(serve(engine), prompts)
    assert first(parts).contended
    assert any("the server counted 200 tokens where our answers have 120" in note for note in parts[0].notes)


# Servers that do not speculate, or do not say so.


class Silent(Engine):
    """vLLM without speculation."""

    def metrics(self) -> str:
        return f'vllm:generation_tokens_total{{engine="0"}} {self.tokens}\n'


class Idle(LlamaCpp):
    """llama.cpp without a draft: its counters stay at 0."""

    share = 0.0


@pytest.mark.parametrize("engine_type", [Silent, Idle, OlderLlamaCpp])
def test_no_speculation(engine_type: type[Engine], serve: Serve, prompts: Path) -> None:
    engine = engine_type()
    engine.share = 0.0
    with pytest.raises(InfoptError, match=r"reports no drafts: speculation is not enabled$"):
        ask(serve(engine), prompts)


def test_names_nobody_knows(serve: Serve, prompts: Path) -> None:
    class Newer(Silent):
        def metrics(self) -> str:
            return super().metrics() + "vllm:spec_v9_drafts_total 5\nvllm:spec_v9_drafts_created 1\n"

    with pytest.raises(InfoptError, match=r"it counts vllm:spec_v9_drafts_total, which this version does not know"):
        ask(serve(Newer()), prompts)

    class Foreign(Engine):
        owner = "somebody"

        def metrics(self) -> str:
            return "tgi_queue_size 0\n"

    with pytest.raises(InfoptError, match=r"its metrics are of no engine that is known; vLLM, llama.cpp and SGLang"):
        ask(serve(Foreign()), prompts)


def test_no_metrics(serve: Serve, prompts: Path) -> None:
    engine = Engine()
    engine.no_metrics = True
    with pytest.raises(InfoptError, match=r"reports no drafts in its answers, and /metrics answers 404: not here$"):
        ask(serve(engine), prompts)
    web = Engine()
    with pytest.raises(InfoptError, match=r"/metrics: holds no metrics"):
        ask(serve(web, lambda e, h: h.path == "/metrics" and not h.say("<html>Sign in</html>")), prompts)


# Servers that misbehave.


def test_nobody_there(serve: Serve, prompts: Path) -> None:
    with pytest.raises(InfoptError, match=r"^http://127.0.0.1:9/v1/models: no answer: Connection refused; is"):
        ask("http://127.0.0.1:9", prompts)


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://host", "file:///etc/passwd", "http://", "http://a b", "http://h/?q=1", "http://h\n"],
)
def test_addresses_that_are_none(url: str, prompts: Path) -> None:
    with pytest.raises(InfoptError, match=r"expected http://HOST:PORT"):
        ask(url, prompts)


def test_a_password_in_the_address_is_not_shown(prompts: Path) -> None:
    with pytest.raises(InfoptError, match=r"no password in the address; set INFOPT_API_KEY") as raised:
        ask("http://me:secret@host:8000", prompts)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "status", "text", "match"),
    [
        ("/v1/models", 404, "no", "/v1/models: the server answered 404: no$"),
        ("/v1/models", 200, "<html>", "answered with a web page, not JSON"),
        ("/v1/models", 200, '{"data": []}', "lists no model; is it an OpenAI-compatible server"),
        ("/v1/models", 200, '{"data": [[1]]}', "lists no model"),
        ("/v1/models", 200, "[]", "holds a JSON list, expected an object"),
        ("/v1/models", 200, "{", "not readable as JSON"),
        ("/v1/completions", 500, "out of\nmemory", "/v1/completions: the server answered 500: out of memory$"),
        ("/v1/completions", 200, "[" * 100_000, "nested too deeply"),
    ],
)
def test_answers_that_are_none(path: str, status: int, text: str, match: str, serve: Serve, prompts: Path) -> None:
    with pytest.raises(InfoptError, match=match) as raised:
        ask(serve(Engine(), lambda e, h: h.path == path and not h.say(text, status)), prompts)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"usage": None},
        {"usage": {"completion_tokens": "many"}},
        {"usage": {"completion_tokens": -1}},
        {"choices": 5},
    ],
)
def test_answers_without_usage(usage: dict[str, Any], serve: Serve, prompts: Path) -> None:
    """The counters of the server say it all."""

    class Terse(Engine):
        def answer(self, body: dict[str, Any]) -> dict[str, Any]:
            super().answer(body)
            return usage

    engine = Terse()
    prompts.write_text(prompts.read_text().replace("prose", "code"))
    assert first(ask(serve(engine), prompts)).tokens_per_step == pytest.approx(engine.per_step)


def test_a_redirect_elsewhere_is_not_followed(serve: Serve, prompts: Path) -> None:
    elsewhere = Engine()
    other = serve(elsewhere)

    def send_away(engine: Engine, handler: Handler) -> bool:
        return not handler.say("", 302, Location=other + handler.path)

    with pytest.raises(InfoptError, match=r"answered 302, a redirect to another address, which is not followed"):
        ask(serve(Engine(), send_away), prompts, INFOPT_API_KEY=KEY)
    assert elsewhere.paths == []


def test_a_redirect_inside_is_followed(serve: Serve, prompts: Path) -> None:
    engine = Engine()

    def move(engine: Engine, handler: Handler) -> bool:
        if handler.path == "/metrics/":
            return not handler.say(engine.metrics())
        return handler.path == "/metrics" and not handler.say("", 307, Location="/metrics/")

    assert len(ask(serve(engine, move), prompts, INFOPT_API_KEY=KEY)) == 2
    assert engine.paths.count("/metrics/") == 5
    assert set(engine.headers) == {f"Bearer {KEY}"}


def test_the_key_is_sent_and_not_shown(serve: Serve, prompts: Path) -> None:
    def refuse(status: int) -> Answers:
        return lambda engine, handler: not handler.say(f"wrong key: {handler.headers['Authorization']}", status)

    engine = Engine()
    with pytest.raises(InfoptError, match=r"answered 500: wrong key: Bearer \*\*\*$"):
        ask(serve(engine, refuse(500)), prompts, OPENAI_API_KEY=KEY, INFOPT_API_KEY="")
    assert engine.headers == [f"Bearer {KEY}"]
    with pytest.raises(InfoptError, match=r"answered 401: the key is not allowed$"):
        ask(serve(engine, refuse(401)), prompts, INFOPT_API_KEY="another", OPENAI_API_KEY=KEY)
    assert engine.headers[-1] == "Bearer another"
    with pytest.raises(InfoptError, match=r"answered 403: set INFOPT_API_KEY to its key$"):
        ask(serve(engine, refuse(403)), prompts)
    assert engine.headers[-1] is None
    with pytest.raises(InfoptError, match=r"^INFOPT_API_KEY holds characters no key has$"):
        ask("http://127.0.0.1:9", prompts, INFOPT_API_KEY="two words")


def test_a_restart_in_between(serve: Serve, prompts: Path) -> None:
    def restart(engine: Engine, handler: Handler) -> bool:
        if len(engine.bodies) == 3 and handler.path == "/metrics":
            engine.tokens, engine.accepted = 5, 0
        return False

    engine = Engine()
    prompts.write_text("\n".join(json.dumps({"kind": kind, "prompt": "a"}) for kind in ("code", "code", "prose")))
    running = endpoint(quiet, serve(engine, restart), prompts, TOKENS, 0.0, {})
    assert next(running).acceptance[0].text == "code"
    with pytest.raises(InfoptError, match=r"vLLM's count of tokens fell from 120 to 5: the server was restarted"):
        next(running)


def test_metrics_that_go_away(serve: Serve, prompts: Path) -> None:
    def hide(engine: Engine, handler: Handler) -> bool:
        engine.no_metrics = len(engine.bodies) == 2
        return False

    with pytest.raises(InfoptError, match=r"answers 404.*where there were metrics before"):
        ask(serve(Engine(), hide), prompts)


@pytest.mark.parametrize(("value", "match"), [("NaN", "is nan, which counts nothing"), ("-3", "is -3.0, which counts"),
                                              ("1e9", "accepted of .* drafted tokens, which cannot be")])  # fmt: skip
def test_counters_that_make_no_sense(value: str, match: str, serve: Serve, prompts: Path) -> None:
    class Odd(Engine):
        def metrics(self) -> str:
            accepted = value if self.bodies or value != "1e9" else "0"
            return super().metrics() + f'\nvllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}\n'

    with pytest.raises(InfoptError, match=match):
        ask(serve(Odd()), prompts)


def test_one_token_answers_verify_nothing(serve: Serve, prompts: Path) -> None:
    with pytest.raises(InfoptError, match=r"no answer has a second token.*--osl"):
        ask(serve(Engine()), prompts, tokens=1)


def test_an_answer_without_end(serve: Serve, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_BYTES", 100_000)
    with pytest.raises(InfoptError, match=r"/metrics: more than 100000 bytes of answer"):
        ask(serve(Engine(), lambda e, h: h.path == "/metrics" and not h.say("a 1\n" * 30_000)), prompts)


def test_an_answer_that_drips(serve: Serve, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def drip(engine: Engine, handler: Handler) -> bool:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.05):
            handler.wfile.write(b" ")
        return True

    monkeypatch.setattr(http_server.Server.get, "__defaults__", (0.3,))
    try:
        with pytest.raises(InfoptError, match=r"/v1/models: the answer took more than 0.3 s"):
            ask(serve(Engine(), drip), prompts)
    finally:
        stop.set()


def test_an_answer_that_does_not_come(serve: Serve, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    monkeypatch.setattr(http_server.Server.get, "__defaults__", (0.3,))
    try:
        with pytest.raises(InfoptError, match=r"/v1/models: no answer: nothing for 0.3 s"):
            ask(serve(Engine(), lambda e, h: stop.wait(10)), prompts)
    finally:
        stop.set()


# Arithmetic.


def test_every_engine_is_read() -> None:
    assert [names.engine for names in engines()] == ["llama.cpp", "SGLang", "vLLM"]


STEPS = st.lists(st.integers(0, 5).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))), min_size=1, max_size=60)


@given(STEPS, st.integers(1, 5))
def test_counts_give_the_steps_back(steps: list[tuple[int, int]], answers: int) -> None:
    """Tokens, accepted, drafts and positions of any steps: mean, shares and spread are those of the steps."""
    kept = [accepted for _, accepted in steps]
    drafts = sum(drafted > 0 for drafted, _ in steps)
    positions = tuple(float(sum(k > i for k in kept)) for i in range(5))
    tokens = answers + sum(kept) + len(kept)
    said = estimate(
        Counts(tokens, answers, float(sum(kept)), float(sum(d for d, _ in steps)), float(drafts), None, positions)
    )
    mean = sum(kept) / len(kept)
    half = 1.96 * math.sqrt(sum((k - mean) ** 2 for k in kept)) / len(kept)
    assert said.tokens_per_step == pytest.approx(1 + mean)
    other = min(1.0, 3 / len(kept))  # the rule of three, where all did the same
    below, above = (half, half) if half else (other * mean, other * (5 - mean))
    assert said.low == pytest.approx(max(1.0, 1 + mean - below), abs=1e-6)
    assert said.high == pytest.approx(min(6.0, 1 + mean + above), abs=1e-6)
    assert said.share_with_draft == pytest.approx(drafts / len(steps))
    assert said.per_position == (pytest.approx([n / drafts for n in positions]) if drafts else ())
    # The same without positions: wider, never narrower than what any such steps can spread.
    blind = estimate(Counts(tokens, answers, float(sum(kept)), float(sum(d for d, _ in steps)), float(drafts)))
    assert blind.tokens_per_step == pytest.approx(said.tokens_per_step)
    assert blind.low <= blind.tokens_per_step <= blind.high


def test_an_answer_cut_at_its_end() -> None:
    """Three steps with drafts of 4, all accepted, 16 tokens asked for but 12 shown: steps are what drafts say."""
    said = estimate(Counts(12.0, 1.0, 12.0, 12.0, 3.0))
    assert said.tokens_per_step == 5.0


def test_accepted_over_drafted_is_not_used() -> None:
    """At a constant chance of 0.8, drafts of 1 and of 8 say the same of position 0 and not of the ratio."""
    for length, ratio in ((1, 0.8), (8, 0.416)):
        positions = tuple(1000 * 0.8**i for i in range(1, length + 1))
        said = estimate(Counts(1001 + sum(positions), 1.0, sum(positions), 1000.0 * length, 1000.0, None, positions))
        assert said.per_position[0] == pytest.approx(0.8)
        assert sum(positions) / (1000 * length) == pytest.approx(ratio, abs=1e-3)
        assert said.tokens_per_step == pytest.approx((1 - 0.8 ** (length + 1)) / 0.2)
