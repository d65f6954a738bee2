"""Every statement of the store; the writer, the readers and both twins share these."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnClause,
    Dialect,
    Select,
    SmallInteger,
    String,
    Table,
    and_,
    bindparam,
    case,
    column,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
    values,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable

from gateway.store.codec import CHAIN_COLUMNS, ENCODED_COLUMNS, IMAGE_COLUMNS, OPERATION_COLUMNS
from gateway.store.sql import Bulk, Lookup, Statement
from gateway.store.tables import (
    ECHO,
    LOST,
    RIVAL,
    SETTLED,
    UNSETTLED,
    audit_tail,
    credentials,
    definitions,
    keys,
    meta,
    observations,
    operations,
    origins,
    payloads,
    subjects,
    tombstones,
)

_op = operations.c


def _operation(*where: Any) -> Select[Any]:
    return select(*OPERATION_COLUMNS).where(*where)


_Parameters = Sequence[Mapping[str, BindParameter[Any]]]


def _insert(table: Table, *names: str) -> Bulk:
    """Insert rows whose values come in the order of the names, else of the table's columns."""
    columns = [table.c[name] for name in names] if names else list(table.c)
    return Bulk(columns, lambda _dialect, rows: insert(table).values(list(rows)))


def _upsert(table: Table) -> Bulk:
    """Insert or replace; each key once. Both dialects spell it alike, but SQLAlchemy gives each a class of its own."""

    def build(dialect: Dialect, rows: _Parameters) -> Executable:
        make = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
        new = make(table).values(list(rows))
        names = [one.name for one in table.primary_key]
        rest = {one.name: new.excluded[one.name] for one in table.c if one.name not in names}
        return new.on_conflict_do_update(index_elements=names, set_=rest)

    return Bulk(list(table.c), build)


def _update_operations(names: Sequence[str], *conditions: Column[Any]) -> Bulk:
    """Set those columns of each row's operation, if its stored values are those at the row's end: the id, and others.

    Each operation once. The rows are named inside the statement, since the driver of SQLite tells how many rows were
    touched only if a statement begins with UPDATE.
    """
    given = [column(f"{one.name}_", one.type) for one in (_op.id, *conditions)]
    columns: list[ColumnClause[Any]] = [*(column(name, _op[name].type) for name in names), *given]

    def build(_dialect: Dialect, rows: _Parameters) -> Executable:
        new: Mapping[str, Any] = rows[0]
        if len(rows) > 1:
            given = (
                values(*columns, name="given").data([tuple(row.values()) for row in rows]).cte("given", nesting=True)
            )
            new = dict(select(given).subquery("new").c)
        changes = {name: new[name] for name in names}
        if "delivered" in changes:
            # Once delivered, always delivered: the image may come from someone who has not heard of it.
            changes["delivered"] = or_(_op.delivered, new["delivered"])
        where = [one == new[f"{one.name}_"] for one in (_op.id, *conditions)]
        return update(operations).where(*where).values(changes)

    return Bulk(columns, build)


# What the writer asks before it rules.

BY_IDS: Final = Lookup(lambda names: _operation(_op.id.in_(names)))
BY_KEYS: Final = Lookup(lambda names: _operation(_op.key_hash.in_(names)))
LIVE_FINGERPRINTS: Final = Lookup(lambda names: _operation(_op.fingerprint_hash.in_(names), UNSETTLED, RIVAL))
LIVE_CONFLICTS: Final = Lookup(lambda names: _operation(_op.conflict_hash.in_(names), UNSETTLED, RIVAL))
TOMBSTONE_COLUMNS: Final = (
    tombstones.c.key_hash,
    tombstones.c.caller,
    tombstones.c.action,
    tombstones.c.id,
    tombstones.c.fingerprint,
    tombstones.c.outcome,
    tombstones.c.lost,
)
LOST_OPERATIONS: Final = Statement(select(*TOMBSTONE_COLUMNS).where(LOST))
ANY_TOMBSTONE: Final = Statement(select(true()).where(tombstones.c.key_hash.is_not(None)).limit(1))
TOMBSTONE_IDS: Final = Lookup(lambda names: select(tombstones.c.id).where(tombstones.c.id.in_(names)))
TOMBSTONES: Final = Lookup(lambda names: select(*TOMBSTONE_COLUMNS).where(tombstones.c.key_hash.in_(names)))


