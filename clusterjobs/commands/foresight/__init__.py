"""Foresight of a planned job: memory, speed, time and cost, shown by `plan` and warned of."""
