"""Checks before a start what a configuration names on this machine: keys, tokens, the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from agent.relay.guard import check_listen
from agent.relay.listen import parse_address, tls_context
from agent.service.parts import store_file
from agent.service.process.secrets import check_card_key, signer_of_file, token_files
from agent.service.relaying import relay_access
from nostr_client.errors import NostrTallyError, optional
from nostr_client.paths import read_secret, user_path
from nostr_client.store.file.connect import check_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.config import Config
    from agent.config.model import CountersSection, LocalRelaySection

    Complain = Callable[[tuple[str | int, ...], str], None]

T = TypeVar("T")


def check_machine(config: Config, complain: Complain) -> None:
    """Complain about what would fail here once the agent runs; nothing is made or run.

    Every file that the configuration names is read: a secret that others can read is a mistake.
    """
    _try(complain, ("identity", "key_file"), signer_of_file, config.identity)
    _try(complain, ("store", "path"), check_place, store_file(config))
    for key, path in token_files(config.api):
        if path.exists():
            _try(complain, ("api", key), read_secret, path)
    if config.relay.enabled:
        _check_relay(config.relay, complain)
    _try(complain, ("assertions", "key_file"), check_card_key, config.assertions)
    _check_counters(config.counters, complain)


def _check_counters(section: CountersSection, complain: Complain) -> None:
    for n, source in enumerate(section.sources):
        if source.token_file:
            place = ("counters", "sources", n, "token_file")
            _try(complain, place, read_secret, user_path(source.token_file))
    for n, push in enumerate(section.push):
        if push.credentials:
            place = ("counters", "push", n, "credentials")
            _try(complain, place, _check_credentials, push.credentials)


def _check_credentials(path: str) -> None:
    with optional("a push"):
        from nostr_client.counters.jetstream.dial import read_credentials
    read_credentials(path)


def _check_relay(section: LocalRelaySection, complain: Complain) -> None:
    access = _try(complain, ("relay", "token_file"), relay_access, section)
    if access is None or bool(access.tls_cert) != bool(access.tls_key):
        return
    _try(complain, ("relay", "tls_cert"), tls_context, access)
    address = _try(lambda _, __: None, (), parse_address, section.listen)
    if address is not None:
        policy = bool(section.write_keys or section.only_wanted)
        _try(complain, ("relay", "listen"), check_listen, address[0], access, has_policy=policy)


def _try(
    complain: Complain,
    path: tuple[str | int, ...],
    check: Callable[..., T],
    *values: object,
    **more: bool,
) -> T | None:
    try:
        return check(*values, **more)
    except NostrTallyError as error:
        complain(path, str(error).removeprefix(f"{'.'.join(map(str, path))}: "))
    except OSError as error:
        complain(path, f"{error.filename}: {error.strerror}")
    return None
