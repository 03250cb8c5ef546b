"""Calls of the server to the sites of a study: who replies, who is slow, lost or refuses, and the bytes of all this.

It knows nothing of how messages travel. An engine gives it, for each site that it reaches, a way to call that site.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from feddag.errors import FeddagError
from feddag.federation.refusals import Refusal
from feddag.federation.terms import StudyTerms

PING_INTERVAL = 2.0
"""Seconds between two questions whether a site that works is still there."""
MOST_MISSED_PINGS = 3
PING_TIMEOUT = 5.0


Call = Callable[[str, Mapping[str, Any], float], dict[str, Any]]
"""Has a site do something, in so many seconds, and brings its reply. Raises `OutOfReachError` where there is none."""


class OutOfReachError(Exception):
    """A site did not reply."""


class UnansweredError(FeddagError):
    """Too few sites have answered a round."""


class PausedError(UnansweredError):
    """Too few sites can be reached for the study to go on. All that was done is kept."""


class SiteCalls:
    """The sites of a study that can be called, and what became of the others."""

    def __init__(self, terms: StudyTerms, calls: Mapping[str, Call], report: Callable[[str], None]) -> None:
        """Stand ready to call sites.

        Args:
            terms: The study's terms.
            calls: A call for each site that can be reached.
            report: Takes messages for the server's operator.
        """
        self.absent: dict[str, str] = {site: "not connected" for site in terms.sites if site not in calls}
        """Sites that are not reached any more, and why."""
        self.refused: dict[str, str] = {}
        """Sites that will not go on, and why: to wait for them is of no use."""
        self.at_work: dict[str, float] = {}
        """Sites that have not replied yet, and since when (by the monotonic clock)."""
        self._slow: dict[str, tuple[Call, _Waiting]] = {}
        """Sites that took too long for a task, and are still at it."""
        self._terms = terms
        self._calls = dict(calls)
        self._report = report
        self._pool = ThreadPoolExecutor(2 * len(terms.sites), thread_name_prefix="feddag-call")

    @property
    def reached(self) -> list[str]:
        """The sites that take part, in no order that matters."""
        return list(self._calls)

    @property
    def waits(self) -> bool:
        """Whether some site is still at a task that took too long."""
        return bool(self._slow)

    def take(self, replies: dict[str, dict[str, Any]], part: str, take: Callable[[Any], None]) -> None:
        """Hand over a part of each reply; a site whose part is refused is lost, and its reply removed."""
        for site in list(replies):
            try:
                if part not in replies[site]:
                    raise FeddagError(f"its reply has no {part!r}")
                take(replies[site][part])
            except FeddagError as error:
                self.turn_away(site, str(error))
                del replies[site]

    def lose_slow(self) -> None:
        """Give up sites that were too slow to join: they can do so with the next job only."""
        for site in list(self._slow):
            del self._slow[site]
            self._lose(site, "too slow")

    def take_back(self, needed: int, participants: Sequence[str]) -> None:
        """Let slow sites that are ready take part again; wait for them if there are too few without."""
        while self._slow:
            for site, (call, waiting) in list(self._slow.items()):
                if waiting.lost(self._pool, call):
                    del self._slow[site]
                    self._lose(site, "no sign of life")
                elif not waiting.busy:
                    del self._slow[site]
                    self._calls[site] = call
                    self._pool.submit(call, "late", {}, PING_TIMEOUT)
                    self._report(f"Site {site!r} has finished, and takes part again")
            if sum(site in self._calls for site in participants) >= needed:
                return
            if self._slow:
                self.pause()

    def pause(self) -> None:
        """Wait a moment for slow sites."""
        time.sleep(PING_INTERVAL / 4)

    def need(self, found: int, needed: int, what: str) -> None:
        """Raise `PausedError` where too few sites do what is needed, or `FeddagError` where waiting is of no use."""
        if found >= needed:
            return
        slow = dict.fromkeys(self._slow, "too slow")
        reasons = "; ".join(f"{site}: {reason}" for site, reason in {**self.absent, **slow, **self.refused}.items())
        why = ", since such a sum means nothing without every site" if needed > self._terms.quorum else ""
        message = f"{found} sites {what}, and the study needs {needed}{why} ({reasons})."
        if found + len(self.absent) + len(self._slow) >= needed:
            raise PausedError(message)
        raise FeddagError(f"{message} Mend this there, and run the study again: what was done is kept.")

    def ask(
        self, request: str, contents: Mapping[str, Mapping[str, Any]], traffic: Traffic | None = None
    ) -> dict[str, dict[str, Any]]:
        """Ask sites, and return the replies in the sites' order; a site without one is absent from now on.

        A site that works long gets a ping now and then.
        """
        contents = {site: content for site, content in contents.items() if site in self._calls}
        timeout = self._terms.timeout
        calls = {
            site: self._pool.submit(_timed, self._calls[site], request, contents[site], timeout) for site in contents
        }
        waiting = {site: _Waiting(time.monotonic()) for site in contents}
        self.at_work = dict.fromkeys(contents, time.monotonic())
        while waiting:
            wait([calls[site] for site in waiting], PING_INTERVAL, FIRST_COMPLETED)
            for site in [site for site in waiting if calls[site].done()]:
                del waiting[site]
            self.at_work = {site: since for site, since in self.at_work.items() if site in waiting}
            for site, state in list(waiting.items()):
                if state.lost(self._pool, self._calls[site]):
                    del waiting[site]
        self.at_work = {}
        replies = self._replies(calls)
        if traffic is not None:
            traffic.add(contents, replies)
        return replies

    def _replies(self, calls: Mapping[str, Future[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        replies = {}
        for site, call in calls.items():
            if not call.done():
                self._lose(site, "no sign of life")
                continue
            try:
                reply = call.result()
            except TimeoutError:
                self._slow[site] = (self._calls.pop(site), _Waiting(time.monotonic()))
                allowed = f"the {self._terms.timeout:g} seconds that the study allows"
                self._report(
                    f"Site {site!r} is too slow: it took longer than {allowed} for a task. Going on without it"
                )
                continue
            except OutOfReachError as error:
                self._lose(site, str(error))
                continue
            if "refusal" in reply:
                self._refuse(site, Refusal.of(reply["refusal"]).meaning)
            else:
                replies[site] = reply
        return {site: replies[site] for site in self._terms.sites if site in replies}

    def _lose(self, site: str, reason: str) -> None:
        self.absent[site] = reason
        self._calls.pop(site, None)
        self._report(f"Site {site!r} is out of reach ({reason})")

    def turn_away(self, site: str, reason: str) -> None:
        """Refuse a site that does not know yet why."""
        self._pool.submit(self._calls[site], "refused", {"reason": reason}, PING_TIMEOUT)
        self._refuse(site, reason)

    def _refuse(self, site: str, reason: str) -> None:
        self.refused[site] = reason
        self._calls.pop(site, None)
        self._report(f"Site {site!r} does not take part any more: {reason}")

    def close(self) -> None:
        """Wait for no further call."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _timed(call: Call, request: str, content: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Tell a site that takes too long from one that cannot be reached."""
    started = time.monotonic()
    try:
        return call(request, content, timeout)
    except OutOfReachError:
        if time.monotonic() - started >= timeout:
            raise TimeoutError from None
        raise


