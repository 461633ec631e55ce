# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transfer against the lab's Hub: each fault ends as it should, and no byte comes twice that need not."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import os
import pathlib
import resource
import threading
import time
import typing as t

import pytest
from hub import Hub

from ansible_collections.modelfleet.serving.plugins.module_utils import _fetch, _hashing, _supply_http
from ansible_collections.modelfleet.serving.plugins.module_utils._fetch import LONG, Fetcher, fetch_all
from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._http import Http, origin_of
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import GIT_SHA1, SHA256, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import Partial
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Ledger
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_http import WebSupplier
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    ContentError,
    Done,
    FetchError,
    Job,
    Limiter,
    Meter,
    Policy,
    Stop,
    Stopped,
    StorageError,
)

NAME = "model.safetensors"
DATA = bytes(range(256)) * 4000
SIZE = len(DATA)
POLICY = Policy(retries=3, backoff=0.01, max_backoff=0.02, stall_timeout=0.5, min_rate=0)


@dataclasses.dataclass
class Bench:
    """A worker set up to fetch one file of the lab's Hub into a folder."""

    hub: Hub
    folder: pathlib.Path
    policy: Policy = POLICY
    authorization: str = ""
    endpoint: str = ""

    def __post_init__(self) -> None:
        self.meter = Meter()
        self.stop = Stop()
        self.endpoint = self.hub.endpoint
        self.partial = self.folder / "partial"
        self.target = self.folder / NAME

    def job(self, name: str = NAME, data: bytes = DATA) -> Job:
        if name == NAME:
            file = RemoteFile(name, len(data), SHA256, hashlib.sha256(data).hexdigest())
        else:
            file = RemoteFile(name, len(data), GIT_SHA1, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())
        return Job(file, str(self.folder / "partial"), str(self.folder / name))

    def fetcher(self) -> Fetcher:
        ledger = Ledger([self.endpoint])
        flow = Flow(self.policy, self.meter, Limiter(0, time.monotonic, time.sleep), self.stop, count=ledger.count)
        home = origin_of(self.hub.endpoint)
        url = f"{self.endpoint}/acme/tiny/resolve/main/"
        hub = WebSupplier(
            self.endpoint,
            lambda: Http(self.policy.stall_timeout, {}, self.authorization, home),
            lambda file: url + file.path,
            flow,
        )
        return Fetcher([hub], ledger, self.policy, self.meter, self.stop)

    def fetch(self, job: t.Optional[Job] = None) -> Done:
        return self.fetcher().fetch(Partial(job or self.job()))

    def ranges(self) -> list[t.Optional[str]]:
        return [entry.range for entry in self.hub.log.find("cdn")]

    def sent(self) -> int:
        return sum(entry.sent for entry in self.hub.log.find("cdn"))


@pytest.fixture
def bench(hub: Hub, tmp_path: pathlib.Path) -> Bench:
    hub.repo("acme/tiny").commit({NAME: DATA, "config.json": "{}", "empty": ""})
    return Bench(hub, tmp_path)


def test_a_file_whose_digest_is_computed_beside_is_the_same_and_taken_up_where_it_broke_off(
    hub: Hub, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hashing, "MIN_BESIDE", 1)
    hub.fault(on="cdn", action="reset", at=600_000, times=1)
    bench.fetcher().fetch(Partial(bench.job(), beside=True))
    assert bench.target.read_bytes() == DATA
    assert bench.meter.retries == 1
    assert bench.meter.downloaded == SIZE


@pytest.mark.parametrize(
    ("workers", "sizes", "cores", "beside"),
    [
        (8, [LONG] * 8, 2, False),
        (8, [LONG] * 8, 8, False),
        (8, [LONG] * 20, 9, True),
        (8, [LONG, 10, 10], 2, True),
        (1, [LONG, LONG], 2, True),
        (8, [LONG], 1, False),
    ],
)
def test_digests_are_computed_beside_where_processors_are_left_over(
    monkeypatch: pytest.MonkeyPatch, workers: int, sizes: list[int], cores: int, beside: bool
) -> None:
    monkeypatch.setattr(_fetch, "cores", lambda: cores)
    seen: list[bool] = []

    class Worker:
        def fetch(self, part: Partial) -> None:
            seen.append(part.beside)

        def abort(self) -> None:
            """Nothing to end."""

    jobs = [Job(RemoteFile(f"f{at}", size, SHA256, ""), "", "") for at, size in enumerate(sizes)]
    fetch_all(jobs, workers, t.cast("t.Any", Worker), Stop(), lambda: None)
    assert seen == [beside] * len(sizes)


