"""The protocol of a certification round: what every transport shares. Transports move messages and decide nothing."""

from fedcert.rounds.folder import RunFolder
from fedcert.rounds.reports import run_round
from fedcert.rounds.requests import make_request
from fedcert.rounds.round import CertificationRound
from fedcert.rounds.transport import Reply, Transport
from fedcert.rounds.waiting import wait

__all__ = ["CertificationRound", "Reply", "RunFolder", "Transport", "make_request", "run_round", "wait"]
