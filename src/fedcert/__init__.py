"""How robust is a federated model on the population that it will be deployed to?

Each client certifies the model on its own test data (`certify`) and sends a report of counts. The server
combines the reports into the certified accuracy of a target population (`estimate`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcert.errors import (
    CallError,
    CannotCombine,
    DataProblem,
    DeviceProblem,
    EstimationProblem,
    FedcertError,
    FedcertWarning,
    FileProblem,
    InvalidValue,
    MissingExtra,
    ModelProblem,
)
from fedcert.version import __version__

if TYPE_CHECKING:
    from fedcert.certification.models.loading import onnx_classifier
    from fedcert.certification.progress import ProgressListener
    from fedcert.certification.run import certify
    from fedcert.coordination.collecting import collect
    from fedcert.coordination.requesting import request
    from fedcert.estimation.accuracy import AccuracyAtRadius
    from fedcert.estimation.compare import Comparison, compare
    from fedcert.estimation.estimate import estimate, what_if
    from fedcert.estimation.plan import Plan, plan
    from fedcert.estimation.result import Estimate, WhatIf
    from fedcert.prediction.smoothed import smooth
    from fedcert.prediction.vote import Vote
    from fedcert.report import Report, Request, Smoothing, Sums, Target, read_reports
    from fedcert.show.figures import plot
    from fedcert.show.page.writing import page

# Loaded when first used: the command line answers at once, and a client never loads the server's half.
_HOMES = {
    "fedcert.certification.models.loading": ["onnx_classifier"],
    "fedcert.certification.progress": ["ProgressListener"],
    "fedcert.certification.run": ["certify"],
    "fedcert.coordination.collecting": ["collect"],
    "fedcert.coordination.requesting": ["request"],
    "fedcert.estimation.accuracy": ["AccuracyAtRadius"],
    "fedcert.estimation.compare": ["Comparison", "compare"],
    "fedcert.estimation.plan": ["Plan", "plan"],
    "fedcert.estimation.result": ["Estimate", "WhatIf"],
    "fedcert.estimation.estimate": ["estimate", "what_if"],
    "fedcert.prediction.smoothed": ["smooth"],
    "fedcert.prediction.vote": ["Vote"],
    "fedcert.report": ["Report", "Request", "Smoothing", "Sums", "Target", "read_reports"],
    "fedcert.show.figures": ["plot"],
    "fedcert.show.page.writing": ["page"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AccuracyAtRadius",
    "CallError",
    "CannotCombine",
    "Comparison",
    "DataProblem",
    "DeviceProblem",
    "Estimate",
    "EstimationProblem",
    "FedcertError",
    "FedcertWarning",
    "FileProblem",
    "InvalidValue",
    "MissingExtra",
    "ModelProblem",
    "Plan",
    "ProgressListener",
    "Report",
    "Request",
    "Smoothing",
    "Sums",
    "Target",
    "Vote",
    "WhatIf",
    "__version__",
    "certify",
    "collect",
    "compare",
    "estimate",
    "onnx_classifier",
    "page",
    "plan",
    "plot",
    "read_reports",
    "request",
    "smooth",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedcert' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