def _echoes(names: Sequence[BindParameter[Any]]) -> Executable:
    """The newest final operation per caller and fingerprint; the index alone finds which, however many there are."""
    newest = (
        select(_op.fingerprint_hash, _op.caller, func.max(_op.final_ms).label("final_ms"))
        .where(_op.fingerprint_hash.in_(names), ECHO)
        .group_by(_op.fingerprint_hash, _op.caller)
        .subquery("newest")
    )
    same = and_(
        _op.fingerprint_hash == newest.c.fingerprint_hash,
        _op.caller == newest.c.caller,
        _op.final_ms == newest.c.final_ms,
    )
    return select(*OPERATION_COLUMNS).select_from(newest).join(operations, same)


ECHOES: Final = Lookup(_echoes)
DEFINITION_DIGESTS: Final = Lookup(lambda names: select(definitions.c.digest).where(definitions.c.digest.in_(names)))
REVOCABLE_KEYS: Final = Lookup(
    lambda names: select(keys.c.key_id).where(keys.c.key_id.in_(names), keys.c.revoked_ms.is_(None))
)
CREDENTIAL_NAMES: Final = Lookup(lambda names: select(credentials.c.name).where(credentials.c.name.in_(names)))
SUBJECT_TAGS: Final = Lookup(
    lambda names: select(subjects.c.handle, subjects.c.tag).where(subjects.c.handle.in_(names))
)
ORIGINS: Final = Statement(select(origins.c.number, origins.c.origin))
RETIRABLE: Final = Statement(
    select(*OPERATION_COLUMNS)
    .where(_op.id < bindparam("before_id"), SETTLED, _op.final_ms < bindparam("before_ms"))
    .order_by(_op.id)
    .limit(bindparam("limit"))
)

# What the writer writes.

INSERT_OPERATION: Final = _insert(operations, *ENCODED_COLUMNS, *CHAIN_COLUMNS)
UPDATE_OPERATION: Final = _update_operations((*IMAGE_COLUMNS, *CHAIN_COLUMNS), _op.version)
"""Columns that never change after the insert, and their indexes, are left alone."""
UPDATE_CHAIN: Final = _update_operations(CHAIN_COLUMNS)
MARK_DELIVERED: Final = Lookup(lambda names: update(operations).where(_op.id.in_(names)).values(delivered=true()))
DELETE_OPERATIONS: Final = Lookup(lambda names: delete(operations).where(_op.id.in_(names)))
UPSERT_PAYLOAD: Final = _upsert(payloads)
DELETE_PAYLOADS: Final = Lookup(lambda names: delete(payloads).where(payloads.c.operation_id.in_(names)))
INSERT_OBSERVATION: Final = _insert(observations, "operation_id", "body")
DELETE_OBSERVATIONS: Final = Lookup(lambda names: delete(observations).where(observations.c.operation_id.in_(names)))
INSERT_DEFINITION: Final = _insert(definitions)
INSERT_TOMBSTONE: Final = _insert(tombstones)
GIVE_UP: Final = Lookup(lambda names: update(tombstones).where(tombstones.c.id.in_(names)).values(lost=false()))
INSERT_FRAMES: Final = _insert(audit_tail)
_pruned: Final = and_(audit_tail.c.origin == bindparam("origin_"), audit_tail.c.seq <= bindparam("seq_"))
DELETE_FRAMES: Final = Statement(delete(audit_tail).where(_pruned, audit_tail.c.last_seq <= bindparam("seq_")))
CUT_FRAMES: Final = Statement(
    select(audit_tail.c.seq, audit_tail.c.last_seq, audit_tail.c.segment, audit_tail.c.frames).where(_pruned)
)
"""Once `DELETE_FRAMES` is through: the row that holds both what was pruned and what was not, if one does."""
DELETE_CUT: Final = Statement(delete(audit_tail).where(_pruned))
INSERT_ORIGIN: Final = _insert(origins)
UPSERT_META: Final = _upsert(meta)
DELETE_META: Final = Lookup(lambda names: delete(meta).where(meta.c.name.in_(names)))
UPSERT_KEY: Final = _upsert(keys)
REVOKE_KEY: Final = Statement(
    update(keys).where(keys.c.key_id == bindparam("key_id_")).values(revoked_ms=bindparam("revoked_ms"))
)
UPSERT_CREDENTIAL: Final = _upsert(credentials)
DELETE_CREDENTIAL: Final = Lookup(lambda names: delete(credentials).where(credentials.c.name.in_(names)))
INSERT_SUBJECT: Final = _insert(subjects)
DELETE_SUBJECTS: Final = Lookup(lambda names: delete(subjects).where(subjects.c.handle.in_(names)))

