#!/bin/sh
# Runs a command at most once per attempt of an operation on this host, and says later what became of it.
#
#   sh runner.sh VERB store=/path nonce=WORD store_id=ID key=value …
#
# `run` and `probe` read the command from descriptor 3 and, with secrets=1, its secrets from descriptor 4. `init` and
# `check` take no store_id. The keys of each verb, those in brackets at will:
#
# run      start the attempt unless it was ever claimed, follow it, report it: op attempt issued digest [secrets]
#          [follow: seconds until it answers `running`] [limit: seconds until the command is stopped]
#          [lock, and term: seconds within which a dead holder keeps it] [keep: bytes of each end of what it printed]
# status   report the attempt; changes nothing: op attempt issued [keep]
# fence    make sure that an attempt which has not begun never will, then report: as status. The first attempt of a job,
#          OP, stands for each step, OP.STEP: none begins any more. What is there of them is named, and it is refused
# cancel   fence; where it has begun, record the wish and signal the command; what came of it the record tells: as
#          status, and [signal: TERM, INT or KILL]. A command that is about to start is not started
# probe    run a question now and frame its answer; claims nothing: digest limit [secrets] [keep]
# list     the operations in the store, by name: [op: the name after which to go on] [most]
# collect  raise the floor, then forget what is settled below it: before [most: operations at a time]
# lock     who holds a named lock: lock
# unlock   set aside a lock whose holder is not alive: lock number, as it was looked at
# init     make the store, once, and say what this host offers
# check    say what this host offers
#
# `supervise` is no verb for callers: `run` starts it, with its own words, to outlive the session.
#
# The answer is one line, `@gw1 NONCE {json}`. Every other line on the channel is noise (banners, rc files). Its phase
# is absent, running, exited, fenced, lost or unverifiable where it is about an attempt, `ok` where it is not, and
# `refused`, with a reason, where this delivery has launched nothing.
#
# What is on disk, per operation, in STORE/ops/OPERATION (N: the attempt, U: N and the process that works on it):
#   g.N  the gate, a hard link to a token: whoever made it owns the attempt     t.U  the token before it is linked
#   b.N  begin, a second link to the same token: permission to start            p.U  the command     s.U  its secrets
#   x.N  the exit record, or "notrun"     e.U  the same before its rename       c.U  the process of the command
#   o.U.* r.U.*  what it printed          k.N  somebody asked to cancel         w.N  the time limit struck
#
# Why nothing runs twice. link(2) gives a name to one creator, with its content, and until collection nobody removes
# g.N or b.N. A command starts only in the process that owns both. A fence is a token of another kind on either name:
# whoever comes late finds it taken, for ever. Attempt N begins only when every earlier one is fenced or has recorded
# that it gave up. Token and directories are on disk before b.N is linked, so a power cut leaves the claim or nothing.
# Collection raises the floor first, and a run compares itself with the floor again after the gate.
#
# Lines of the form `: step NAME` do nothing; the tests cut, freeze and race the runner there.

# shellcheck disable=SC2015  # in `a && b || refuse` the last part does not return, or repeats a failure
set -uf
IFS=' 	
'
digits=0123456789
letters=abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ   # spelt out: a range means other things in other locales
piece=262144       # bytes after which a file of captured output is full

# ---------------------------------------------------------------------------------------------------- the answer

json=''
put() { json="$json,\"$1\":$2"; }
put_exists() { if [ -e "$2" ]; then put "$1" true; else put "$1" false; fi; }
text() { put "$1" "\"$2\""; }     # only ever names, digits and words of our own: nothing that JSON would have to escape

answer() { # PHASE
    printf '\n@gw1 %s {"v":1,"verb":"%s","phase":"%s","store_id":"%s","machine":"%s","boot":"%s","uid":%s%s}\n' \
        "$nonce" "$verb" "$1" "$store_id" "$machine" "$boot" "$uid" "$json"
}

refuse() { # REASON: this delivery has launched nothing
    json=''
    text reason "$1"
    answer refused
    exit 0
}

