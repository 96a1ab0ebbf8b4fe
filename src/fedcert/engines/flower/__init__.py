"""Flower: certification rounds in any Flower app.

A client answers with `answer` in its `@app.query("certify")` handler; the server asks with `certify_round`, or every so
many rounds of training with `certifying`.
"""

from fedcert.engines.flower.answering import answer
from fedcert.engines.flower.certifying import certify_round, certifying
from fedcert.engines.flower.version import SUPPORTED

__all__ = ["SUPPORTED", "answer", "certify_round", "certifying"]
