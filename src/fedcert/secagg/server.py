"""The server's part in a secure aggregation: it relays messages, and unmasks the sum, never one client's vector."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedcert._schema.encoding import decoded, encoded
from fedcert.errors import QuorumMissed, Refused, preview
from fedcert.privacy.keys.keyring import Keyring
from fedcert.report import Request
from fedcert.secagg import messages
from fedcert.secagg.binding import bound_seed, delivery_digest, half_witness, mask_seed, survivors_digest
from fedcert.secagg.masks import Vector, agreed, stream
from fedcert.secagg.shamir import is_share, secret_of, secrets_of


class SecAggServer:
    """One secure aggregation, as the server sees it.

    It goes through five stages. In each, clients send one kind of message (`take`); `close` ends it, after which there
    is a message for each client that is still in (`message_for`). After the last, `total` is the sum over the
    survivors, and `tags` that by which clients check it. Below the threshold there is none.

    Args:
        request: what was asked.
        keyring: the clients' public keys.
        length: numbers that are summed.
        purpose: of the aggregation, where a request leads to several.
        checked: whether clients can check the total.
        invited: who may join; the whole roster where None.
    """

    def __init__(
        self,
        request: Request,
        keyring: Keyring,
        length: int,
        *,
        purpose: str = "counts",
        checked: bool = False,
        invited: Collection[str] | None = None,
    ) -> None:
        private, roster = messages.sum_asked(request)
        self.keyring, self.length, self.checked, self.threshold = keyring, length, checked, private.threshold
        self.session = messages.session_of(request, purpose)
        self._salt = bytes.fromhex(self.session)
        self._place = {name: place for place, name in enumerate(roster, start=1)}
        self.invited = set(self._place) if invited is None else set(invited)
        self.stage = 0
        self.received: list[dict[str, messages.ClientMessage]] = [{} for _ in messages.CLIENT_MESSAGES]
        self.total: Vector | None = None
        self.tags: Vector | None = None

    @property
    def asked(self) -> set[str]:
        """Who may send a message in this stage."""
        if self.stage == 0:
            return self.invited
        if self.stage >= len(messages.CLIENT_MESSAGES):
            return set()
        return set(self.received[self.stage - 1])

    @property
    def waiting_for(self) -> set[str]:
        """Who may still send one."""
        return self.asked - set(self.received[self.stage]) if self.stage < len(messages.CLIENT_MESSAGES) else set()

    @property
    def survivors(self) -> set[str]:
        """Whose numbers are in the sum."""
        return set(self.received[2])

    def take(self, message: messages.ClientMessage) -> None:
        """Take a client's message; the same one may come again.

        Raises:
            Refused: it is not what this client may send now; the sentence says why.
        """
        client = preview(message.client)
        if message.session != self.session:
            raise Refused(f"a message of {client} is of another sum")
        if message.client not in self._place:
            raise Refused(f"{client} is not among the {len(self._place)} clients that were asked")
        message.check(self.keyring)
        stage = messages.CLIENT_MESSAGES.index(type(message))
        first = self.received[stage].get(message.client)
        if first is not None:
            if first != message:
                noun = type(message).NOUN
                raise Refused(f"{client} has sent its {noun} already, with another content; the first stays")
            return
        if stage != self.stage or message.client not in self.asked:
            raise Refused(f"the {type(message).NOUN} of {client} came too {'late' if stage < self.stage else 'early'}")
        self._check(message)
        self.received[stage][message.client] = message

    def _check(self, message: messages.ClientMessage) -> None:
        """Check that a message fits the others."""
        client, keys = preview(message.client), self._keys
        if isinstance(message, messages.Join):
            if message.key in keys.values():
                raise Refused(f"the key of {client} is another site's")
            agreed(X25519PrivateKey.generate(), decoded(message.key))  # a key of small order shows now
        if isinstance(message, messages.Shares) and (
            set(message.sealed) != set(keys) - {message.client} or set(message.witness) != set(keys)
        ):
            raise Refused(f"{client} did not seal shares for exactly the sites that take part")
        if isinstance(message, messages.Masked):
            sent, wanted = len(decoded(message.vector)), self.length * (1 + self.checked)
            if sent != 8 * wanted:
                raise Refused(f"{client} sent {sent // 8} numbers, but {wanted} are asked for")
            if (message.key is None) == self.checked:
                raise Refused(f"{client} sent {'no' if self.checked else 'a'} hash of a key with its masked numbers")
        if isinstance(message, messages.Confirmed):
            if decoded(message.survivors) != survivors_digest(self._salt, self.survivors):
                raise Refused(f"{client} gave its word on other survivors")
            if set(message.tags) != self.survivors - {message.client}:
                raise Refused(f"{client} did not give its word to every other survivor")
        if isinstance(message, messages.Revealed):
            self._check_shares(message)

    def _check_shares(self, message: messages.Revealed) -> None:
        """Check the shares that a client reveals against their owners' hashes of them."""
        client, sharers = preview(message.client), self._of(messages.Shares)
        if set(message.own) != self.survivors or set(message.keys) != set(sharers) - self.survivors:
            raise Refused(f"{client} did not reveal what the sum needs, and nothing else")
        for shares, half in ((message.keys, 0), (message.own, 1)):
            for owner, share in shares.items():
                witness = decoded(sharers[owner].witness[message.client])[32 * half : 32 * half + 32]
                part = decoded(share)
                if not is_share(part) or half_witness(self._salt, owner, message.client, part) != witness:
                    raise Refused(f"{client} revealed a false share of {preview(owner)}, or was given one")

    def close(self, names: Collection[str] | None = None) -> None:
        """End the stage with those who have answered.

        Args:
            names: with these alone, where an earlier process ended the stage; with all where None.

        Raises:
            QuorumMissed: they are too few; there will be no sum, and nothing is known of any client's numbers.
        """
        answered = self.received[self.stage]
        if names is not None:
            answered = {name: message for name, message in answered.items() if name in names}
            self.received[self.stage] = answered
        if len(answered) < self.threshold:
            noun = messages.CLIENT_MESSAGES[self.stage].NOUN
            raise QuorumMissed(
                f"{len(answered)} clients sent their {noun}, but a private sum needs {self.threshold}; nothing is "
                "known of anybody's numbers"
            )
        self.stage += 1
        if self.stage == len(messages.CLIENT_MESSAGES):
            self._unmask()

    def message_for(self, client: str) -> messages.ServerMessage | None:
        """The message to a client in this stage; None in the first, after the last, and for who dropped out."""
        if client not in self.asked or not 0 < self.stage < len(messages.CLIENT_MESSAGES):
            return None
        if self.stage == 1:
            return messages.Keys(session=self.session, keys=self._keys)
        if self.stage == 2:
            shares = self._of(messages.Shares)
            sealed = {name: sent.sealed[client] for name, sent in shares.items() if name != client}
            return messages.Delivery(session=self.session, client=client, sealed=sealed)
        if self.stage == 3:
            return messages.Survivors(session=self.session, survivors=tuple(sorted(self.survivors)))
        tags = {name: word.tags[client] for name, word in self._of(messages.Confirmed).items() if name != client}
        return messages.Confirmations(session=self.session, client=client, tags=tags)

    @property
    def _keys(self) -> dict[str, str]:
        """The public mask keys of those who joined."""
        return {name: join.key for name, join in self._of(messages.Join).items()}

    def _of(self, kind: type[Any]) -> dict[str, Any]:
        # Sorted: messages must not depend on who answered first, or a coordinator that was restarted would send others.
        return dict(sorted(self.received[messages.CLIENT_MESSAGES.index(kind)].items()))

    def _unmask(self) -> None:
        """Remove the masks from the sum, and from that of the tags."""
        survivors, sharers = sorted(self.survivors), self._of(messages.Shares)
        revealed: dict[str, messages.Revealed] = self._of(messages.Revealed)
        chosen = sorted(revealed)[: self.threshold]
        shares = [{self._place[by]: decoded(revealed[by].own[name]) for by in chosen} for name in survivors]
        seeds = dict(zip(survivors, secrets_of(shares), strict=True))
        context = delivery_digest(self._salt, sharers)
        sums = [np.zeros(self.length, dtype=np.uint64) for _ in range(1 + self.checked)]
        contexts: dict[str, list[tuple[bytes, ...]]] = {}
        for name, message in self._of(messages.Masked).items():
            contexts[name] = [(context,)]
            if message.key is not None:
                contexts[name].append((context, decoded(message.key)))
            numbers = np.frombuffer(decoded(message.vector), dtype="<u8").reshape(len(sums), self.length)
            for total, part, bound in zip(sums, numbers, contexts[name], strict=True):
                total += part - stream(bound_seed(seeds[name], *bound), self.length)
        for name in sorted(set(sharers) - self.survivors):
            key = secret_of({self._place[by]: decoded(revealed[by].keys[name]) for by in chosen})
            self._remove_pairs(sums, name, key, contexts)
        self.total, self.tags = sums[0], sums[1] if self.checked else None

    def _remove_pairs(
        self, sums: list[Vector], dropped: str, secret: bytes, contexts: Mapping[str, list[tuple[bytes, ...]]]
    ) -> None:
        """Remove the masks that survivors share with a client that dropped out.

        Args:
            sums: of the numbers and perhaps of the tags, which are changed.
            dropped: the client.
            secret: its secret mask key.
            contexts: of the survivors' masks, one for each sum.
        """
        keys, private = self._keys, X25519PrivateKey.from_private_bytes(secret)
        if encoded(private.public_key().public_bytes_raw()) != keys[dropped]:
            raise Refused(f"the shares of {preview(dropped)} do not fit together: it shared another key than its own")
        for name, bound in contexts.items():
            first, second = sorted((dropped, name), key=self._place.__getitem__)
            seed = mask_seed(agreed(private, decoded(keys[name])), self._salt, first, second)
            for total, context in zip(sums, bound, strict=True):
                mask = stream(bound_seed(seed, *context), self.length)
                if name == first:  # the first of a pair has added it
                    total -= mask
                else:
                    total += mask
