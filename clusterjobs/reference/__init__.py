"""The keys of a spec, for people, editors and shells; and examples of specs."""

from clusterjobs.plugins import Command

EXPLAIN = Command(
    "explain",
    "clusterjobs.reference.commands:explain",
    "Explain a key of a spec: meaning, default, example.",
    after="show",
)
SCHEMA = Command(
    "schema",
    "clusterjobs.reference.commands:schema",
    "Print the JSON Schema of a spec, for editors and other tools.",
    after="explain",
)
EXAMPLES = Command(
    "examples",
    "clusterjobs.reference.examples:examples",
    "List the example specs, or copy them into a folder.",
    after="import",
)
COMPLETION = Command(
    "completion",
    "clusterjobs.reference.commands:completion",
    "Print the lines that make a shell complete commands, keys and points.",
)
