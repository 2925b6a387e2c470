"""What an op, a matmul, a transfer or a collective should cost, each with the derivation of the number.

Every calculator is a pure function of numbers. None of them knows a trace, and none holds a constant of a chip: those
are data in :mod:`tpuprof.hardware`.
"""
