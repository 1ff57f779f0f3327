# Rebuild every table from JSONL archives with Spark: bash reindex_archive.sh TABLES ARCHIVE...
# Prints the targets that most people point at: followed, reacted to, replied to. MEMORY is Java's.
set -eu
[ $# -ge 2 ] || { echo "usage: bash $0 TABLES ARCHIVE..." >&2; exit 2; }
tables=$1 && shift
archives=()
for archive; do archives+=(--jsonl "$archive"); done

nostr-agent reindex "${archives[@]}" --out "$tables" --engine spark --memory "${MEMORY:-4g}" \
    ${HOT:+--hot "$HOT"}

python - "$tables" <<'END'
import sys

import pyarrow.dataset as ds

hot = ds.dataset(f"{sys.argv[1]}/tables/hot", format="parquet")
rows = hot.to_table(["kind", "name", "value", "authors", "events"])
for row in rows.sort_by([("authors", "descending"), ("value", "ascending")]).slice(0, 10).to_pylist():
    print(f"{row['authors']:>8} people, kind {row['kind']}, {row['name']} {row['value']}")
END