@dataclass
class Traffic:
    """Bytes of one round, by site."""

    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)

    def add(self, contents: Mapping[str, Any], replies: Mapping[str, Any]) -> None:
        """Count the bytes of requests and replies."""
        for bytes_, messages in ((self.received, contents), (self.sent, replies)):
            for site, message in messages.items():
                bytes_[site] = bytes_.get(site, 0) + _size(message)


def _size(message: Any) -> int:
    """Count the bytes that a message holds, without what an engine puts around it."""
    match message:
        case bytes() | str():
            return len(message)
        case dict():
            return sum(_size(name) + _size(each) for name, each in message.items())
        case list() | tuple():
            return sum(map(_size, message))
        case _:
            return 8


@dataclass
class _Waiting:
    """A site that has not replied yet."""

    asked: float
    missed: int = 0
    busy: bool = True
    """As of its last sign of life."""
    ping: Future[dict[str, Any]] | None = None

    def lost(self, pool: ThreadPoolExecutor, call: Call) -> bool:
        """Whether it has missed too many pings; sends the next one when it is time to."""
        if self.ping is not None and self.ping.done():
            if self.ping.exception() is None:
                self.missed, self.busy = 0, bool(self.ping.result().get("busy"))
            else:
                self.missed += 1
            self.ping = None
        if self.ping is None and time.monotonic() - self.asked >= PING_INTERVAL:
            self.asked = time.monotonic()
            self.ping = pool.submit(call, "ping", {}, PING_TIMEOUT)
        return self.missed >= MOST_MISSED_PINGS
