"""The values that cross between client and server, and their files. The two halves meet only here."""

from fedcert.report.combine import check_alike, check_together, common_smoothing
from fedcert.report.gathering import Gathered, gather, read_reports
from fedcert.report.reading import read_documents, read_one
from fedcert.report.report import Report
from fedcert.report.request import Release, Request, Target
from fedcert.report.smoothing import DEFAULT_RADII, Smoothing
from fedcert.report.sums import Sums
from fedcert.report.table import Table
from fedcert.report.writing import check_writable, write_whole

__all__ = [
    "DEFAULT_RADII",
    "Gathered",
    "Release",
    "Report",
    "Request",
    "Smoothing",
    "Sums",
    "Table",
    "Target",
    "check_alike",
    "check_together",
    "check_writable",
    "common_smoothing",
    "gather",
    "read_documents",
    "read_one",
    "read_reports",
    "write_whole",
]
