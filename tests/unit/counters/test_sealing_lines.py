"""What one line of nostr-sdk seals, the other opens: NIP-44 is the same in 0.44 and 0.45."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

from nostr_client.codecs.keys import KeySigner
from nostr_client.counters.sealing import PART, Sealer
from tests.peers.install import environment

WRITER, READER = (KeySigner(bytes([n]) * 32) for n in (1, 2))
TEXT = "é" * (PART + 1)

OTHER_SIDE = """
import sys
from importlib.metadata import version

from nostr_client.codecs.keys import KeySigner
from nostr_client.counters.sealing import Sealer
from nostr_client.errors import InvalidInput

writer, reader = (KeySigner(bytes([n]) * 32) for n in (1, 2))
text = Sealer(reader).open(sys.stdin.read(), writer.pubkey)
for spoilt in ('{"keys":{"%s":"AAAA"},"parts":[]}' % reader.pubkey, "{}"):
    try:
        Sealer(reader).open(spoilt, writer.pubkey)
    except InvalidInput:
        continue
    sys.exit("a spoilt message was opened")
print(version("nostr-sdk"))
print(Sealer(writer).seal(text, [reader.pubkey]))
"""


def test_both_lines_of_nostr_sdk_read_each_other() -> None:
    (newest,) = environment("nostr-sdk").parents[1].glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, "-c", OTHER_SIDE],
        input=Sealer(WRITER).seal(TEXT, [READER.pubkey]),
        env=os.environ | {"PYTHONPATH": str(newest)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    used, content = done.stdout.splitlines()
    assert used.split(".")[:2] != version("nostr-sdk").split(".")[:2]
    assert Sealer(READER).open(content, WRITER.pubkey) == TEXT
