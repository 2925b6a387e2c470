"""What streamlit runs. Alone in its folder, because streamlit makes a script's folder importable."""

from tpuprof_dashboards.app import main

main()
