# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Listing through the real client, against the lab's Hub: what passes when tried again, and what each refusal says."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
import yaml
from hub import Hub as LabHub

from ansible_collections.modelfleet.serving.plugins.module_utils import _hub
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import (
    MINIMUM_VERSION,
    PIN,
    Hub,
    HubError,
    LibraryMissing,
    explain,
    remote_file,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import GIT_SHA1, SHA256
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Policy

TOKEN = "hf_mine"
OTHER = "hf_other"


class Asked:
    """A client of the lab's Hub that sleeps in name only."""

    def __init__(self, endpoint: str, token: str = "") -> None:
        self.slept: list[float] = []
        self.reports: list[str] = []
        self.hub = Hub(endpoint, token, Policy(), self.slept.append, self.reports.append)


@pytest.fixture
def commit(hub: LabHub) -> str:
    hub.catalog.users.update({TOKEN: "me", OTHER: "somebody"})
    gated = hub.repo("acme/gated")
    gated.commit({"config.json": "{}"})
    gated.gated, gated.readers = "manual", {"me"}
    private = hub.repo("acme/private")
    private.commit({"config.json": "{}"})
    private.private, private.readers = True, {"me"}
    repo = hub.repo("acme/tiny")
    sha = repo.commit({"config.json": "{}", "m.safetensors": bytes(1000), "a b#c?.txt": "x"})
    repo.tag("v1", sha)
    return sha


@pytest.mark.parametrize("revision", ["main", "v1", None])
def test_a_listing_is_one_request_and_names_the_commit(hub: LabHub, commit: str, revision: t.Optional[str]) -> None:
    listing = Asked(hub.endpoint + "/").hub.listing("acme/tiny", revision or commit)
    assert hub.count() == 1
    assert listing.commit == commit
    assert {(file.path, file.size, file.algorithm, len(file.digest)) for file in listing.files} == {
        ("config.json", 2, GIT_SHA1, 40),
        ("a b#c?.txt", 1, GIT_SHA1, 40),
        ("m.safetensors", 1000, SHA256, 64),
    }
    assert listing.gated is False


def test_the_hosts_own_token_is_not_used(hub: LabHub, commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    Asked(hub.endpoint).hub.listing("acme/tiny", "main")
    assert [entry.authorization for entry in hub.log.find("info")] == [False]
    Asked(hub.endpoint, TOKEN).hub.listing("acme/tiny", "main")
    assert [entry.authorization for entry in hub.log.find("info")] == [False, True]


def test_anybody_may_list_a_gated_repository(hub: LabHub, commit: str) -> None:
    assert Asked(hub.endpoint).hub.listing("acme/gated", "main").gated is True


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_passing_troubles_of_the_listing_are_tried_again(hub: LabHub, commit: str, status: int) -> None:
    hub.fault(on="info", action="status", status=status, times=2)
    asked = Asked(hub.endpoint)
    assert asked.hub.listing("acme/tiny", "main").commit == commit
    assert asked.slept == [1.0, 2.0]
    assert len(asked.reports) == 2


def test_a_lost_connection_and_a_portal_page_are_tried_again(hub: LabHub, commit: str) -> None:
    hub.fault(on="info", action="reset", times=1)
    hub.fault(on="info", action="html", times=1)
    asked = Asked(hub.endpoint)
    assert asked.hub.listing("acme/tiny", "main").commit == commit
    assert len(asked.slept) == 2


def test_retry_after_is_obeyed_within_reason(hub: LabHub, commit: str) -> None:
    hub.fault(on="info", action="status", status=429, headers={"Retry-After": "7"}, times=1)
    hub.fault(on="info", action="status", status=429, headers={"Retry-After": "86400"}, times=1)
    asked = Asked(hub.endpoint)
    asked.hub.listing("acme/tiny", "main")
    assert asked.slept == [7.0, 600.0]


@pytest.mark.parametrize(
    ("repo", "revision", "token", "tries", "message"),
    [
        (
            "acme/nope",
            "main",
            "",
            1,
            "There is no repository acme/nope at {endpoint}, or it is private: check repo_id, or set token.",
        ),
        (
            "acme/nope",
            "main",
            TOKEN,
            1,
            "There is no repository acme/nope at {endpoint}, or the token may not see it: check repo_id and the token.",
        ),
        (
            "acme/private",
            "main",
            OTHER,
            1,
            "There is no repository acme/private at {endpoint}, or the token may not see it: "
            "check repo_id and the token.",
        ),
        ("acme/tiny", "nope", "", 1, "acme/tiny at {endpoint} has no branch, tag or commit nope."),
        ("acme/tiny", "f" * 40, "", 1, "acme/tiny at {endpoint} has no branch, tag or commit " + "f" * 40 + "."),
        (
            "acme/tiny",
            "main",
            "hf_wrong",
            1,
            "{endpoint} does not accept the token: it is wrong, expired or of another Hub.",
        ),
    ],
)
def test_refusals_are_final_and_say_what_to_do(
    hub: LabHub, commit: str, repo: str, revision: str, token: str, tries: int, message: str
) -> None:
    with pytest.raises(HubError) as caught:
        Asked(hub.endpoint, token).hub.listing(repo, revision)
    assert str(caught.value) == message.format(endpoint=hub.endpoint)
    assert hub.count("info") == tries
    assert caught.value.__cause__ is None
    assert token not in str(caught.value) or not token


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            {"action": "status", "status": 429},
            "{endpoint} limits requests from this address, 5 times in a row: wait, or set token for a higher limit.",
        ),
        ({"action": "status", "status": 503}, "{endpoint} answered with status 503, 5 times: "),
        (
            {"action": "html"},
            "{endpoint} did not answer as a Hub does: is the address right? Is a proxy or login portal between? (",
        ),
        ({"action": "drop"}, "{endpoint} could not be reached, 5 times: "),
    ],
)
def test_lasting_troubles_end_after_five_tries(hub: LabHub, commit: str, fault: dict[str, t.Any], message: str) -> None:
    hub.fault(on="info", **fault)
    asked = Asked(hub.endpoint)
    with pytest.raises(HubError) as caught:
        asked.hub.listing("acme/tiny", "main")
    assert str(caught.value).startswith(message.format(endpoint=hub.endpoint))
    assert "\n" not in str(caught.value)
    assert asked.slept == [1.0, 2.0, 4.0, 8.0]


