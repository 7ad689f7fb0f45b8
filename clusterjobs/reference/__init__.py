"""What is known of each key, for people, editors and shells."""

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
COMPLETION = Command(
    "completion",
    "clusterjobs.reference.commands:completion",
    "Print the lines that make a shell complete commands, keys and points.",
)
