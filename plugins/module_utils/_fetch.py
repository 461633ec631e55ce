# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The byte transfer: files from the Hub onto the disk, hashed while they arrive, resumed wherever they broke off.

huggingface_hub keeps nothing of a file that broke off (since 1.18), retries neither a TCP reset nor a 5xx, and checks
no content. Here every file has a partial file of a fixed name, so that a run killed anywhere goes on where it was; the
prefix is hashed again on resume, and what does not have the published digest never gets its final name.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import queue
import ssl
import stat
import threading
import time
import typing as t
import zlib

from ansible_collections.modelfleet.serving.plugins.module_utils._http import (
    Answer,
    Http,
    origin_of,
    redact,
    retry_after,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    SHA256,
    RemoteFile,
)

MIN_BLOCK = 1 << 14
MAX_BLOCK = 1 << 22
#: answers worth another try; 401 and 403 from another origin are signed URLs that expired
RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})


class FetchError(Exception):
    """A file could not be had; the text says what was tried and what to do."""


class Stopped(FetchError):
    """Somebody asked for an end; partial files stay."""


class ContentError(FetchError):
    """What the Hub sends is not what it lists."""


class StorageError(FetchError):
    """The disk under the snapshot refused."""


class Interruption(Exception):
    """A transfer broke off in a way that another try may mend."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class WrongSize(Interruption):
    """The server has another size for the file than the listing."""


class Policy(t.NamedTuple):
    """How hard to try. A file may fail ``retries`` times, and once more for every ``bytes_per_retry`` it got."""

    retries: int = 8
    bytes_per_retry: int = 64 << 20
    backoff: float = 1.0
    max_backoff: float = 30.0
    #: the longest a server's Retry-After is obeyed
    max_wait: float = 600.0
    #: seconds without a byte, and the window of min_rate
    stall_timeout: float = 60.0
    #: bytes a second below which a connection is given up for a new one
    min_rate: int = 10 * 1024


class Job(t.NamedTuple):
    file: RemoteFile
    url: str
    partial: str
    target: str


class Done(t.NamedTuple):
    """A file that has its final name."""

    job: Job
    mtime_ns: int
    inode: int


def hasher(file: RemoteFile) -> t.Any:
    """A hash object that gives ``file.digest`` when it has seen the content."""
    if file.algorithm == SHA256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)


class Meter:
    """What the workers have moved, for the progress line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.downloaded = 0
        self.retries = 0
        self.message = ""
        #: bytes in place by path, of files begun in this run
        self.current: dict[str, int] = {}
        self.finished: list[Done] = []

    def at(self, path: str, offset: int, moved: int = 0) -> None:
        with self._lock:
            self.current[path] = offset
            self.downloaded += moved

    def retry(self, message: str) -> None:
        with self._lock:
            self.retries += 1
            self.message = message

    def done(self, done: Done) -> None:
        with self._lock:
            self.finished.append(done)


class Limiter:
    """Keeps the sum of all workers under ``rate`` bytes a second; 0 is no limit."""

    def __init__(self, rate: int, clock: t.Callable[[], float], sleep: t.Callable[[float], object]) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def take(self, count: int) -> None:
        if not self._rate:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + count / self._rate
            wait = self._free_at - now
        # a second of credit would come out as a burst; a tenth keeps the rate even
        if wait > 0.1:
            self._sleep(wait)


