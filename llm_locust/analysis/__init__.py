"""Pure arithmetic of a run: merge, per-request figures, percentiles, goodput, trends, gates and the verdict in words."""
