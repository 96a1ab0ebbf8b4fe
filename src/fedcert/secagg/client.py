"""A client's part in a secure aggregation (Bonawitz et al. 2017, against a malicious server).

Each pair of clients shares a mask that one adds and the other subtracts, and each client adds a self-mask. All clients
hold shares of the secrets behind the masks, so that the sum can be unmasked when some drop out. For each client the
server may recover its self-mask (it survived) or its secret mask key (it dropped out), never both: a client confirms
exactly one set of survivors, and reveals shares only when a threshold of others confirmed the same set (their
ConsistencyCheck).

Two key agreements of each pair enter: by mask keys, made for this aggregation, and by the keys on their cards. What two
clients seal for each other opens only if both have the right cards' secrets and saw the same mask keys; so keys that
were swapped on the way show before a number leaves a client.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedcert._files.documents import parse
from fedcert._schema.encoding import decoded, encoded, encoded_numbers
from fedcert.errors import Refused, preview
from fedcert.privacy.keys.framing import framed, framed_name
from fedcert.privacy.keys.identity import Identity
from fedcert.privacy.keys.keyring import Keyring
from fedcert.privacy.state_store import State, StateStore
from fedcert.report import Request
from fedcert.secagg import messages
from fedcert.secagg.binding import (
    bound_seed,
    common_key,
    delivery_digest,
    hash_of_key,
    holds,
    mask_seed,
    survivors_digest,
    tags_of,
    witness_of,
)
from fedcert.secagg.differencing_guard import DifferencingGuard
from fedcert.secagg.kept_state import check_kept, kept_agreements
from fedcert.secagg.masks import Vector, agreed, derived, masked
from fedcert.secagg.shamir import SHARE_BYTES, is_share, shares_of

_Given = TypeVar("_Given", bound=messages.ServerMessage)
_Answer = TypeVar("_Answer", bound=messages.ClientMessage)

HOLDERS = "holders"
"""The purpose of the aggregation of class support: which classes clients hold."""
MIN_CLIENTS = 3
"""A sum over two gives each of them the other's numbers."""
_CHANNEL, _SHARES, _SURVIVORS = (framed([purpose]) for purpose in ("channel", "shares", "survivors"))
_STEPS = dict(zip(messages.SERVER_MESSAGES, ("keys", "delivery", "survivors", "confirmations"), strict=True))
"""Messages of the server in their order, by the names that states keep."""


class _Pair(NamedTuple):
    """Secrets that two clients share: for sealing shares, for confirming survivors, and the seed of their mask."""

    channel: bytes
    confirm: bytes
    mask: bytes


