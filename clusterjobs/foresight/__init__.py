"""Predicts memory, speed, time and cost of a training job. Knows formulas, no spec or cluster."""
