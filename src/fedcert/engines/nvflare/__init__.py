"""NVFlare: certification rounds through its client API.

A client's script answers with `answer`; a controller asks with `certify_round`, or is a `Certification` by itself. With
`certify_privately` it gets sums of the clients' counts, and never one client's own.
"""

from fedcert.engines.versions import check_version

SUPPORTED = (2, 9)
"""Major and minor number of the releases of NVFlare that are tested."""

check_version("nvflare", "NVFlare", "nvflare", SUPPORTED)

from fedcert.engines.client import participant  # noqa: E402
from fedcert.engines.nvflare.client import answer  # noqa: E402 (another NVFlare may lack what these import)
from fedcert.engines.nvflare.server import Certification, certify_privately, certify_round  # noqa: E402

__all__ = ["SUPPORTED", "Certification", "answer", "certify_privately", "certify_round", "participant"]