is_number() { case $1 in '' | *[!$digits]* | 0?* | ????????????????*) return 1 ;; esac; }
is_mask() { case $1 in '' | *[!01234567]*) return 1 ;; esac; }
is_name() { case $1 in '' | [.-]* | *[!$letters$digits._-]*) return 1 ;; esac; [ "${#1}" -le 128 ]; }
is_digest() { case $1 in *[!${digits}abcdef]*) return 1 ;; esac; [ "${#1}" -eq 64 ]; }
is_path() { case $1 in /*[!$letters$digits._/@+-]* | */../* | */.. | /) return 1 ;; /*) return 0 ;; esac; return 1; }

# --------------------------------------------------------------------------------------- this host, its processes

who_am_i() { # no fork: what the kernel offers as files
    boot='' machine='' uid=-1 umask_before=''
    { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
    { read -r machine </etc/machine-id || read -r machine </var/lib/dbus/machine-id; } 2>/dev/null
    # Read no further than needed: dash asks the kernel for each byte.
    { while read -r key first second _; do
        case $key in
        Umask:) umask_before=$first ;;
        Uid:) uid=$second && break ;;       # the effective one, which is the one that owns what it makes
        esac
    done; } 2>/dev/null <"/proc/$$/status"
    is_mask "$umask_before" || umask_before=$(umask)
    is_name "$machine" || machine=none
    is_name "$boot" || boot=''
}

pidns=''
find_pidns() { # a process id means nothing outside its namespace
    [ -z "$pidns" ] || return 0
    pidns=$(readlink /proc/self/ns/pid 2>/dev/null)
    pidns=${pidns#*"["}
    pidns=${pidns%]}
    is_number "$pidns" || pidns=0
}

process() { # PID: sets state and start (clock ticks since boot). A zombie counts as gone: it will do nothing more
    start='' state='' stat='' line=''
    { while read -r line; do stat=$line; done <"/proc/$1/stat"; } 2>/dev/null
    stat=${stat##*) }       # the program's name may hold blanks, brackets and line ends
    # shellcheck disable=SC2086  # to be split: it is a list of fields
    set -- $stat
    state=${1-}
    start=${20-}
    case $state in '' | Z | X | x) return 1 ;; esac
}

same_process() { # PID START: the number may have been given to another process since
    wanted=$2
    process "$1" && [ "$start" = "$wanted" ]
}

# In a session of its own nothing meant for the login reaches a process; a signal to its group reaches all it started.
session='' group=shared
if command -v setsid >/dev/null; then session=setsid group=own; fi

sha256() { # FILE: sets sum
    if command -v sha256sum >/dev/null; then
        sum=$(sha256sum <"$1")
    elif command -v shasum >/dev/null; then
        sum=$(shasum -a 256 <"$1")
    else
        sum=$(openssl dgst -sha256 -r <"$1")
    fi 2>/dev/null
    sum=${sum%% *}
    is_digest "$sum"
}

# Where `sync` takes no names it flushes everything: slower, as good. A failure means that a claim may not survive a
# power cut, and what follows must not be run.
settle() { sync "$@" 2>/dev/null; }

nap() { sleep 0.02 2>/dev/null || sleep 1; }

tell_time() { # sets up: hundredths of a second since boot, which nobody sets back. False where the kernel does not say
    up='' line=''
    { read -r line _ </proc/uptime; } 2>/dev/null
    case $line in *[!$digits.]* | *.*.*) return 1 ;; [$digits]*.[$digits][$digits]) ;; *) return 1 ;; esac
    up=$((${line%.*} * 100 + 1${line#*.} - 100))
}

# A watch may miss the signal that is to end it: a shell sleeps through one that comes just before its `wait`, and a
# fork through one that finds the traps of its parent. So it sleeps a second at a time with no trap set, and ends by
# itself once nobody needs it. Until then it stays, also after it has struck: its number must not become another's.
after() { # SECONDS NEEDED COMMAND: in the background; `kill $!` ends it sooner
    (
        due='' waited=0
        ! tell_time || due=$((up + $1 * 100))
        while sleep 1 && "$2"; do
            waited=$((waited + 1))
            if [ -n "$due" ] && tell_time; then [ "$up" -ge "$due" ]; else [ "$waited" -ge "$1" ]; fi || continue
            [ -z "$3" ] || "$3"
            set -- "$1" "$2" ''
        done
    ) </dev/null >/dev/null 2>&1 3<&- 4<&- 5<&- 6>&- 7<&- 8>&- 9>&- &
}

owner_lives() { same_process "$$" "$born"; }      # whoever started the watch: `$$` means the same in a fork of it

# ---------------------------------------------------------------------------------------------------- the store

open_store() {
    line=''
    { read -r line <"$store/id"; } 2>/dev/null
    # Another store may have forgotten what ours knows, and another user sees other processes: neither can say "absent".
    [ -n "$boot" ] && [ "$line" = "gwstore1 id=$store_id uid=$uid end" ] && read_floor || refuse store_mismatch
}

read_floor() { # the highest name in floors/. Files are only ever added, so that two collectors cannot lower it
    floor=''
    set +f
    for file in "$store"/floors/*; do floor=${file##*/}; done
    set -f
    case $floor in '' | *[!$digits]*) return 1 ;; esac
    floor=${floor#"${floor%%[!0]*}"}
    floor=${floor:-0}
}

above_floor() { read_floor && [ "$issued" -gt "$floor" ]; }

write() { printf '%s\n' "$2" 2>/dev/null >"$1"; }             # FILE LINE
overwrite() { printf '%s' "$2" 2>/dev/null 1<>"$1"; }          # FILE TEXT: needs no space on a full disk

load_token() { # FILE: sets tk_*; false where there is none, or not a whole one
    token='' tk_kind='' tk_op='' tk_attempt='' tk_unit='' tk_pid='' tk_start='' tk_boot='' tk_pidns=''
    tk_machine='' tk_digest='' tk_issued=0 tk_at=0 tk_witness=0 tk_until=0
    { read -r token <"$1"; } 2>/dev/null
    case $token in 'gw1 kind='*' end') ;; *) return 1 ;; esac
    for word in $token; do
        case $word in
        kind=*) tk_kind=${word#*=} ;;
        op=*) tk_op=${word#*=} ;;
        attempt=*) tk_attempt=${word#*=} ;;
        unit=*) tk_unit=${word#*=} ;;
        pid=*) tk_pid=${word#*=} ;;
        start=*) tk_start=${word#*=} ;;
        boot=*) tk_boot=${word#*=} ;;
        pidns=*) tk_pidns=${word#*=} ;;
        machine=*) tk_machine=${word#*=} ;;
        digest=*) tk_digest=${word#*=} ;;
        issued=*) tk_issued=${word#*=} ;;
        at=*) tk_at=${word#*=} ;;
        witness=*) tk_witness=${word#*=} ;;
        until=*) tk_until=${word#*=} ;;
        esac
    done
}

load_record() { # FILE: sets rc_*; false where there is none, or not a whole one
    rc_kind='' rc_reason='' rc_code=0 rc_ended=0 rc_out=0 rc_err=0 rc_whole=0 rc_lock=0 line=''
    { read -r line <"$1"; } 2>/dev/null
    case $line in 'gw1 exited '*' end') rc_kind=exited ;; 'gw1 notrun '*' end') rc_kind=notrun ;; *) return 1 ;; esac
    for word in $line; do
        case $word in
        reason=*) rc_reason=${word#*=} ;;
        code=*) rc_code=${word#*=} ;;
        ended=*) rc_ended=${word#*=} ;;
        out=*) rc_out=${word#*=} ;;
        err=*) rc_err=${word#*=} ;;
        whole=*) rc_whole=${word#*=} ;;
        lock=*) rc_lock=${word#*=} ;;
        esac
    done
}

