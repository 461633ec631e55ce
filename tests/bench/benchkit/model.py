# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a bench is: contestants that do the same work, what is shown of them, and what is aimed at."""

from __future__ import annotations

import contextlib
import statistics
import typing as t

if t.TYPE_CHECKING:
    from benchkit.workshop import Workshop


class Sample(t.NamedTuple):
    """One run of one contestant."""

    #: wall time of the whole process, or of whatever the contestant is
    seconds: float
    #: processor seconds of its processes
    cpu: float = 0.0
    #: the largest resident set (VmHWM) of one of its processes, in bytes
    peak: int = 0
    #: whatever else the bench measures, by name
    extra: t.Mapping[str, float] = {}


class Series(t.NamedTuple):
    """All samples of one contestant, in the order of their rounds."""

    samples: tuple[Sample, ...]

    @property
    def best(self) -> float:
        return min(sample.seconds for sample in self.samples)

    @property
    def median(self) -> float:
        return statistics.median(sample.seconds for sample in self.samples)

    @property
    def cpu(self) -> float:
        return min(sample.cpu for sample in self.samples)

    @property
    def peak(self) -> int:
        return max(sample.peak for sample in self.samples)

    def extra(self, name: str, pick: t.Callable[[t.Iterable[float]], float] = min) -> t.Optional[float]:
        """A figure of the samples that have it; ``pick`` is min for times, max for what must not be exceeded."""
        values = [sample.extra[name] for sample in self.samples if name in sample.extra]
        return pick(values) if values else None

    def least(self, name: str) -> float:
        """The smallest value of a figure that every sample has."""
        return min(sample.extra[name] for sample in self.samples)

    def most(self, name: str) -> float:
        return max(sample.extra[name] for sample in self.samples)


#: name of a contestant -> its samples
Results = t.Mapping[str, Series]


class Contestant(t.NamedTuple):
    name: str
    run: t.Callable[[], Sample]


class Column(t.NamedTuple):
    title: str
    #: what the row of a contestant shows
    cell: t.Callable[[Series, Results], str]


class Aim(t.NamedTuple):
    """A figure that is promised. Exactly one of the bounds is given."""

    text: str
    value: t.Callable[[Results], float]
    at_least: t.Optional[float] = None
    at_most: t.Optional[float] = None
    #: how to write the figure
    form: str = "{:.2f}"

    def met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def bound(self) -> str:
        sign, bound = (">=", self.at_least) if self.at_least is not None else ("<=", self.at_most)
        return f"{sign} {self.form.format(bound)}"


class Bench(t.NamedTuple):
    name: str
    title: str
    #: what is done and how it is measured, in sentences
    about: str
    #: sets the scene and gives the contestants; they run in turns, starting with another one in every round
    scene: t.Callable[[Workshop], t.ContextManager[t.Sequence[Contestant]]]
    columns: t.Sequence[Column]
    aims: t.Sequence[Aim] = ()
    rounds: int = 3


class Outcome(t.NamedTuple):
    """A bench that was run."""

    bench: Bench
    results: Results
    #: share of the processors that others used during a sample, the worst
    noise: float
    seconds: float


def bench(
    name: str, title: str, about: str, columns: t.Sequence[Column], aims: t.Sequence[Aim] = (), rounds: int = 3
) -> t.Callable[[t.Callable[[Workshop], t.Iterator[t.Sequence[Contestant]]]], Bench]:
    """Decorates a generator that sets the scene, yields its contestants, and clears up."""

    def wrap(scene: t.Callable[[Workshop], t.Iterator[t.Sequence[Contestant]]]) -> Bench:
        return Bench(name, title, about, contextlib.contextmanager(scene), columns, aims, rounds)

    return wrap


# -- columns that fit most benches ------------------------------------------------------


def time_column(title: str = "seconds, best (median)") -> Column:
    return Column(title, lambda series, _all: f"{series.best:.2f} ({series.median:.2f})")


def rate_column(size: int) -> Column:
    return Column("MB/s", lambda series, _all: f"{size / series.best / 1e6:.0f}")


def ratio_column(reference: str) -> Column:
    """How many times faster than ``reference``, best against best."""
    return Column(f"times {reference}", lambda series, results: f"{results[reference].best / series.best:.2f}")


def cpu_column(size: int) -> Column:
    return Column("CPU s per GB", lambda series, _all: f"{series.cpu / size * 1e9:.2f}")


def peak_column() -> Column:
    return Column("memory MiB", lambda series, _all: f"{series.peak / (1 << 20):.0f}")


def extra_column(
    title: str, name: str, form: str = "{:.2f}", pick: t.Callable[[t.Iterable[float]], float] = min
) -> Column:
    """A figure of the bench's own; "-" for contestants that do not have it."""

    def cell(series: Series, _all: Results) -> str:
        value = series.extra(name, pick)
        return "-" if value is None else form.format(value)

    return Column(title, cell)
