"""Forms over ``tpuprof plan`` and ``tpuprof calc``: the same commands, the same checks, the same answers."""
