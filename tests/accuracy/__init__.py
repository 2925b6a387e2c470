"""The truth table: synthetic programs with known answers, measured by tpuprof and by XProf.

``python -m tests.accuracy`` writes docs/accuracy.md, ``python -m tests.accuracy --check`` says whether it is current.
"""
