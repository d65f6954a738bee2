"""The tables, for SQLite and PostgreSQL alike, and the identity rules as unique indexes.

An operation's row is narrow: what SQL must compare, count or sort is a column, everything else lies in `life`. The
primary key is the UUIDv7's sixteen bytes, so rows are inserted at the end of the tree and "newest first" is its order
backwards. Names that identify (keys, fingerprints, conflict keys) are compared by sixteen bytes of SHA-256.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    TextClause,
    and_,
    text,
)

metadata: Final = MetaData()

UNSETTLED: Final = text("state NOT IN ('succeeded', 'failed', 'cancelled')")
"""The predicate of the partial indexes. Queries must use this very text, or SQLite does not find the index."""
SETTLED: Final = text("state IN ('succeeded', 'failed', 'cancelled')")
LOST: Final = text("lost")
"""Tombstones of operations that a restored store lost and nobody has given up."""
RIVAL: Final = text("NOT superseded")
"""Beside `UNSETTLED`: a superseded operation stays watched, but stands in nobody's way."""
ECHO: Final = text("executed <> 'no' AND effect <> 'read' AND final_ms IS NOT NULL AND NOT superseded")
"""Final operations whose repetition would be a second effect (rule 8)."""


def _where(*terms: ColumnElement[bool] | TextClause) -> dict[str, Any]:
    predicate = and_(*terms)
    return {"sqlite_where": predicate, "postgresql_where": predicate}


operations: Final = Table(
    "operations",
    metadata,
    Column("id", LargeBinary(16), primary_key=True),
    Column("caller", String, nullable=False),
    Column("action", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("definition", String, nullable=False),
    Column("run", String),
    Column("key_hash", LargeBinary(16)),
    Column("fingerprint_hash", LargeBinary(16), nullable=False),
    Column("conflict_hash", LargeBinary(16)),
    Column("created_ms", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("final_ms", BigInteger),
    Column("next_ms", BigInteger),
    Column("executed", String, nullable=False),
    Column("outcome", String),
    Column("delivered", Boolean, nullable=False),
    Column("superseded", Boolean, nullable=False),
    Column("op_n", Integer, nullable=False, comment="audit records so far, hence the number of the next"),
    Column("op_prev", LargeBinary(32), comment="leaf of the newest audit record"),
    Column("last_seq", BigInteger),
    Column("origin", SmallInteger, comment="number of the log that holds the newest record"),
    Column("life", LargeBinary, nullable=False, comment="JSON of everything else"),
)

Index(
    "operations_key",
    operations.c.key_hash,
    operations.c.caller,
    operations.c.action,
    unique=True,
    **_where(operations.c.key_hash.is_not(None)),
)
Index(
    "operations_live_fingerprint",
    operations.c.fingerprint_hash,
    operations.c.caller,
    unique=True,
    **_where(UNSETTLED, RIVAL),
)
Index(
    "operations_live_conflict",
    operations.c.conflict_hash,
    unique=True,
    **_where(operations.c.conflict_hash.is_not(None), UNSETTLED, RIVAL),
)
Index("operations_unsettled", operations.c.id, **_where(UNSETTLED))
Index("operations_echo", operations.c.fingerprint_hash, operations.c.caller, operations.c.final_ms, **_where(ECHO))
Index("operations_by_caller", operations.c.caller, operations.c.id)
Index("operations_by_run", operations.c.run, operations.c.id, **_where(operations.c.run.is_not(None)))

payloads: Final = Table(
    "payloads",
    metadata,
    Column("operation_id", LargeBinary(16), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("body", LargeBinary, nullable=False, comment="encrypted with the data key"),
)

observations: Final = Table(
    "observations",
    metadata,
    # SQLite numbers rows by itself only under the exact type INTEGER.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("operation_id", LargeBinary(16), nullable=False),
    Column("body", LargeBinary, nullable=False, comment="encrypted with the data key"),
)
Index("observations_by_operation", observations.c.operation_id, observations.c.number)

definitions: Final = Table(
    "definitions",
    metadata,
    Column("digest", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

tombstones: Final = Table(
    "tombstones",
    metadata,
    Column("id", LargeBinary(16), primary_key=True),
    Column("caller", String, nullable=False),
    Column("action", String, nullable=False),
    Column("key_hash", LargeBinary(16)),
    Column("fingerprint", String, nullable=False),
    Column("outcome", String),
    Column("lost", Boolean, nullable=False, comment="known from the audit log only; may have been executed"),
)
Index("tombstones_lost", tombstones.c.id, **_where(LOST))
Index(
    "tombstones_key",
    tombstones.c.key_hash,
    tombstones.c.caller,
    tombstones.c.action,
    unique=True,
    **_where(tombstones.c.key_hash.is_not(None)),
)

keys: Final = Table(
    "keys",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("secret_sha256", LargeBinary(32), nullable=False),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("revoked_ms", BigInteger),
)

credentials: Final = Table(
    "credentials",
    metadata,
    Column("name", String, primary_key=True),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("describes", LargeBinary, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)

subjects: Final = Table(
    "subjects",
    metadata,
    Column("handle", LargeBinary(32), primary_key=True, comment="keyed hash of the person's name"),
    Column("tag", LargeBinary(32), nullable=False, unique=True, comment="names the key in the audit log"),
    Column("wrapped", LargeBinary, nullable=False, comment="the key, under the log's key for personal data"),
)

meta: Final = Table(
    "meta",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

origins: Final = Table(
    "origins",
    metadata,
    Column("number", SmallInteger, primary_key=True, autoincrement=False),
    Column("origin", String, nullable=False, unique=True),
)

audit_tail: Final = Table(
    "audit_tail",
    metadata,
    Column("origin", SmallInteger, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False, comment="of the first frame in the row"),
    Column("last_seq", BigInteger, nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("frames", LargeBinary, nullable=False, comment="each after its length in four bytes"),
)
