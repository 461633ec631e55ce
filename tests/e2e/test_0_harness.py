# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests search with has to find what it is searched for."""

from __future__ import annotations

import base64

import pytest

from .harness import spellings

SECRET = "sesame-open-4f1c"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "VLLM_API_KEY="])
@pytest.mark.parametrize("after", ["", "x", "xy", "\0HOME=/"])
def test_a_secret_is_found_in_base64_of_whatever_it_is_part_of(before, after):
    text = base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()
    assert any(word in text for word in spellings(SECRET))
    assert all(len(word) >= 16 for word in spellings(SECRET))
    assert not any(word in base64.b64encode(b"sesame-open-nothing-of-it").decode() for word in spellings(SECRET))
