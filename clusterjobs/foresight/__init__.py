"""Predicts memory, speed, time and cost of a training job. Knows formulas, but no spec, no cluster."""
