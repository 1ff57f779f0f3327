"""Makes tables by the statements of `queries.sql`, which has them by their names.

Nothing runs until a stage writes what a statement makes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.reindex.parquet import MOST_MSATS
from agent.reindex.spark.columns import PAYMENT
from nostr_client.assertions.fields import ADDRESS, EVENT, IDENTIFIER, USER
from nostr_client.assertions.tally import EXTERNAL_REACTION, NO_SUBJECTS
from nostr_client.codecs import kinds
from nostr_client.codecs.zaps import TARGET_TAGS
from nostr_client.store.index.schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONSTANTS: Final[dict[str, Any]] = {
    "day_s": DAY,
    "most_msats": MOST_MSATS,
    "payment": PAYMENT,
    "zap_targets": TARGET_TAGS,
    "no_subjects": tuple(sorted(NO_SUBJECTS)),
    "sketch_bits": 12,  # 4096 registers: an error of 1.6 %, in at most 2 KB
    "metadata": kinds.METADATA,
    "note": kinds.TEXT_NOTE,
    "contacts": kinds.CONTACTS,
    "deletion": kinds.DELETION,
    "vanish": kinds.VANISH,
    "comment": kinds.COMMENT,
    "gift_wrap": kinds.GIFT_WRAP,
    "zap": kinds.ZAP,
    "external_reaction": EXTERNAL_REACTION,
    "user_card": USER,
    "event_card": EVENT,
    "address_card": ADDRESS,
    "identifier_card": IDENTIFIER,
}

_TEXT: Final = Path(__file__).with_suffix(".sql").read_text("utf-8")
_, *_PARTS = re.split(r"^-- name: (\w+)\n", _TEXT, flags=re.MULTILINE)

STATEMENTS: Final = dict(zip(_PARTS[::2], _PARTS[1::2], strict=True))
"""The statements by name, in the order of the file."""

ANALYSTS: Final = tuple(STATEMENTS)[tuple(STATEMENTS).index("daily_actives") :]
"""The tables for analysts: the last statements, each with the name of its table."""


def query(spark: SparkSession, name: str, **given: Any) -> DataFrame:
    """What a statement makes of the tables and numbers that it names."""
    return spark.sql(STATEMENTS[name], **CONSTANTS, **given)
