"""Memory, speed, time and cost of a training by formulas."""
