"""Runs the migrations on the connection that the store hands over; there is no other way in."""

from alembic import context

from gateway.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    transaction_per_migration=False,
)
context.run_migrations()
