"""The Streamlit dashboard of tpuprof."""
