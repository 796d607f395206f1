"""Alembic's entry: it always renders SQL and never connects."""

from alembic import context

context.configure(
    dialect_name=context.config.attributes["dialect"],
    output_buffer=context.config.attributes["output"],
    as_sql=True,
)
context.run_migrations()
