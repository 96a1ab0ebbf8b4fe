"""What a site runs: NVFlare's client API, and fedcert's answer."""

import sys

import nvflare.client as flare

sys.path.insert(0, sys.argv[1])
from ward.task import load_data, make_network

from fedcert.engines.nvflare import answer

flare.init()
site = flare.get_site_name()
while flare.is_running():
    received = flare.receive()
    if received is None:
        break
    _, test = load_data({"partition-id": int(site.rpartition("-")[2]) - 1, "num-partitions": 3})
    if "--failing" in sys.argv and site == "site-3":
        raise RuntimeError("the disk is broken")
    if "--stubborn" in sys.argv and site == "site-3":
        received.params = {name: value * 0 for name, value in received.params.items()}
    flare.send(answer(received, make_network(), test, class_counts=True))
