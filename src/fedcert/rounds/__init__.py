"""The protocol of a certification round: what every transport shares. Transports move messages and decide nothing."""

from fedcert.rounds.asking import ask
from fedcert.rounds.carrying import Transport, carry_round
from fedcert.rounds.folder import RunFolder
from fedcert.rounds.round import Round
from fedcert.rounds.waiting import Reply, wait

__all__ = ["Reply", "Round", "RunFolder", "Transport", "ask", "carry_round", "wait"]
