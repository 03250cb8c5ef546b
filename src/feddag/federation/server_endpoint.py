"""The server's side of a federation on a network: ask every site, wait for as many as the study needs, sum, remember.

It knows nothing of how messages travel. An engine gives it, for each site that it reaches, a way to call that site.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.calls import Call, PausedError, SiteCalls, Traffic, UnansweredError
from feddag.federation.identities import Trust, ends_soon
from feddag.federation.journal import Entry, Journal
from feddag.federation.protocol import Answer, Arrays, Ledger, Task, weighted_mean
from feddag.federation.refusals import Refusal
from feddag.federation.rosters import fewest_sites
from feddag.federation.secure import Message, SecureRound, SecureServer
from feddag.federation.steps import Step, first_head, next_head, plain_mean, question_digest
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import decode_answer, encode_task


class ServerEndpoint:
    """A federation whose sites are reached by calls. Satisfies `feddag.federation.Federation`."""

    def __init__(
        self,
        terms: StudyTerms,
        calls: Mapping[str, Call],
        journal: Journal,
        trust: Trust,
        report: Callable[[str], None],
    ) -> None:
        """Stand ready for a study, whose sums are protected if its terms say so; then there are no others.

        Args:
            terms: The study's terms.
            calls: A call for each site that can be reached.
            journal: All sums so far.
            trust: Whose identities the server believes.
            report: Takes messages for the server's operator.
        """
        self.sites = terms.sites
        self.local_sites = ()
        self.summed = 0
        self.minimum_sites = terms.minimum_sites
        self.ledger = Ledger()
        self.rows: int | None = None
        """The rows of all sites together, once a task has asked for them by an output named `rows`."""
        self.from_journal = 0
        """Rounds whose sums the journal had: no site was asked again."""
        self.sums_of: Counter[str] = Counter()
        """In how many sums each site was."""
        self._terms = terms
        self._sites = SiteCalls(terms, calls, report)
        self._journal = journal
        self._report = report
        self._secure = SecureServer(terms, trust) if terms.secure_sum else None
        self._round = 0
        self._head = first_head(terms.study)
        self._decided: dict[str, bool] = {}
        """What was decided since the last round."""
        self._rosters: list[tuple[str, ...]] = []
        """The members of every sum so far."""
        self._shown: dict[str, int] = {}
        """How many rounds each site knows."""

    @property
    def rounds(self) -> int:
        """How many rounds the journal holds."""
        return len(self._journal)

    @property
    def rounds_taken(self) -> int:
        """How many rounds the learner has seen the sums of, from the journal or anew."""
        return self._round

    @property
    def seconds(self) -> float | None:
        """How long the study has taken, from its first sum to its last, with all waiting; `None` before the second."""
        return self._journal.seconds

    @property
    def absent(self) -> dict[str, str]:
        """Sites that are not reached any more, and why."""
        return self._sites.absent

    @property
    def refused(self) -> dict[str, str]:
        """Sites that will not go on, and why: to wait for them is of no use."""
        return self._sites.refused

    @property
    def at_work(self) -> dict[str, float]:
        """Sites that have not replied yet, and since when (by the monotonic clock)."""
        return self._sites.at_work

    def open(self) -> None:
        """Let every site that is reached see the study's digest, and say whether it takes part."""
        replies = self._sites.ask("join", _each(self._sites.reached, {"study": self._terms.study}))
        self._sites.take(dict(replies), "rounds", lambda rounds: None)
        self._shown = {site: int(reply["rounds"]) for site, reply in replies.items() if site in self._sites.reached}
        if self._secure is not None:
            self._sites.take(replies, "advertisement", self._secure.add_advertisement)
            self._report_certificates({site: reply["advertisement"]["certificate"] for site, reply in replies.items()})
            self._sites.lose_slow()
            self._sites.need(len(self._sites.reached), self._terms.quorum, "take part")
            replies = self._sites.ask("accept", _each(self._sites.reached, {"roster": self._secure.roster()}))
        self._sites.lose_slow()
        self._report(f"{len(replies)} of {len(self.sites)} sites take part: {', '.join(replies) or 'none'}")
        self._sites.need(len(replies), self._terms.quorum, "take part")

    def _report_certificates(self, certificates: Mapping[str, bytes]) -> None:
        """Report certificates that soon expire: the analyst can have them renewed while the study still runs."""
        for site, certificate in certificates.items():
            if ends := ends_soon(certificate):
                self._report(
                    f"The certificate of site {site!r} expires on {ends:%Y-%m-%d}. Have it renewed: feddag federation "
                    "renew"
                )

    def aggregate(self, task: Task) -> dict[str, np.ndarray]:
        """Return the weighted mean of the sites' answers to a task, from the journal if it is there."""
        message = encode_task(task)
        digest = hashlib.sha256(message).hexdigest()
        entry = self._journal.read(self._round)
        if entry is None:
            try:
                entry = self._asked(task, message, digest)
            except UnansweredError:
                raise
            except FeddagError as error:
                raise UnansweredError(str(error)) from None
            self._journal.write(self._round, entry)
        elif entry.step.task != digest:
            raise FeddagError(
                f"{self._journal.path(self._round)} answers another task than round {self._round + 1} of this study "
                "asks for: feddag has changed since the study began. Go on with the version that it began with, or "
                "remove the folder and start anew."
            )
        else:
            self.from_journal += 1
        step = entry.step
        mean = step.mean(self._terms.maximum_rows)
        self._round += 1
        self._head = next_head(self._head, step)
        self._decided = {}
        if step.members not in self._rosters:
            self._rosters.append(step.members)
        for site in self.sites:
            self.ledger.record(site, sent=entry.sent.get(site, 0), received=entry.received.get(site, 0))
        self.sums_of.update(step.members)
        self.summed = len(step.members)
        if "rows" in mean and self.summed == len(self.sites):
            self.rows = round(float(mean["rows"]) * self.summed)
        return mean

    def decide(self, question: str, answer: Callable[[], bool]) -> bool:
        """Return the first answer to a question, which the journal keeps."""
        self._decided[question] = self._journal.decide(question, answer)
        return self._decided[question]

    def _asked(self, task: Task, message: bytes, digest: str) -> Entry:
        participants = [self.sites[k] for k in task.participants]
        needed = len(participants) if task.complete else min(self._terms.quorum, len(participants))
        traffic, attempt = Traffic(), 0
        while True:
            self._sites.take_back(needed, participants)
            members: list[str] = []
            try:
                members = self._members(task, participants, needed)
                contents = self._contents(message)
                if self._secure is None:
                    result = self._plain_mean(members, contents, needed, traffic)
                else:
                    question = question_digest(self._head, digest, self._decided)
                    everyone = task.complete and len(participants) == len(self.sites)
                    round_ = self._secure.open(self._round, attempt, members, question, everyone=everyone)
                    result = self._secure_sum(round_, members, contents, needed, traffic)
                return Entry(Step(digest, self._decided, result), traffic.sent, traffic.received)
            except PausedError:
                if not self._sites.waits:
                    raise
                self._sites.pause()
                attempt += 1
            except FeddagError as error:
                if all(site in self._sites.reached for site in members):
                    raise  # nobody was lost: it would fail again
                self._report(f"{error} Trying again without those that are lost")
                attempt += 1

    def _members(self, task: Task, participants: Sequence[str], needed: int) -> list[str]:
        """Choose who shall be in the sum: who has been settled, or all that are reached and tell about enough sites."""
        reached = [site for site in participants if site in self._sites.reached]
        self._sites.need(len(reached), needed, f"can be asked for round {self._round + 1} ({task.name})")
        if settled := self._journal.members(self._round):
            self._need_settled(settled, reached)
            return [site for site in participants if site in settled]
        candidates = [reached, *(list(each) for each in reversed(self._rosters) if set(each) <= set(reached))]
        members = next((each for each in candidates if len(each) >= needed and self._may_be_summed(each)), None)
        if members is None:
            raise self._too_few(reached)
        return members

    def _may_be_summed(self, members: Sequence[str]) -> bool:
        """Return whether all sums so far and one of these members tell about enough sites, whatever is compared."""
        most = self._terms.minimum_sites - 1
        return self._secure is None or most < 1 or fewest_sites([*self._rosters, members], most=most) > most

    def _need_settled(self, settled: Sequence[str], present: Sequence[str]) -> None:
        """Raise an error where a member of the one sum that this round can have is not there."""
        if not set(settled) <= set(present):
            raise self._waits_for(settled, present, "the others may have promised a sum with it, and enter no other")

    def _too_few(self, present: Sequence[str]) -> FeddagError:
        """Return the error of a round that must not do without those who were in the sums before."""
        fewest = self._terms.minimum_sites
        return self._waits_for(
            self._rosters[-1], present, f"without it, the sums would tell about fewer than {fewest} sites"
        )

    def _waits_for(self, sites: Sequence[str], present: Sequence[str], why: str) -> FeddagError:
        missing = [site for site in sites if site not in present]
        reasons = {**dict.fromkeys(missing, "out of reach"), **self.absent, **self.refused}
        named = ", ".join(f"{site} ({reasons[site]})" for site in missing)
        message = f"Round {self._round + 1} waits for {named}: {why}."
        if any(site in self.refused for site in missing):
            return FeddagError(f"{message} Mend this there, and run the study again: what was done is kept.")
        return PausedError(message)

    def _contents(self, message: bytes) -> dict[str, dict[str, Any]]:
        """Return the question for each site, with the rounds that it does not know yet."""
        steps = {place: self._journal.read(place) for place in range(self._least_shown(), self._round)}
        return {
            site: {
                "round": self._round,
                "task": message,
                "decisions": dict(self._decided),
                "course": {
                    "from": self._shown[site],
                    "steps": [
                        entry.step.message() for place, entry in steps.items() if entry and place >= self._shown[site]
                    ],
                },
            }
            for site in self._sites.reached
        }

    def _least_shown(self) -> int:
        return min((self._shown[site] for site in self._sites.reached), default=self._round)

    def _plain_mean(
        self, participants: Sequence[str], contents: Mapping[str, Mapping[str, Any]], needed: int, traffic: Traffic
    ) -> Message:
        replies = self._ask_to_work(contents, traffic)
        answers: dict[str, Answer] = {}

        def take(encoded: bytes, site: str) -> None:
            answers[site] = decode_answer(encoded)

        for site in participants:
            if site in replies:
                self._sites.take({site: replies[site]}, "answer", partial(take, site=site))
        answers = self._agreeing(answers)
        answers = self._within_weight(answers)
        self._sites.need(len(answers), needed, f"answered round {self._round + 1}")
        return plain_mean(weighted_mean(list(answers.values())), list(answers))

    def _ask_to_work(self, contents: Mapping[str, Mapping[str, Any]], traffic: Traffic) -> dict[str, dict[str, Any]]:
        replies = self._sites.ask("work", contents, traffic)
        self._shown |= dict.fromkeys(replies, self._round)
        return replies

    def _secure_sum(
        self,
        round_: SecureRound,
        participants: Sequence[str],
        contents: Mapping[str, dict[str, Any]],
        needed: int,
        traffic: Traffic,
    ) -> Message:
        """Four exchanges, each of what the one before has brought."""
        for site in participants:
            contents[site]["opening"] = round_.opening()
        replies = self._ask_to_work(contents, traffic)
        self._sites.take(
            {site: replies[site] for site in participants if site in replies}, "prepared", round_.add_prepared
        )
        relays = round_.relays()
        replies = self._sites.ask("mask", {site: {"relay": relay} for site, relay in relays.items()}, traffic)
        self._sites.take(replies, "masked", round_.add_masked)
        for site, reason in round_.drop_other_layouts().items():
            self._sites.turn_away(site, reason)
            del replies[site]
        self._need_settled(self._journal.members(self._round), list(replies))
        self._sites.need(len(replies), needed, f"have sent their numbers for round {self._round + 1}")
        if not self._may_be_summed(list(replies)):
            raise self._too_few(list(replies))
        message = round_.survivors_message()
        self._journal.settle(self._round, round_.survivors)
        replies = self._sites.ask("confirm", _each(round_.survivors, {"survivors": message}), traffic)
        never = [site for site in round_.survivors if self.refused.get(site) == Refusal.ROSTER.meaning]
        if len(round_.survivors) - len(never) < round_.threshold:
            self._journal.settle(self._round, ())  # too few will ever confirm this sum
        self._sites.take(replies, "confirmed", round_.add_confirmed)
        replies = self._sites.ask("reveal", _each(replies, {"unmask": round_.unmask_message()}), traffic)
        self._sites.take(replies, "revealed", round_.add_revealed)
        return round_.sum_message()

    def _agreeing(self, answers: Mapping[str, Answer]) -> dict[str, Answer]:
        """Return the answers that have the form that most have, and turn the other sites away."""
        if not answers:
            return {}
        forms = {site: _form(answer) for site, answer in answers.items()}
        common, _ = Counter(forms.values()).most_common(1)[0]
        for site, form in forms.items():
            if form != common:
                self._sites.turn_away(site, f"its answer has the form {form}, and others' {common}")
        return {site: answer for site, answer in answers.items() if forms[site] == common}

    def _within_weight(self, answers: Mapping[str, Answer]) -> dict[str, Answer]:
        """Return the answers whose weight the study allows, and turn the other sites away."""
        most = self._terms.maximum_rows
        for site, answer in answers.items():
            if answer.weight > most:
                self._sites.turn_away(site, f"it claims a weight of {answer.weight:g}, and the study allows {most:g}")
        return {site: answer for site, answer in answers.items() if answer.weight <= most}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the bytes sent so far; the journal keeps all else."""
        return {"ledger": vars(self.ledger)}, {}

    def restore(self, document: dict[str, Any], arrays: Arrays) -> None:
        """Take up what `snapshot` gave."""
        del arrays
        self.ledger = Ledger(**document["ledger"])

    def close(self) -> None:
        """Wait for no further call."""
        self._sites.close()


def _each(sites: Iterable[str], content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return dict.fromkeys(sites, content)


def _form(answer: Answer) -> tuple[tuple[str, str, Sequence[int]], ...]:
    return tuple((name, str(array.dtype), array.shape) for name, array in sorted(answer.arrays.items()))
