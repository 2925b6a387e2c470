"""``python -m tpuprof`` is ``tpuprof``."""

import sys

from tpuprof.cli import main

if __name__ == "__main__":
    sys.exit(main())