def test_a_file_arrives_whole_under_its_name_with_its_marks(bench: Bench) -> None:
    done = bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert not bench.partial.exists()
    seen = bench.target.stat()
    assert (done.mtime_ns, done.inode) == (seen.st_mtime_ns, seen.st_ino)
    assert bench.meter.downloaded == bench.sent() == SIZE
    assert bench.meter.retries == 0
    assert bench.meter.finished == [done]


@pytest.mark.parametrize(("name", "data"), [("config.json", b"{}"), ("empty", b"")])
def test_small_files_are_proved_by_gits_digest(bench: Bench, name: str, data: bytes) -> None:
    bench.fetch(bench.job(name, data))
    assert (bench.folder / name).read_bytes() == data
    with pytest.raises(ContentError, match=f"{name}: the content is wrong, twice: expected git_sha1 "):
        job = bench.job(name, data)
        bench.fetch(job._replace(file=job.file._replace(digest="0" * 40)))


# -- what passes when tried again, at the byte where it was -----------------------------------------------------------

PASSING = {
    "drop": ({"action": "drop", "at": 300_000}, [None, "bytes=300000-"]),
    "reset": ({"action": "reset", "at": 0}, [None, None]),
    "no answer": ({"action": "drop"}, [None, None]),
    "500": ({"action": "status", "status": 500}, [None, None]),
    "503": ({"action": "status", "status": 503}, [None, None]),
    "expired": ({"action": "status", "status": 403}, [None, None]),
    "flipped once": ({"action": "flip", "at": 5000}, [None, None]),
    "truncated once": ({"action": "truncate", "at": 5000}, [None, None]),
    "portal once": ({"action": "html"}, [None, None]),
}


@pytest.mark.parametrize("case", PASSING)
def test_passing_faults(bench: Bench, case: str) -> None:
    fault, ranges = PASSING[case]
    bench.hub.fault(on="cdn", times=1, **fault)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.ranges() == ranges
    assert bench.meter.retries == 1


def test_a_reset_costs_less_than_a_block(bench: Bench) -> None:
    bench.hub.fault(on="cdn", times=1, action="reset", at=600_000)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.meter.retries == 1
    assert bench.meter.downloaded == SIZE


def test_four_drops_cost_no_byte_twice(bench: Bench) -> None:
    for at in (100_000, 400_000, 400_001, 900_000):
        bench.hub.fault(on="cdn", times=1, action="drop", at=at)
    bench.policy = POLICY._replace(retries=4)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.meter.downloaded == bench.sent() == SIZE


def test_a_stall_ends_the_connection_and_not_the_file(bench: Bench) -> None:
    bench.hub.fault(on="cdn", times=1, action="stall", at=300_000, seconds=20)
    began = time.monotonic()
    bench.fetch()
    assert time.monotonic() - began < 5
    assert bench.target.read_bytes() == DATA
    assert "no byte in time from http://localhost:" in bench.meter.message


def test_a_trickle_below_the_minimum_is_given_up_for_a_new_connection(bench: Bench) -> None:
    bench.hub.fault(on="cdn", times=1, action="trickle", rate=40_000)
    bench.policy = POLICY._replace(min_rate=100_000)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert "bytes/s from http://localhost:" in bench.meter.message
    assert bench.ranges()[1] not in (None, "bytes=0-")


def test_a_slow_file_grows_on_the_disk_as_it_comes(bench: Bench) -> None:
    bench.hub.fault(on="cdn", action="trickle", rate=1_000_000)
    sizes: set[int] = set()
    thread = threading.Thread(target=bench.fetch)
    thread.start()
    while thread.is_alive():
        with contextlib.suppress(FileNotFoundError):
            sizes.add(bench.partial.stat().st_size)
        time.sleep(0.02)
    assert bench.target.read_bytes() == DATA
    steps = sorted(sizes)
    assert max(later - earlier for earlier, later in zip(steps, steps[1:])) < 450_000