# What readers ask.

GET: Final = Statement(_operation(_op.id == bindparam("id")))
BY_KEY: Final = Statement(
    _operation(
        _op.key_hash == bindparam("key_hash"), _op.caller == bindparam("caller"), _op.action == bindparam("action")
    )
)
RECEIPT: Final = Statement(
    select(origins.c.origin, _op.last_seq, _op.op_prev)
    .join_from(operations, origins, _op.origin == origins.c.number)
    .where(_op.id == bindparam("id"))
)
LIST_UNSETTLED: Final = Statement(_operation(UNSETTLED).order_by(_op.id))
LIST_WATCHED: Final = Statement(_operation(UNSETTLED, _op.state == "unresolved").order_by(_op.id))
OBSERVATIONS: Final = Statement(
    select(observations.c.body).where(observations.c.operation_id == bindparam("id")).order_by(observations.c.number)
)
PAYLOAD: Final = Statement(
    select(payloads.c.body).where(payloads.c.operation_id == bindparam("id"), payloads.c.kind == bindparam("kind"))
)
DEFINITION: Final = Statement(select(definitions.c.body).where(definitions.c.digest == bindparam("digest")))
KEYS: Final = Statement(select(keys).order_by(keys.c.created_ms, keys.c.key_id))
CREDENTIALS: Final = Statement(select(credentials).order_by(credentials.c.name))
SUBJECT: Final = Statement(select(subjects).where(subjects.c.handle == bindparam("handle")))
SUBJECT_OF_TAG: Final = Statement(select(subjects).where(subjects.c.tag == bindparam("tag")))
META: Final = Statement(select(meta.c.value).where(meta.c.name == bindparam("name")))
_NEWEST_ORIGIN: Final = select(origins.c.origin).order_by(origins.c.number.desc()).limit(1).scalar_subquery()
_floor: Final = case(
    (
        origins.c.origin == func.coalesce(bindparam("pruned_origin", type_=String), _NEWEST_ORIGIN),
        bindparam("pruned_seq", type_=BigInteger),
    ),
    else_=-1,
)
"""Up to which number the frames of a row's log are pruned."""
_tail: Final = (
    select(audit_tail.c.origin, audit_tail.c.seq, audit_tail.c.segment, audit_tail.c.frames, origins.c.origin, _floor)
    .join_from(audit_tail, origins, audit_tail.c.origin == origins.c.number)
    .where(
        tuple_(audit_tail.c.origin, audit_tail.c.seq)
        > tuple_(
            bindparam("after_number", type_=SmallInteger),
            bindparam("after_seq", type_=BigInteger),
            types=[SmallInteger(), BigInteger()],
        ),
        audit_tail.c.last_seq > _floor,
    )
    .order_by(audit_tail.c.origin, audit_tail.c.seq)
    .limit(bindparam("limit"))
)
TAIL: Final = Statement(_tail)
TAIL_OF: Final = Statement(_tail.where(origins.c.origin == bindparam("origin")))
