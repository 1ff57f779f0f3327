"""Questions to an archive: python archive_analytics.py FOLDER OTHER_FOLDER

Both as `nostr-agent archive export FOLDER --form parquet` wrote them; needs pyarrow.
"""

import argparse
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds

from nostr_client import hll


def read(folder, columns, kind="*"):
    files = [str(path) for path in Path(folder).glob(f"kind={kind}/day=*/*.parquet")]
    table = ds.dataset(files, format="parquet").to_table(columns=columns)
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folders", nargs=2)
folder, other = parser.parse_args().folders
lists = {}  # the newest of each author
for _at, author, tags in sorted(read(folder, ["created_at", "pubkey", "tags"], kind=3)):
    lists[author] = {tag[1] for tag in json.loads(tags) if tag[0] == "p" and len(tag) > 1}
for pubkey, followers in Counter(key for one in lists.values() for key in one).most_common(10):
    print(f"{followers:>8} follow {pubkey}")

days = Counter(at // 86_400 for (at,) in read(folder, ["created_at"]))
for day, events in sorted(days.items())[-14:]:
    print(f"{datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}  {events:>8} events")

mine, theirs = ({key for (key,) in read(each, ["pubkey"])} for each in (folder, other))
found = hll.overlap(hll.from_pubkeys(mine, 8), hll.from_pubkeys(theirs, 8))
print(f"about {found.intersection:,.0f} of {found.union:,.0f} authors are in both")
