"""Run every attack that is known against real sites' ends, and print what each brings today.

    .venv/bin/python benchmarks/attacks.py

The attacks are those of tests/attacks, where each also shows that it succeeds once its protection is switched off. The
program ends with an error if one of them brings anything.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feddag.experiments.formats import markdown_table

ATTACKS = Path(__file__).parents[1] / "tests" / "attacks"


@dataclass(frozen=True)
class Attack:
    """A row of the table: functions of one file, with what they did to the first version."""

    title: str
    file: str
    functions: tuple[str, ...]
    tried: str
    before: str

    def attempts(self) -> list[Callable[[Path], Any]]:
        """Return the functions, each of which gets a folder and returns its result."""
        if str(ATTACKS) not in sys.path:
            sys.path.append(str(ATTACKS))
        module = importlib.import_module(self.file)
        return [getattr(module, name) for name in self.functions]


KNOWN = (
    Attack(
        "A window on rows",
        "test_window_on_rows",
        ("crafted_scale", "crafted_scale_of_small_units"),
        "ask for sums in a frame of its own, so small that a sum is about one row",
        "367 of 450 rows rebuilt, none wrong",
    ),
    Attack(
        "A window by false sums",
        "test_window_on_rows",
        (
            "forged_sum",
            "invented_sums",
            "unfinished_sum",
            "true_words_read_otherwise",
            "sum_forged_for_one_site",
            "course_of_another_study",
        ),
        "show the sites changed, invented, unfinished or foreign sums, after which the method itself would ask for it",
        "not needed",
    ),
    Attack(
        "Roster differencing",
        "test_roster_differencing",
        (
            "same_session",
            "new_session",
            "after_a_restart",
            "second_study",
            "study_that_begins_anew",
            "second_study_of_levels",
            "second_study_of_rows_in_another_order",
            "third_study_of_columns_that_were_apart",
            "lost_at_each_phase",
            "over_rounds",
            "sums_that_no_site_knows_all_of",
        ),
        "ask again with other members: at once, in a new session, after a restart, in a second study, by saying that a "
        "site was lost, over rounds of an averaging method",
        "one site's row count, means, mean squares and model, exactly",
    ),
    Attack(
        "Groups of sites",
        "test_groups_of_sites",
        ("move_sites", "second_study"),
        "have other sites in one of two groups with a graph each, by other graphs or in a second study, and subtract",
        "not there",
    ),
    Attack(
        "Two extracts of one table",
        "test_roster_differencing",
        ("second_study_of_a_few_rows_less",),
        "have one row, or four, dropped in a second study, and subtract its sums",
        "not tried",
    ),
    Attack(
        "Replicates",
        "test_replicates",
        ("known_draws",),
        "keep to the study, and solve the sums of 50 bootstraps for the rows: three sites of 10 to 12, whose row "
        "counts are known",
        "not there: 33 of 33 rows while draws had a public seed",
    ),
    Attack(
        "Sites that have nothing to say",
        "test_few_sites",
        (
            "experiments_at_all_sites_but_one",
            "experiments_at_one_site",
            "experiments_in_few_rows",
            "second_study_without_the_experiment",
            "effect_of_what_varies_at_one_site",
        ),
        "have experiments set a variable at all sites but one, at one alone, in three rows, or in one study and not in "
        "the next; ask for the effect of a flag that varies at one site",
        "not there",
    ),
    Attack(
        "A category of one patient",
        "test_rare_category",
        ("rare_category",),
        "keep to the study, and solve for the one patient of 450 who has a level; six methods, with the level merged "
        "and not",
        "all of the patient's values, to 14 decimals",
    ),
    Attack(
        "Two answers in one sum",
        "test_roster_differencing",
        ("answers_of_two_rounds_in_one_sum", "question_worded_anew"),
        "have one site answer another question than the others, within one sum",
        "not tried",
    ),
    Attack(
        "Claims",
        "test_sessions_and_claims",
        ("sums_charged_as_one", "a_million_rows", "a_weight_beyond_all_rows", "another_layout_first"),
        'two sums for one charge of the privacy budget; "a million rows"; a weight of 10¹²; a first answer of another '
        "layout",
        "all four",
    ),
    Attack(
        "Sybil sites",
        "test_sybil_sites",
        ("sybil_sites",),
        "play all sites but one",
        "that one's sums, unless the study pinned identities",
    ),
    Attack(
        "Refusals as an oracle",
        "test_refusal_oracle",
        ("differing_replies", "overflowing_replies"),
        "346 questions of all magnitudes, to two federations that differ in one table",
        "one site's row count, mean and deviation to 9 decimals",
    ),
    Attack(
        "Crafted questions",
        "test_crafted_questions",
        ("comparisons", "trap_weights", "graphs_never_learned"),
        "other graphs in comparisons, weights to set out from, graphs that were never learned",
        "not tried",
    ),
    Attack(
        "Lies of the clock",
        "test_lies_of_the_clock",
        ("lies_that_differ",),
        "decide by a false clock, differently for some sites, or twice",
        "not tried",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    rows, succeeded = [], []
    for attack in KNOWN:
        results = []
        for attempt in attack.attempts():
            with TemporaryDirectory() as folder:
                results.append(attempt(Path(folder)))
        rows.append([attack.title, attack.tried, attack.before, outcome(results)])
        succeeded += [attack.title] * any(result.recovered for result in results)
    print(markdown_table(["attack", "what the server tries", "0.1.0", "today"], rows))
    if succeeded:
        raise SystemExit(f"These attacks succeed: {', '.join(succeeded)}.")


def outcome(results: Sequence[Any]) -> str:
    """Say what attempts brought, and which reasons the sites gave, or that they took no part."""
    tries, recovered = sum(result.tries for result in results), sum(result.recovered for result in results)
    reasons: Counter[str] = sum((result.refusals for result in results), Counter())
    found = "**nothing**" if not recovered else f"**{recovered} recovered**"
    given = ", ".join(f"`{reason}` {count}" for reason, count in reasons.most_common() if count)
    return f"{found}; {tries} tries" + (f"; refused: {given}" if given else "")


if __name__ == "__main__":
    main()
