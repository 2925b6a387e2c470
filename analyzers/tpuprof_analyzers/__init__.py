"""Analyzers that come with tpuprof; they use the public plugin point only."""
