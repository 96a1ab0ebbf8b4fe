"""What a site runs: NVFlare's client API, and fedcert's answer."""

import sys
from dataclasses import replace

import nvflare.client as flare

sys.path.insert(0, sys.argv[1])
from ward.task import load_data, make_network

from fedcert.engines.nvflare import answer

flare.init()
site = flare.get_site_name()
participant = None
if "--keys" in sys.argv:
    from fedcert.privacy.policy import Policy
    from fedcert.secagg.participant import ParticipantConfig

    keys = sys.argv[sys.argv.index("--keys") + 1]
    participant = replace(
        ParticipantConfig.read(f"{keys}/{site}.keys.json", f"{keys}/ring.json", f"{keys}/memory-{site}"),
        policy=Policy(fewest_for_squares=3, fewest_for_moments=3),
    )
signing = {}
if "--sign" in sys.argv:
    keys = sys.argv[sys.argv.index("--sign") + 1]
    signing = {"keys": f"{keys}/{site}.keys.json", "trusted": f"{keys}/ring.json"}
while flare.is_running():
    received = flare.receive()
    if received is None:
        break
    _, test = load_data({"partition-id": int(site.rpartition("-")[2]) - 1, "num-partitions": 3})
    if "--failing" in sys.argv and site == "site-3":
        raise RuntimeError("the disk is broken")
    if "--stubborn" in sys.argv and site == "site-3":
        received.params = {name: value * 0 for name, value in received.params.items()}
    flare.send(answer(received, make_network(), test, class_counts=True, participant=participant, **signing))
