# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import pathlib
import socket
import socketserver
import threading
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._known_answer import KnownAnswer, Question
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Completion, HttpSample
from ansible_collections.modelfleet.serving.plugins.module_utils._source_http import (
    Endpoint,
    HttpClient,
    HttpSource,
    NoReply,
    Plan,
    Reply,
    parse_url,
    tls_context,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", Endpoint("http", "127.0.0.1", 8000)),
        ("http://127.0.0.1:8000/", Endpoint("http", "127.0.0.1", 8000)),
        ("https://gpu03/llm/", Endpoint("https", "gpu03", 443, "/llm")),
        ("http://[::1]:9", Endpoint("http", "::1", 9)),
        ("unix:/run/vllm/kimi.sock", Endpoint("http", "localhost", 80, unix_socket="/run/vllm/kimi.sock")),
        ("unix:///run/vllm/kimi.sock", Endpoint("http", "localhost", 80, unix_socket="/run/vllm/kimi.sock")),
    ],
)
def test_parse_url(url: str, expected: Endpoint) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("127.0.0.1:8000", "must begin with http:// or https:// and name a host, or read unix:/path."),
        ("ftp://x", "must begin with http:// or https:// and name a host, or read unix:/path."),
        ("http://", "must begin with http:// or https:// and name a host, or read unix:/path."),
        ("http://x:99999", "has no valid port: Port out of range 0-65535."),
        ("unix:", "names no socket; it must read unix:/path/of/socket."),
        ("http://me:secret@x", "The URL must not contain a user name or password; vLLM knows API keys only."),
    ],
)
def test_parse_url_says_what_is_wrong(url: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(url)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


# -- the steps, with a fake server ---------------------------------------------------------------------------------

MODELS = Reply(200, {"data": [{"id": "tiny"}, {"id": "adapter"}]}, "")
REFUSED = NoReply("connection refused")
TOKENS = Reply(200, {"choices": [{"text": "1~"}], "usage": {"completion_tokens": 16}}, "")
ANSWER = Reply(200, {"choices": [{"text": "Paris"}], "usage": {"completion_tokens": 2}}, "")
Script = t.Union[Reply, NoReply]


class FakeServer:
    """Answers by path; a list is used up from its front, its last entry stays."""

    def __init__(self, **replies: Script | list[Script]) -> None:
        self.replies = {key: value if isinstance(value, list) else [value] for key, value in replies.items()}
        self.asked: list[tuple[str, str, t.Mapping[str, t.Any] | None]] = []
        #: completions hang until this is set
        self.go = threading.Event()
        self.go.set()

    def ask(self, method: str, path: str, body: t.Mapping[str, t.Any] | None, timeout: float) -> Reply:
        self.asked.append((method, path, body))
        if method == "POST":
            self.go.wait(10)
        script = self.replies[path.rsplit("/", 1)[-1]]
        reply = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(reply, NoReply):
            raise reply
        return reply

    @property
    def paths(self) -> list[str]:
        return [path for _method, path, _body in self.asked]


UP = Reply(200, None, "")


def settle(source: HttpSource) -> HttpSample:
    """Look, wait for the request that this started, and look again."""
    source.look()
    assert source.done.wait(5)
    return source.look()


@pytest.mark.parametrize(
    ("replies", "expected", "paths"),
    [
        ({"health": REFUSED}, HttpSample(health=0, error="GET /health: connection refused"), ["/health"]),
        ({"health": Reply(503, None, "")}, HttpSample(health=503), ["/health"]),
        (
            {"health": UP, "models": Reply(401, {}, '{"error":"Unauthorized"}')},
            HttpSample(200, 'GET /v1/models: 401 {"error":"Unauthorized"}', None, 401),
            ["/health", "/v1/models"],
        ),
        (
            {"health": UP, "models": REFUSED},
            HttpSample(200, "GET /v1/models: connection refused"),
            ["/health", "/v1/models"],
        ),
        (
            {"health": UP, "models": Reply(200, None, "<html>")},
            HttpSample(200, "GET /v1/models: not a list of models: <html>", None, 200),
            ["/health", "/v1/models"],
        ),
        # the wanted model is not there: nothing is asked of another one
        ({"health": UP, "models": MODELS}, HttpSample(200, "", ("tiny", "adapter"), 200), ["/health", "/v1/models"]),
    ],
)
def test_each_step_needs_the_one_before(replies: dict[str, Script], expected: HttpSample, paths: list[str]) -> None:
    server = FakeServer(**replies)
    source = HttpSource(server, Plan(model="kimi"))
    assert source.look() == expected
    assert not source.busy
    assert server.paths == paths


def test_first_token_is_asked_of_the_first_model_when_none_is_named() -> None:
    server = FakeServer(health=UP, models=MODELS, completions=TOKENS)
    source = HttpSource(server, Plan())
    completion = settle(source).completion
    assert completion is not None
    assert completion._replace(seconds=0) == Completion(200, "1~", 16, 0)
    assert server.asked[2][2] == {"model": "tiny", "prompt": "Hello", "max_tokens": 16, "temperature": 0}
    # once is enough
    source.look()
    assert server.paths.count("/v1/completions") == 1


def test_no_tokens_are_asked_for_when_none_are_wanted() -> None:
    server = FakeServer(health=UP, models=MODELS)
    assert HttpSource(server, Plan(completion=False)).look().completion is None
    assert server.paths == ["/health", "/v1/models"]


def known(attempts: int = 2) -> t.Callable[[str], KnownAnswer]:
    question = Question("/v1/chat/completions", {"messages": []})
    return lambda model: KnownAnswer(question, pattern="Paris", attempts=attempts)


def test_known_answer_follows_a_single_token() -> None:
    server = FakeServer(health=UP, models=MODELS, completions=[TOKENS, ANSWER])
    completion = settle(HttpSource(server, Plan(known=known()))).completion
    assert completion is not None
    assert (completion.text, completion.answer_ok) == ("Paris", True)
    assert [body["max_tokens"] for _m, _p, body in server.asked if body and "max_tokens" in body] == [1]
    assert server.paths[2:4] == ["/v1/completions", "/v1/chat/completions"]


def test_wrong_answers_end_the_asking_after_the_attempts() -> None:
    server = FakeServer(health=UP, models=MODELS, completions=[TOKENS, TOKENS])
    source = HttpSource(server, Plan(known=known(attempts=3)))
    completion = settle(source).completion
    assert completion is not None
    assert (completion.answer_ok, completion.error) == (False, "the answer '1~' does not match 'Paris'")
    source.look()
    assert server.paths.count("/v1/chat/completions") == 3


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(500, {}, "EngineDeadError"), "POST /v1/completions: 500 EngineDeadError"),
        (REFUSED, "POST /v1/completions: connection refused"),
        (Reply(200, {"choices": []}, ""), "POST /v1/completions: not a completion: {'choices': []}"),
        (
            Reply(200, {"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}, ""),
            "the server answered without a token",
        ),
    ],
)
def test_a_failed_request_is_told_and_made_again(reply: Script, error: str) -> None:
    server = FakeServer(health=UP, models=MODELS, completions=[reply, TOKENS])
    source = HttpSource(server, Plan())
    sample = settle(source)
    assert sample.completion is not None
    assert sample.completion.error == error
    # the look that told the failure has asked again
    assert source.done.wait(5)
    again = source.look().completion
    assert again is not None
    assert again.error == ""