def test_retry_after_is_obeyed(bench: Bench) -> None:
    bench.hub.fault(on="resolve", times=1, action="status", status=429, headers={"Retry-After": "1"})
    began = time.monotonic()
    bench.fetch()
    assert 1.0 <= time.monotonic() - began < 3


def test_retry_after_is_not_obeyed_for_ever(bench: Bench) -> None:
    bench.hub.fault(on="resolve", times=1, action="status", status=429, headers={"Retry-After": "86400"})
    bench.policy = POLICY._replace(max_wait=0.1)
    bench.fetch()
    assert bench.target.read_bytes() == DATA


def test_an_expired_address_is_resolved_again_and_the_offset_kept(hub: Hub, tmp_path: pathlib.Path) -> None:
    hub.repo("acme/tiny").commit({NAME: DATA})
    bench = Bench(hub, tmp_path)
    hub.fault(on="cdn", times=1, action="drop", at=300_000)
    hub.fault(on="cdn", times=1, action="status", status=403)
    bench.fetch()
    assert bench.ranges() == [None, "bytes=300000-", "bytes=300000-"]
    assert hub.count("resolve") == 3
    assert bench.sent() < SIZE + 1000


def test_a_source_without_ranges_begins_again_and_is_right(bench: Bench) -> None:
    bench.hub.fault(on="cdn", times=1, action="drop", at=300_000)
    bench.hub.fault(on="cdn", times=1, action="ignore_range")
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.meter.downloaded == SIZE + 300_000


# -- what stays wrong -------------------------------------------------------------------------------------------------

CDN = r"http://localhost:\d+/acme/tiny/[0-9a-f]{64}"
LASTING = {
    "truncated": (
        {"action": "truncate", "at": 5000},
        ContentError,
        rf"{NAME}: expected {SIZE} bytes as listed by the Hub, found 5000 bytes at {CDN}\. The copy there is truncated",
    ),
    "portal": (
        {"action": "html"},
        ContentError,
        rf"{NAME}: expected {SIZE} bytes .*, found \d+ bytes at {CDN}\. It sent an HTML page: a login page",
    ),
    "flipped": (
        {"action": "flip", "at": 5000},
        ContentError,
        rf"{NAME}: the content is wrong, twice: expected sha256 [0-9a-f]{{64}}, found [0-9a-f]{{64}}, in {SIZE} bytes",
    ),
    "500": (
        {"action": "status", "status": 500},
        FetchError,
        rf"{NAME}: given up at 0 of {SIZE} bytes after 4 failures, the last: status 500 from {CDN}\. What was downl",
    ),
    "drop": (
        {"action": "drop", "at": 5000},
        FetchError,
        rf"{NAME}: given up at 5000 of {SIZE} bytes after 4 failures, the last: connection lost at byte 5000 from",
    ),
    "not found": (
        {"action": "status", "status": 404},
        FetchError,
        rf"{NAME}: {CDN} refused with status 404: it is not there\.",
    ),
}


@pytest.mark.parametrize("case", LASTING)
def test_lasting_faults(bench: Bench, case: str) -> None:
    fault, error, message = LASTING[case]
    bench.target.write_bytes(b"the old one")
    bench.hub.fault(on="cdn", **fault)
    with pytest.raises(error, match=message) as caught:
        bench.fetch()
    assert caught.type is error, "not one of its kin, which mean something else"
    assert "?" not in str(caught.value)
    assert bench.target.read_bytes() == b"the old one"


def test_failures_are_borne_in_proportion_to_what_arrived(bench: Bench) -> None:
    step = 100_000
    for at in range(step, SIZE, step):
        bench.hub.fault(on="cdn", times=1, action="drop", at=at)
    bench.policy = POLICY._replace(retries=0, bytes_per_retry=step)
    bench.fetch()
    assert bench.meter.retries == SIZE // step
    bench.policy = POLICY._replace(retries=0, bytes_per_retry=step + 1)
    bench.hub.fault(on="cdn", times=1, action="drop", at=step)
    with pytest.raises(FetchError, match="after 1 failure,"):
        bench.fetch()


