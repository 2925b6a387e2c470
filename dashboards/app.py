"""`streamlit run dashboards/app.py -- LOGDIR`: the dashboard from a checkout, without installing anything."""

from tpuprof_dashboards.app import main

main()
