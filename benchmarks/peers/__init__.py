"""Our figures beside those of the other packages that compute the same numbers.

Every peer is optional and used as its own documentation says: `adapters` holds the calls, `workloads` the data and
float64 references, `measure` the clock and the memory, `report` the table and the figure, `models` two networks end
to end.
"""
