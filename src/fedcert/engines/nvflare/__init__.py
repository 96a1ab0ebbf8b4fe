"""NVFlare: certification rounds through its client API.

A client's script answers with `answer`; a controller asks with `certify_round`, or is a `Certification` by itself.
"""

from fedcert.engines.nvflare.answering import answer
from fedcert.engines.nvflare.certifying import Certification, certify_round

__all__ = ["Certification", "answer", "certify_round"]
