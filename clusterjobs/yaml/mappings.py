"""The keys and values of YAML mappings, with merge keys (`<<`) resolved by the 1.1 rules.

It knows nodes and merge keys; it must not know positions or the types of values.
"""

from __future__ import annotations

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from clusterjobs.yaml.scalars import Rules


class Mappings:
    """The keys and values of mapping nodes; each node is read once, however often it is used."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._pairs: dict[MappingNode, list[tuple[Node, Node]]] = {}
        self._entries: dict[MappingNode, dict[str, tuple[Node, Node]]] = {}

    def entry(self, node: MappingNode, name: str | int) -> tuple[Node, Node] | None:
        """The key and the value of that name, the first one if it is given twice."""
        if node not in self._entries:
            pairs = reversed(self.pairs(node))
            self._entries[node] = {
                key.value: (key, value) for key, value in pairs if isinstance(key, ScalarNode)
            }
        return self._entries[node].get(name) if isinstance(name, str) else None

    def pairs(self, node: MappingNode) -> list[tuple[Node, Node]]:
        """Keys and values; by the 1.1 rules with `<<` merged, own keys first."""
        if node not in self._pairs:
            self._pairs[node] = []  # a mapping that merges itself gets nothing from it
            self._pairs[node] = self._merged(node)
        return self._pairs[node]

    def _merged(self, node: MappingNode) -> list[tuple[Node, Node]]:
        sources: list[Node] = []
        own: list[tuple[Node, Node]] = []
        for key, value in node.value:
            if self._rules == "1.1" and key.tag == "merge":
                sources += value.value if isinstance(value, SequenceNode) else [value]
            else:
                own.append((key, value))
        names = {key.value for key, _ in own if isinstance(key, ScalarNode)}
        for source in sources:
            for key, value in self.pairs(source) if isinstance(source, MappingNode) else ():
                if isinstance(key, ScalarNode) and key.value not in names:
                    names.add(key.value)
                    own.append((key, value))
        return own
