"""The version of tpuprof, read by the build and by reports."""

__version__ = "0.1.0.dev0"