class SecAggClient:
    """A client in one secure aggregation. It answers a step once: the same message gets the same answer, another none.

    Args:
        request: what is asked; it names the roster and the threshold.
        identity: the client's keys.
        keyring: whom it trusts; all clients on the roster must be in it.
        memory: what it remembers.
        purpose: of the aggregation, where a request leads to several.
        checked: whether clients can check the total that the server gives them afterwards (`holds`).
        fewest: the fewest clients that it lets a sum be over.
        apart: the fewest that it lets the difference of two sums be over; `fewest` where None.

    Raises:
        Refused: the client does not take part; the sentence says why.
    """

    def __init__(
        self,
        request: Request,
        identity: Identity,
        keyring: Keyring,
        memory: StateStore,
        *,
        purpose: str = "counts",
        checked: bool = False,
        fewest: int = MIN_CLIENTS,
        apart: int | None = None,
    ) -> None:
        private, roster = messages.sum_asked(request)
        self.request, self.identity, self.keyring, self.memory = request, identity, keyring, memory
        self.name, self.threshold, self.checked = identity.name, private.threshold, checked
        self.session = messages.session_of(request, purpose)
        self._salt = bytes.fromhex(self.session)
        self._place = {name: place for place, name in enumerate(roster, start=1)}
        if self.name not in self._place:
            raise Refused(f"{preview(self.name)} is not among the {len(self._place)} clients that are asked")
        least = max(fewest, MIN_CLIENTS)
        if self.threshold < least:
            raise Refused(
                f"the sum may be over as few as {self.threshold} clients, but this site wants at least {least}"
            )
        listed = keyring.members.get(self.name)
        if listed is not None and (listed.signing, listed.agreement) != identity.public:
            raise Refused(
                f"the keyring has other keys for {preview(self.name)} than this site's own: the others would refuse "
                "what it signs; give them its card again, or find out who made the other"
            )
        lacking = [name for name in roster if name != self.name and name not in keyring.members]
        if lacking:
            named = ", ".join(preview(name) for name in lacking[:5]) + ("…" if len(lacking) > 5 else "")
            raise Refused(
                f"{len(lacking)} on the roster are not in the keyring ({named}); take their cards in, if you trust "
                "them: fedcert keys trust"
            )
        self.fewest, self.apart = least, max(least, apart or 0)
        kind = HOLDERS if purpose == HOLDERS else "counts"
        self._guard = DifferencingGuard(memory, request, kind, self.apart)
        self._state: State = memory.get(self.session) or {}
        check_kept(self._state, self.name, tuple(_STEPS.values()), checked=checked)

    @property
    def done(self) -> bool:
        """Whether this client has done its part."""
        return self._state.get("last") == "confirmations"

    @property
    def over(self) -> tuple[str, ...]:
        """The survivors that this client confirmed."""
        return tuple(self._state.get("over", ()))

    def holds(self, total: Vector | None, tags: Vector | None) -> bool:
        """Whether the total that the server gives is the true one, of a checked aggregation that is done."""
        if total is None or tags is None or not self.done or not self.checked:
            return False
        return holds(total, tags, decoded(self._state["common"]), self.over)

    def again(self, purpose: str, *, checked: bool = False) -> SecAggClient:
        """This client in another aggregation of the same request."""
        return SecAggClient(
            self.request,
            self.identity,
            self.keyring,
            self.memory,
            purpose=purpose,
            checked=checked,
            fewest=self.fewest,
            apart=self.apart,
        )

    def join(self) -> messages.Join:
        """Take part."""
        if "join" not in self._state:
            key = X25519PrivateKey.generate()
            public = encoded(key.public_key().public_bytes_raw())
            join = messages.Join(session=self.session, client=self.name, key=public)
            self._state = {"secret": encoded(key.private_bytes_raw()), "seed": encoded(secrets.token_bytes(32))}
            self._state["join"] = join.signed(self.identity).to_json()
            self.memory.put(self.session, self._state)
        return messages.Join.from_json(self._state["join"])

    def share(self, keys: messages.Keys) -> messages.Shares:
        """Seal shares of this client's secrets for the others.

        Raises:
            Refused: the keys are not as they should be, or others came before.
        """
        return self._once(keys, messages.Shares, self._share)

    def _share(self, keys: messages.Keys) -> messages.Shares:
        joined, own = keys.keys, self._state["join"]["key"]
        unknown = [name for name in joined if name not in self._place]
        if unknown:
            raise Refused(f"{preview(unknown[0])} is not on the roster, but in the list of keys")
        if joined.get(self.name) != own:
            raise Refused("the list of keys has another key for this site than its own")
        if len(joined) < self.threshold:
            raise Refused(f"{len(joined)} take part, but a sum needs {self.threshold}")
        if len(set(joined.values())) < len(joined):
            raise Refused("two in the list of keys have the same key")
        pairs = self._pairs(joined)
        secret = decoded(self._state["secret"]) + decoded(self._state["seed"])
        parts = shares_of(secret, self.threshold, [self._place[name] for name in joined])
        common = secrets.token_bytes(messages.COMMON_BYTES)
        sealed, witness = {}, {}
        for name in joined:
            part = parts[self._place[name]]
            witness[name] = encoded(witness_of(self._salt, self.name, name, part))
            if name != self.name:
                box = ChaCha20Poly1305(pairs[name].channel)
                sealed[name] = encoded(box.encrypt(self._nonce(name), part + common, self._context(self.name, name)))
        self._state["pairs"] = {"with": list(pairs), "keys": encoded(b"".join(map(b"".join, pairs.values())))}
        self._state["parts"] = {self.name: encoded(parts[self._place[self.name]])}
        self._state["common"] = encoded(common)
        return messages.Shares(session=self.session, client=self.name, sealed=sealed, witness=witness)

    def _pairs(self, joined: Mapping[str, str]) -> dict[str, _Pair]:
        """The secrets that this client shares with each other one."""
        private = X25519PrivateKey.from_private_bytes(decoded(self._state["secret"]))
        lasting, pairs = self._lasting(joined), {}
        keys, own = {name: decoded(key) for name, key in joined.items()}, self._place[self.name]
        for name, key in keys.items():
            if name == self.name:
                continue
            fresh = agreed(private, key)
            first, second = (self.name, name) if own < self._place[name] else (name, self.name)
            both = framed([keys[first], keys[second]])
            purpose = b"".join([_CHANNEL, framed_name(first), framed_name(second), both])
            channel, confirm = derived(lasting[name] + fresh, self._salt, purpose, keys=2)
            pairs[name] = _Pair(channel, confirm, mask_seed(fresh, self._salt, first, second))
        return pairs

    def _lasting(self, joined: Mapping[str, str]) -> dict[str, bytes]:
        """Shared secrets by this client's card and the others': the same in every aggregation, so computed once."""
        private, (_, public) = self.identity.agreement_key, self.identity.public
        known = kept_agreements(self.memory.get("agreements"), public)
        cards = {name: self.keyring.members[name].agreement for name in joined if name != self.name}
        new = {card: encoded(agreed(private, decoded(card))) for card in set(cards.values()) - set(known)}
        if new:
            known = {**known, **new}
            self.memory.put("agreements", {"card": public, "with": known})
        return {name: decoded(known[card]) for name, card in cards.items()}

    def mask(self, delivery: messages.Delivery, vector: Vector) -> messages.Masked:
        """Mask this client's numbers.

        Args:
            delivery: the shares that others sealed for this client; these others are in the sum.
            vector: the numbers, mod 2^64.

        Raises:
            Refused: something in it was not sealed for this client in this aggregation.
        """
        return self._once(delivery, messages.Masked, lambda given: self._mask(given, vector))

    def _mask(self, delivery: messages.Delivery, vector: Vector) -> messages.Masked:
        if delivery.client != self.name:
            raise Refused(f"the delivery is for {preview(delivery.client)}, not for this site")
        pairs = self._pairs_kept()
        if len(delivery.sealed) + 1 < self.threshold:
            raise Refused(f"{len(delivery.sealed) + 1} are in the sum, but it needs {self.threshold}")
        parts, common = dict(self._state["parts"]), {self.name: decoded(self._state["common"])}
        for name, box in delivery.sealed.items():
            if name not in pairs:
                raise Refused(f"{preview(name)} sealed something for this site, but did not take part")
            nonce, context = self._nonce(self.name, name), self._context(name, self.name)
            try:
                part = ChaCha20Poly1305(pairs[name].channel).decrypt(nonce, decoded(box), context)
            except InvalidTag:
                raise Refused(
                    f"what came from {preview(name)} was not sealed by it for this site in this sum: a key, the roster "
                    "or the message was changed on the way"
                ) from None
            if not is_share(part[: -messages.COMMON_BYTES]):
                raise Refused(f"what came from {preview(name)} is no share of a secret")
            parts[name], common[name] = encoded(part[: -messages.COMMON_BYTES]), part[-messages.COMMON_BYTES :]
        key, numbers = common_key(self._salt, common), vector.astype(np.uint64)
        others, known = delivery_digest(self._salt, parts), hash_of_key(self._salt, key)
        hidden = self._masked(numbers, delivery.sealed, others)
        if self.checked:
            tags = self._masked(tags_of(numbers, key, self.name), delivery.sealed, others, known)
            hidden = np.concatenate([hidden, tags])
        self._state |= {"parts": parts, "common": encoded(key)}
        return messages.Masked(
            session=self.session,
            client=self.name,
            vector=encoded_numbers(hidden),
            key=encoded(known) if self.checked else None,
        )

    def _masked(self, numbers: Vector, others: Iterable[str], *contexts: bytes) -> Vector:
        """Numbers under this client's self-mask and the masks that it shares with others, in some contexts."""
        own, pairs = self._place[self.name], self._pairs_kept()
        shared = ((bound_seed(pairs[name].mask, *contexts), own < self._place[name]) for name in others)
        return masked(numbers, bound_seed(decoded(self._state["seed"]), *contexts), shared)

    def confirm(self, survivors: messages.Survivors) -> messages.Confirmed:
        """Confirm the survivors.

        Raises:
            Refused: they are too few or not in the sum, this client is not among them, it confirmed others, or an
                earlier sum was over others.
        """
        return self._once(survivors, messages.Confirmed, self._confirm)

    def _confirm(self, given: messages.Survivors) -> messages.Confirmed:
        survivors = set(given.survivors)
        unknown = sorted(survivors - set(self._state.get("parts", {})))
        if unknown:
            raise Refused(f"{preview(unknown[0])} is among the survivors, but was not in the sum")
        if self.name not in survivors:
            raise Refused("this site is not among the survivors")
        if len(survivors) < self.threshold:
            raise Refused(f"the sum would be over {len(survivors)} clients, but needs {self.threshold}")
        self._guard.bind(survivors)
        digest, pairs = survivors_digest(self._salt, survivors), self._pairs_kept()
        others = survivors - {self.name}
        tags = {name: encoded(self._tag(pairs[name].confirm, self.name, name, digest)) for name in others}
        self._state["over"] = sorted(survivors)
        return messages.Confirmed(session=self.session, client=self.name, survivors=encoded(digest), tags=tags)

    def reveal(self, confirmations: messages.Confirmations) -> messages.Revealed:
        """Reveal the shares that unmask the sum.

        Raises:
            Refused: too few confirmed the same survivors.
        """
        return self._once(confirmations, messages.Revealed, self._reveal)

    def _reveal(self, given: messages.Confirmations) -> messages.Revealed:
        if given.client != self.name:
            raise Refused(f"the confirmations are for {preview(given.client)}, not for this site")
        survivors, pairs = set(self._state.get("over", ())), self._pairs_kept()
        digest = survivors_digest(self._salt, survivors)
        others = {name: decoded(tag) for name, tag in given.tags.items() if name in survivors - {self.name}}
        expected = {name: self._tag(pairs[name].confirm, name, self.name, digest) for name in others}
        false = [name for name, tag in others.items() if not hmac.compare_digest(tag, expected[name])]
        right = len(others) - len(false) + 1
        if right < self.threshold:  # false tags do not count, and do not stop honest clients
            why = f"; {preview(false[0])} did not confirm the ones that this site received" if false else ""
            raise Refused(f"{right} gave their word on the survivors, but {self.threshold} must have done so{why}")
        self._guard.bind(survivors)
        parts = {name: decoded(part) for name, part in self._state["parts"].items()}
        own = {name: encoded(part[SHARE_BYTES:]) for name, part in parts.items() if name in survivors}
        keys = {name: encoded(part[:SHARE_BYTES]) for name, part in parts.items() if name not in survivors}
        return messages.Revealed(session=self.session, client=self.name, own=own, keys=keys)

    def _once(self, given: _Given, kind: type[_Answer], work: Callable[[_Given], _Answer]) -> _Answer:
        """Answer a step once, and the same way if its message comes again."""
        if given.session != self.session:
            raise Refused(f"the {type(given).NOUN} is of another sum")
        digest = hashlib.sha256(json.dumps(given.to_json(), sort_keys=True).encode()).hexdigest()
        step, done = _STEPS[type(given)], self._state.get("done", {})
        if done.get(step) == digest and self._state["last"] == step:
            return kind.from_json(parse(self._state["answer"], "the memory of this sum"))
        if step in done:
            raise Refused(f"this site has answered another {type(given).NOUN} in this sum, or a later step")
        due = next(earlier for earlier, name in _STEPS.items() if name not in done)
        if not isinstance(given, due):
            raise Refused(f"the {type(given).NOUN} came before the {due.NOUN}")
        if "join" not in self._state:
            raise Refused(f"the {type(given).NOUN} came before this site joined")
        before = dict(self._state)
        try:
            answer = work(given).signed(self.identity)
        except BaseException:
            self._state = before
            raise
        self._state |= {"done": {**done, step: digest}, "last": step, "answer": answer.dumps()}
        if step == "confirmations":  # the secrets are of no further use
            for name in ("secret", "seed", "pairs", "parts", *(() if self.checked else ("common",))):
                del self._state[name]
        self.memory.put(self.session, self._state)  # before the answer leaves
        return answer

    def _pairs_kept(self) -> dict[str, _Pair]:
        names, keys = self._state["pairs"]["with"], decoded(self._state["pairs"]["keys"])
        blocks = [keys[start : start + 32] for start in range(0, len(keys), 32)]
        return {name: _Pair(*blocks[3 * place : 3 * place + 3]) for place, name in enumerate(names)}

    def _nonce(self, receiver: str, sender: str | None = None) -> bytes:
        """One for each direction of a channel, whose key serves this aggregation alone."""
        return bytes(11) + bytes([self._place[sender or self.name] < self._place[receiver]])

    def _context(self, sender: str, receiver: str) -> bytes:
        return b"".join([self._salt, _SHARES, framed_name(sender), framed_name(receiver)])

    def _tag(self, key: bytes, sender: str, receiver: str, digest: bytes) -> bytes:
        return hmac.digest(key, b"".join([_SURVIVORS, framed_name(sender), framed_name(receiver), digest]), "sha256")
