"""Checks what types cannot express: names, relays, filters and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.alerts.conditions import parse_condition, parse_digest_time, parse_shortfall
from agent.config.counters import check_counters
from agent.relay.listen import allowed_origin, own_url, parse_address, web_origin
from agent.specs import check_http_url, sync_filters
from nostr_client.assertions.cards import CardOptions
from nostr_client.assertions.fields import subject_of
from nostr_client.assertions.reading import subject_of_query
from nostr_client.codecs import nip19
from nostr_client.codecs.proxies import NO_PROXY, parse_proxy
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import InvalidInput
from nostr_client.watch.definition import check_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agent.config.check import CheckedConfig, Complain, Path
    from agent.config.model import AssertionsSection, Config, RelaysSection
    from agent.specs import CoverageSpec, SyncSpec
    from nostr_client.watch.definition import AlertSpec, Watch

SHORTEST_RUN_S: Final = 60.0
"""Seconds between two runs at least that count a whole store."""

SHORTEST_OWN_S: Final = 0.1
"""Seconds between two rounds at least where no stranger's relay is asked for a number."""


def check(found: CheckedConfig, complain: Complain) -> None:
    """Complain about everything that would fail, or mean nothing, once the agent runs."""
    config = found.config
    _check_relays(config.relays, complain)
    if config.network.proxy:
        _try(complain, ("network", "proxy"), _check_proxy, config.network.proxy)
    _check_each(config.relay.urls, own_url, complain, ("relay", "urls"))
    _check_each(config.relay.origins, allowed_origin, complain, ("relay", "origins"))
    _check_each(config.api.cors_origins, web_origin, complain, ("api", "cors_origins"))
    _check_names("watches", found.watches, complain)
    _check_names("syncs", found.syncs, complain)
    for n, watch in found.watches:
        check_watch(watch, complain, ("watches", n))
    for n, sync in found.syncs:
        check_sync(sync, complain, ("syncs", n))
    _check_names("coverage", found.coverages, complain)
    for n, coverage in found.coverages:
        _check_coverage(coverage, config.relays, complain, ("coverage", n))
    _check_alerts(config.digest.alerts, parse_digest_time, complain, ("digest",))
    _check_keys(config, complain)
    _check_intervals(config, complain)
    if found.wrong.isdisjoint({"counters", "identity"}):
        check_counters(config, complain)
    _check_addresses(config, complain)
    if "assertions" not in found.wrong:
        _check_assertions(config.assertions, complain)
    if config.identity.key_file and config.identity.key_command:
        complain(("identity", "key_command"), "give a file or a command, not both")
    if bool(config.relay.tls_cert) != bool(config.relay.tls_key):
        complain(("relay", "tls_cert"), "tls_cert and tls_key go together")


def check_watch(watch: Watch, complain: Complain, path: Path = ()) -> None:
    """One watch: its question, relays and alerts."""
    _try(complain, (*path, "target" if watch.query else "filters"), _ask, watch)
    _try(complain, (*path, "interval"), check_interval, watch.interval)
    for n, key in enumerate(watch.providers):
        _try(complain, (*path, "providers", n), nip19.decode_pubkey, key)
    if watch.providers:
        _try(complain, (*path, "providers"), _asserted, watch)
    for field in ("relays", "excluded", "trusted"):
        _check_urls(getattr(watch, field), complain, (*path, field))
    _check_alerts(watch.alerts, parse_condition, complain, path)


def _check_alerts(
    alerts: Sequence[AlertSpec], parse: Callable[[str], object], complain: Complain, path: Path
) -> None:
    for n, alert in enumerate(alerts):
        at = (*path, "alerts", n)
        _try(complain, (*at, "when"), parse, alert.when)
        if not alert.webhook and not alert.command:
            complain(at, "needs a webhook or a command")
        if alert.format != "json" and not alert.webhook:
            complain((*at, "format"), "is that of a webhook: a command gets the JSON")
        if alert.webhook:
            _try(complain, (*at, "webhook"), check_http_url, alert.webhook)


def _ask(watch: Watch) -> None:
    """Raise InvalidInput unless the watch has a question."""
    _ = watch.question


def _asserted(watch: Watch) -> None:
    """Raise InvalidInput for a question that no card of NIP-85 answers."""
    try:
        question = watch.question
    except InvalidInput:
        return  # that is said already
    subject_of_query(question)


