"""Reads sources of counters: by an agent's API, or from events on relays and in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from agent.api.client import AgentClient, ApiError
from nostr_client.codecs import nip19
from nostr_client.codecs.keys import KeySigner
from nostr_client.counters import lineage, nostr
from nostr_client.counters.engine.take import Batch, check_batch
from nostr_client.counters.lineage import KEPT_RUNS, StreamHead
from nostr_client.counters.sealing import Sealer, is_sealed
from nostr_client.errors import InvalidInput, clip, host_alone
from nostr_client.options import ReadBudget
from nostr_client.paths import read_secret, user_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.api.schema import Messages
    from agent.config.model import SourceSection
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import Signer
    from nostr_client.counters.engine.remote import SourceRecord
    from nostr_client.network.pool import RelayPool
    from nostr_client.options import ConnectionOptions
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.clock import Clock


LONGEST_ID: Final = 64
"""Characters of the id of a store, an epoch or a run."""

MOST_SEQ: Final = 2**53


def batch_of(found: Messages, stream: str, after: int, *, whole: bool) -> Batch:
    """One answer as a batch. Raises InvalidInput for one that cannot be."""
    if found.stream != stream:
        raise InvalidInput("it answered for another stream")
    ways = lineage.checked(found.lineage, lineage.node(stream, found.store))
    arrivals = found.messages
    if found.more and not arrivals:
        raise InvalidInput("it announces more messages, but sends none")
    upto = arrivals[-1].seq if found.more else max(found.last_seq, 0)
    batch = Batch(_head(found), arrivals, upto, whole, ways, after)
    check_batch(batch)
    return batch


def _head(found: Messages) -> StreamHead:
    ids = [found.store, found.epoch, *(run for run, _ in found.runs)]
    numbers = [found.first_seq, found.last_seq, *(seq for _, seq in found.runs)]
    if not all(0 < len(id) <= LONGEST_ID and id.isprintable() for id in ids):
        raise InvalidInput("its ids are missing or malformed")
    if not all(0 <= n <= MOST_SEQ for n in numbers) or len(found.runs) > KEPT_RUNS:
        raise InvalidInput("its sequence numbers are out of range")
    return StreamHead(found.store, found.epoch, found.first_seq, found.last_seq, found.runs)


def joined(batches: Sequence[Batch]) -> Batch:
    """Pages of the newest of every subject as one: of a subject that came twice the later one.

    Raises InvalidInput where the stream was restored or created again in between.
    """
    first, last = batches[0], batches[-1]
    if any(batch.head.key != first.head.key for batch in batches):
        raise InvalidInput("the stream changed while it was read")
    newest = {one.subject: one for batch in batches for one in batch.arrivals}
    return last._replace(arrivals=tuple(newest.values()), after=0)


PAGE: Final = 1000
"""Messages of one request."""

FAR_BEHIND: Final = 5_000
"""Messages after which only the newest of each subject is read: the sum needs no more."""

MOST_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of one answer: above what an agent sends, which is a few MB."""

TIMEOUT_S: Final = 30.0

VERSIONS: Final = 10
"""Events asked for: normally one, some more from a relay that keeps old versions."""

BUDGET: Final = ReadBudget(events=2 * VERSIONS, bytes=4 * 1024 * 1024)


class SourceReader(Protocol):
    """Reads one source. Raises NostrTallyError and its kinds; safe to cancel."""

    peer: str
    troubles: tuple[str, ...]
    """What went wrong at the newest reading without ending it: relays that did not answer."""

    async def read(self, known: SourceRecord | None, *, again: bool) -> Batch | None:
        """Read what is new, or with `again` the newest of every subject; None if nothing exists."""
        ...

    async def close(self) -> None: ...


