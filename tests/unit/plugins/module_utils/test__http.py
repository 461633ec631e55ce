# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import email.message
import typing as t

import pytest
from hub import Hub

from ansible_collections.modelfleet.serving.plugins.module_utils._http import (
    Http,
    Origin,
    origin_of,
    redact,
    retry_after,
)

TOKEN = "hf_secretsecret"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://huggingface.co/a/b", Origin("https", "huggingface.co", 443)),
        ("https://huggingface.co:443/", Origin("https", "huggingface.co", 443)),
        ("http://10.77.0.1:8900/x?y", Origin("http", "10.77.0.1", 8900)),
        ("http://[::1]:80/", Origin("http", "::1", 80)),
        ("HTTPS://Hub.Example/", Origin("https", "hub.example", 443)),
    ],
)
def test_origin(url: str, origin: Origin) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("url", ["ftp://h/x", "file:///etc/passwd", "h/x", "http://", ""])
def test_other_schemes_have_no_origin(url: str) -> None:
    with pytest.raises(ValueError, match="is not an http or https URL"):
        origin_of(url)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://cdn/x?Signature=abc&Key=1 failed", "GET https://cdn/x failed"),
        ("(https://cdn/x?Signature=a.b,c).", "(https://cdn/x)."),
        ("https://cdn/x?Signature=abc", "https://cdn/x"),
        ("'https://cdn/x?Signature=abc'", "'https://cdn/x'"),
        ("https://user:pass@cdn/x#y", "https://cdn/x"),
        (f"token {TOKEN} refused", "token ******** refused"),
        ("is it there? yes", "is it there? yes"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text, TOKEN) == shown


def headers(**fields: str) -> email.message.Message:
    message = email.message.Message()
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55.0),
        # told on every answer: only an exhausted one is a reason to wait
        ({"ratelimit": '"api";r=10;t=55'}, None),
    ],
)
def test_retry_after(fields: dict[str, str], seconds: t.Optional[float]) -> None:
    assert retry_after(headers(**fields), now=40.0) == seconds


def test_the_token_stays_with_its_origin_and_connections_are_kept(hub: Hub) -> None:
    hub.catalog.users[TOKEN] = "me"
    hub.repo("acme/tiny").commit({"model.safetensors": bytes(1000), "config.json": "{}"})
    client = Http(5, {}, f"Bearer {TOKEN}", origin_of(hub.endpoint))
    for name, size in (("model.safetensors", 1000), ("config.json", 2)) * 2:
        answer = client.get(f"{hub.endpoint}/acme/tiny/resolve/main/{name}", {})
        assert (answer.status, answer.size(), len(answer.response.read())) == (200, size, size)
        assert answer.elsewhere is (name == "model.safetensors")
    assert len(client._connections) == 2
    client.close()
    assert [entry.authorization for entry in hub.log.find("resolve")] == [True] * 4
    assert [entry.authorization for entry in hub.log.find("cdn")] == [False] * 2


def test_a_token_without_home_goes_nowhere(hub: Hub) -> None:
    hub.repo("acme/tiny").commit({"config.json": "{}"})
    Http(5, {}, f"Bearer {TOKEN}").get(f"{hub.endpoint}/acme/tiny/resolve/main/config.json", {})
    assert [entry.authorization for entry in hub.log.find("resolve")] == [False]


def test_an_idle_connection_that_the_server_closed_is_no_failure(hub: Hub) -> None:
    hub.repo("acme/tiny").commit({"config.json": "{}"})
    url = f"{hub.endpoint}/acme/tiny/resolve/main/config.json"
    client = Http(5, {})
    client.get(url, {}).response.read()
    hub.fault(on="resolve", action="drop", times=1)
    assert client.get(url, {}).status == 200
    fresh = Http(5, {})
    hub.fault(on="resolve", action="drop", times=1)
    with pytest.raises(OSError, match="closed connection without response"):
        fresh.get(url, {})


def test_http_goes_through_a_proxy_unless_told_otherwise(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repo("acme/tiny").commit({"config.json": "{}"})
    # the lab's Hub takes absolute targets like a proxy would
    monkeypatch.setenv("http_proxy", hub.endpoint.replace("//", "//user:pass@"))
    monkeypatch.delenv("no_proxy", raising=False)
    answer = Http(5, {}).get("http://hub.example/acme/tiny/resolve/main/config.json", {})
    assert (answer.status, answer.response.read()) == (200, b"{}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Http(5, {}).get(f"{hub.endpoint}/acme/tiny/resolve/main/config.json", {}).status == 200