def test_a_hub_that_is_gone_says_what_to_check() -> None:
    with pytest.raises(HubError) as caught:
        Asked("http://127.0.0.1:1").hub.listing("acme/tiny", "main")
    assert str(caught.value) == (
        "http://127.0.0.1:1 could not be reached, 5 times: Connection refused. Check the address, and on "
        "the host: name resolution, route, firewall and proxy (https_proxy). If the snapshot is complete, set revision "
        "to its commit (model.revision in a profile), and the Hub is not asked."
    )


def named(name: str, *bases: type, status: t.Optional[int] = None) -> Exception:
    """An exception of a class of that name, as any release of the library may define it."""
    exc = type(name, bases or (Exception,), {})("first line https://hub/x?sig=1\nsecond line")
    if status is not None:
        exc.response = type("Response", (), {"status_code": status})()
    return t.cast(Exception, exc)


WORDS = {"repo": "acme/tiny", "revision": "main", "endpoint": "https://hub", "tries": 3}


@pytest.mark.parametrize(
    ("exc", "token", "start"),
    [
        (named("GatedRepoError", type("RepositoryNotFoundError", (Exception,), {})), "", "acme/tiny is gated: accept"),
        (named("GatedRepoError"), TOKEN, "acme/tiny is gated and the token's account is not on its access list"),
        (named("DisabledRepoError"), "", "acme/tiny has been disabled at https://hub."),
        (named("OfflineModeIsEnabled"), "", "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set in the host's environment"),
        (named("HfHubHTTPError", status=401), "", "https://hub wants a token for acme/tiny: set token."),
        (named("HfHubHTTPError", status=403), TOKEN, "https://hub forbids access to acme/tiny: check the rights of"),
        (
            named("HfHubHTTPError", status=418),
            "",
            "https://hub answered with status 418, 3 times: first line https://hub/x",
        ),
        (named("ReadError"), "", "https://hub could not be reached, 3 times: first line https://hub/x. Check"),
    ],
)
def test_errors_are_told_apart_by_name(exc: Exception, token: str, start: str) -> None:
    text = explain(exc, WORDS, token)
    assert text.startswith(start)
    assert "sig=1" not in text


