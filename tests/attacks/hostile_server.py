"""A server that does as it likes, against real sites' ends: what it asks, of whom, and what it says of earlier sums.

The sites are those of `build_site`: default policy, secure sum, certified identities, audit logs. The server knows the
study file and everything that a site has ever replied. It never checks what a site says: it wants sums, not safety.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from feddag.deployment.site import build_site, follow_study
from feddag.deployment.terms import study_terms
from feddag.errors import FeddagError
from feddag.federation.course import Course
from feddag.federation.identities import Authority, KnownIdentities, SiteIdentity, Trust
from feddag.federation.policy import SHARING, Policy
from feddag.federation.protocol import Answer, Arrays, Federation, Task
from feddag.federation.rosters import fewest_sites
from feddag.federation.secure import Message, SecureRound, SecureServer, fixed_point, from_text, to_text
from feddag.federation.secure.messages import Attempt, read_total
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.federation.steps import Step
from feddag.federation.wire import encode_task
from feddag.study import Study
from feddag.study.terms import FederationTerms

AUTHORITY = Authority.create("attacks")
VICTIM = "victim"
FOUR = ("basel", "bern", "lyon", VICTIM)
ROWS = (80, 70, 90, 40)

SEARCH = 'name = "search"\nparameters = { sharing = "auto", restarts = 0, seed = 1 }'
NOTEARS = 'name = "notears"'
AVERAGING = 'name = "notears-admm"\nparameters = { it_max = 20 }'

PHASES = ("work", "mask", "confirm", "reveal")


def registries(rows: Sequence[int] = ROWS, sites: Sequence[str] = FOUR, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Draw tables as registries have them: related, of different units, and rounded."""
    rng = np.random.default_rng(seed)
    tables = {}
    for site, count in zip(sites, rows, strict=True):
        age = rng.normal(55, 14, count)
        bmi = 22 + 0.06 * age + rng.normal(0, 3.5, count)
        pressure = 90 + 0.5 * age + 0.8 * bmi + rng.normal(0, 10, count)
        glucose = 70 + 25 * np.tanh((bmi - 28) / 4) + rng.normal(0, 9, count)
        columns = {"age": age.round(1), "bmi": bmi.round(1), "pressure": pressure.round(), "glucose": glucose.round(1)}
        tables[site] = pd.DataFrame(columns)
    return tables


