"""How an answer leaves a site, as audit logs name it and as people read it."""

from __future__ import annotations

PLAIN, SECURE_SUM = "plain", "secure sum"
"""The ways. Noise may follow the second: `secure sum + dp(ε=3, δ=1e-05)`."""

PROTECTING = "secure-sum"
"""The name under which the messages of a secure sum itself, keys and shares, are logged."""
PROTECTING_DISCLOSES = "Keys and sealed shares by which a sum is protected: random numbers"


def describe_protection(protection: str, sites: int) -> str:
    """Say what a protection means to the reader of an audit."""
    words = []
    for part in protection.split(" + "):
        if part == SECURE_SUM:
            words.append(f"inside a secure sum of {sites} sites")
        elif part == PLAIN:
            words.append("unprotected: the server sees this site's own numbers")
        elif part.startswith("dp(") and part.endswith(")"):
            words.append(f"with noise, for differential privacy of {part[3:-1]}")
        elif part.startswith("row-dp(") and part.endswith(")"):
            words.append(f"with noise that hides every row, for differential privacy of {part[7:-1]}")
        elif part.startswith("ledger(") and part.endswith(")"):
            words.append(f"charged to a ledger: {part[7:-1]}")
        else:
            words.append(part)
    return ", ".join(words)
