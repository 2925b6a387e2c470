"""What was made of a run, kept on disk, so that it opens at once the next time.

``CacheDir`` is a directory of bounded size; ``user_cache()`` is the one that the environment names. What is kept are
the arrays that all tables are made of (``tpuprof.cache.run``), found by the content of the run's files. A cache never
changes a result and never makes a command fail: whatever is wrong with it, the run is read from its files.
"""

from tpuprof.cache.directory import CacheDir, finish_writing, user_cache

__all__ = ["CacheDir", "finish_writing", "user_cache"]