class Sites:
    """The sites of a study, each with folders of its own. Any can be started anew, or take part in another study."""

    def __init__(
        self,
        folder: Path,
        method: str,
        tables: Mapping[str, pd.DataFrame] | None = None,
        *,
        name: str = "study",
        kit: str = "kit",
        kinds: Mapping[str, str] | None = None,
        first: str = "",
        more: str = "",
        policy: Policy | None = None,
        of_sites: Mapping[str, str] | None = None,
    ) -> None:
        """Start all sites.

        Args:
            folder: Holds a folder for each site, which remembers tables and kits over all studies.
            method: The study's `[method]`.
            tables: By site; those of `registries`, if left out.
            name: The study's.
            kit: The folder of the kit, below each site's own.
            kinds: The types of columns that are not continuous.
            first: A further line of the study file, before its tables.
            more: Further lines of the study file.
            policy: All sites' rules.
            of_sites: By site, what the study says of it.
        """
        self.folder, self.kit = folder, kit
        self.tables = dict(registries() if tables is None else tables)
        self.names = tuple(self.tables)
        self.policy = policy or Policy(sharing=SHARING, maximum_numbers_per_value=None)
        columns = next(iter(self.tables.values())).columns
        listed = "\n".join(f"[sites.{site}]\n{(of_sites or {}).get(site, '')}" for site in self.names)
        of_type = dict.fromkeys(columns, "continuous") | dict(kinds or {})
        variables = "\n".join(f'{column} = "{kind}"' for column, kind in of_type.items())
        self.study = Study.parse(
            f'name = "{name}"\n{first}\n[variables]\n{variables}\n[method]\n{method}\n{listed}\n{more}\n'
        )
        self.told: list[str] = []
        """What the sites said in their own terminals."""
        self.identities = {site: self._identity(site) for site in self.names}
        self.ends: dict[str, SiteEndpoint] = {}
        for site in self.names:
            self.start(site)

    def _kit(self, site: str) -> Path:
        kit = self.folder / site / self.kit
        kit.mkdir(parents=True, exist_ok=True)
        return kit

    def _identity(self, site: str) -> SiteIdentity:
        """Return what a kit's site signs with; it remembers there whom it has met."""
        key = self._kit(site) / "identity.key"
        if not key.exists():
            key.write_bytes(os.urandom(32))
        return AUTHORITY.identify(site, key.read_bytes(), KnownIdentities(self._kit(site) / "known.json"))

    def memory(self, site: str) -> Path:
        """Return what a site remembers of the study."""
        return self._kit(site) / self.study.digest[:12]

    def start(self, site: str) -> None:
        """Start a site, or start it again with what it has on its disk."""
        if site in self.ends:
            self.ends.pop(site).close()
        self.ends[site] = build_site(
            self.study,
            self.study.silo(site, self.tables[site]),
            self.memory(site),
            self.folder / site / "tables",
            self.identities[site],
            self.policy,
            lambda text: self.told.append(f"{site}: {text}"),
        )

    def reply(self, site: str, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Have a site reply, over a network that carries nothing but text."""
        return from_text(to_text(self.ends[site].reply(request, from_text(to_text(dict(content))))))

    def close(self) -> None:
        """Stop all sites."""
        for end in self.ends.values():
            end.close()


@dataclass(frozen=True)
class Released:
    """A sum that the server could read."""

    round: int
    task: Task
    members: tuple[str, ...]
    sum: Message
    """With its words, as a step of the course has it."""

    @property
    def total(self) -> fixed_point.Total:
        """What the sum says."""
        return read_total(self.sum, FederationTerms.maximum_rows)


class Reply(NamedTuple):
    """What a site said."""

    site: str
    request: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What an attack brought: the same for its test and for the page that lists all attacks."""

    tries: int
    recovered: int
    """Rows, sites or numbers, as the attack says; or sums of questions that the study's method did not ask."""
    refusals: Counter[str] = field(default_factory=Counter)
    """How often each reason was given."""


class _CarelessRound(SecureRound):
    """The cryptography of a sum, without a look at whether the sites mean the same."""

    def add_prepared(self, message: Message) -> None:
        self.threshold = message["key"]["threshold"]
        self._prepared[message["site"]] = message


class Sum:
    """One attempt at a sum, exchange by exchange: the server may do anything in between."""

    def __init__(
        self, server: HostileServer, number: int, task: Task, members: Sequence[str], round_: SecureRound
    ) -> None:
        self._server = server
        self._number, self._task, self._members = number, task, members
        self._round = round_

    def work(
        self,
        among: Iterable[str],
        *,
        decisions: Mapping[str, bool] | None = None,
        steps: Mapping[str, Sequence[Step]] | None = None,
    ) -> None:
        """Ask the question."""
        for site in among:
            content = self._server.question(self._number, self._task, decisions, (steps or {}).get(site))
            self._send(site, "work", content | {"opening": self._round.opening()}, "prepared", self._round.add_prepared)

    def mask(self, among: Iterable[str]) -> None:
        """Pass the keys on."""
        relays = self._round.relays()
        for site in among:
            if site in relays:
                self._send(site, "mask", {"relay": relays[site]}, "masked", self._round.add_masked)

    def confirm(self, among: Iterable[str]) -> None:
        """Say whose numbers have come."""
        survivors = self._round.survivors_message()
        for site in among:
            if site in survivors["survivors"]:
                self._send(site, "confirm", {"survivors": survivors}, "confirmed", self._round.add_confirmed)

    def reveal(self, among: Iterable[str]) -> Released:
        """Ask for what unmasks the sum, and read it."""
        unmask = self._round.unmask_message()
        for site in among:
            if site in unmask["confirmations"]:
                self._send(site, "reveal", {"unmask": unmask}, "revealed", self._round.add_revealed)
        found = Released(self._number, self._task, self._round.survivors, self._round.sum_message())
        self._server.released.append(found)
        return found

    def _send(
        self, site: str, request: str, content: Mapping[str, Any], part: str, take: Callable[[Message], None]
    ) -> None:
        reply = self._server.call(site, request, content)
        if part in reply:
            take(reply[part])


class HostileServer:
    """All that a server can do. It follows the study's learner on sums of its choosing, to know what would be due."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.terms = study_terms(sites.study)
        self.steps: list[Step] = []
        """What the sites shall believe of the study so far."""
        self.course = Course(Path(mkdtemp(dir=sites.folder)), self.terms, self._follow)
        self.replies: list[Reply] = []
        """All that any site has said."""
        self.released: list[Released] = []
        """All sums that the server could read."""
        self.refusals: Counter[str] = Counter()
        self._lax = replace(self.terms, quorum=2, minimum_sites=1)
        self._secure = SecureServer(self._lax, Trust(AUTHORITY.root))
        self._attempts = 0

    def _follow(self, federation: Federation) -> None:
        follow_study(self.sites.study, federation)

    def call(self, site: str, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Send a site any request, and remember what it says."""
        reply = self.sites.reply(site, request, content)
        self.replies.append(Reply(site, request, reply))
        if "refusal" in reply:
            self.refusals[reply["refusal"]] += 1
        return reply

    def join(self, members: Iterable[str] | None = None) -> bool:
        """Begin a session with some sites; return whether all of them have joined."""
        secure = SecureServer(self._lax, Trust(AUTHORITY.root))
        names = list(members or self.sites.names)
        for site in names:
            reply = self.call(site, "join", {"study": self.terms.study})
            if "advertisement" not in reply:
                return False
            secure.add_advertisement(reply["advertisement"])
        roster = secure.roster()
        replies = [self.call(site, "accept", {"roster": roster}) for site in names]
        self._secure = secure
        return not any(replies)

    def due(self, decisions: Mapping[str, bool] | None = None) -> Task:
        """Return what the study's learner asks after the steps that the sites shall believe."""
        return self.course.expected(decisions or {})

    def believe(self, result: Message, task: Task | None = None, decisions: Mapping[str, bool] | None = None) -> None:
        """Tell the sites from now on that the question that is due, or another, had this result."""
        asked = task or self.due(decisions)
        step = Step(hashlib.sha256(encode_task(asked)).hexdigest(), dict(decisions or {}), result)
        self.course.add(step)
        self.steps.append(step)

    def go_on(self, members: Iterable[str] | None = None, decisions: Mapping[str, bool] | None = None) -> Released:
        """Ask what is due, and believe what comes back, as an honest server does."""
        found = self.ask(members=members, decisions=decisions)
        assert found is not None, f"an honest round was refused: {self.replies[-1]}, {self.sites.told[-3:]}"
        self.believe(found.sum, found.task, decisions)
        return found

    def go_on_until(self, reached: Callable[[Task], bool], most: int = 60) -> Task:
        """Be honest until something is due."""
        for _ in range(most):
            task = self.due()
            if reached(task):
                return task
            self.go_on()
        raise AssertionError(f"{most} rounds have passed in vain")

    def question(
        self,
        number: int,
        task: Task,
        decisions: Mapping[str, bool] | None = None,
        steps: Sequence[Step] | None = None,
    ) -> dict[str, Any]:
        """Write a question: the number of its round, what is asked, and what came before."""
        shown = self.steps if steps is None else steps
        return {
            "round": number,
            "task": encode_task(task),
            "decisions": dict(decisions or {}),
            "course": {"from": 0, "steps": [step.message() for step in shown]},
        }

    def open(self, task: Task, members: Iterable[str] | None = None, round_: int | None = None) -> Sum:
        """Begin an attempt at a sum of some sites; of the next round, unless another is named."""
        roster = self._secure._roster
        assert roster is not None, "nobody has joined"
        wanted = set(self.sites.names if members is None else members)
        names = [site for site in self.sites.names if site in wanted]
        number = len(self.steps) if round_ is None else round_
        self._attempts += 1
        attempt = Attempt(roster.session, number, self._attempts)
        return Sum(self, number, task, names, _CarelessRound(self._lax, roster, attempt, names, len(names), b""))

    def ask(
        self,
        task: Task | None = None,
        *,
        members: Iterable[str] | None = None,
        round_: int | None = None,
        decisions: Mapping[str, bool] | None = None,
        silent: Mapping[str, str] | None = None,
        steps: Mapping[str, Sequence[Step]] | None = None,
    ) -> Released | None:
        """Try to get one sum; return nothing where the sites do not give enough for one.

        Args:
            task: What is asked; what is due, if left out.
            members: Whom the server wants in the sum.
            round_: The number of the round; that of the next one, if left out.
            decisions: What the server says that the clock says.
            silent: By site, the phase from which on the server says that the site is lost.
            steps: By site, what it is shown of the study so far, where that is not what all are shown.
        """
        names = list(self.sites.names if members is None else members)
        lost = {site: PHASES.index(phase) for site, phase in (silent or {}).items()}
        there = {
            phase: [site for site in names if place < lost.get(site, len(PHASES))] for place, phase in enumerate(PHASES)
        }
        if not names:
            return None
        attempt = self.open(task or self.due(decisions), names, round_)
        with suppress(FeddagError):  # too few have given what is needed
            attempt.work(there["work"], decisions=decisions, steps=steps)
            attempt.mask(there["mask"])
            attempt.confirm(there["confirm"])
            return attempt.reveal(there["reveal"])
        return None

    def invent(self, arrays: Arrays, *, weight: float = 1.0, survivors: Sequence[str] | None = None) -> Message:
        """Make up the sum of the next round: any numbers, and a check that the server can only guess."""
        layout, words, _ = fixed_point.encode_answer(Answer(weight, arrays), 1)
        roster = self._secure._roster
        attempt = Attempt(bytes(32) if roster is None else roster.session, len(self.steps), self._attempts)
        return attempt.message(
            "sum",
            survivors=sorted(survivors or self.sites.names),
            layout=layout,
            words=fixed_point.to_bytes(words),
            check=bytes(16),
        )

    @staticmethod
    def forge(honest: Released, arrays: Arrays) -> Message:
        """Change numbers of a true sum; all else stays, its check too."""
        total = honest.total
        _, words, _ = fixed_point.encode_answer(Answer(total.weight, {**total.mean, **arrays}), 1)
        return honest.sum | {"words": fixed_point.to_bytes(words)}

    def result(self, recovered: int, tries: int) -> Result:
        """Sum up an attack, and stop everything."""
        self.close()
        return Result(tries, recovered, Counter(self.refusals))

    def close(self) -> None:
        """Stop everything."""
        self.course.close()
        self.sites.close()


def always(answer: Any) -> Callable[..., Any]:
    """Take the place of a protection that is switched off."""
    return lambda *arguments, **options: answer


def isolated(*servers: HostileServer, fewest: int = Policy.minimum_sites) -> int:
    """Return 1 if some combination of all sums that servers have read is about too few sites, else 0."""
    rosters = [released.members for server in servers for released in server.released]
    return int(bool(rosters) and fewest_sites(rosters) < fewest)
