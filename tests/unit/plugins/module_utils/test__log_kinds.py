# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kind of line a line is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils import _log_kinds
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import _KINDS, _PATTERNS, _ROWS
from ansible_collections.modelfleet.serving.plugins.module_utils._log_kinds import (
    BAR,
    BLANK,
    CONTINUED,
    CONTINUED_IN_MAIN,
    MATTERS,
    PLAIN,
    QUIET,
    REPEATS,
    Kinds,
    keys,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import is_echo, strip_ansi

HEAD = "(EngineCore pid=813) INFO 11-30 22:55:46 [x.py:47] "
KINDS = {
    "": BLANK,
    "  \t": BLANK,
    "12 345": BLANK,
    "anything": PLAIN,
    f"{HEAD}something": PLAIN,
    "(EngineCore pid=813)   File \"x.py\", line 12, in f": CONTINUED,
    "(EngineCore pid=813) ERROR 11-30 22:55:46 [core.py:1]     self.run()": CONTINUED,
    '\x1b[0;36m(EngineCore pid=813)\x1b[0;0m   File "x.py", line 12, in f': CONTINUED,
    "\x1b0Application startup complete.": MATTERS,
    "(EngineCore pid=813) ": CONTINUED,
    "(EngineCore pid=813) SomethingNew: text": PLAIN,
    "(EngineCore pid=813) ERROR 11-30 22:55:46 [core.py:1] SomethingNew: text": PLAIN,
    "ERROR 11-30 22:55:46 [core.py:1] SomethingNew: text": PLAIN,
    '  File "/opt/vllm/lib/python3.12/site-packages/vllm/entrypoints/cli/main.py", line 75, in main': CONTINUED_IN_MAIN,
    '(APIServer pid=161) INFO:     10.0.0.1:54838 - "GET /health HTTP/1.1" 200 OK': QUIET,
    '\x1b[32mINFO\x1b[0m:     10.0.0.1:54838 - "\x1b[1mGET /health HTTP/1.1\x1b[0m" \x1b[32m200 OK\x1b[0m': QUIET,
    'INFO:     10.0.0.1:1 - "POST /v1/x?y=No%20available%20shared%20memory%20broadcast%20block HTTP/1.1" 200 OK': QUIET,
    f"{HEAD}Engine 000: Avg prompt throughput: 12.0 tokens/s, Running: 8 reqs": QUIET,
    "Capturing CUDA graphs (decode, FULL):  35%|███▌      | 12/35 [00:03<00:06,  3.52it/s]": BAR,
    "Loading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28:36, 34.34s/it]": MATTERS,
    "80%|of what": MATTERS,
    f"Capturing CUDA graphs:  35%|███▌      | 12/35 [00:03<00:06,  3.52it/s]{HEAD}Graph capturing finished": MATTERS,
    f"{HEAD}Loading weights took 67.26 seconds": MATTERS,
    "Traceback (most recent call last):": MATTERS,
    f"{HEAD}non-default args: {{'model_tag': 'm'}}": REPEATS,
    f"{HEAD}Received request cmpl-1: prompt: '{'CUDA out of memory. ' * 30}', params: x": PLAIN,
}  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), KINDS.items())
def test_kind_of_a_line(text: str, kind: int) -> None:
    assert _KINDS[keys(text.encode())[0]] == kind


def test_lines_that_differ_in_digits_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = Kinds({"known 42": [7]})
    asked: list[str] = []
    find_out = kinds._find_out
    monkeypatch.setattr(kinds, "_find_out", lambda text: asked.append(text) or find_out(text))
    lines = "known 42\nknown 4711\nother 1\nother\nknown 42"
    assert [kinds[key] for key in keys(lines.encode())] == [MATTERS, MATTERS, PLAIN, PLAIN, MATTERS]
    assert asked == ["known ", "other ", "other"]
    assert kinds.rows(keys(b"known 1")[0]) == (7,)
    assert kinds.rows(keys(b"other")[0]) == ()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_log_kinds, "_REMEMBERED", 1000)
    monkeypatch.setattr(_log_kinds, "_LONGEST", 100)
    kinds = Kinds({"known": [7]})
    for number in range(500):
        name = "".join("abcdefghij"[int(digit)] for digit in f"{number:06}")
        for text in (name, f"known {name}", f"known {name * 40}"):
            kinds[keys(text.encode())[0]]
            kinds.rows(keys(text.encode())[0])
    assert 0 < sum(map(len, kinds)) <= 1000
    assert len(kinds._rows) <= len(kinds)


@pytest.mark.parametrize("number", range(len(_ROWS)), ids=lambda number: _ROWS[number].id)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_row_is_offered_the_lines_it_matches(number: int, data: st.DataObject) -> None:
    drawn = data.draw(st.from_regex(_PATTERNS[number]))
    text = strip_ansi(drawn.replace("\n", " ").replace("\r", " "))
    if not _PATTERNS[number].search(text) or is_echo(text):
        return
    key = keys(text.encode())[0]
    # an access log's line has no rows; a bar has its own way to its row
    assert _KINDS[key] in (MATTERS, BAR, QUIET, REPEATS)
    assert number in _KINDS.rows(key)
