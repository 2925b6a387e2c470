"""Events to tables: leaf ops, program runs, steps, collectives and the exact partition of every step.

Pure functions of what was recorded. The order of the modules is the order of the work: ``rows`` (one core's rows as
arrays), ``tpu``, ``gpu``, ``cpu`` (rows of each kind of device), ``nesting``, ``runs``, ``steps``, ``windows``
(asynchronous work), ``sweep`` and ``partition``, ``frames`` and ``stats`` (DataFrames).
"""