load_command() { # FILE: sets cm_pid, cm_start, cm_group
    cm_pid='' cm_start='' cm_group='' line=''
    { read -r line <"$1"; } 2>/dev/null
    case $line in 'gw1 pid='*' end') ;; *) return 1 ;; esac
    for word in $line; do
        case $word in
        pid=*) cm_pid=${word#*=} ;;
        start=*) cm_start=${word#*=} ;;
        group=*) cm_group=${word#*=} ;;
        esac
    done
}

claim() { # TOKEN-FILE NAME: make the name ours. A reply lost on NFS says "exists" about our own link: read it again
    ln "$1" "$2" 2>/dev/null && return 0
    mine='' theirs=''
    { read -r mine <"$1" && read -r theirs <"$2"; } 2>/dev/null
    [ -n "$mine" ] && [ "$mine" = "$theirs" ]
}

is_fence() {
    line=''
    { read -r line <"$1"; } 2>/dev/null
    case $line in 'gw1 kind=fence '*' end') ;; *) return 1 ;; esac
}

# -------------------------------------------------------------------------------------- what became of an attempt

look() { # DIRECTORY ATTEMPT: sets phase and what belongs to it
    phase=absent reason='' begun=false rebooted=false supervised=false authoritative=true living=no
    # Read twice, lest a gate that is made between the two questions pass for a broken one.
    if ! load_token "$1/g.$2"; then
        if [ ! -e "$1/g.$2" ]; then
            # In this order: a collector raises the floor before it removes anything.
            above_floor || authoritative=false
            return 0
        elif ! load_token "$1/g.$2"; then
            # A claim whose content a power cut has taken. It may have begun: never again.
            phase=lost rebooted=true
            [ -e "$1/b.$2" ] && begun=true
            return 0
        fi
    fi
    if [ "$tk_kind" = fence ]; then
        phase=fenced reason=fence
        return 0
    fi
    if settled_by_record "$1" "$2"; then return 0; fi
    look_for_supervisor
    # Again, now that liveness is known: a job that ended in between has left its record before it went.
    if settled_by_record "$1" "$2"; then return 0; fi
    if is_fence "$1/b.$2"; then
        phase=fenced reason=fence
        return 0
    fi
    [ ! -e "$1/b.$2" ] || begun=true
    if [ "$living" = yes ]; then
        phase=running supervised=true
    elif command_lives "$1/c.$tk_unit" || witness_held "$1/g.$2"; then
        phase=running
    elif [ "$living" = hidden ]; then
        phase=unverifiable
    else
        phase=lost
    fi
}

settled_by_record() { # a whole record is the truth whether or not its writer lived to rename it
    load_record "$1/x.$2" || load_record "$1/e.$tk_unit" || return 1
    phase=exited begun=true
    [ "$rc_kind" = exited ] || phase=fenced reason=$rc_reason begun=false
}

look_for_supervisor() { # sets living: yes, no, or hidden where this session cannot see such processes at all
    living=hidden
    find_pidns
    if [ "$tk_boot" != "$boot" ]; then
        # Another boot of this machine ended every process; another machine on a shared store may still work on it.
        [ "$tk_machine" != "$machine" ] || living=no rebooted=true
    elif [ "$tk_pidns" = "$pidns" ]; then
        living=no
        ! same_process "$tk_pid" "$tk_start" || living=yes
    fi
}

command_lives() { # FILE
    [ "$tk_boot" = "$boot" ] && [ "$tk_pidns" = "$pidns" ] && load_command "$1" && same_process "$cm_pid" "$cm_start"
}

witness_held() { # GATE: supervisor and command hold a lock on the token, which is seen across process namespaces
    [ "$tk_boot" = "$boot" ] && [ "$tk_witness" = 1 ] && command -v flock >/dev/null || return 1
    flock -s -n "$1" true 2>/dev/null       # shared: two who look must not take each other for a holder
    case $? in
    0) living=no && return 1 ;;
    1) return 0 ;;
    *) return 1 ;;
    esac
}

report() { # of attempt $attempt in $d, as `look` left it
    json=''
    text operation "$op"
    put attempt "$attempt"
    case $phase in
    absent) put authoritative "$authoritative" ;;
    fenced) text reason "$reason" ;;
    running) put begun "$begun" && put supervised "$supervised" ;;
    unverifiable) put begun "$begun" ;;
    lost) put begun "$begun" && put rebooted "$rebooted" ;;
    exited)
        put exit "$rc_code"
        put ended "$rc_ended"
        put lock_number "$rc_lock"
        ;;
    esac
    case $phase in
    exited | running | unverifiable | lost)
        text digest "$tk_digest"
        put began "$tk_at"
        put_exists cancel_asked "$d/k.$attempt"
        put_exists timed_out "$d/w.$attempt"
        excerpt out "$d/o.$tk_unit"
        out_whole=$whole out_count=$count
        excerpt err "$d/r.$tk_unit"
        # Compared with the record: a power cut may keep that and lose what was printed.
        complete=false
        if [ "$phase" = exited ] && [ "$rc_whole$out_whole$whole" = 111 ] && [ "$out_count" = "$rc_out" ] &&
            [ "$count" = "$rc_err" ]; then
            complete=true
        fi
        put output_complete "$complete"
        ;;
    esac
    answer "$phase"
}

# ------------------------------------------------------------------------------------------ what a command prints

open_capture() { # OUT ERR: 5 and 6 read and write the first, 7 and 8 the second
    mkfifo "$1" "$2" 2>/dev/null || return 1
    # Opening both ways never waits for a partner, so the one-way ends can be opened after it without waiting either.
    # shellcheck disable=SC2094  # pipes, not files
    exec 7<>"$1" 8<>"$2" 5<"$1" 6>"$1" 7<"$2" 8>"$2"
}

