"""How robust is a federated model on the population that it will be deployed to?

Each client certifies the model on its own test data (`certify`) and sends a report of counts. The server
combines the reports into the certified accuracy of a target population (`estimate`).
"""

from fedcert.certification.models import onnx_classifier
from fedcert.certification.run import certify
from fedcert.errors import (
    CallError,
    CannotCombine,
    DataProblem,
    EstimationProblem,
    FedcertError,
    FedcertWarning,
    FileProblem,
    InvalidValue,
    MissingExtra,
    ModelProblem,
)
from fedcert.estimation.compare import Comparison, compare
from fedcert.estimation.result import Estimate
from fedcert.estimation.run import estimate
from fedcert.report import Report, Request, Smoothing, Sums, Target, read_reports
from fedcert.show.figures import plot
from fedcert.version import __version__

__all__ = [
    "CallError",
    "CannotCombine",
    "Comparison",
    "DataProblem",
    "Estimate",
    "EstimationProblem",
    "FedcertError",
    "FedcertWarning",
    "FileProblem",
    "InvalidValue",
    "MissingExtra",
    "ModelProblem",
    "Report",
    "Request",
    "Smoothing",
    "Sums",
    "Target",
    "__version__",
    "certify",
    "compare",
    "estimate",
    "onnx_classifier",
    "plot",
    "read_reports",
]