REFUSALS = [
    (401, "GatedRepo", "the repository is gated: accept its licence on its page, and set token of that account"),
    (403, "GatedRepo", "the token's account is not on the repository's access list: accept its licence there"),
    (404, "RepoNotFound", "the repository does not exist, or the token may not see it"),
    (404, "RevisionNotFound", "the commit does not exist there any more"),
    (404, "EntryNotFound", "the commit does not have the file any more"),
    (401, None, "the token is missing, wrong or expired"),
    (403, None, "the token may not read it"),
    (404, None, "it is not there"),
    (451, None, "Injected by the lab: 451"),
]


@pytest.mark.parametrize(("status", "code", "why"), REFUSALS)
def test_the_hubs_refusals_are_final_and_explained(bench: Bench, status: int, code: t.Optional[str], why: str) -> None:
    headers = {"X-Error-Code": code} if code else {}
    bench.hub.fault(on="resolve", action="status", status=status, headers=headers)
    with pytest.raises(FetchError) as caught:
        bench.fetch()
    url = f"{bench.hub.endpoint}/acme/tiny/resolve/main/{NAME}"
    assert str(caught.value) == f"{NAME}: {url} refused with status {status}: {why}."
    assert bench.hub.count("resolve") == 1


def test_a_hub_that_is_gone_is_named(bench: Bench) -> None:
    bench.endpoint = "http://me:s3cr3t@127.0.0.1:1"
    with pytest.raises(FetchError) as caught:
        bench.fetch()
    asked = f"http://127.0.0.1:1/acme/tiny/resolve/main/{NAME}"
    assert f"Connection refused while asking {asked}. What was" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


# -- resuming what an earlier run left --------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [1, 300_000, SIZE - 1])
def test_a_partial_file_is_continued_and_no_byte_of_it_sent_again(bench: Bench, left: int) -> None:
    bench.partial.write_bytes(DATA[:left])
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.ranges() == [f"bytes={left}-"]
    assert bench.sent() == SIZE - left


def test_a_partial_file_that_is_whole_needs_no_request(bench: Bench) -> None:
    bench.partial.write_bytes(DATA)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.hub.count() == 0


@pytest.mark.parametrize("left", [DATA + b"too long", b"\0" * 5000, b"\0" * SIZE])
def test_a_partial_file_that_is_wrong_costs_one_more_transfer_and_no_failure(bench: Bench, left: bytes) -> None:
    bench.partial.write_bytes(left)
    bench.fetch()
    assert bench.target.read_bytes() == DATA


def test_a_wrong_prefix_does_not_use_up_the_one_retry_of_wrong_content(bench: Bench) -> None:
    bench.partial.write_bytes(b"\0" * 5000)
    bench.hub.fault(on="cdn", action="flip", at=400_000, times=1, skip=1)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
    assert bench.ranges() == ["bytes=5000-", None, None]


def test_a_link_in_the_place_of_the_partial_file_is_not_followed(bench: Bench) -> None:
    victim = bench.folder / "victim"
    victim.write_text("precious")
    bench.partial.symlink_to(victim)
    with pytest.raises(StorageError, match="Too many levels of symbolic links"):
        bench.fetch()
    assert victim.read_text() == "precious"


# -- the disk ---------------------------------------------------------------------------------------------------------


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(bench: Bench) -> None:
    victim = bench.folder / "victim"
    victim.write_text("precious")
    bench.target.symlink_to(victim)
    bench.fetch()
    assert not bench.target.is_symlink()
    assert victim.read_text() == "precious"


def test_a_disk_that_takes_no_more_is_no_network_error(bench: Bench) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        with pytest.raises(StorageError) as caught:
            bench.fetch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value) == (
        f"Writing {bench.partial} failed: File too large. What was downloaded stays there and is used by the next run."
    )
    assert bench.partial.read_bytes() == DATA[:500_000]
    bench.fetch()
    assert bench.ranges()[-1] == "bytes=500000-"


def test_only_a_regular_file_can_be_a_partial_one(bench: Bench) -> None:
    job = bench.job()
    with pytest.raises(StorageError) as caught:
        bench.fetch(job._replace(partial="/dev/null"))
    assert str(caught.value) == (
        "Writing /dev/null failed: not a regular file. What was downloaded stays there and is used by the next run."
    )
    assert bench.hub.count() == 0


