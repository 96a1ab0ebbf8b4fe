"""Methods side by side for one target, and those of them that the page evaluates for other class mixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedcert._threads import single_blas_thread
from fedcert.errors import EstimationProblem
from fedcert.estimation.assembly import assemble
from fedcert.estimation.methods.registry import METHODS, class_curve_methods, find_method, load_place
from fedcert.estimation.mix_arrays import MixForms
from fedcert.estimation.mix_forms import MOST_CLASSES
from fedcert.estimation.prepared import PreparedClients
from fedcert.estimation.result import Estimate


@dataclass(frozen=True)
class MethodComparison:
    """Estimates by several methods for one target.

    Attributes:
        estimates: one per method, that which the others are compared with first.
        failed: method -> why there is no estimate by it.
    """

    estimates: tuple[Estimate, ...]
    failed: Mapping[str, str]


@single_blas_thread()
def compare_methods(prepared: PreparedClients, main: Estimate) -> MethodComparison:
    """An estimate, and those of all other methods that comparisons include, for the same target.

    Where the estimate's method was chosen automatically, the chosen one is not computed again.

    Raises:
        CallError: a method is only half registered.
    """
    estimates, failed = [main], dict[str, str]()
    for name in METHODS:
        method = find_method(name)
        if name in (main.method, main.used_method) or not method.compared:
            continue
        try:
            estimates.append(assemble(prepared, method, main.target))
        except EstimationProblem as error:
            failed[name] = str(error)
    return MethodComparison(tuple(estimates), failed)


@single_blas_thread()
def forms_for_page(prepared: PreparedClients) -> tuple[dict[str, MixForms], str | None]:
    """Method -> its evaluator as arrays, for methods that the page's script knows; where there is none, why.

    Raises:
        CallError: a method is only half registered.
    """
    forms = dict[str, MixForms]()
    for method in class_curve_methods():
        packed = None if method.mix_forms is None else load_place(method.name, method.mix_forms)(prepared)
        if packed is not None:
            forms[method.name] = packed
    if forms:
        return forms, None
    if len(prepared.clients.classes) > MOST_CLASSES:
        why = f"With more than {MOST_CLASSES} classes, and no counts per class, use 'fedcert what-if' for other mixes."
        return {}, why
    if prepared.settings.non_negative:
        return {}, "With non-negative weights, use 'fedcert estimate' for other class mixes."
    return {}, "These sums do not tell what other class mixes need."
