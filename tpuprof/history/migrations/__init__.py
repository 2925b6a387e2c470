"""Changes of the store's tables, applied by Alembic."""
