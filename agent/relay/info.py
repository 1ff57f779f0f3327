"""Builds the NIP-11 document: what this relay is, supports and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client import __version__

if TYPE_CHECKING:
    from agent.relay.options import RelayOptions

SOFTWARE = "https://github.com/nostr-tally/nostr-tally"
ACCEPT = "application/nostr+json"


def wants_info(accept: str | None) -> bool:
    """Whether an Accept header asks for NIP-11: among others, with parameters, in any case."""
    kinds = (part.split(";", 1)[0].strip().lower() for part in (accept or "").split(","))
    return ACCEPT in kinds


def document(options: RelayOptions, *, search: bool, write_restricted: bool) -> dict[str, object]:
    """The NIP-11 document as a JSON object."""
    about = {
        "name": options.name,
        "description": options.description,
        "pubkey": options.pubkey,
        "contact": options.contact,
        "software": SOFTWARE,
        "version": __version__,
        "supported_nips": _nips(options, search=search),
    }
    shown = {key: value for key, value in about.items() if value != ""}
    limitation = _limitation(options, write_restricted=write_restricted)
    return {**shown, "limitation": limitation, **options.extra_info}


def merged_document(options: RelayOptions) -> dict[str, object]:
    """The NIP-11 document of the path whose counts are merged from other relays' answers."""
    limits = options.limits
    limitation = {
        "max_message_length": limits.message_bytes,
        "max_filters": limits.filters,
        "max_subid_length": 64,
        "auth_required": False,
        "payment_required": False,
        "restricted_writes": True,
    }
    about = {
        "name": f"{options.name}: merged counts",
        "description": "Answers COUNT for what its owner watches, with the number merged from many"
        " relays. It is no relay of its own: do not count it as one.",
        "pubkey": options.pubkey,
        "contact": options.contact,
        "software": SOFTWARE,
        "version": __version__,
    }
    shown: dict[str, object] = {key: value for key, value in about.items() if value}
    return {**shown, "supported_nips": [1, 11, 45], "merged": True, "limitation": limitation}


def _nips(options: RelayOptions, *, search: bool) -> list[int]:
    spoken = {1, 9, 11, 40, 42, 62, 67, 70}
    optional = {45: options.count, 50: search, 77: options.negentropy}
    return sorted(spoken | {nip for nip, on in optional.items() if on})


def _limitation(options: RelayOptions, *, write_restricted: bool) -> dict[str, object]:
    limits = options.limits
    return {
        "max_message_length": limits.message_bytes,
        "max_subscriptions": limits.subscriptions,
        "max_filters": limits.filters,
        "max_limit": limits.max_limit,
        "default_limit": limits.default_limit,
        "max_subid_length": 64,
        "auth_required": False,
        "payment_required": False,
        "restricted_writes": write_restricted,
    }
