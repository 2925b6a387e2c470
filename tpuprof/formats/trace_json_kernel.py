"""The compiled loop over the list of events in trace-event JSON; ``trace_json_scan`` drives it."""

from __future__ import annotations

from tpuprof.formats.trace_json_values import (
    AFTER_KEY,
    BROKEN,
    CLOSE,
    CLOSE_LIST,
    COMMA,
    CUT,
    FIELD_ARGS,
    FIELD_DUR,
    FIELD_NAME,
    FIELD_PH,
    FIELD_PID,
    FIELD_TID,
    FIELD_TS,
    LIST_END,
    N_ISSUES,
    NULL,
    OK,
    OPEN,
    OTHER_PHASE,
    QUOTATION,
    REF,
    STATS_FULL,
    TEXT,
    TOKENS_FULL,
    any_value,
    borrowed,
    decimal_us,
    hash_bytes,
    integer,
    kernel,
    packed,
    skip_space,
    string,
)
from tpuprof.formats.xspace import I32, I64, U8

PHASE_SPAN, PHASE_META = 1, 2
TIME_LIMIT_US = 4_600_000_000_000  # a start plus a duration of 53 days each, in ps, still fit into int64
BAD_DURATION_PS = -1

# Columns of the buffers, all int64. One row per event, argument and token.
PHASE, PID, TID, NAME, HAS_TIME, US, SUB_PS, DUR_PS, STAT_END, N_EVENT_COLUMNS = range(10)
KEY, KIND, BITS, N_STAT_COLUMNS = range(4)
START, LENGTH, HASH, N_TOKEN_COLUMNS = range(4)
N_TOKENS = N_ISSUES  # the place of the number of tokens in the state array, behind the counts of issues

_SPAN, _META = ord("X"), ord("M")


@kernel
def rehash(table: I32, tokens: I64, n_tokens: int) -> None:
    """Fill an empty table, whose size is a power of two, with the known tokens."""
    mask = len(table) - 1
    for token in range(n_tokens):
        slot = tokens[token, HASH] & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = token


@kernel
def _intern(text: U8, start: int, end: int, table: I32, tokens: I64, state: I64) -> int:
    """The token of these bytes, new if need be; -1 if there is no room."""
    mask = len(table) - 1
    length = end - start
    h = hash_bytes(text, start, end)
    slot = h & mask
    while True:
        token = table[slot]
        if token < 0:
            break
        if tokens[token, HASH] == h and tokens[token, LENGTH] == length:
            other = tokens[token, START]
            k = 0
            while k < length and text[start + k] == text[other + k]:
                k += 1
            if k == length:
                return token
        slot = (slot + 1) & mask
    new = state[N_TOKENS]
    if new >= len(tokens):
        return -1
    table[slot] = new
    tokens[new, START], tokens[new, LENGTH], tokens[new, HASH] = start, length, h
    state[N_TOKENS] = new + 1
    return new


@kernel
def _next_pair(text: U8, i: int, n: int) -> tuple[int, int, bool]:
    """Behind a value: (status, position of the next key or behind the bracket, whether the object ended)."""
    i = skip_space(text, i, n)
    if i >= n:
        return CUT, n, True
    if text[i] == CLOSE:
        return OK, i + 1, True
    if text[i] != COMMA:
        return BROKEN, i, True
    return OK, skip_space(text, i + 1, n), False


@kernel
def _key(text: U8, i: int, n: int, issues: I64) -> tuple[int, int, int, int]:
    """A key with its colon: (status, position of its value, start and end of the key)."""
    if i >= n:
        return CUT, n, i, i
    if text[i] != QUOTATION:
        return BROKEN, i, i, i
    status, end = string(text, i + 1, n, AFTER_KEY, issues)
    if status != OK:
        return status, end, i, i
    colon = skip_space(text, end + 1, n)
    if colon >= n:
        return CUT, n, i, i
    return OK, skip_space(text, colon + 1, n), i + 1, end


@kernel
def _args(
    text: U8, i: int, n: int, row: int, table: I32, tokens: I64, stats: I64, state: I64, issues: I64
) -> tuple[int, int, int]:
    """The pairs of an ``args`` object from its bracket on: (status, position, number of stat rows so far)."""
    i = skip_space(text, i + 1, n)
    if i < n and text[i] == CLOSE:
        return OK, i + 1, row
    while True:
        status, i, key_start, key_end = _key(text, i, n, issues)
        if status != OK:
            return status, i, row
        status, i, kind, start, end = any_value(text, i, n, issues)
        if status != OK:
            return status, i, row
        if kind != NULL:
            if row >= len(stats):
                return STATS_FULL, i, row
            integer_kind, bits = integer(text, start, end)
            if integer_kind != 0:
                kind = integer_kind
            else:
                kind = REF if kind == TEXT else kind
                bits = _intern(text, start, end, table, tokens, state)
                if bits < 0:
                    return TOKENS_FULL, i, row
            key = _intern(text, key_start, key_end, table, tokens, state)
            if key < 0:
                return TOKENS_FULL, i, row
            stats[row, KEY], stats[row, KIND], stats[row, BITS] = key, kind, bits
            row += 1
        status, i, done = _next_pair(text, i, n)
        if status != OK or done:
            return status, i, row