def test_a_hanging_request_does_not_hold_up_the_looking() -> None:
    server = FakeServer(health=[UP, UP, REFUSED], models=MODELS, completions=TOKENS)
    server.go.clear()
    source = HttpSource(server, Plan())
    first, second, third = source.look(), source.look(), source.look()
    assert source.busy
    assert [look.completion for look in (first, second, third)] == [None, None, None]
    assert first.asked_s is not None and second.asked_s is not None and third.asked_s is not None
    assert first.asked_s < second.asked_s < third.asked_s
    assert third.health == 0
    assert server.paths.count("/v1/completions") <= 1
    server.go.set()
    assert source.done.wait(5)


def test_forget_asks_the_new_server_again() -> None:
    server = FakeServer(health=UP, models=MODELS, completions=TOKENS)
    source = HttpSource(server, Plan())
    assert settle(source).completion is not None
    source.forget()
    assert source.look().completion is None


# -- the real client -----------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    seen: t.ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        if self.path == "/hang":
            # until the client has gone
            self.rfile.read(1)
            return
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            return
        body = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002  the base class calls it so
        pass


@pytest.fixture
def server() -> t.Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        threading.Thread(target=running.serve_forever, daemon=True).start()
        Handler.seen.clear()
        yield running.server_address[1]
        running.shutdown()


def test_client_sends_key_and_prefix_past_any_proxy(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    client = HttpClient(Endpoint("http", "127.0.0.1", server, "/llm"), "k3y")
    assert client.ask("GET", "/health", None, 5) == Reply(200, {"path": "/llm/health"}, '{"path": "/llm/health"}')
    assert Handler.seen == [("/llm/health", "Bearer k3y")]


def test_client_does_not_follow_redirects(server: int) -> None:
    assert HttpClient(Endpoint("http", "127.0.0.1", server)).ask("GET", "/elsewhere", None, 5).status == 302


def test_client_gives_up(server: int) -> None:
    with pytest.raises(NoReply, match=r"^no answer within 0\.1 s$"):
        HttpClient(Endpoint("http", "127.0.0.1", server)).ask("GET", "/hang", None, 0.1)


def test_client_without_a_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        # as vLLM does it: bound from the start, listening only when ready
        with pytest.raises(NoReply, match="^connection refused$"):
            HttpClient(Endpoint("http", "127.0.0.1", port)).ask("GET", "/health", None, 5)


def test_client_with_a_server_that_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _where = listener.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(NoReply, match="^BadStatusLine: "):
            HttpClient(Endpoint("http", "127.0.0.1", listener.getsockname()[1])).ask("GET", "/health", None, 5)


def test_client_on_a_unix_socket(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "s")

    class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

        def get_request(self) -> tuple[t.Any, t.Any]:
            connection, _where = super().get_request()
            return connection, ("unix", 0)

    with UnixServer(path, Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        assert HttpClient(parse_url(f"unix:{path}")).ask("GET", "/health", None, 5).status == 200
        running.shutdown()
    with pytest.raises(NoReply, match="^connection refused$"):
        HttpClient(parse_url(f"unix:{path}")).ask("GET", "/health", None, 5)


def test_tls_context_with_a_missing_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        tls_context(True, str(tmp_path / "ca.pem"))
    assert tls_context(False, None).check_hostname is False