def check_sync(sync: SyncSpec, complain: Complain, path: Path = ()) -> None:
    """One sync: its filters and relays."""
    for n, one in enumerate(sync.filters):
        if one.get("limit") is not None:
            complain((*path, "filters", n, "limit"), "a sync has no limit: give since and until")
    _try(complain, (*path, "filters"), sync_filters, sync, 0)
    _try(complain, (*path, "interval"), check_interval, sync.interval)
    _check_urls(sync.relays, complain, (*path, "relays"))


def _check_coverage(
    coverage: CoverageSpec, relays: RelaysSection, complain: Complain, path: Path
) -> None:
    """One coverage: its author, relays and alerts."""
    _try(complain, (*path, "author"), nip19.decode_pubkey, coverage.author)
    _try(complain, (*path, "interval"), check_interval, coverage.interval)
    _check_urls(coverage.relays, complain, (*path, "relays"))
    _check_alerts(coverage.alerts, parse_shortfall, complain, path)
    if coverage.written and not relays.indexers:
        complain((*path, "written"), "needs relays.indexers, where relay lists are looked up")


def _check_relays(relays: RelaysSection, complain: Complain) -> None:
    for name in ("default", "trusted", "denied", "indexers"):
        _check_urls(getattr(relays, name), complain, ("relays", name))


def _check_proxy(text: str) -> None:
    if text != NO_PROXY:
        parse_proxy(text)


def _check_urls(urls: Sequence[str], complain: Complain, path: Path) -> None:
    _check_each(urls, normalize, complain, path)


def _check_each(
    texts: Sequence[str], check: Callable[[str], str], complain: Complain, path: Path
) -> None:
    for n, text in enumerate(texts):
        _try(complain, (*path, n), check, text)


def _check_names(
    where: str, named: Iterable[tuple[int, Watch | SyncSpec | CoverageSpec]], complain: Complain
) -> None:
    seen: set[str] = set()
    for n, one in named:
        if one.name in seen:
            complain((where, n, "name"), f"there are two called {one.name}")
        seen.add(one.name)


def _check_keys(config: Config, complain: Complain) -> None:
    lists: list[tuple[Path, Sequence[str]]] = [
        (("relay", "write_keys"), config.relay.write_keys),
        (("relays", "monitors"), config.relays.monitors),
    ]
    for n, rule in enumerate(config.retention.rules):
        at = ("retention", "rules", n)
        lists += [((*at, "authors"), rule.authors), ((*at, "keep_authors"), rule.keep_authors)]
    for path, keys in lists:
        for n, key in enumerate(keys):
            _try(complain, (*path, n), nip19.decode_pubkey, key)


def _check_intervals(config: Config, complain: Complain) -> None:
    """Of what asks one's own agents and servers: as often as they can bear it, not without end."""
    found: list[tuple[Path, str]] = [(("retention", "interval"), config.retention.interval)]
    for name in ("sources", "publish", "push"):
        links = getattr(config.counters, name)
        found += [(("counters", name, n, "interval"), one.interval) for n, one in enumerate(links)]
    for path, interval in found:
        _try(complain, path, check_interval, interval, SHORTEST_OWN_S)


def _check_assertions(section: AssertionsSection, complain: Complain) -> None:
    _check_urls(section.relays, complain, ("assertions", "relays"))
    _try(complain, ("assertions", "interval"), check_interval, section.interval, SHORTEST_RUN_S)
    if section.followed_by:
        _try(complain, ("assertions", "followed_by"), nip19.decode_pubkey, section.followed_by)
    for n, subject in enumerate(section.subjects):
        _try(complain, ("assertions", "subjects", n), subject_of, subject)
    options = CardOptions(personal=frozenset(section.fields), step=section.step / 100)
    _try(complain, ("assertions", "fields"), options.check)
    if "rank" in section.fields:
        complain(("assertions", "fields"), "rank has a viewpoint: `assertions publish --rank-of`")
    if section.key_file and section.key_command:
        complain(("assertions", "key_command"), "give a file or a command, not both")
    named = section.watches or section.subjects or section.followed_by or section.all_subjects
    if section.is_on and not named:
        complain(
            ("assertions",), "names nobody: give watches, subjects, followed_by or all_subjects"
        )


def _check_addresses(config: Config, complain: Complain) -> None:
    for name in ("relay", "api"):
        _try(complain, (name, "listen"), parse_address, getattr(config, name).listen)


def _try(complain: Complain, path: Path, check: Callable[..., object], *values: object) -> None:
    try:
        check(*values)
    except InvalidInput as error:
        complain(path, str(error))
