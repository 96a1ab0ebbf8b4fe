"""Flower: certification rounds in any Flower app.

A client answers with `answer` in its `@app.query("certify")` handler; the server asks with `certify_round`, or every so
many rounds of training with `certifying`. Works with the release that `SUPPORTED` names.
"""

from fedcert.engines.versions import check_version

SUPPORTED = (1, 41)
"""Major and minor number of the releases of Flower that are tested: its interfaces change between them."""

check_version("flwr", "Flower", "flower", SUPPORTED)

from fedcert.engines.flower.answering import answer  # noqa: E402 (another Flower may lack what these import)
from fedcert.engines.flower.certifying import certify_round, certifying  # noqa: E402

__all__ = ["SUPPORTED", "answer", "certify_round", "certifying"]