start_drains() { # OUT ERR
    # With `exec`, and not behind the call: there a shell keeps a copy of the writing end, and the end never comes.
    { exec <&5 >/dev/null 5<&- 6>&- 7<&- 8>&- 9>&- && drain "$1"; } &
    drain_out=$!
    { exec <&7 >/dev/null 5<&- 6>&- 7<&- 8>&- 9>&- && drain "$2"; } &
    drain_err=$!
    exec 5<&- 7<&-
}

drain() { # PREFIX: keeps the first and the last bytes of standard input, and counts those between
    # The command writes into a pipe rather than a file: what it prints cannot fill the disk, and a full disk cannot
    # stop it printing.
    file=$1.head size=0 dropped=0
    while dd bs=4096 count=64 2>/dev/null >>"$file"; do
        [ -s "$file" ] || return 0
        grown=$(($(wc -c <"$file")))
        [ "$grown" -gt "$size" ] || return 0    # nothing read: the end
        size=$grown
        [ "$size" -ge "$piece" ] || continue
        if [ "$file" != "$1.head" ]; then
            [ ! -s "$1.prev" ] || dropped=$((dropped + $(wc -c <"$1.prev")))
            overwrite "$1.dropped" "$dropped" && mv "$file" "$1.prev" || break
        fi
        file=$1.last size=0
    done
    overwrite "$1.dropped" lossy
    exec cat >/dev/null
}

weigh() { # PREFIX: sets present (bytes on disk), count (bytes printed, as far as known), whole (0: some were lost)
    present=0 dropped=0 whole=1
    { read -r dropped <"$1.dropped"; } 2>/dev/null
    is_number "$dropped" || dropped=0 whole=0
    if [ -s "$1.head" ]; then
        present=$(($(cat "$1.head" "$1.prev" "$1.last" 2>/dev/null | wc -c)))
    fi
    count=$((present + dropped))
}

hex() { od -An -v -tx1 | tr -d ' \n'; }     # what was printed may be no text at all

excerpt() { # NAME PREFIX
    weigh "$2"
    head='' tail='' rest=$((count - keep))
    [ "$present" -eq 0 ] || head=$(head -c "$keep" "$2.head" | hex)
    [ "$rest" -le "$keep" ] || rest=$keep
    [ "$rest" -le 0 ] || tail=$(cat "$2.head" "$2.prev" "$2.last" 2>/dev/null | tail -c "$rest" | hex)
    put "$1_bytes" "$count"
    text "$1_head" "$head"
    text "$1_tail" "$tail"
}

await_drains() { # a daemon left behind may hold the pipe open: then its output is not waited for, and still drained
    turns=110
    while process "$drain_out" || process "$drain_err"; do
        [ "$turns" -gt 0 ] || return 1
        turns=$((turns - 1))
        if [ "$turns" -ge 100 ]; then sleep 0.001 2>/dev/null; else nap; fi
    done
}

# ---------------------------------------------------------------------------------------------- run and supervise

# Runs in a shell of its own, started by the supervisor. It writes down who it is before it does anything: the
# supervisor takes an empty c.U, after this has ended, as proof that the command was never started. Then it looks whether
# it was cancelled meanwhile: a cancel puts its mark first and looks for c.U then, so one of the two sees the other.
# shellcheck disable=SC2016  # to be expanded there
launch='
gw_record=$1 gw_command=$2 gw_secrets=$3 gw_group=$5 gw_cancelled=$9
umask "$4"
export GATEWAY_OPERATION="$6" GATEWAY_ATTEMPT="$7" GATEWAY_LOCK_NUMBER="$8"
[ -r "$gw_command" ] && read -r gw_stat <"/proc/$$/stat" || exit 126
gw_stat=${gw_stat##*) }
set -f
set -- $gw_stat
set +f
printf %s "gw1 pid=$$ start=${20} group=$gw_group end" 1<>"$gw_record" || exit 126
set --
: step command-recorded
if [ -e "$gw_cancelled" ]; then kill -KILL "$$"; fi
if [ -s "$gw_secrets" ]; then
    . "$gw_secrets"
    rm -f "$gw_secrets"
fi
: step command-about-to-run
. "$gw_command"
'

run() {
    ready_to_run
    look "$d" "$attempt"
    late=''
    trap 'late=1' USR1
    process "$$"
    born=$start
    after "$follow" owner_lives wake
    alarm=$!
    refusal=''
    if [ "$phase" = absent ]; then
        : step run-before-supervisor
        umask "$umask_before"   # the supervisor starts anew, and gives it to the command
        $session sh "$0" supervise "$@" </dev/null >/dev/null 2>&1 &
        wait "$!"
        refusal=$?
        look "$d" "$attempt"
    fi
    while [ "$phase" = running ] && [ -z "$late" ]; do
        nap
        look "$d" "$attempt"
    done
    trap '' USR1    # it has served, and must not strike while the answer is being written
    kill "$alarm" 2>/dev/null
    case $tk_kind in run) [ "$tk_digest" = "$digest" ] || refuse digest_conflict ;; esac
    # A supervisor that refuses has claimed nothing. Whatever else happened, the store tells.
    [ -n "$late" ] || case $refusal in
    60) refuse store_write ;;
    61) refuse payload_digest ;;
    62) refuse digest_conflict ;;
    63) refuse below_gc_floor ;;
    64) refuse attempt_not_fenced ;;
    65) refuse no_digest_tool ;;
    esac
    report
}

wake() { # again and again: the follower may not have heard
    while owner_lives; do
        kill -USR1 "$$"
        nap
    done
}

ready_to_run() {
    is_name "$op" && [ "$attempt" -gt 0 ] && [ "$issued" -gt 0 ] && is_digest "$digest" || refuse bad_argument
    [ -z "$lock" ] || [ "$term" -gt 0 ] || refuse bad_argument
    open_store
    [ "$issued" -gt "$floor" ] || refuse below_gc_floor
}

