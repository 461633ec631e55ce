# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What the HTTP side proves: up, the model listed, a token generated, the known answer given."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._stages import ORDER

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Completion, HttpSample
    from ansible_collections.modelfleet.serving.plugins.module_utils._status import JudgeConfig

#: an answer that does not change by waiting (a refused key, another model, a wrong answer) is asked again for so long
_INSIST_S = 10.0
_WRONG_ANSWERS = 3
_UNAUTHORISED = (401, 403)


class Readiness:
    """Keeps the best that was seen of each proof."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._health: typing.Optional[int] = None
        self._models: typing.Optional[tuple[str, ...]] = None
        self._token: typing.Optional[Completion] = None
        self._tried = False
        self._answer: typing.Optional[bool] = None
        self._wrong = 0
        #: refusals by id of their finding: (since, in words)
        self._refused: dict[str, tuple[float, str]] = {}

    def feed(self, http: typing.Optional[HttpSample], t: float) -> None:
        if http is None:
            return
        if http.health is not None:
            self._health = http.health
        if http.models is not None:
            self._models = http.models
            self._refuse(
                "model_not_listed", not self._listed, t, f"/v1/models lists {', '.join(http.models) or 'none'}"
            )
        completion = http.completion
        asked = [status for status in (http.models_status, completion and completion.status) if status is not None]
        if asked:
            self._refuse("http_refused", asked[-1] in _UNAUTHORISED, t, f"/v1 answers {asked[-1]}")
        if completion is not None:
            self._completion(completion)

    def _completion(self, completion: Completion) -> None:
        self._tried = True
        fewest = self._token.completion_tokens if self._token is not None else 1
        if completion.status == 200 and completion.completion_tokens >= fewest:
            self._token = completion
        if completion.answer_ok is not None:
            self._answer = completion.answer_ok
            self._wrong = 0 if completion.answer_ok else self._wrong + 1

    def _refuse(self, finding: str, refused: bool, t: float, words: str) -> None:
        if refused:
            since, _words = self._refused.get(finding, (t, ""))
            self._refused[finding] = (since, words)
        else:
            self._refused.pop(finding, None)

    @property
    def up(self) -> bool:
        return self._health == 200

    @property
    def _listed(self) -> bool:
        expected = self._config.expected_model
        return expected is None or (self._models is not None and expected in self._models)

    @property
    def is_ready(self) -> bool:
        return (
            self.up
            and self._listed
            and (self._token is not None or not self._config.want_completion)
            and (self._answer is True or not self._config.want_known_answer)
        )

    def stages(self, now: str) -> tuple[str, ...]:
        """Stages that are under way by what HTTP shows; a server that is not up yet has none of them."""
        if not self.up and ORDER[now] < ORDER["model_listed"]:
            return ()
        reached = []
        if self.up:
            reached.append("model_listed")
        if self._tried or (self._models is not None and self._listed):
            reached.append("first_token")
        if self._token is not None and self._config.want_known_answer:
            reached.append("known_answer")
        if self.is_ready:
            reached.append("ready")
        return tuple(reached)

    def refused(self, t: float) -> typing.Optional[tuple[str, str]]:
        """An answer that waiting does not change: id of its finding, and what was answered."""
        if self._wrong >= _WRONG_ANSWERS and self._token is not None:
            return "wrong_answer", f"{self._wrong} wrong answers in a row, the last: {self._token.text[:200]!r}"
        for finding, (since, words) in self._refused.items():
            if t - since >= _INSIST_S:
                return finding, f"{words}, for {t - since:.0f} s"
        return None

    def doubt(self) -> typing.Optional[tuple[str, str]]:
        """The same, from its first time on: what a single look can say."""
        return next(((finding, words) for finding, (_since, words) in self._refused.items()), None)

    def evidence(self) -> tuple[str, ...]:
        said = ["/health answers 200"]
        if self._models is not None:
            said.append(f"/v1/models lists {', '.join(self._models)}")
        if self._token is not None:
            said.append(f"{self._token.completion_tokens} tokens in {self._token.seconds:.1f} s")
        if self._answer:
            said.append("the known answer is right")
        return tuple(said)


__all__ = ("Readiness",)
