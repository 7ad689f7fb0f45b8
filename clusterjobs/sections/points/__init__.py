"""The section `points`: the points of a sweep, and the arrays that run them."""