supervise() {
    : step supervisor-started
    trap : TERM HUP INT     # noted and survived: somebody must be left to write the record. The command gets its own
    find_pidns
    process "$$" || exit 60
    pid=$$ born=$start began=$(date +%s)
    tell_time
    since=$up
    unit=$attempt.$pidns.$pid.$born
    t=$d/t.$unit e=$d/e.$unit c=$d/c.$unit p=$d/p.$unit s=$d/s.$unit o=$d/o.$unit r=$d/r.$unit
    read_command
    fence_earlier
    make_room
    : step before-gate
    claim "$t" "$d/g.$attempt" || abandon 0
    : step gate-taken
    make_sure
    : step before-begin
    claim "$t" "$d/b.$attempt" || give_up fence
    : step begun
    # Nothing slow may stand here: killed now, the attempt counts as begun although nothing ran.
    $session sh -c "$launch" gw "$c" "$p" "$s" "$umask_before" "$group" "$op" "$attempt" "$lock_number" \
        "$d/k.$attempt" </dev/null >&6 2>&8 5<&- 6>&- 7<&- 8>&-
    code=$?
    : step command-ended
    exec 6>&- 8>&-
    [ -z "$watchdog" ] || kill "$watchdog" 2>/dev/null
    load_command "$c" || give_up launch_failed
    keep_record
}

abandon() { # CODE: before the gate, so nothing has been claimed
    rm -f "$t" "$e" "$c" "$p" "$s" "$o" "$r" "$o.dropped" "$r.dropped"
    exit "$1"
}

receive() { { cat <&3 >"$p" && { [ "$secrets" = 0 ] || cat <&4 >"$s"; }; } 2>/dev/null; }

read_command() {
    mkdir -p "$d" 2>/dev/null || exit 60
    sweep "$attempt"
    receive || abandon 60
    exec 3<&- 4<&-
    : step command-read
    sha256 "$p" || abandon 65
    [ "$sum" = "$digest" ] || abandon 61
}

fence_earlier() { # two attempts of one operation cannot both launch
    earlier=1
    while [ "$earlier" -lt "$attempt" ]; do
        place_fence "$earlier" || abandon 60
        [ "$phase" = fenced ] || abandon 64
        [ "$tk_kind" != run ] || [ "$tk_digest" = "$digest" ] || abandon 62
        earlier=$((earlier + 1))
    done
}

make_room() { # whatever a full disk can prevent is done before the gate
    room='                                                                                '
    room=$room$room$room
    for file in "$e" "$c"; do write "$file" "$room" || abandon 60; done
    for file in "$o.dropped" "$r.dropped"; do write "$file" '0                      ' || abandon 60; done
    # Made beforehand: where `exec` cannot open its file, the shell ends without a word.
    write "$t" "$room" || abandon 60
    exec 9<>"$t"
    witness=0
    if command -v flock >/dev/null && flock -n 9 2>/dev/null; then witness=1; fi
    token="gw1 kind=run op=$op attempt=$attempt unit=$unit pid=$pid start=$born boot=$boot pidns=$pidns"
    token="$token machine=$machine digest=$digest issued=$issued at=$began witness=$witness until=$((began + term)) end"
    printf '%s\n' "$token" 2>/dev/null >&9 || abandon 60
    open_capture "$o" "$r" || abandon 60
}

make_sure() { # after the gate: the claim is on disk, the floor still below, the lock ours, somebody reads the output
    lock_number=0
    if [ -n "$lock" ]; then
        take_lock
        case $? in 1) give_up lock_busy ;; 2) give_up store_write ;; esac
    fi
    : step before-sync
    settle "$t" "$e" "$d" "$store/ops" ${lock:+"$store/locks/$lock"} || give_up store_write
    : step synced
    above_floor || give_up below_gc_floor
    ! parent_is_fenced || give_up fence
    start_drains "$o" "$r"
    watchdog=''
    if [ "$limit" -gt 0 ]; then
        after "$limit" under_way strike
        watchdog=$!
    fi
}

# A fence on a job itself stands for each of its steps. It is placed before its steps are counted, and looked for here
# after the gate: of the two, one sees the other.
parent_is_fenced() { case $op in *.*) is_fence "$store/ops/${op%%.*}/g.1" ;; *) return 1 ;; esac; }

under_way() { owner_lives || { load_command "$c" && same_process "$cm_pid" "$cm_start"; }; }

strike() { # the time limit: ask, then insist. What came of it is in the exit record
    : step time-is-up
    load_command "$c" && same_process "$cm_pid" "$cm_start" || return 0
    ln "$t" "$d/w.$attempt" 2>/dev/null
    signal_command TERM
    turns=250
    while same_process "$cm_pid" "$cm_start"; do
        [ "$turns" -gt 0 ] || signal_command KILL
        turns=$((turns - 1))
        nap
    done
}

signal_command() { # SIGNAL: to everything that the command has started and that has not left its session
    if [ "$cm_group" = own ]; then kill -"$1" -"$cm_pid"; else kill -"$1" "$cm_pid"; fi 2>/dev/null
}

give_up() { # REASON: the gate is ours and the command will not be started by anybody
    [ -z "${watchdog-}" ] || kill "$watchdog" 2>/dev/null
    clear_away
    finish "gw1 notrun reason=$1 end"
}

keep_record() {
    # From one clock that is never set: it cannot end before it began.
    if tell_time && [ -n "$since" ]; then ended=$((began + (up - since) / 100)); else ended=$(date +%s); fi
    clear_away      # meanwhile the drains come to their end
    drained=1
    await_drains || drained=0
    weigh "$o"
    out_whole=$whole out_count=$count
    weigh "$r"
    [ "$drained$out_whole$whole" = 111 ] || drained=0
    set --
    for file in "$o.head" "$o.prev" "$o.last" "$r.head" "$r.prev" "$r.last"; do
        [ ! -s "$file" ] || set -- "$@" "$file"
    done
    finish "gw1 exited code=$code ended=$ended out=$out_count err=$count whole=$drained lock=$lock_number end" \
        "$@"
}