class Partial:
    """The partial file of a job, with the hash of what is in it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._hash = hasher(job.file)
        self.offset = 0
        self._file = storage(job.partial, lambda: _open_private(job.partial))
        storage(job.partial, self._take_over)
        self.resumed = self.offset

    def _take_over(self) -> None:
        """Hash what an earlier run left."""
        buffer = memoryview(bytearray(MAX_BLOCK))
        while self.offset < self._job.file.size:
            count = self._file.readinto(buffer[: self._job.file.size - self.offset])
            if not count:
                break
            self._hash.update(buffer[:count])
            self.offset += count
        self._file.truncate(self.offset)

    def write(self, data: memoryview) -> None:
        self._hash.update(data)
        self.offset += len(data)
        storage(self._job.partial, lambda: self._write_all(data))

    def _write_all(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]

    def restart(self) -> None:
        """Begin the file again: what is there cannot be continued."""
        self._file.seek(0)
        self._file.truncate(0)
        self._hash = hasher(self._job.file)
        self.offset = 0

    def digest(self) -> str:
        return str(self._hash.hexdigest())

    def publish(self) -> Done:
        """Give the proved content its final name, in one step and on stable storage."""

        def rename() -> os.stat_result:
            os.fsync(self._file.fileno())
            os.replace(self._job.partial, self._job.target)
            folder = os.open(os.path.dirname(self._job.target), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            return os.fstat(self._file.fileno())

        seen = storage(self._job.target, rename)
        return Done(self._job, seen.st_mtime_ns, seen.st_ino)

    def close(self) -> None:
        self._file.close()


def _open_private(path: str) -> t.Any:
    """Open ``path`` for reading and writing, made if missing; never through a link that somebody put there."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileExistsError(17, "not a regular file", path)
    return os.fdopen(fd, "r+b", buffering=0)


_T = t.TypeVar("_T")


def storage(path: str, operation: t.Callable[[], _T]) -> _T:
    """Run a disk operation; its OSError becomes a :class:`StorageError`, so that it can't pass for a network error."""
    try:
        return operation()
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise StorageError(
            f"Writing {path} failed: {reason}. What was downloaded stays there and is used by the next run."
        ) from exc