class AgentReader:
    """Reads a stream of another agent by its API."""

    def __init__(self, section: SourceSection, connection: ConnectionOptions) -> None:
        self.peer = f"{host_alone(section.agent)} {section.of or section.stream}"
        self.troubles: tuple[str, ...] = ()
        self._section = section
        self._stream = section.of or section.stream
        self._connection = connection
        self._client: AgentClient | None = None
        self._closed = False
        self._last_seq = 0

    async def read(self, known: SourceRecord | None, *, again: bool) -> Batch | None:
        seq = known.seq if known else 0
        if again:
            return await self._whole()
        newest = seq == 0 or self._last_seq - seq > FAR_BEHIND
        batch = await self._page(seq, newest=newest)
        self._last_seq = batch.head.last_seq
        return batch

    async def _whole(self) -> Batch:
        """All subjects with their newest values, however many pages that takes."""
        pages: list[Batch] = []
        subjects: set[str] = set()
        while not pages or pages[-1].upto < pages[-1].head.last_seq:
            page = await self._page(pages[-1].upto if pages else 0, newest=True)
            pages.append(page)
            subjects.update(one.subject for one in page.arrivals)
            if len(subjects) > self._section.most_subjects:
                most = self._section.most_subjects
                raise InvalidInput(f"more than {most} subjects: raise most_subjects to compare")
        return joined(pages)

    async def _page(self, after: int, *, newest: bool) -> Batch:
        try:
            found = await self._open().messages(
                self._stream, after=after, limit=PAGE, newest=newest
            )
        except ApiError as error:
            if error.status == 401:  # the token file may have changed
                await self._drop()
            raise
        return batch_of(found, self._stream, after, whole=newest)

    def _open(self) -> AgentClient:
        if self._closed:
            raise InvalidInput("the configuration of the source has changed")
        if self._client is None:
            self._client = AgentClient(
                self._section.agent,
                self._token(),
                timeout=TIMEOUT_S,
                most_bytes=MOST_ANSWER,
                connection=self._connection,
            )
        return self._client

    def _token(self) -> str:
        path = user_path(self._section.token_file)
        try:
            return read_secret(path)
        except OSError as error:
            raise InvalidInput(f"token_file: {error}") from error

    async def close(self) -> None:
        self._closed = True
        await self._drop()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class NostrReader:
    """Reads the values that a key publishes: from relays, and from events already in the store."""

    def __init__(
        self,
        section: SourceSection,
        relays: Callable[[], Sequence[str]],
        pool: RelayPool,
        store: SqliteStore,
        clock: Clock,
        signer: Signer | None,
        on_event: Callable[[str, str], None],
    ) -> None:
        self._pubkey = nip19.decode_pubkey(section.pubkey)
        self._stream = section.of or section.stream
        self._asked = nostr.address(self._pubkey, self._stream)
        self.peer = f"{nip19.PublicKey(self._pubkey).encode()} {self._stream}"
        self._relays = relays
        self._pool = pool
        self._store = store
        self._clock = clock
        self._signer = signer
        self._on_event = on_event
        self.troubles: tuple[str, ...] = ()
        self._answered = True

    async def read(self, known: SourceRecord | None, *, again: bool) -> Batch | None:
        if not again:
            await self._fetch()
        kept = await self._store.query([self._asked])
        found = nostr.newest(kept, self._asked, self._clock.wall())
        if found is not None:
            return nostr.parse(self._readable(found), self._stream, found)
        if kept:
            raise InvalidInput("its event is dated in the future")
        if not self._answered:
            text = "; ".join(self.troubles)
            raise InvalidInput(f"no event is here, and no relay answered: {text}")
        return None

    async def _fetch(self) -> None:
        """Bring what relays have into the store, which keeps the version that counts."""
        found = await self._pool.gather(
            self._relays(),
            lambda relay: relay.fetch(self._asked.replace(limit=VERSIONS), budget=BUDGET),
        )
        self.troubles = tuple(clip(str(error), 200) for error in found.errors.values())
        self._answered = bool(found.answers) or not found.errors
        now = self._clock.wall()
        for url, page in found.answers.items():
            good = [one for one in page.events if nostr.newest([one.event], self._asked, now)]
            for one in good:
                self._on_event(one.event.id, url)
            if good:
                await self._store.save(good)

    def _readable(self, event: Event) -> str:
        if not is_sealed(event.content):
            return event.content
        if not isinstance(self._signer, KeySigner):
            raise InvalidInput("it is encrypted: set identity.key_file to read it")
        return Sealer(self._signer).open(event.content, event.pubkey)

    async def close(self) -> None:
        """Relays belong to the pool."""
