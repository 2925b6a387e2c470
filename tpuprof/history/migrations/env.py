"""What Alembic runs: the migrations, on the connection and in the transaction that the caller holds."""

from __future__ import annotations

from alembic import context

from tpuprof.history.tables import METADATA
from tpuprof.history.upgrade import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
