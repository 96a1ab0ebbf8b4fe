"""Flower: certification rounds in any Flower app.

A client answers with `answer` in its `@app.query("certify")` handler; the server asks with `certify_round`, or every so
many rounds of training with `certifying`. With `certify_privately` it gets sums of the clients' counts, and never one
client's own. Works with the releases that `SUPPORTED` names.
"""

from fedcert.engines.versions import check_version

SUPPORTED = ((1, 41), (1, 42))
"""Major and minor number of the releases of Flower that are tested: its interfaces change between them."""

check_version("flwr", "Flower", "flower", *SUPPORTED)

from fedcert.engines.client import participant  # noqa: E402
from fedcert.engines.flower.client import answer  # noqa: E402 (another Flower may lack what these import)
from fedcert.engines.flower.server import certify_privately, certify_round, certifying  # noqa: E402

__all__ = ["SUPPORTED", "answer", "certify_privately", "certify_round", "certifying", "participant"]