@pytest.mark.parametrize(
    ("exc", "helps"),
    [
        (named("ReadError"), True),
        (named("OfflineModeIsEnabled"), True),
        (named("HfHubHTTPError", status=429), True),
        (named("HfHubHTTPError", status=503), True),
        (named("JSONDecodeError", ValueError), True),
        (named("RevisionNotFoundError"), False),
        (named("HfHubHTTPError", status=401), False),
    ],
)
def test_a_hub_that_does_not_answer_is_not_needed_for_a_pinned_commit(exc: Exception, helps: bool) -> None:
    assert explain(exc, WORDS, "").endswith(". " + PIN.strip()) is helps
    assert PIN not in explain(exc, {**WORDS, "revision": "0123456789abcdef0123456789abcdef01234567"}, "")


def test_without_the_library_it_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hub, "HAS_HUGGINGFACE_HUB", False)
    with pytest.raises(LibraryMissing, match="to list acme/tiny"):
        Asked("http://127.0.0.1:1").hub.listing("acme/tiny", "main")


def test_a_listing_without_sizes_is_refused() -> None:
    item = type("Sibling", (), {"rfilename": "m.bin", "size": None, "lfs": None, "blob_id": "a" * 40})
    with pytest.raises(HubError, match="The listing has no size or digest for m.bin"):
        remote_file(item)


def test_a_listing_that_would_lead_out_of_the_folder_of_partial_files_is_refused() -> None:
    item = type("Sibling", (), {"rfilename": "m.bin", "size": 1, "lfs": None, "blob_id": "../../x"})
    with pytest.raises(HubError) as caught:
        remote_file(item)
    assert str(caught.value) == (
        "The endpoint does not list as the Hub does: m.bin is listed with size 1 and git_sha1 '../../x', which cannot "
        "be. Is it a faithful mirror?"
    )


def test_addresses_are_quoted_and_pinned(hub: LabHub, commit: str) -> None:
    url = Asked(hub.endpoint).hub.file_url("acme/tiny", commit, "a b#c?.txt")
    assert url == f"{hub.endpoint}/acme/tiny/resolve/{commit}/a%20b%23c%3F.txt"


def test_files_are_asked_for_with_the_token_and_our_name(hub: LabHub, commit: str) -> None:
    asked = Asked(hub.endpoint, TOKEN)
    answer = asked.hub.http().get(asked.hub.file_url("acme/gated", "main", "config.json"), {})
    assert answer.status == 200
    (entry,) = hub.log.find("resolve")
    assert entry.authorization is True
    assert "modelfleet.serving" in entry.agent


def test_the_library_sends_no_telemetry(hub: LabHub, commit: str) -> None:
    Asked(hub.endpoint).hub.listing("acme/tiny", "main")
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert [entry.on for entry in hub.log.find()] == ["info"]


def test_the_oldest_release_is_the_one_that_is_tested_and_that_the_role_takes() -> None:
    top = pathlib.Path(__file__).resolve().parents[4]
    role = yaml.safe_load((top / "roles/host_tools/vars/main.yml").read_text(encoding="utf-8"))
    assert role["__host_tools_hub_minimum"] == MINIMUM_VERSION
    versions = (top / "tests/versions/versions.txt").read_text(encoding="utf-8").splitlines()
    assert next(line for line in versions if not line.startswith("#")).startswith(f"{MINIMUM_VERSION}.")
