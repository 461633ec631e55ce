# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault does to the bytes on the wire what its name says. Plain sockets, so that no client smooths it over."""

from __future__ import annotations

import http.client
import time
import typing as t
import urllib.parse

import pytest
from hub import FaultError, Hub, HubControl

REPO = "acme/tiny"
SHARD = "model.safetensors"
DATA = bytes(range(256)) * 1000
CONFIG = b'{"model_type": "llama"}'


class Reply(t.NamedTuple):
    status: int
    headers: t.Mapping[str, str]
    body: bytes


def get(url: str, headers: t.Optional[dict[str, str]] = None, method: str = "GET") -> Reply:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=5)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", headers=headers or {})
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.headers.items()), answer.read())
    finally:
        connection.close()


@pytest.fixture(autouse=True)
def repo(hub: Hub) -> None:
    hub.repo(REPO).commit({SHARD: DATA, "config.json": CONFIG})


def config(hub: Hub) -> str:
    return f"{hub.endpoint}/{REPO}/resolve/main/config.json"


def shard(hub: Hub) -> str:
    """The signed address of the shard on the cdn."""
    reply = get(f"{hub.endpoint}/{REPO}/resolve/main/{SHARD}")
    assert reply.status == 302
    return reply.headers["Location"]


# -- without faults --------------------------------------------------------------------------------------------------


def test_redirect_goes_to_another_origin_with_the_headers_the_client_reads(hub: Hub) -> None:
    reply = get(f"{hub.endpoint}/{REPO}/resolve/main/{SHARD}", method="HEAD")
    assert reply.status == 302
    assert reply.headers["Location"].startswith(hub.cdn_endpoint)
    assert urllib.parse.urlsplit(hub.cdn_endpoint).netloc != urllib.parse.urlsplit(hub.endpoint).netloc
    assert urllib.parse.urlsplit(hub.cdn_endpoint).hostname != urllib.parse.urlsplit(hub.endpoint).hostname
    assert reply.headers["X-Linked-Size"] == str(len(DATA))
    assert reply.headers["X-Linked-Etag"] == reply.headers["ETag"]
    assert len(reply.headers["X-Repo-Commit"]) == 40


@pytest.mark.parametrize(
    ("asked", "status", "body", "content_range"),
    [
        ("bytes=1000-", 206, DATA[1000:], "bytes 1000-255999/256000"),
        ("bytes=10-19", 206, DATA[10:20], "bytes 10-19/256000"),
        ("bytes=-5", 206, DATA[-5:], "bytes 255995-255999/256000"),
        ("bytes=0-999999999", 206, DATA, "bytes 0-255999/256000"),
        ("bytes=256000-", 416, b"", "bytes */256000"),
        ("bytes=1-2,5-6", 200, DATA, None),
    ],
)
def test_range(hub: Hub, asked: str, status: int, body: bytes, content_range: t.Optional[str]) -> None:
    reply = get(shard(hub), {"Range": asked})
    assert (reply.status, reply.body, reply.headers.get("Content-Range")) == (status, body, content_range)


def test_if_range_with_another_version_gives_the_whole_file(hub: Hub) -> None:
    etag = get(shard(hub), method="HEAD").headers["ETag"]
    assert get(shard(hub), {"Range": "bytes=9-", "If-Range": etag}).status == 206
    assert get(shard(hub), {"Range": "bytes=9-", "If-Range": '"old"'}).status == 200


def test_cdn_wants_its_signature(hub: Hub) -> None:
    url = shard(hub)
    assert get(url.split("?")[0]).status == 403
    assert get(url.replace("Expires=", "Expires=9")).status == 403


def test_signed_address_expires() -> None:
    with Hub(url_seconds=0) as hub:
        hub.repo(REPO).commit({SHARD: DATA})
        reply = get(shard(hub))
    assert (reply.status, reply.headers["X-Error-Message"]) == (403, "Access denied: the signature has expired")


def test_leak_is_seen(hub: Hub) -> None:
    url = shard(hub)
    get(url)
    assert hub.leaks() == []
    get(url, {"Authorization": "Bearer hf_secret"})
    assert [entry.subject for entry in hub.leaks()] == [f"{REPO}/{SHARD}"]
    assert "hf_secret" not in repr(hub.log.find())


# -- one fault each --------------------------------------------------------------------------------------------------


def test_status_with_retry_after(hub: Hub) -> None:
    hub.fault(on="cdn", action="status", status=429, headers={"Retry-After": "2"}, times=1)
    url = shard(hub)
    refused, served = get(url), get(url)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
    assert (served.status, served.body) == (200, DATA)


def test_status_on_the_api(hub: Hub) -> None:
    hub.fault(on="info", action="status", status=503, message="try later", error_code="Busy")
    reply = get(f"{hub.endpoint}/api/models/{REPO}/revision/main")
    assert (reply.status, reply.headers["X-Error-Message"], reply.headers["X-Error-Code"]) == (503, "try later", "Busy")


def test_html_page(hub: Hub) -> None:
    hub.fault(on="resolve", match="config", action="html")
    reply = get(config(hub))
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert reply.body.startswith(b"<!doctype html>")


def test_header_replaced_and_removed(hub: Hub) -> None:
    hub.fault(on="resolve", action="header", headers={"ETag": '"other"', "X-Repo-Commit": None})
    reply = get(config(hub))
    assert (reply.headers["ETag"], reply.body) == ('"other"', CONFIG)
    assert "X-Repo-Commit" not in reply.headers


def test_ignore_range(hub: Hub) -> None:
    hub.fault(on="cdn", action="ignore_range")
    reply = get(shard(hub), {"Range": "bytes=1000-"})
    assert (reply.status, reply.body) == (200, DATA)