@kernel
def _event(
    text: U8,
    i: int,
    n: int,
    event: I64,
    stat_row: int,
    table: I32,
    tokens: I64,
    stats: I64,
    state: I64,
    issues: I64,
    digits: U8,
) -> tuple[int, int, int]:
    """One object of the list into a row of the events: (status, position, phase; -1 for an empty object)."""
    event[PHASE], event[PID], event[TID], event[NAME] = 0, -1, -1, -1
    event[HAS_TIME], event[US], event[SUB_PS], event[DUR_PS] = 0, 0, 0, BAD_DURATION_PS
    i = skip_space(text, i + 1, n)
    if i < n and text[i] == CLOSE:
        return OK, i + 1, -1
    while True:
        status, i, key_start, key_end = _key(text, i, n, issues)
        if status != OK:
            return status, i, 0
        field = packed(text, key_start, key_end)
        if field == FIELD_ARGS and i < n and text[i] == OPEN:
            status, i, stat_row = _args(text, i, n, stat_row, table, tokens, stats, state, issues)
            if status != OK:
                return status, i, 0
        else:
            status, i, _, start, end = any_value(text, i, n, issues)
            if status != OK:
                return status, i, 0
            if field == FIELD_PH:
                word = packed(text, start, end)
                event[PHASE] = PHASE_SPAN if word == _SPAN else PHASE_META if word == _META else 0
            elif field == FIELD_TS:
                event[HAS_TIME], event[US], event[SUB_PS] = decimal_us(text, start, end, digits)
            elif field == FIELD_DUR:
                valid, us, ps = decimal_us(text, start, end, digits)
                if valid and -TIME_LIMIT_US < us < TIME_LIMIT_US:
                    event[DUR_PS] = us * 1_000_000 + ps
            elif field in (FIELD_PID, FIELD_TID, FIELD_NAME):
                token = _intern(text, start, end, table, tokens, state)
                if token < 0:
                    return TOKENS_FULL, i, 0
                event[PID if field == FIELD_PID else TID if field == FIELD_TID else NAME] = token
        status, i, done = _next_pair(text, i, n)
        if status != OK:
            return status, i, 0
        if done:
            event[STAT_END] = stat_row
            return OK, i, event[PHASE]


@kernel
def _scan(
    text: U8, i: int, table: I32, tokens: I64, events: I64, stats: I64, state: I64, issues: I64, digits: U8
) -> tuple[int, int, int, int]:
    n = len(text)
    row, stat_row = 0, 0
    while row < len(events):
        i = skip_space(text, i, n)
        if i < n and text[i] == COMMA:
            i = skip_space(text, i + 1, n)
        if i >= n:
            return CUT, n, n, row
        if text[i] == CLOSE_LIST:
            return LIST_END, i + 1, i, row
        if text[i] != OPEN:
            return BROKEN, i, i, row
        status, after, phase = _event(text, i, n, events[row], stat_row, table, tokens, stats, state, issues, digits)
        if status != OK:
            return status, i, after, row  # its issues are not counted: it comes again, or counts as broken
        for kind in range(N_ISSUES):
            state[kind] += issues[kind]
            issues[kind] = 0
        i = after
        if phase > 0:
            stat_row = events[row, STAT_END]
            row += 1
        elif phase == 0:
            state[OTHER_PHASE] += 1
    return OK, i, i, row


@kernel
def scan(
    text: U8, i: int, table: I32, tokens: I64, events: I64, stats: I64, state: I64, issues: I64, digits: U8
) -> tuple[int, int, int, int]:
    """Events from a position in the list on: (status, where to go on, where it failed, number of events).

    ``OK`` means that the rows for events are full. On any status but ``OK`` and ``LIST_END`` the place to go on
    is the start of the event that could not be read or stored; nothing of it has been kept but perhaps tokens.
    ``issues`` (zeros) and ``digits`` are scratch space. The caller holds all arrays.
    """
    return _scan(
        borrowed(text),
        i,
        borrowed(table),
        borrowed(tokens),
        borrowed(events),
        borrowed(stats),
        borrowed(state),
        borrowed(issues),
        borrowed(digits),
    )