finish() { # RECORD FILE…
    overwrite "$e" "$1"
    : step record-written
    shift
    settle "$@" "$e"
    : step record-synced
    # Not synced: should a power cut undo the rename, a reader takes the record under its first name.
    mv "$e" "$d/x.$attempt" 2>/dev/null
    : step record-renamed
    exit 0
}

clear_away() { rm -f "$p" "$s" "$t" "$o" "$r"; }

sweep() { # ATTEMPT: what dead processes of this namespace left behind, commands and secrets first of all
    find_pidns
    gate_unit=''
    ! load_token "$d/g.$1" || gate_unit=$tk_unit
    set +f
    # shellcheck disable=SC2231  # the rest of the path holds no blanks
    set -- "$d"/[pstecfor]."$1.$pidns".*
    set -f
    for file; do
        owner=${file##*/?.}
        case $file in *.dropped | *.head | *.prev | *.last) owner=${owner%.*} ;; esac
        ids=${owner#*.*.}
        [ -e "$file" ] && ! same_process "${ids%%.*}" "${ids#*.}" || continue
        case $owner-${file##*/} in "$gate_unit"-[ecor].*) ;; *) rm -f "$file" ;; esac
    done
}

# ---------------------------------------------------------------------------------------------- fence and cancel

place_fence() { # ATTEMPT: nothing that has not begun will begin; sets phase. False: the store could not be written
    look "$d" "$1"
    case $phase in fenced | exited) return 0 ;; esac
    [ "$phase$authoritative" != absentfalse ] || return 0
    find_pidns
    process "$$" && mkdir -p "$d" 2>/dev/null || return 1
    f=$d/f.$1.$pidns.$$.$start
    write "$f" "gw1 kind=fence op=$op attempt=$1 issued=$issued nonce=$nonce end" || return 1
    : step fence-written
    if ! claim "$f" "$d/g.$1"; then
        look "$d" "$1"
        # In this boot the directory tells the truth: no begin, and taking its name prevents it. After a reboot it may
        # have lost the link, so nothing can be concluded and nothing is placed.
        if [ "$phase" != absent ] && [ "$begun" = false ] && [ "$tk_boot" = "$boot" ]; then claim "$f" "$d/b.$1"; fi
    fi
    : step fence-placed
    settle "$f" "$d" "$store/ops" || return 1
    rm -f "$f"
    look "$d" "$1"
}

ready_to_look() {
    is_name "$op" && [ "$attempt" -gt 0 ] && [ "$issued" -gt 0 ] || refuse bad_argument
    open_store
}

status() {
    ready_to_look
    look "$d" "$attempt"
    report
}

fence() {
    ready_to_look
    place_fence "$attempt" || refuse store_write
    [ ! -d "$d" ] || sweep "$attempt"
    : step fence-before-steps
    refuse_for_steps
    look "$d" "$attempt"
    report
}

refuse_for_steps() { # what has begun of a job is not known by its own name, so that one is never said to be fenced
    steps=''
    set +f
    # shellcheck disable=SC2231  # neither part holds blanks
    for entry in "$store"/ops/$op.*; do
        name=${entry##*/}
        ! is_name "$name" || [ ! -d "$entry" ] || steps=$steps${steps:+,}\"$name\"
    done
    set -f
    [ -n "$steps" ] || return 0
    json=''
    text reason has_steps
    put steps "[$steps]"
    answer refused
    exit 0
}

cancel() {
    case $signal in TERM | INT | KILL) ;; *) refuse bad_argument ;; esac
    ready_to_look
    place_fence "$attempt" || refuse store_write
    if [ "$phase" = running ]; then
        # On record before it is done: an exit that follows must be explainable.
        write "$d/k.$attempt" "gw1 cancel signal=$signal at=$(date +%s) nonce=$nonce end" &&
            settle "$d/k.$attempt" "$d" || refuse store_write
        : step cancel-recorded
        if command_lives "$d/c.$tk_unit"; then signal_command "$signal"; fi
        look "$d" "$attempt"
    fi
    report
}

# ---------------------------------------------------------------------------------------------------------- locks

# STORE/locks/NAME/1, 2, 3 …, each a link to its holder's token. The next number can be taken when the holder of the
# last one is done with. No number is used twice, so it can fence off a holder that comes back from the dead.

last_number() { # DIRECTORY: sets last
    last=0
    set +f
    for file in "$1"/*; do
        file=${file##*/}
        if is_number "$file" && [ "$file" -gt "$last" ]; then last=$file; fi
    done
    set -f
}

look_at_holder() { # FILE: sets phase of the attempt that holds it, and lock_state: free, held or stale
    lock_state=held phase=lost holder_op='' holder_attempt=0 until=0
    if load_token "$1"; then
        holder_op=$tk_op holder_attempt=$tk_attempt until=$tk_until
        look "$store/ops/$tk_op" "$tk_attempt"
        case $phase in
        exited | fenced | absent) lock_state=free ;;    # absent: settled, and collected since
        lost) [ "$(date +%s)" -le "$until" ] || lock_state=stale ;;
        esac
    fi
    [ ! -e "$1.u" ] || lock_state=free
}

take_lock() { # 1: busy, 2: the store could not be written; sets lock_number
    locks=$store/locks/$lock
    mkdir -p "$locks" 2>/dev/null || return 2
    last_number "$locks"
    if [ "$last" -gt 0 ]; then
        look_at_holder "$locks/$last"
        [ "$lock_state" != held ] || return 1
    fi
    lock_number=$((last + 1))
    : step lock-seen-free
    claim "$t" "$locks/$lock_number" || return 1
    # Whoever slept since it looked may have taken a number that has come, gone and been collected.
    last_number "$locks"
    [ "$last" = "$lock_number" ] || return 1
}

lock() {
    is_name "$lock" || refuse bad_argument
    open_store
    report_lock
}

