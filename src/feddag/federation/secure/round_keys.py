"""The keys that sites make for one attempt at a round, as the server passes them on: checked alike on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from feddag.errors import FeddagError
from feddag.federation.secure.attempt import Attempt
from feddag.federation.secure.messages import Message, check, verify
from feddag.federation.secure.roster import Roster


def read_round_key(
    message: Message, site: str, attempt: Attempt, roster: Roster, participants: Sequence[str], threshold: int
) -> Message:
    """A site's key for this attempt, if it signed it and was told of the same participants and threshold."""
    check(message, "key", f"Site {site}")
    attempt.expect(message, f"Site {site}")
    if message["site"] != site or site not in participants:
        raise FeddagError(f"The key of site {message['site']} came as that of {site}, for {', '.join(participants)}.")
    verify(message, roster.identities[site])
    if message["participants"] != list(participants) or message["threshold"] != threshold:
        raise FeddagError(
            f"Site {site} was told of the participants {', '.join(message['participants'])} and a threshold of "
            f"{message['threshold']}, not of {', '.join(participants)} and {threshold}. All must be told the same."
        )
    return message
