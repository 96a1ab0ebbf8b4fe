"""Apps and scripts that engines run, not pytest."""

collect_ignore_glob = [
    "flower/quickstart/*",
    "nvflare/site_script.py",
    "nvflare/private_controller.py",
    "nvflare/trained_controller.py",
]
