"""The offline verifier: reads a log's folder, a trust policy and anchors, and says what can be relied on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.ahead import reading_ahead
from audit.claims import AnchorSource, Claims, Settle, Witnessed, anchor_sources
from audit.compare import Comparison
from audit.contents import Contents
from audit.disk import Directory
from audit.holdings import Holdings
from audit.keyring import RecipientKey
from audit.log import origin_of, segment_name, segments
from audit.note import NoteKey
from audit.receipts import Expected, Receipt
from audit.record import MAX_SEGMENT_BYTES
from audit.report import Exit, Finding, Report, moment
from audit.trust import TrustPolicy
from audit.walk import Walk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
UNSEALED_SPAN_MAX_MS = 60_000
"""A writer seals every second; records further apart than this without a seal mean that seals were taken out."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Limits of what still counts as proven.

    `anchor_age_max_ms`: how old the newest anchored entry may be. `unsealed_max`: how many entries at the end may be
    without a seal. `accept_unanchored`: let the pinned key alone be enough.
    """

    anchor_age_max_ms: int = 24 * HOUR_MS
    unsealed_max: int = 4096
    accept_unanchored: bool = False


@dataclass(frozen=True, slots=True)
class Extra:
    """What an auditor may give beside anchors.

    `receipts` of those who used the log; `key` to open every record; `jobs`: how many processes read; `started` is told
    how many bytes there are, `progress` how many more are done.
    """

    receipts: Sequence[Receipt] = ()
    key: RecipientKey | None = None
    jobs: int = 1
    started: Callable[[int], None] | None = None
    progress: Callable[[int], None] = lambda _: None


def verify(
    directory: Directory,
    *,
    policy: TrustPolicy | None,
    anchors: Sequence[Path | AnchorSource] = (),
    now_ms: int,
    options: VerifyOptions | None = None,
    settle: Settle = lambda: None,
    extra: Extra | None = None,
) -> Report:
    """Check a log, without any secret key unless one is given; reads only, and reads every byte once.

    Args:
        directory: the log's folder.
        policy: the pinned log keys; None means nothing can be proven.
        anchors: files or folders that hold signed checkpoints and came from elsewhere.
        now_ms: present Unix time in milliseconds.
        options: limits.
        settle: waits a moment, for a log that is being written.
        extra: receipts, an auditor's key, processes to share the work.
    """
    options = options or VerifyOptions()
    report = Report()
    report.origin = origin_of(directory)
    keys = _keys(policy, report.origin)
    sources = [source for anchor in anchors for source in _sources(anchor, report.origin or _only_origin(policy))]
    claims = Claims(directory, sources, keys, report=report.add, settle=settle, witnessed=_witnessed(policy, now_ms))
    report.anchors = claims.states
    report.witnesses_asked = policy is not None and policy.asks_witnesses
    # After the claims: a segment that is opened meanwhile may hold what a checkpoint read just now speaks about.
    firsts = _listed(directory, report.add)
    sizes = _sizes(directory, firsts, report)
    report.segments = len(firsts)
    report.bytes = sum(max(0, size) for size in sizes.values())
    extra = extra or Extra()
    comparison = Comparison(report, claims, Expected(extra.receipts, report.origin or _only_origin(policy)))
    holdings = Holdings(directory, report)
    contents = None if extra.key is None else Contents(extra.key, holdings.meet)
    walk = Walk(
        directory, report, comparison, keys, now_ms=now_ms, settle=settle, contents=contents, progress=extra.progress
    )
    listed = [(first, size) for first, size in sorted(sizes.items()) if 0 < size <= MAX_SEGMENT_BYTES]
    with reading_ahead(directory, listed, extra.key, extra.jobs) as take:
        if extra.started is not None:
            extra.started(report.bytes + holdings.size())
        walk.run(sizes, take)
    holdings.check_files(extra.progress)
    if contents is not None:
        _judge_contents(report, contents)
    _judge_keys(report, claims, walk)
    report.first_seq = report.end_seq - report.entries if report.entries else 0
    _judge_tail(report, options, now_ms)
    _judge_proof(report, options, now_ms)
    return report


def _listed(directory: Directory, report: Callable[[Finding], None]) -> list[int]:
    try:
        return segments(directory)
    except OSError as error:
        report(Finding("unreadable", Exit.UNREADABLE, f"the segments cannot be listed: {error.strerror or error}"))
        return []


def _witnessed(policy: TrustPolicy | None, now_ms: int) -> Witnessed | None:
    if policy is None or not policy.asks_witnesses:
        return None
    return lambda note: policy.met_by(policy.cosigners(note, now_ms // 1000))


def _only_origin(policy: TrustPolicy | None) -> str:
    return policy.logs[0].name if policy is not None and len({key.name for key in policy.logs}) == 1 else ""


def _keys(policy: TrustPolicy | None, origin: str) -> tuple[NoteKey, ...]:
    """The pinned keys for this log; for a log without a readable opening, every key, so that anchors still speak."""
    if policy is None:
        return ()
    return policy.keys_of(origin) if origin else policy.logs


def _sources(anchor: Path | AnchorSource, origin: str) -> list[AnchorSource]:
    return anchor_sources(anchor, origin) if isinstance(anchor, Path) else [anchor]


def _sizes(directory: Directory, firsts: Sequence[int], report: Report) -> dict[int, int]:
    """Sizes at one moment; what is appended later is the next verification's business."""
    sizes = {}
    for first in firsts:
        try:
            sizes[first] = directory.size(segment_name(first))
        except OSError:
            sizes[first] = -1
    names = directory.names("segments") if firsts else []
    if strangers := [name for name in names if not name.endswith((".agl", ".agl.tmp"))]:
        report.notes.append(f"{len(strangers)} files in the segments folder are no segments, such as {strangers[0]!r}")
    return sizes


