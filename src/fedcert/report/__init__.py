"""The records that clients and server exchange, and their files. The two halves of fedcert meet only here."""

from fedcert._files.atomic import check_writable, write_whole
from fedcert._files.documents import read_documents, read_record
from fedcert.report.compatibility import check_compatible
from fedcert.report.load import LoadedReports, load, read_reports
from fedcert.report.report import Report
from fedcert.report.request import Release, Request, Target
from fedcert.report.smoothing import DEFAULT_RADII, Smoothing
from fedcert.report.sums.values import Sums
from fedcert.report.table.columns import Table

__all__ = [
    "DEFAULT_RADII",
    "LoadedReports",
    "Release",
    "Report",
    "Request",
    "Smoothing",
    "Sums",
    "Table",
    "Target",
    "check_compatible",
    "check_writable",
    "load",
    "read_documents",
    "read_record",
    "read_reports",
    "write_whole",
]