report_lock() {
    last_number "$store/locks/$lock"
    lock_state=free phase=absent holder_op='' holder_attempt=0 until=0
    [ "$last" = 0 ] || look_at_holder "$store/locks/$lock/$last"
    json=''
    text lock "$lock"
    put number "$last"
    text state "$lock_state"
    text holder "$holder_op"
    put holder_attempt "$holder_attempt"
    text holder_phase "$phase"
    put until "$until"
    answer ok
}

unlock() {
    is_name "$lock" && [ "$number" -gt 0 ] || refuse bad_argument
    open_store
    last_number "$store/locks/$lock"
    [ "$last" = "$number" ] || refuse lock_changed      # not the one that was looked at
    look_at_holder "$store/locks/$lock/$number"
    [ "$phase" != running ] || refuse lock_holder_alive
    # The token stays: the number was given out, and this mark says who set it aside.
    write "$store/locks/$lock/$number.u" "gw1 unlock nonce=$nonce at=$(date +%s) end" &&
        settle "$store/locks/$lock/$number.u" "$store/locks/$lock" || refuse store_write
    report_lock
}

# ---------------------------------------------------------------------------------------------- list and collect

last_attempt() { # DIRECTORY: sets last_gate
    last_gate=0
    set +f
    for file in "$1"/g.*; do
        file=${file##*/g.}
        if is_number "$file" && [ "$file" -gt "$last_gate" ]; then last_gate=$file; fi
    done
    set -f
}

list() { # operations by name, after the one named `op`, at most `most`
    open_store
    items='' seen=0 more=false past=''
    [ -n "$op" ] || past=1
    set +f
    set -- "$store"/ops/*
    set -f
    for entry; do
        name=${entry##*/}
        if [ -z "$past" ]; then
            [ "$name" != "$op" ] || past=1
            continue
        fi
        last_attempt "$entry"
        [ "$last_gate" -gt 0 ] || continue
        if [ "$seen" -ge "$most" ]; then
            more=true
            break
        fi
        look "$entry" "$last_gate"
        item="\"operation\":\"$name\",\"attempt\":$last_gate,\"phase\":\"$phase\",\"issued\":$tk_issued"
        end=null,\"exit\":null
        [ "$begun" = true ] || tk_at=0      # the gate was taken, and nothing ever ran
        [ "$phase" != exited ] || end=$rc_ended,\"exit\":$rc_code
        items="$items${items:+,}{$item,\"begun\":$begun,\"began\":$tk_at,\"ended\":$end}"
        seen=$((seen + 1))
    done
    json=''
    put operations "[$items]"
    put more "$more"
    answer ok
}

collect() {
    [ "$before" -gt 0 ] || refuse bad_argument
    open_store
    if [ "$before" -gt "$floor" ]; then
        file=$store/floors/$(printf %015d "$before")
        write "$file" '' && settle "$file" "$store/floors" || refuse store_write
    fi
    read_floor || refuse store_mismatch
    : step floor-raised
    removed=0 kept=0
    set +f
    set -- "$store"/ops/*
    set -f
    for d; do
        [ "$removed" -lt "$most" ] || break
        [ -d "$d" ] || continue
        last_attempt "$d"
        if ! settled_below_floor; then
            kept=$((kept + 1))
        # Gone in one step: half an operation could look like one that never was.
        elif mv "$d" "$store/trash/${d##*/}.$$" 2>/dev/null; then
            : step operation-set-aside
            removed=$((removed + 1))
        fi
    done
    tidy
    json=''
    put floor "$floor"
    put removed "$removed"
    put kept "$kept"
    answer ok
}

settled_below_floor() { # of $d. An attempt that is lost is kept: a person may want to see what there is to see
    checked=1 settled=0
    while [ "$checked" -le "$last_gate" ]; do
        sweep "$checked"
        look "$d" "$checked"
        case $phase in
        exited | fenced) [ "$tk_issued" -le "$floor" ] || return 1 ;;
        absent) ;;
        *) return 1 ;;
        esac
        settled=1 checked=$((checked + 1))
    done
    # Nothing was ever claimed here: gone if it is empty, otherwise somebody may be about to.
    [ "$settled" = 1 ] || { sweep 1; rmdir "$d" 2>/dev/null; return 1; }
}

