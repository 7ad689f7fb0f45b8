"""Whether the keys of `model` fit each other, for every framework.

It must not know how a framework divides a model (`parallelism.py`).
"""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model_keys import Model


def check_model_keys(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """Heads of keys and values, and experts."""
    model = experiment.model
    if model and model.layers:
        _check_heads(model, diagnostics)
        _check_experts(model, diagnostics)


def _check_heads(model: Model, diagnostics: Diagnostics) -> None:
    heads, found = model.heads, model.kv_heads
    if not found:
        return
    if found > heads:
        what = f"{found} kv_heads are more than the {heads} heads"
        hint = f"kv_heads: {heads} or less; heads that share keys and values are a group"
        diagnostics.problem(("model", "kv_heads"), what, hint)
    elif heads % found:
        divisors = [one for one in range(1, min(heads, 1000) + 1) if heads % one == 0]
        near = min(divisors, key=lambda one: abs(one - found))
        what = f"{heads} heads are not a multiple of {found} kv_heads"
        diagnostics.problem(("model", "kv_heads"), what, f"a divisor of {heads}: kv_heads: {near}")


def _check_experts(model: Model, diagnostics: Diagnostics) -> None:
    number, top_k = model.experts, model.experts_per_token
    if number and not top_k:
        what = "experts_per_token is missing: how many of the experts a token uses"
        diagnostics.problem(("model", "experts"), what, "add experts_per_token: 2")
    elif top_k and not number:
        what = "experts is missing: how many there are in a layer"
        diagnostics.problem(("model", "experts_per_token"), what, "add experts: 8, or remove it")
    elif number and top_k and top_k > number:
        what = f"{top_k} experts for each token, and {number} in all"
        diagnostics.problem(
            ("model", "experts_per_token"), what, f"experts_per_token: {number} or less"
        )
