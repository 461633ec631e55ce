# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.filter.systemd_exec import systemd_exec

CASES = [
    (["/bin/a"], "/bin/a"),
    (["/bin/a", "--flag", "x=1,2:3@4+5%"], "/bin/a --flag x=1,2:3@4+5%%"),
    (["/bin/a", "two words"], '/bin/a "two words"'),
    (["/bin/a", ""], '/bin/a ""'),
    (["/bin/a", "$HOME", "${HOME}"], '/bin/a $$HOME "$${HOME}"'),
    (["/bin/a", "100%"], "/bin/a 100%%"),
    (["/bin/a", '{"a":"b"}'], '/bin/a "{\\"a\\":\\"b\\"}"'),
    (["/bin/a", "back\\slash"], '/bin/a "back\\\\slash"'),
    (["/bin/a", "it's"], '/bin/a "it\'s"'),
    (["/bin/a", ";"], '/bin/a ";"'),
    (["/bin/a", "line\nbreak\ttab\x01"], '/bin/a "line\\nbreak\\ttab\\x01"'),
    (["/bin/a", "größe"], '/bin/a "größe"'),
]

REFUSED: list[tuple[t.Any, str]] = [
    ([], "systemd_exec: expected a list of strings that begins with a program, found []"),
    ("/bin/a", "systemd_exec: expected a list of strings that begins with a program, found '/bin/a'"),
    (["/bin/a", 1], "systemd_exec: expected a list of strings that begins with a program, found ['/bin/a', 1]"),
    (["vllm"], "systemd_exec: the program must be a plain absolute path, found 'vllm'"),
    (["-/bin/a"], "systemd_exec: the program must be a plain absolute path, found '-/bin/a'"),
    (["/opt/$v/a"], "systemd_exec: the program must be a plain absolute path, found '/opt/$v/a'"),
    (["/bin/a", "\0"], "systemd_exec: a NUL character can't be part of an argument, found in '\\x00'"),
]


@pytest.mark.parametrize(("argv", "line"), CASES)
def test_line(argv: list[str], line: str) -> None:
    assert systemd_exec(argv) == line


@pytest.mark.parametrize(("argv", "message"), REFUSED)
def test_what_is_refused_and_how(argv: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        systemd_exec(argv)
    assert str(caught.value) == message


def as_systemd_reads(line: str) -> list[str]:
    """The words of an ExecStart= line by the rules of systemd.service(5) and systemd.syntax(7), written from these."""
    simple = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
    words: list[str] = []
    word: str | None = None
    quote = ""
    i = 0
    while i < len(line):
        char = line[i]
        if char == "\\":
            if line[i + 1] == "x":
                word, i = (word or "") + chr(int(line[i + 2 : i + 4], 16)), i + 4
            else:
                word, i = (word or "") + simple[line[i + 1]], i + 2
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                word = (word or "") + char
        elif char in "\"'":
            quote, word = char, word or ""
        elif char in " \t":
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + char
        i += 1
    if word is not None:
        words.append(word)
    return [undo(undo(word, "%"), "$") for word in words]


def undo(word: str, sign: str) -> str:
    """Expand specifiers or variables: only the doubled sign may be there, anything else would mean something."""
    halves = word.split(sign * 2)
    assert all(sign not in half for half in halves), f"{word!r} would be expanded"
    return sign.join(halves)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(TEXT | st.text("$%\"'\\; {}\n")))
def test_systemd_reads_back_what_was_put_in(words: list[str]) -> None:
    line = systemd_exec(["/bin/a", *words])
    assert "\n" not in line
    assert as_systemd_reads(line) == ["/bin/a", *words]