@pytest.mark.parametrize("asked", [None, "bytes=100-", "bytes=5000-5000"])
def test_flip_changes_one_byte_of_the_file(hub: Hub, asked: t.Optional[str]) -> None:
    hub.fault(on="cdn", action="flip", at=5000)
    reply = get(shard(hub), {"Range": asked} if asked else {})
    start = int(reply.headers.get("Content-Range", "bytes 0-").split()[1].split("-")[0])
    assert [start + at for at, byte in enumerate(reply.body) if byte != DATA[start + at]] == [5000]
    assert len(reply.body) == int(reply.headers["Content-Length"])


@pytest.mark.parametrize(("asked", "body"), [({}, DATA[:700]), ({"Range": "bytes=600-"}, DATA[600:700])])
def test_truncate_looks_complete(hub: Hub, asked: dict[str, str], body: bytes) -> None:
    hub.fault(on="cdn", action="truncate", at=700)
    reply = get(shard(hub), asked)
    assert (reply.body, reply.headers["Content-Length"]) == (body, str(len(body)))


@pytest.mark.parametrize(("asked", "sent"), [({}, 700), ({"Range": "bytes=600-"}, 100), ({"Range": "bytes=900-"}, 0)])
def test_drop_ends_the_body_early(hub: Hub, asked: dict[str, str], sent: int) -> None:
    hub.fault(on="cdn", action="drop", at=700)
    with pytest.raises(http.client.IncompleteRead) as cut:
        get(shard(hub), asked)
    assert len(cut.value.partial) == sent


def test_drop_before_the_head(hub: Hub) -> None:
    hub.fault(on="tree", action="drop", times=1)
    url = f"{hub.endpoint}/api/models/{REPO}/tree/main"
    with pytest.raises(http.client.RemoteDisconnected):
        get(url)
    assert get(url).status == 200


@pytest.mark.parametrize("at", [None, 0, 100_000])
def test_reset(hub: Hub, at: t.Optional[int]) -> None:
    hub.fault(on="cdn", action="reset", at=at)
    with pytest.raises(ConnectionResetError):
        get(shard(hub))


def test_stall_is_silent_for_its_time(hub: Hub) -> None:
    hub.fault(on="cdn", action="stall", at=700, seconds=0.5)
    url = shard(hub)
    began = time.monotonic()
    with pytest.raises(http.client.IncompleteRead) as cut:
        get(url)
    assert len(cut.value.partial) == 700
    assert 0.5 <= time.monotonic() - began < 3


def test_trickle_keeps_its_rate(hub: Hub) -> None:
    hub.fault(on="cdn", action="trickle", rate=len(DATA) * 2)
    url = shard(hub)
    began = time.monotonic()
    assert get(url).body == DATA
    assert 0.45 <= time.monotonic() - began < 2


def test_delay_goes_with_every_action(hub: Hub) -> None:
    hub.fault(on="resolve", action="status", status=404, delay=0.3)
    began = time.monotonic()
    assert get(config(hub)).status == 404
    assert time.monotonic() - began >= 0.3


def test_move_makes_a_commit_after_so_many_requests(hub: Hub) -> None:
    hub.fault(on="resolve", skip=2, times=1, action="move", repo=REPO, files={"config.json": "new"})
    assert [get(config(hub)).body for _time in range(4)] == [CONFIG, CONFIG, b"new", b"new"]


# -- choice of requests ----------------------------------------------------------------------------------------------


def test_skip_times_and_match(hub: Hub) -> None:
    fault = hub.fault(on="resolve", match=r"/config\.json$", skip=1, times=2, action="status", status=500)
    assert [get(config(hub)).status for _time in range(4)] == [200, 500, 500, 200]
    assert get(f"{hub.endpoint}/{REPO}/resolve/main/{SHARD}").status == 302
    assert (fault.seen, fault.fired) == (4, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"action": "explode"},
            "action 'explode' is none of status, html, header, ignore_range, flip, truncate, drop, reset, stall, "
            "trickle, delay, move",
        ),
        (
            {"action": "html", "on": "disk"},
            "on 'disk' is none of any, cdn, info, other, paths, refs, resolve, tree, whoami",
        ),
        ({"action": "flip", "after": 1}, "action 'flip' does not take after"),
        ({"action": "status"}, "action 'status' needs status"),
        (
            {"action": "html", "match": "("},
            "match '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_fault_that_cannot_be_meant(hub: Hub, spec: dict[str, t.Any], message: str) -> None:
    with pytest.raises(FaultError) as refused:
        hub.fault(**spec)
    assert str(refused.value) == message


# -- over HTTP -------------------------------------------------------------------------------------------------------


def test_control_over_http(hub: Hub) -> None:
    control = HubControl(hub.endpoint)
    first = control.fault(on="resolve", action="status", status=500, times=1)
    control.fault(on="cdn", action="html")
    assert get(config(hub)).status == 500
    assert [(fault["id"], fault["fired"]) for fault in control.faults()] == [(first, 1), (first + 1, 0)]
    assert control.count("resolve", "GET", "config") == 1
    assert control.log("resolve")[0]["status"] == 500
    control.clear(first)
    assert [fault["action"] for fault in control.faults()] == ["html"]
    control.clear()
    assert (control.faults(), control.log(), control.leaks()) == ([], [], [])
    commit = control.commit(REPO, {"config.json": None, "raw.bin": {"base64": "AAEC"}}, branch="next")
    assert control.state()["repos"][REPO]["branches"]["next"] == commit
    assert get(config(hub).replace("main", "next")).status == 404
    with pytest.raises(ValueError, match="POST /_lab/faults: action 'x' is none of"):
        control.fault(action="x")


def test_control_is_not_on_the_cdn(hub: Hub) -> None:
    assert get(f"{hub.cdn_endpoint}/_lab/state").status == 404