class Fetcher:
    """One worker: takes jobs one by one through its own connections."""

    def __init__(
        self,
        http_client: Http,
        policy: Policy,
        meter: Meter,
        limiter: Limiter,
        stop: threading.Event,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http_client
        self._policy = policy
        self._meter = meter
        self._limiter = limiter
        self._stop = stop
        self._clock = clock
        self._buffer = memoryview(bytearray(MAX_BLOCK))

    def fetch(self, job: Job) -> Done:
        """Have the file of ``job`` in place. Raises :class:`FetchError`."""
        wrong = 0
        while True:
            part = Partial(job)
            try:
                self._meter.at(job.file.path, part.offset)
                found = self._fill(job, part)
                if found == job.file.digest:
                    done = part.publish()
                    self._meter.done(done)
                    return done
                # a bad prefix of an earlier run is not the Hub's fault: it does not count
                wrong += 0 if part.resumed else 1
                part.restart()
            finally:
                part.close()
            if wrong > 1:
                raise ContentError(
                    f"{job.file.path}: the content is wrong, twice: expected {job.file.algorithm} {job.file.digest}, "
                    f"found {found}, in {job.file.size} bytes from {redact(job.url)}. The copy at the source or a "
                    "proxy on the way is damaged; nothing of it was put into the snapshot."
                )
            self._meter.retry(f"{job.file.path}: wrong content, fetched once more")

    def _fill(self, job: Job, part: Partial) -> str:
        """Bring ``part`` to its full size, whatever it takes within the policy; the digest it then has."""
        failures = wrong_sizes = 0
        got = -part.offset
        while part.offset < job.file.size:
            self._check_stop(job, part)
            begun = part.offset
            try:
                self._stream(job, part)
            except Interruption as exc:
                failures += 1
                got += max(0, part.offset - begun)
                wrong_sizes += isinstance(exc, WrongSize)
                if wrong_sizes > 1:
                    raise ContentError(f"{job.file.path}: {exc}") from None
                if failures > self._policy.retries + max(0, got) // self._policy.bytes_per_retry:
                    raise FetchError(
                        f"{job.file.path}: given up at {part.offset} of {job.file.size} bytes after {failures} "
                        f"failures, the last: {exc}. What was downloaded is kept; run again to continue."
                    ) from None
                self._pause(job, exc, failures)
            self._meter.at(job.file.path, part.offset)
        return part.digest()

    def _check_stop(self, job: Job, part: Partial) -> None:
        if self._stop.is_set():
            raise Stopped(f"{job.file.path}: stopped at {part.offset} of {job.file.size} bytes")

    def _pause(self, job: Job, why: Interruption, failures: int) -> None:
        self._meter.retry(f"{job.file.path}: {why}")
        wait = min(self._policy.backoff * 2 ** (failures - 1), self._policy.max_backoff)
        if why.wait is not None:
            wait = min(max(why.wait, 0.0), self._policy.max_wait)
        self._stop.wait(wait)

    # -- one attempt --------------------------------------------------------------------

    def _stream(self, job: Job, part: Partial) -> None:
        """One request; returns when its body ended, raises :class:`Interruption` or :class:`FetchError`."""
        wanted = {"Range": f"bytes={part.offset}-"} if part.offset else {}
        try:
            answer = self._http.get(job.url, wanted)
        except ssl.SSLCertVerificationError as exc:
            raise FetchError(
                f"{job.file.path}: the certificate of {redact(job.url)} is not trusted: {exc.verify_message}. Put the "
                "authority that signed it into the host's trust store (update-ca-certificates)."
            ) from None
        except (OSError, http.client.HTTPException) as exc:
            raise Interruption(f"{_words(exc)} while asking {redact(job.url)}") from None
        try:
            self._check_head(job, part, answer)
            self._copy_body(job, part, answer)
        except BaseException:
            self._http.drop(origin_of(answer.url))
            raise

    def _check_head(self, job: Job, part: Partial, answer: Answer) -> None:
        where = redact(answer.url)
        if answer.status == 416:
            part.restart()
            raise Interruption(f"{where} does not have the rest of the file, begun again")
        if answer.status in RETRY_STATUS or (answer.status in (401, 403) and answer.elsewhere):
            raise Interruption(f"status {answer.status} from {where}", retry_after(answer.headers))
        if answer.status not in (200, 206):
            raise FetchError(refusal(job, answer))
        if answer.status == 200 or not answer.headers.get("Content-Range", "").startswith(f"bytes {part.offset}-"):
            if answer.status == 206:
                part.restart()
                raise Interruption(f"{where} sent another range than asked for, begun again")
            # no Range support there: the whole file comes again
            part.restart()
        size = None if answer.headers.get("Content-Encoding") else answer.size()
        if size is not None and size != job.file.size:
            raise WrongSize(_wrong_size(job, answer, size))

    def _copy_body(self, job: Job, part: Partial, answer: Answer) -> None:
        policy = self._policy
        read = _reader(answer, self._buffer)
        block = MIN_BLOCK
        window_start, window_bytes = self._clock(), 0
        while part.offset < job.file.size:
            self._check_stop(job, part)
            began = self._clock()
            try:
                data = read(min(block, job.file.size - part.offset))
            except (OSError, http.client.HTTPException, zlib.error) as exc:
                raise Interruption(f"{_words(exc)} from {redact(answer.url)} at byte {part.offset}") from None
            if not data:
                break
            part.write(data)
            self._meter.at(job.file.path, part.offset, len(data))
            self._limiter.take(len(data))
            now = self._clock()
            # about a quarter of a second a block: even progress and little to lose on a slow line, few calls on a fast
            # one. What comes first comes out of buffers and says nothing about the line: so no more than twice as much
            block = max(MIN_BLOCK, min(MAX_BLOCK, 2 * block, int(len(data) / max(now - began, 1e-6) / 4)))
            window_bytes += len(data)
            if now - window_start >= policy.stall_timeout:
                if window_bytes < policy.min_rate * (now - window_start):
                    rate = window_bytes / (now - window_start)
                    raise Interruption(f"only {rate:.0f} bytes/s from {redact(answer.url)}, new connection")
                window_start, window_bytes = now, 0
        if part.offset < job.file.size:
            self._ended_early(job, part, answer)

    def _ended_early(self, job: Job, part: Partial, answer: Answer) -> None:
        """The body is over before the file is: a lost connection, or a complete answer that is too short."""
        if answer.response.length or answer.response.length is None and not answer.response.chunked:
            raise Interruption(f"connection lost at byte {part.offset} from {redact(answer.url)}")
        found = part.offset
        part.restart()
        raise WrongSize(_wrong_size(job, answer, found))


def _reader(answer: Answer, buffer: memoryview) -> t.Callable[[int], memoryview]:
    """How to read the next bytes of a body; some proxies compress although they were asked not to."""
    response = answer.response
    if answer.headers.get("Content-Encoding", "identity") == "identity":

        def plain(limit: int) -> memoryview:
            return buffer[: response.readinto(buffer[:limit])]

        return plain
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def zipped(limit: int) -> memoryview:
        while not unzip.eof:
            raw = unzip.unconsumed_tail or response.read(MIN_BLOCK)
            data = unzip.decompress(raw, limit)
            if data or not raw:
                return memoryview(data)
        return memoryview(b"")

    return zipped


def _words(exc: BaseException) -> str:
    """What a network exception says, which for some is only their name."""
    if isinstance(exc, TimeoutError) or "timed out" in str(exc):
        return "no byte in time"
    return redact(getattr(exc, "strerror", None) or str(exc) or type(exc).__name__)


def _wrong_size(job: Job, answer: Answer, size: int) -> str:
    page = answer.headers.get_content_type() == "text/html" and not job.file.path.endswith((".html", ".htm"))
    hint = " It sent an HTML page: a login page of a proxy or portal, most likely." if page else ""
    return (
        f"expected {job.file.size} bytes as listed by the Hub, found {size} bytes at {redact(answer.url)}.{hint} "
        "The copy there is truncated or damaged; nothing of it was put into the snapshot."
    )


class Refusal(t.NamedTuple):
    """Why the Hub refuses a file, by its own error code or else by the status, and what to do."""

    code: str
    status: int
    text: str


REFUSALS = (
    Refusal("GatedRepo", 401, "the repository is gated: accept its licence on its page, and set token of that account"),
    Refusal("GatedRepo", 403, "the token's account is not on the repository's access list: accept its licence there"),
    Refusal("RepoNotFound", 0, "the repository does not exist, or the token may not see it"),
    Refusal("RevisionNotFound", 0, "the commit does not exist there any more"),
    Refusal("EntryNotFound", 0, "the commit does not have the file any more"),
    Refusal("", 401, "the token is missing, wrong or expired"),
    Refusal("", 403, "the token may not read it"),
    Refusal("", 404, "it is not there"),
)


def refusal(job: Job, answer: Answer) -> str:
    """Explain a final refusal."""
    code = answer.headers.get("X-Error-Code", "")
    why = next(
        (row.text for row in REFUSALS if row.code in ("", code) and row.status in (0, answer.status)),
        answer.headers.get("X-Error-Message") or "no reason given",
    )
    return f"{job.file.path}: {redact(answer.url)} refused with status {answer.status}: {why}."


def fetch_all(
    jobs: t.Sequence[Job],
    workers: int,
    make_fetcher: t.Callable[[], Fetcher],
    stop: threading.Event,
    tick: t.Callable[[], None],
    interval: float = 0.5,
) -> None:
    """Fetch ``jobs``, largest first, ``workers`` at a time; ``tick`` is called while that goes on.

    The first failure stops the others within a block; what they have stays for the next run.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in sorted(jobs, key=lambda item: (-item.file.size, item.file.path)):
        waiting.put(job)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            fetcher = make_fetcher()
            while not stop.is_set():
                fetcher.fetch(waiting.get_nowait())
        except queue.Empty:
            pass
        except BaseException as exc:
            failures.append(exc)
            stop.set()

    threads = [threading.Thread(target=work, daemon=True) for _number in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(interval)
            tick()
    tick()
    # the stops are echoes of the first failure
    for failure in sorted(failures, key=lambda exc: isinstance(exc, Stopped)):
        raise failure


__all__ = (
    "ContentError",
    "Done",
    "FetchError",
    "Fetcher",
    "Interruption",
    "Job",
    "Limiter",
    "Meter",
    "Policy",
    "Stopped",
    "StorageError",
    "fetch_all",
    "hasher",
    "refusal",
    "storage",
)
