"""The secure sum: the server gets `Σ wₖ xₖ` and `Σ wₖ` over the sites, and no site's own part of either.

After Bonawitz et al. (2017), "Practical secure aggregation for privacy-preserving machine learning", with double
masks, and a check by which the sites notice a false sum. An engine carries plain messages between a `SecureServer` and
the `SecureSite`s, and needs to know no more.

Once per session: every site makes an X25519 key for sealed letters to the others (its *channel*), and signs it with its
Ed25519 identity, which the federation's authority certifies; all get all, and check the certificates (`advertise`,
`accept`). A session is named by the hash of this list.

Every round, four exchanges, and a check with the next round's question:

1. `prepare`: site u draws a mask key pair and a secret bᵤ for this attempt alone. It signs the public key, a commitment
   to bᵤ, and the *question*: the digest of what is asked and of all sums before it. It deals Shamir shares of the
   private key and of bᵤ to all participants, in sealed letters, and with them its part of a key k. The paper takes two
   exchanges for this; here one does, since the channels stand from the session's beginning.
2. `mask`: if all keys are for the question that u answers, u sends
   yᵤ = xᵤ + PRG(bᵤ) + Σ_{v>u} PRG(sᵤᵥ) − Σ_{v<u} PRG(sᵤᵥ)  modulo 2¹²⁸, where sᵤᵥ is agreed from u's and v's mask
   keys; and the check of xᵤ, by the key k of all parts, under masks of the same seeds modulo the check's prime. Over
   all who prepared, the pairwise masks cancel.
3. `confirm`: the server names the sites whose numbers arrived (the survivors), and each of them signs that set.
4. `reveal`: shown at least t such signatures, a site gives its share of bᵤ for each survivor u, and of the mask key
   for each site that prepared but did not survive. From t shares each the server takes off what has not cancelled.
5. `check_sum`: before it prepares the next round, a survivor is shown the sum, and goes on only if it is the one that
   it confirmed: the same attempt, survivors and arrays, and numbers that fit the check.

**Dropping out.** Before `prepare`, the site is not in the masks. Before `mask`, its pairwise masks are taken off with
its mask key. After `mask`, its numbers count, and others' shares of its bᵤ unmask them: for this the pairwise secrets
have to be recoverable without the survivors' help, hence shares of the key rather than seeds revealed by survivors. Any
t participants that stay suffice. Mask keys are fresh in every attempt, so that a key given away for a dropped site
opens nothing of any other round: a long-term key would.

**Why two masks.** Numbers thought lost may arrive after the mask key was given away (or a server may say so): then
PRG(bᵤ) still hides them. So nothing is lost as long as nobody gets both bᵤ and u's mask key. An honest site gives a
share of one of them only, according to the one set of survivors it confirmed, keeps this decision before it speaks
(`keep`), and drops all shares when the next attempt begins.

**Why more than half.** Let n be the participants, t the threshold, c the sites that collude with the server. Honest
sites reveal for a set that t sites have signed. Two different sets would need 2t signatures, but honest sites sign one
and colluding ones two at most: n + c. So with 2t > n + c there is one set, of at least t members, and of the other
secret of each site at most c < t shares are ever given away, which say nothing. With t just above half of n, c is 0 or
1; a larger `quorum` raises t. Without signatures, 2t > n + c would still keep one of each site's two secrets, but a
server that tells sites of different sets could learn sums of fewer than t sites.

**One set per round.** The set that a site confirms holds for the round, in every attempt and every session: a round
whose sum was lost is repeated with the same sites, or not at all. Before it signs, the site asks its owner (`permit`),
who remembers all sets that sums of the same table had, over all studies, and refuses one if a linear combination of the
sums would be about too few sites (`feddag.federation.rosters`).

**True sums.** What a study asks follows from its sums, so a server that could show false ones could choose what is
asked. The check (`sum_check`) is linear, so that checks add up as the numbers do, and it is a function of key and sum,
so that it tells nothing else. Without k, a false sum passes with a chance of 2⁻¹²⁷. A site that was not in a sum has no
k for it, and relies on those who were: if it is shown another sum than they are, its question is not theirs, and no
site masks for keys that name another one. Where every sum holds more than half of the study's sites, one of each round
has checked the last sum.

**What holds against whom.** A server that follows the protocol but looks at everything, together with up to t − 1
sites that do the same: they learn the sum over the other survivors, nothing else. A server that deviates (other keys,
other sets for different sites, invented drop-outs, repeated messages), together with c < 2t − n sites: the same, if
the authority certifies no invented site, or the study pins the identities. Each sum holds t − c honest sites or more. A
server that deviates alone passes off no false sum, and has no two sites answer different questions in one round. A
single site that was in a sum knows its k, and can help the server to a false one; nobody is kept from sending wrong
numbers, or from stopping a round.

All this rests on X25519 (Diffie-Hellman), HKDF-SHA256 and ChaCha20 (pseudo-random), ChaCha20-Poly1305 and Ed25519. A
round that cannot be protected raises `FeddagError`; there is no unprotected way.
"""

from feddag.federation.secure.messages import Message, from_text, to_text
from feddag.federation.secure.server import SecureRound, SecureServer
from feddag.federation.secure.site import SecureSite

__all__ = [
    "Message",
    "SecureRound",
    "SecureServer",
    "SecureSite",
    "from_text",
    "to_text",
]
