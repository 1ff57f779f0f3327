"""Decimal integers of any length, as ADR-49 carries them: strings.

Python refuses to convert more than `sys.get_int_max_str_digits()` digits (4,300 by default, which
the embedding program may lower to 640) between int and str. Longer ones go through Decimal or in
pieces, so that no setting of the process has to change. Sums of strings stay linear in their
length: a Decimal is decimal inside.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, Context, Decimal

DIRECT_DIGITS = 600
"""Digits that int() and str() take whatever the process's limit is (its minimum is 640)."""

_DIRECT_BITS = 1_990  # below 600 decimal digits

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def is_integer(text: str) -> bool:
    """Whether `text` is a sign (or none) and ASCII digits, and nothing else."""
    return _INTEGER.fullmatch(text) is not None


def parse_integer(text: str) -> int:
    """The integer that `text` spells, of any length; raises ValueError when it spells none."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not a decimal integer")
    if len(text) <= DIRECT_DIGITS:
        return int(text)
    digits = text.lstrip("+-")
    return -_join(digits) if text[0] == "-" else _join(digits)


def format_integer(n: int) -> str:
    """The decimal digits of `n`, with a minus sign when negative; the inverse of parse_integer."""
    if n.bit_length() <= _DIRECT_BITS:
        return str(n)
    return str(Decimal(n))


def canonical(text: str) -> str:
    """`text` as format_integer writes it: no plus sign, no leading zeros, no minus zero."""
    return add_text(text, "0")


def add_text(one: str, other: str) -> str:
    """The sum of two integers given as digits; raises ValueError when one of them is none."""
    if len(one) <= DIRECT_DIGITS and len(other) <= DIRECT_DIGITS:
        return str(parse_integer(one) + parse_integer(other))
    return _long(one, other, subtract=False)


def subtract_text(one: str, other: str) -> str:
    """`one` minus `other`, both given as digits; raises ValueError when one of them is none."""
    if len(one) <= DIRECT_DIGITS and len(other) <= DIRECT_DIGITS:
        return str(parse_integer(one) - parse_integer(other))
    return _long(one, other, subtract=True)


def _long(one: str, other: str, *, subtract: bool) -> str:
    if _INTEGER.fullmatch(one) is None or _INTEGER.fullmatch(other) is None:
        raise ValueError("not a decimal integer")
    exact = Context(prec=max(len(one), len(other)) + 1, Emax=MAX_EMAX)
    a, b = Decimal(one), Decimal(other)
    result = exact.subtract(a, b) if subtract else exact.add(a, b)
    return str(result) if result else "0"


def _join(digits: str) -> int:
    """Digits to int by halves: the cost of a multiplication, not of its square."""
    if len(digits) <= DIRECT_DIGITS:
        return int(digits)
    half = len(digits) // 2
    high, low = _join(digits[:-half]), _join(digits[-half:])
    return int(high * 10**half + low)
