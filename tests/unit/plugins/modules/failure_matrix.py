# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with a download, what huggingface_hub 2.4 does then, and what hf_snapshot does.

Every row has a test of its name in test_failure_matrix.py, or names one elsewhere. docs/downloads.md shows the table;
``python tests/unit/plugins/modules/failure_matrix.py`` writes it there again.
"""

from __future__ import annotations

import pathlib
import typing as t

DOCUMENT = pathlib.Path(__file__).resolve().parents[4] / "docs/downloads.md"
BEGIN, END = "<!-- failure matrix: begin -->\n", "<!-- failure matrix: end -->\n"


class Row(t.NamedTuple):
    id: str
    #: what happens
    what: str
    #: what the library does
    library: str
    #: what hf_snapshot does
    ours: str
    #: FILE::FUNCTION where the test is not test_ID in test_failure_matrix.py
    test: str = ""

    @property
    def function(self) -> str:
        return self.test.partition("::")[2] or f"test_{self.id}"


SOURCES = "tests/unit/plugins/modules/test_hf_snapshot_sources.py::"

ROWS = (
    # nothing goes wrong
    Row(
        "cold",
        "cold, pinned commit",
        "listing pages, HEAD and GET per file; no digest is compared",
        "one request for the listing, one per file, every file proved by its digest",
    ),
    Row(
        "again",
        "second run, pinned or by branch",
        "0 or 1 request",
        "0 or 1 request; size, time and inode are compared with the manifest",
    ),
    # interrupted runs
    Row(
        "killed",
        "kill -9 or SIGTERM on the way, run again",
        "all bytes again (since 1.18); its unfinished files stay for ever",
        "goes on at the byte where it was; nothing is left over",
    ),
    Row(
        "killed_releases",
        "the same beside other releases of the library",
        "resumes up to 1.17, not since",
        "resumes beside every release",
        "tests/versions/test_hub_versions.py::test_a_download_beside_each_release_which_then_agrees",
    ),
    Row(
        "interrupted",
        "SIGINT",
        "ends after the running files have ended, minutes with large shards",
        "ends at once, says where it was, and goes on from there",
    ),
    Row(
        "ten_kills",
        "kill -9 at ten random points of a download of several files",
        "never ends",
        "the same result, and only what a block held is sent twice",
    ),
    # damage on the disk
    Row(
        "flipped_old",
        "a byte flipped, time kept",
        "not noticed, without a request",
        "`verify: full` names the file with both digests, and repairs it alone",
    ),
    Row(
        "flipped_new",
        "a byte flipped, time changed",
        "downloaded again",
        "hashed, named, repaired; nothing else is fetched",
    ),
    Row(
        "truncated_disk",
        "a file truncated, time kept or not",
        "not noticed when the time is kept",
        "noticed by its size with every `verify`",
    ),
    Row(
        "truncated_cache",
        "a blob truncated in the library's cache",
        "not noticed",
        "the cache is not believed: what comes out of it is proved like all else",
    ),
    Row(
        "edited_soon",
        "config.json edited within a second of its download",
        "not noticed",
        "noticed: times are compared to the nanosecond",
    ),
    Row(
        "copied",
        "`.cache` removed, or the folder copied with or without times",
        "small files are downloaded again, unless times were kept",
        "no byte is downloaded; what has another inode or time is hashed",
    ),
    Row(
        "linked",
        "a file, or a folder above it, is a link",
        "followed",
        "a link is no file of the snapshot: named, and replaced; a linked folder is an error",
    ),
    # the network
    Row(
        "dropped",
        "connection closed on the way, once or four times",
        "resumed, in the same process only",
        "resumed at the byte",
    ),
    Row(
        "dropped_always",
        "connection closed always",
        "gives up after 5 s, deletes the partial file",
        "gives up after `retries`, says where; the next run goes on there",
    ),
    Row("reset", "TCP reset", "not retried, partial file deleted", "resumed at the byte"),
    Row("server_error", "500 or 503 from the file server", "not retried", "retried, offset kept"),
    Row(
        "expired",
        "403 from the file server: the signature has expired",
        "not retried; told to check the rights of the token",
        "resolved again for a new address, offset kept",
    ),
    Row(
        "limited",
        "429 with Retry-After or RateLimit, once or always",
        "obeyed; gives up after 5",
        "obeyed; gives up after `retries`, named as what it is",
    ),
    Row(
        "resolve_error",
        "5xx or 429 where a file is resolved, once or always",
        "retried; then LocalEntryNotFoundError",
        "retried; then the status and the address",
    ),
    Row(
        "tree_error", "5xx or 429 from the tree API", "retried; then LocalEntryNotFoundError", "that API is not needed"
    ),
    Row(
        "listing_error",
        "5xx or 429 from model_info, once or always",
        "LocalEntryNotFoundError at the first",
        "retried with Retry-After; then the status",
    ),
    Row("stall", "silence on the way, once", "10 s, then resumed", "`stall_timeout`, then resumed"),
    Row(
        "stall_always",
        "silence always",
        "ReadTimeout after 65 s, partial file deleted",
        "gives up after `retries`, partial file kept",
    ),
    Row(
        "trickle",
        "20 kB/s for ever",
        "never fails",
        "below `min_rate` for `stall_timeout`: a new connection; gives up in the end",
    ),
    Row(
        "truncated_source",
        "a complete answer that is too short",
        "error, partial file deleted",
        "once: fetched again; twice: error with file, both sizes and address",
    ),
    Row(
        "portal",
        "an HTML page instead of the file",
        "error about its size",
        "the same, and says that a portal is likely",
    ),
    Row("no_ranges", "the server ignores Range", "starts again", "starts again, and is right"),
    Row(
        "gzip",
        "compressed and chunked without a length",
        "ok",
        "ok, and proved",
        "tests/unit/plugins/module_utils/test__fetch.py::test_what_a_proxy_compressed_against_our_will_is_right",
    ),
    # damage at the source
    Row(
        "flipped_source",
        "a flipped byte, size right",
        "accepted",
        "once: fetched again; twice: error with file, expected, found and address",
    ),
    Row(
        "wrong_digest", "the listing has another digest", "accepted, and noted as right", "error as for a flipped byte"
    ),
    Row("wrong_size", "the listing has another size", "error about the size", "error with both sizes"),
    Row(
        "xet",
        "Xet is offered; its store has flipped or missing data, or is not there (mirrors)",
        "accepted; 0 bytes without an error; RuntimeError without falling back to HTTP",
        "HTTP is used, which such a Hub has too; every digest is compared",
    ),
    Row(
        "broken_checkpoint",
        "shards that the index names are missing, or a header and its file disagree",
        "accepted",
        "error: published broken",
    ),
    # the disk
    Row(
        "disk_full",
        "the disk is full",
        "error in the end, after warnings per file",
        "refused before the first byte, with numbers",
    ),
    Row(
        "filled_midway",
        "another process fills the disk midway",
        "the same",
        "error that names the file; run again with room, it goes on where it was",
    ),
    Row(
        "read_only",
        "the file system is read-only",
        "error",
        "refused before the first byte; a complete snapshot there is fine",
    ),
    Row(
        "not_mounted",
        "the file system is not mounted",
        "downloads into the mount point",
        "refused before the first byte",
    ),
    Row(
        "nobody",
        "the folder belongs to root, run as nobody",
        "PermissionError, even if all is there",
        "complete: fine, `verified` too; else refused before the first byte",
    ),
    # several files, several runs
    Row(
        "one_refused",
        "one shard is refused at once, others are slow",
        "error after the others have ended",
        "error at once; what the others have is kept",
    ),
    Row(
        "update_fails",
        "upstream changed a shard, and its download fails",
        "the old shard is already deleted",
        "the old commit's snapshot is another folder, untouched",
    ),
    Row("moves_during", "the branch moves during the run", "one commit", "one commit"),
    Row(
        "moved",
        "the branch moved before the next run",
        "files that upstream removed stay",
        "another folder, with its own files only",
    ),
    Row(
        "two_runs",
        "two runs at once on one target",
        "each file once, by locks of flock",
        "each file once, by a lock that works on Lustre and GPFS too; says who has it",
        "tests/unit/plugins/modules/test_hf_snapshot.py::test_two_runs_at_once_do_the_work_once",
    ),
    # access
    Row(
        "gated",
        "gated, without a token or without permission",
        "401 or 403, after the listing",
        "the same in check mode, with what to do",
    ),
    Row("bad_token", "wrong token", "401", "says that the token is wrong, and never shows it"),
    Row("unknown", "unknown repository, branch or commit", "an exception for each", "a sentence for each"),
    # no Hub
    Row(
        "offline",
        "no Hub; complete, or nothing there",
        "ok, or LocalEntryNotFoundError",
        "ok without a request; or what to check",
    ),
    Row("offline_partial", "no Hub; a shard is missing", "sometimes ok", "error that names the file"),
    Row(
        "unreliable_hub",
        "no Hub, or 500 or 403 from it; an unfinished folder is there",
        "ok, returns the unfinished folder",
        "error; never a success without every file proved",
    ),
    Row("unrelated", "no Hub; an unrelated file is in the folder", "ok", "error"),
    # sources before the Hub
    Row(
        "bad_mirror",
        "a mirror is gone, silent, slow, wrong, or behind a portal",
        "HF_ENDPOINT is one address; error, or wrong content accepted",
        "left for the next source; what it sent is kept unless wrong; not asked again after 3 files",
        SOURCES + "test_a_bad_mirror_is_left_for_the_hub",
    ),
    Row(
        "mixed",
        "a source lies about the first half of a file, another gives the rest",
        "-",
        "found by the digest; the honest one brings it whole",
        SOURCES + "test_a_lie_that_another_source_completed_is_found_and_not_built_on",
    ),
    Row(
        "lacking_peer",
        "another host has a part of the files",
        "-",
        "those come from it, the rest from the next source",
        SOURCES + "test_a_peer_with_a_part_of_the_files",
    ),
    Row(
        "dying_peer",
        "another host dies midway",
        "-",
        "its part is kept, the next source gives the rest",
        SOURCES + "test_a_peer_that_dies_midway_leaves_its_part",
    ),
    Row(
        "busy_peer",
        "another host is still getting the file, and gets no further",
        "-",
        "other files first; given up after `stall_timeout` without progress",
        SOURCES + "test_a_peer_that_gets_no_further_is_given_up",
    ),
    Row(
        "adopted",
        "the files are in a cache or folder on the host",
        "copied, not verified, the disk fills twice",
        "reflink or hard link, then proved; never written through",
        SOURCES + "test_files_of_a_folder_are_taken_without_a_copy",
    ),
    Row(
        "carried_in",
        "no Hub in reach, the snapshot was carried in on a disk",
        "no request, nothing verified",
        "adopted by its manifest, every byte proved, no request",
        SOURCES + "test_a_snapshot_that_was_carried_in_with_its_manifest_is_adopted",
    ),
    Row(
        "out_of_time",
        "the time of the whole task is over",
        "no such limit",
        "ends within seconds, also when servers are silent; goes on there next time",
        SOURCES + "test_the_timeout_ends_the_task_and_keeps_what_arrived",
    ),
    # secrets
    Row(
        "secrets",
        "token and signed addresses",
        "signed addresses in messages and logs",
        "in no output, file or command line",
        "tests/unit/plugins/modules/test_hf_snapshot.py::test_the_token_appears_nowhere_but_at_the_hub",
    ),
    Row(
        "same_host",
        "Hub and file server on one host name, different ports",
        "token sent to the file server (1.30 to 2.0)",
        "an origin is scheme, host and port: not sent",
    ),
    # shapes
    Row("odd_names", "spaces, non-ASCII, quotes, `#?%`, long names, a path with spaces", "ok", "ok"),
    Row(
        "evil_names", "names that lead out of the folder", "refused since 1.26", "refused, unless left out by patterns"
    ),
    Row("small_files", "5,000 small files", "5,000 HEAD and GET, listing in pages", "one listing, 5,000 GET"),
    Row("huge_file", "one file of 60 GB", "over 50 GB refused without Xet", "no limit; resumed beyond 4 GiB"),
    Row("empty", "an empty repository", "ok, an empty folder", "error: nothing to download"),
    Row(
        "permissions",
        "umask, owner, group, modes, SELinux context",
        "by umask; files of 0600 in shared caches",
        "by umask, or as the options say, for everything made",
    ),
)


def table() -> str:
    lines = ["| what happens | huggingface_hub 2.4 | hf_snapshot | test |", "|---|---|---|---|"]
    for row in ROWS:
        lines.append("| " + " | ".join((row.what, row.library, row.ours, f"`{row.function}`")) + " |")
    return "\n".join(lines) + "\n"


def document() -> str:
    """The document as it should be."""
    head, _begin, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    return head + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
