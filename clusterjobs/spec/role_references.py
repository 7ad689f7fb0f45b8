"""The variables with the addresses of roles, and the references to them: `{{ roles.server.addr }}`.

It knows their names; it must not know which values they get.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clusterjobs.errors import did_you_mean
from clusterjobs.spec.references import BadReferenceError, variable

if TYPE_CHECKING:
    from clusterjobs.spec.role_keys import Role

TRAINING_NODES = "CLUSTERJOBS_TRAINING_NODES"  # the nodes that train, with commas
_VARIABLE = re.compile(r"CLUSTERJOBS_[A-Z0-9_]+_(?:ADDR|NODES)")


def nodes_variable(role: str) -> str:
    """The variable with all nodes of a role, with commas."""
    return f"CLUSTERJOBS_{role.upper()}_NODES"


def addr_variable(role: str) -> str:
    """The variable with the first node of a role."""
    return f"CLUSTERJOBS_{role.upper()}_ADDR"


def port_variable(role: str) -> str:
    """The variable with the port of a role."""
    return f"CLUSTERJOBS_{role.upper()}_PORT"


# What a reference may name, beside the keys of a role.
_ADDRESSES = {"addr": addr_variable, "addrs": nodes_variable}


def role_variables(roles: Mapping[str, Role]) -> Iterator[str]:
    """The names of all variables with addresses; none without roles."""
    if roles:
        yield TRAINING_NODES
    for name, role in roles.items():
        yield from (nodes_variable(name), addr_variable(name))
        if role.port is not None:
            yield port_variable(name)


def role_address(name: str, roles: Any) -> str | None:
    """The mark for `{{ roles.<name> }}`, if that is an address; None if it is a key of the role.

    `addr` is the first node of the role, `addrs` all of them. Raises BadReferenceError.
    """
    role, _, what = name.partition(".")
    known = roles if isinstance(roles, Mapping) else {}
    if role not in known:
        add = f"add `roles: {{{role}: {{command: ...}}}}`"
        hint = did_you_mean(role, list(map(str, known))) if known else add
        raise BadReferenceError(f"there is no role {role}", hint)
    if what in _ADDRESSES:
        return variable(_ADDRESSES[what](role))
    keys = known[role] if isinstance(known[role], Mapping) else {}
    if what.partition(".")[0] not in keys:
        hint = did_you_mean(what, [*_ADDRESSES, *map(str, keys)])
        raise BadReferenceError(f"roles.{name} is not given", hint)
    return None


def is_address(name: str) -> bool:
    """Whether a shell variable has the address of a role."""
    return _VARIABLE.fullmatch(name) is not None