def _judge_tail(report: Report, options: VerifyOptions, now_ms: int) -> None:
    report.unsealed_entries = report.end_seq - report.sealed_size
    report.tail_entries = max(0, report.end_seq - max(report.sealed_size, report.anchored_size))
    since = report.unsealed_since_ms
    if report.tail_entries and since is not None:
        report.tail_age_ms = max(0, now_ms - since)
    if not report.entries:
        return
    if not report.seals:
        report.add(Finding("unsealed", Exit.INCOMPLETE, "no entry of this log is sealed"))
    elif report.unsealed_entries > options.unsealed_max:
        text = f"the last {report.unsealed_entries} entries are not sealed; at most {options.unsealed_max} may be"
        report.add(Finding("unsealed", Exit.INCOMPLETE, text, seq=report.sealed_size))
    elif since is not None and not report.coarse_time and report.last_t_ms - since > UNSEALED_SPAN_MAX_MS:
        text = f"the last {report.unsealed_entries} entries span {(report.last_t_ms - since) // 1000} s without a seal"
        report.add(Finding("unsealed", Exit.INCOMPLETE, text, seq=report.sealed_size))
    elif report.unsealed_entries:
        report.notes.append("entries behind the last seal could have been cut off without a trace here")


def _judge_keys(report: Report, claims: Claims, walk: Walk) -> None:
    if walk.ledger.new_key_missing:
        text = "the log key was replaced, as the log says under the old one, and the trust policy lacks its successor"
        hint = "get the policy that followed from whoever set up the log"
        report.add(Finding("new_key", Exit.NOT_PROVEN, text, hint=hint))
    if walk.ledger.old_key_missing:
        text = "an old key of this log is missing: it was replaced, and the trust policy names its successor only"
        hint = "add the old key's line to the policy, with the sizes that it speaks for"
        report.add(Finding("old_key", Exit.NOT_PROVEN, text, hint=hint))
    if walk.ledger.new_key_missing or walk.ledger.old_key_missing:
        return
    for place in dict.fromkeys(claims.unsigned):
        report.add(Finding("foreign_checkpoint", Exit.TAMPERED, f"{place}: not signed by the pinned key"))


def _judge_contents(report: Report, contents: Contents) -> None:
    report.contents_checked = contents.checked
    report.blobs_named = report.blobs_named or 0
    if contents.closed_segments:
        text = f"{contents.closed_segments} segments were not sealed to this auditor's key; their records stay unread"
        report.add(Finding("key_unusable", Exit.NOT_PROVEN, text))


def _judge_proof(report: Report, options: VerifyOptions, now_ms: int) -> None:
    """What keeps a consistent log from being proven."""
    if not report.entries:
        report.add(Finding("nothing", Exit.NOT_PROVEN, "there is nothing to check: the log has no entry"))
        return
    if not report.key_pinned:
        text = "no trusted key: the trust policy pins no key for this log"
        hint = "a key found beside the log proves nothing; get the log's vkey from whoever set it up"
        report.add(Finding("no_key", Exit.NOT_PROVEN, text, hint=hint))
    newest = max(report.anchors, key=lambda anchor: anchor.newest_size, default=None)
    if newest is None or not newest.newest_size:
        text = "no anchor: nothing outside the log shows how far it went"
        if report.witnesses_asked:
            text = "no anchor: no checkpoint has the cosignatures that the trust policy asks for"
    else:
        # A time rounded down to its day stands for any moment of that day. Whoever can only append to the log could say
        # of an entry of their own that it is rounded; that must not make an older anchor younger.
        rounded = report.coarse_time and newest.covers_t_ms % DAY_MS == 0
        age_ms = now_ms - newest.covers_t_ms - (DAY_MS if rounded else 0)
        if age_ms <= options.anchor_age_max_ms:
            return
        hours = options.anchor_age_max_ms / HOUR_MS
        text = f"stale anchor: the newest covers nothing after {moment(newest.covers_t_ms)}, limit {hours:g} h"
    if options.accept_unanchored:
        report.unanchored_accepted = True
        report.notes.append(f"{text} (accepted)")
        return
    hint = "give --anchor, raise --max-anchor-age, or say --accept-unanchored"
    report.add(Finding("no_anchor", Exit.NOT_PROVEN, text, hint=hint))