tidy() { # old lock numbers, leftovers of probes, what was set aside
    find_pidns
    set +f
    for locks in "$store"/locks/*; do
        last_number "$locks"
        set +f
        for file in "$locks"/*; do
            number=${file##*/}
            number=${number%.u}
            if is_number "$number" && [ "$number" -lt "$last" ]; then rm -f "$file"; fi
        done
    done
    for entry in "$store/tmp/probe.$pidns".*; do
        ids=${entry##*/probe."$pidns".}
        [ ! -d "$entry" ] || same_process "${ids%%.*}" "${ids#*.}" || rm -rf "$entry"
    done
    rm -rf "$store"/trash/*
    set -f
}

# ---------------------------------------------------------------------------------------------------------- probe

probe() {
    [ "$limit" -gt 0 ] && is_digest "$digest" || refuse bad_argument
    open_store
    find_pidns
    process "$$" && born=$start && d=$store/tmp/probe.$pidns.$$.$start && mkdir "$d" 2>/dev/null || refuse store_write
    trap 'rm -rf "$d"' EXIT
    c=$d/c p=$d/p s=$d/s t=$d/c attempt=1 lock_number=0
    receive || refuse store_write
    room='                                '
    write "$d/o.dropped" "0$room" && write "$d/r.dropped" "0$room" && write "$c" '' || refuse store_write
    exec 3<&- 4<&-
    sha256 "$p" || refuse no_digest_tool
    [ "$sum" = "$digest" ] || refuse payload_digest
    open_capture "$d/o" "$d/r" || refuse store_write
    start_drains "$d/o" "$d/r"
    # A watch that is ended before it has come to itself still has the traps of this shell, and bash runs the one for EXIT
    # then: what the question prints would be cleared away while it is being written.
    trap - EXIT
    after "$limit" under_way strike
    watchdog=$!
    : step probe-watched
    trap 'rm -rf "$d"' EXIT
    $session sh -c "$launch" gw "$c" "$p" "$s" "$umask_before" "$group" "$op" 0 0 "$d/k" \
        </dev/null >&6 2>&8 5<&- 6>&- 7<&- 8>&-
    code=$?
    exec 6>&- 8>&-
    kill "$watchdog" 2>/dev/null
    complete=true
    await_drains || complete=false
    json=''
    put exit "$code"
    put_exists timed_out "$d/w.1"
    excerpt out "$d/o"
    [ "$whole" = 1 ] || complete=false
    excerpt err "$d/r"
    [ "$whole" = 1 ] || complete=false
    put output_complete "$complete"
    answer ok
}

# ------------------------------------------------------------------------------------------------- init and check

init() { # safe to repeat: the store keeps the identity of whoever was first
    [ "$uid" != -1 ] || refuse store_write
    [ -n "$boot" ] || refuse no_boot_identity
    for entry in ops locks floors bin trash tmp; do mkdir -p "$store/$entry" 2>/dev/null || refuse store_write; done
    if [ ! -e "$store/id" ]; then
        store_id=''
        { read -r store_id </proc/sys/kernel/random/uuid; } 2>/dev/null
        is_name "$store_id" || refuse store_write
        write "$store/id.$$" "gwstore1 id=$store_id uid=$uid end" && write "$store/floors/000000000000000" '' &&
            settle "$store/id.$$" "$store/floors" || refuse store_write
        : step store-written
        ln "$store/id.$$" "$store/id" 2>/dev/null || [ -e "$store/id" ] || refuse no_hard_links
        rm -f "$store/id.$$"
        settle "$store/id" "$store" || refuse store_write
    fi
    describe
}

read_store_id() { # sets store_id, empty where there is no whole store of this user
    store_id='' line=''
    { read -r line <"$store/id"; } 2>/dev/null
    case $line in "gwstore1 id="*" uid=$uid end") ;; *) return 1 ;; esac
    line=${line#*id=}
    is_name "${line%% *}" && read_floor && store_id=${line%% *}
}

describe() {
    initialised=true
    read_store_id || initialised=false
    json=''
    put initialised "$initialised"
    find_mount
    text filesystem "$filesystem"
    put volatile "$volatile"
    free=$(df -Pk "$store" 2>/dev/null | while read -r _ _ _ kib _; do echo "$kib"; done | tail -n 1)
    is_number "$free" || free=0
    put free_kib "$free"
    put clock "$(date +%s)"
    file=$store/tmp/check.$$
    writable=false
    if write "$file" check && settle "$file" && ln "$file" "$file.link" 2>/dev/null; then writable=true; fi
    rm -f "$file" "$file.link" 2>/dev/null
    put writable "$writable"
    put detaches "$(offers setsid)"
    put witness "$(offers flock)"
    missing=''
    for entry in cat date dd head ln mkdir mkfifo mv od readlink rm sh sleep sync tail tr wc; do
        command -v "$entry" >/dev/null || missing=$missing${missing:+,}\"$entry\"
    done
    [ "$(offers sha256sum)$(offers shasum)$(offers openssl)" != falsefalsefalse ] ||
        missing=$missing${missing:+,}\"sha256sum\"
    put missing "[$missing]"
    answer ok
}

offers() { if command -v "$1" >/dev/null; then echo true; else echo false; fi; }

find_mount() { # sets filesystem, and volatile where the store would not outlive a reboot
    filesystem=unknown volatile=false longest=0
    while read -r _ point kind _; do
        point=${point%/}
        case $store/ in "$point"/*) [ "${#point}" -lt "$longest" ] || longest=${#point} filesystem=$kind ;; esac
    done <<END
$(cat /proc/self/mounts 2>/dev/null)
END
    is_name "$filesystem" || filesystem=unknown
    case $filesystem in tmpfs | ramfs | devtmpfs) volatile=true ;; esac
    case $store/ in /tmp/* | /run/* | /var/run/* | /dev/*) volatile=true ;; esac
}

check() {
    describe
}

# ----------------------------------------------------------------------------------------------------------- main

verb=${1-}
[ "$#" -eq 0 ] || shift
store='' store_id='' nonce='' op='' attempt=0 issued=0 digest='' follow=30 limit=0 keep=8192
lock='' term=0 number=0 signal=TERM before=0 most=200 secrets=0 fit=1
for word; do
    value=${word#*=}
    case $word in
    store=*) store=$value ;;
    store_id=*) store_id=$value ;;
    nonce=*) nonce=$value ;;
    op=*) op=$value ;;
    attempt=*) attempt=$value ;;
    issued=*) issued=$value ;;
    digest=*) digest=$value ;;
    follow=*) follow=$value ;;
    limit=*) limit=$value ;;
    keep=*) keep=$value ;;
    lock=*) lock=$value ;;
    term=*) term=$value ;;
    number=*) number=$value ;;
    signal=*) signal=$value ;;
    before=*) before=$value ;;
    most=*) most=$value ;;
    secrets=*) secrets=$value ;;
    *) fit=0 ;;
    esac
done
who_am_i
umask 077
is_name "$nonce" || exit 2
for value in "$attempt" "$issued" "$follow" "$limit" "$keep" "$term" "$number" "$before" "$most" "$secrets"; do
    is_number "$value" || fit=0
done
for value in "$store_id" "$op" "$lock"; do
    [ -z "$value" ] || is_name "$value" || fit=0
done
if [ "$fit" = 0 ] || ! is_path "$store" || [ "$attempt" -gt 99 ] || [ "$keep" -gt 65536 ]; then
    store_id=''
    refuse bad_argument
fi
d=$store/ops/$op
case $verb in
run) run "$@" ;;
supervise) supervise ;;
status | fence | cancel | probe | list | collect | lock | unlock | init | check) "$verb" ;;
*) refuse bad_argument ;;
esac