def test_a_missing_folder_is_a_storage_error(bench: Bench) -> None:
    job = bench.job()
    with pytest.raises(StorageError, match="No such file or directory"):
        bench.fetch(job._replace(target=str(bench.folder / "missing" / NAME)))


# -- many files -------------------------------------------------------------------------------------------------------


def many(bench: Bench, count: int) -> list[Job]:
    files = {f"f{number}.bin": os.urandom(1000 * (number + 1)) for number in range(count)}
    bench.hub.repo("acme/tiny").commit(dict(files))
    jobs = []
    for name, data in files.items():
        file = RemoteFile(name, len(data), SHA256, hashlib.sha256(data).hexdigest())
        jobs.append(Job(file, str(bench.folder / f"{name}.part"), str(bench.folder / name)))
    return jobs


def test_files_come_side_by_side_and_the_largest_first(bench: Bench) -> None:
    jobs = many(bench, 20)
    ticks: list[int] = []
    fetch_all(jobs, 1, bench.fetcher, bench.stop, lambda: ticks.append(len(bench.meter.finished)), interval=0.01)
    assert [done.job for done in bench.meter.finished] == jobs[::-1]
    assert ticks[-1] == 20
    for job in jobs:
        pathlib.Path(job.target).unlink()
    fetch_all(jobs, 8, bench.fetcher, bench.stop, lambda: None)
    assert all(pathlib.Path(job.target).stat().st_size == job.file.size for job in jobs)


def test_the_first_failure_stops_the_others_at_once_and_keeps_what_they_have(bench: Bench) -> None:
    jobs = many(bench, 3)
    bench.hub.fault(on="resolve", match="f0", action="status", status=403, delay=0.5)
    bench.hub.fault(on="resolve", match="f[12]", action="trickle", rate=200)
    bench.policy = POLICY._replace(stall_timeout=30)
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"f0.bin: .* refused with status 403: the token may not read it\."):
        fetch_all(jobs, 3, bench.fetcher, bench.stop, lambda: None)
    assert time.monotonic() - began < 12


def test_a_stop_ends_the_transfer_and_keeps_what_arrived(bench: Bench) -> None:
    bench.hub.fault(on="cdn", action="trickle", rate=100_000)
    threading.Timer(0.6, bench.stop.set).start()
    with pytest.raises(Stopped, match=rf"{NAME}: stopped at \d+ of {SIZE} bytes"):
        fetch_all([bench.job()], 1, bench.fetcher, bench.stop, lambda: None, interval=0.01)
    kept = bench.partial.read_bytes()
    assert 0 < len(kept) < SIZE
    assert DATA.startswith(kept)


def test_the_limit_holds_for_all_workers_together() -> None:
    now = [0.0]
    limiter = Limiter(1000, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    for _look in range(50):
        limiter.take(100)
    assert now[0] == pytest.approx(5.0, abs=0.2)
    unlimited = Limiter(0, lambda: now[0], lambda seconds: pytest.fail("slept"))
    unlimited.take(1 << 40)


def test_an_unpaid_pause_gives_no_credit() -> None:
    now = [0.0]
    limiter = Limiter(1000, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    now[0] = 100.0
    for _look in range(10):
        limiter.take(1000)
    assert now[0] == pytest.approx(110.0, abs=1.2)


def test_the_token_never_reaches_the_other_origin(bench: Bench) -> None:
    bench.hub.catalog.users["hf_x"] = "me"
    bench.authorization = "Bearer hf_x"
    bench.fetch()
    assert [entry.authorization for entry in bench.hub.log.find("resolve")] == [True]
    assert bench.hub.leaks() == []


def test_what_a_proxy_compressed_against_our_will_is_right(
    hub: Hub, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the lab's Hub has no such fault: it serves the compressed bytes under a header that says so
    packed = gzip.compress(DATA)
    hub.repo("acme/tiny").commit({NAME: packed})
    hub.fault(on="cdn", action="header", headers={"Content-Encoding": "gzip"})
    bench = Bench(hub, tmp_path)
    monkeypatch.setattr(_supply_http, "MIN_BLOCK", 512)
    bench.fetch()
    assert bench.target.read_bytes() == DATA
