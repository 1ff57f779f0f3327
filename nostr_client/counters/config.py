"""Define the configuration of a stream of counters, and check it.

The names are those of the JetStream API.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.counters.subjects import Transform, is_pattern, matches, overlaps
from nostr_client.errors import CounterError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_WINDOW: Final = 120_000_000_000
"""Default of the duplicate window, in nanoseconds."""

MAX_INT64: Final = 2**63 - 1
"""The largest number in a configuration, and the largest possible sequence."""

_NAME = re.compile(r"[^\x00-\x20\x7f.*>/\\\ud800-\udfff]{1,255}")


class TransformConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subject transform of NATS, from the pattern `src` to `dest`."""

    src: str = ""
    dest: str = ""

    def apply(self, subject: str) -> str | None:
        """Return the new subject, or None if `src` does not match. An empty `src` matches all
        subjects.
        """
        if not self.dest:
            return subject if matches(self.src or ">", subject) else None
        return Transform(self.src or ">", self.dest).apply(subject)

    @property
    def target(self) -> str:
        """The pattern that all new subjects match."""
        if not self.dest:
            return self.src or ">"
        return Transform(self.src or ">", self.dest).target

    def check(self) -> None:
        """Raise CounterError 10155 or 10156 if the transform is not valid."""
        if not is_pattern(self.src or ">"):
            raise CounterError(f"stream transform source: invalid subject {self.src}", code=10155)
        try:
            if self.dest:
                Transform(self.src or ">", self.dest)
        except InvalidInput as error:
            raise CounterError(f"stream transform: {error}", code=10156) from error


class SourceConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream that another stream reads.

    `filter_subject` or `subject_transforms` limit which messages the other stream reads.
    """

    name: str
    """The name of the source."""
    filter_subject: str = ""
    """A pattern of subjects. Empty: all subjects."""
    subject_transforms: tuple[TransformConfig, ...] = ()
    """Transforms of subjects. A message that no transform matches is not read."""
    other: dict[str, Any] = {}
    """Further settings of a server, such as `external` and `opt_start_seq`, unchanged."""

    @property
    def filters(self) -> str:
        """The accepted subjects, in the form of the header Nats-Stream-Source."""
        named = "\f".join(t.src or ">" for t in self.subject_transforms)
        return named or self.filter_subject or ">"

    @property
    def destinations(self) -> str:
        """The transformed subjects, in the form of the header Nats-Stream-Source."""
        return "\f".join(t.dest or ">" for t in self.subject_transforms) or ">"

    @property
    def targets(self) -> list[str]:
        """Patterns that all stored subjects match."""
        if not self.subject_transforms:
            return [self.filter_subject or ">"]
        return [t.target for t in self.subject_transforms]

    def target(self, subject: str) -> str | None:
        """Return the stored subject for a subject of the source, or None for a subject that is not
        accepted.
        """
        if not self.subject_transforms:
            return subject if matches(self.filter_subject or ">", subject) else None
        found = [transform.apply(subject) for transform in self.subject_transforms]
        return next((target for target in found if target is not None), None)


class StreamConfig(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The configuration of a stream, with the fields of the JetStream API.

    A limit of -1 or 0 means no limit. Times are nanoseconds. Only a server uses `storage`,
    `num_replicas` and `compression`.
    """

    name: str
    subjects: tuple[str, ...] = ()
    description: str = ""
    allow_msg_counter: bool = False
    allow_direct: bool | None = None
    """Whether a server answers reads by direct get. Counters on a server need direct get. If you
    pass None, the field gets the value of `allow_msg_counter`."""
    allow_atomic: bool = False
    retention: str = "limits"
    discard: str = "old"
    discard_new_per_subject: bool = False
    max_msgs: int = -1
    max_msgs_per_subject: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msg_size: int = -1
    duplicate_window: int | None = None
    """Time in which a message id counts once. None: two minutes, or 0 if the stream has sources, as
    in nats-server since 2.14."""
    deny_delete: bool = False
    deny_purge: bool = False
    sealed: bool = False
    allow_msg_ttl: bool = False
    allow_msg_schedules: bool = False
    subject_delete_marker_ttl: int = 0
    allow_rollup_hdrs: bool = False
    first_seq: int = 0
    mirror: SourceConfig | None = None
    sources: tuple[SourceConfig, ...] = ()
    subject_transform: TransformConfig | None = None
    republish: TransformConfig | None = None
    storage: str = "file"
    num_replicas: int = 1
    compression: str = "none"
    metadata: dict[str, str] = {}
    other: dict[str, Any] = {}
    """Further fields of the API, unchanged."""

    def __post_init__(self) -> None:
        if self.allow_direct is None:
            msgspec.structs.force_setattr(self, "allow_direct", self.allow_msg_counter)

    @classmethod
    def from_api(cls, config: Mapping[str, Any]) -> StreamConfig:
        """Read a configuration from a JSON object of the API.

        `other` has the fields that this class lacks. Raises InvalidInput if a field has a wrong
        type.
        """
        try:
            known = {"allow_direct": False} | _with_other(config, cls)
            known["sources"] = [_with_other(s, SourceConfig) for s in config.get("sources") or ()]
            if config.get("mirror"):
                known["mirror"] = _with_other(config["mirror"], SourceConfig)
            return msgspec.convert(known, cls)
        except (msgspec.ValidationError, TypeError, AttributeError) as error:
            raise InvalidInput(f"not a stream configuration: {error}") from error

    def to_api(self) -> dict[str, Any]:
        """Return the JSON object of the API, without fields that have their default."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if not self.allow_direct:
            del found["allow_direct"]
        for part in (found, *found.get("sources", ()), found.get("mirror") or {}):
            part |= part.pop("other", {})
        return found

    @property
    def every_source(self) -> tuple[SourceConfig, ...]:
        """All sources, including the mirrored stream."""
        return (*self.sources, self.mirror) if self.mirror else self.sources

    @property
    def targets(self) -> tuple[str, ...]:
        """Patterns that all subjects from its sources match."""
        return tuple(pattern for source in self.sources for pattern in source.targets)

    @property
    def window(self) -> int:
        """Nanoseconds in which a message id counts once. 0: the stream does not compare ids."""
        if self.duplicate_window:
            return self.duplicate_window
        if self.sources or self.mirror:
            return 0
        return min(DEFAULT_WINDOW, self.max_age) if self.max_age > 0 else DEFAULT_WINDOW

    @property
    def required_api_level(self) -> int:
        """The JetStream API level that a server needs for this stream.

        A stream of counters needs level 2 (nats-server 2.12).
        """
        return 2 if self.allow_msg_counter else 0


def _with_other(found: Mapping[str, Any], of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a JSON object with unknown fields moved into its `other`."""
    fields = set(of.__struct_fields__) - {"other"}
    unknown = {name: value for name, value in found.items() if name not in fields}
    return {**{k: v for k, v in found.items() if k in fields}, "other": unknown}


def refuse(description: str) -> CounterError:
    """Return the server's general refusal of a configuration."""
    return CounterError(description, code=10052, status=500)


def check_name(name: str) -> str:
    """Return a valid name of a stream. Raises InvalidInput for any other value."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidInput(f"not a stream name: {name!r}")
    return name


def check_seq(seq: int, what: str = "a sequence") -> int:
    """Return a valid sequence or number of messages. Raises InvalidInput for any other value."""
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= MAX_INT64:
        raise InvalidInput(f"{what} is from 0 to {MAX_INT64}, not {seq!r}")
    return seq


def check_values(config: StreamConfig) -> None:
    """Refuse values that cannot be encoded at all. Raises InvalidInput."""
    check_name(config.name)
    for key, value in config.to_api().items():
        _check_value(key, value)


def _check_value(key: str, value: object) -> None:
    """Check that numbers fit into 64 bits and texts into UTF-8."""
    if isinstance(value, int) and not -MAX_INT64 <= value <= MAX_INT64:
        raise InvalidInput(f"{key} is beyond 64 bits")
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput(f"{key} is not text that UTF-8 can write")
    if isinstance(value, dict):
        for name, item in value.items():
            _check_value(key, name)
            _check_value(f"{key}.{name}", item)
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_value(key, item)


def check_config(config: StreamConfig) -> None:
    """Refuse configurations that no stream can have, or that counters exclude (ADR-49).

    Raises CounterError with the server's code: 10173 for a mirror with counters, 10052 and similar
    codes for other conflicts. Raises InvalidInput for values that the server's client would not
    send.
    """
    check_values(config)
    if config.sealed:
        raise refuse("stream configuration for create can not be sealed")
    _check_counter(config)
    _check_subjects(config)
    _check_limits(config)
    _check_sources(config)
    _check_transforms(config)


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.mirror is not None:
        raise CounterError("stream mirrors can not also calculate counters", code=10173)
    if config.discard == "new":
        raise refuse("counter stream cannot use discard new")
    if config.allow_msg_ttl or config.subject_delete_marker_ttl:
        raise refuse("counter stream cannot use message TTLs")
    if config.retention != "limits":
        raise refuse("counter stream can only use limits retention")
    if config.allow_msg_schedules:
        raise refuse("counter stream cannot use message schedules")


def _check_subjects(config: StreamConfig) -> None:
    if config.mirror is not None and (config.subjects or config.sources):
        raise CounterError("stream mirrors can not contain subjects", code=10034)
    if not all(is_pattern(subject) for subject in config.subjects):
        raise refuse("stream configuration has an invalid subject")
    if any(overlaps(a, b) for a, b in combinations(config.subjects, 2)):
        raise refuse("stream subjects overlap")


def _check_limits(config: StreamConfig) -> None:
    if config.retention not in ("limits", "interest", "workqueue"):
        raise InvalidInput(f"not a retention: {config.retention!r}")
    if config.discard not in ("old", "new"):
        raise InvalidInput(f"not a discard policy: {config.discard!r}")
    if config.max_age < 0 or (config.duplicate_window or 0) < 0 or config.first_seq < 0:
        raise refuse("durations and sequences can not be negative")
    if config.max_age and (config.duplicate_window or 0) > config.max_age:
        raise refuse("duplicates window can not be larger then max age")


def _check_sources(config: StreamConfig) -> None:
    names = [(s.name, s.filters, s.destinations) for s in config.sources]
    if len(set(names)) != len(names):
        raise CounterError("duplicate source configuration detected", code=10140)
    for source in config.every_source:
        _check_source(source)


def _check_source(source: SourceConfig) -> None:
    check_name(source.name)
    if source.filter_subject and source.subject_transforms:
        text = "source with multiple subject transforms cannot also have a single subject filter"
        raise CounterError(text, code=10144)
    if source.filter_subject and not is_pattern(source.filter_subject):
        raise CounterError("source filter subject is invalid", code=10145)
    filters = [t.src or ">" for t in source.subject_transforms]
    if any(overlaps(a, b) for a, b in combinations(filters, 2)):
        raise CounterError("source filters can not overlap", code=10147)


def _check_transforms(config: StreamConfig) -> None:
    every: list[TransformConfig] = [t for s in config.sources for t in s.subject_transforms]
    every += config.mirror.subject_transforms if config.mirror else ()
    every += [t for t in (config.subject_transform, config.republish) if t is not None]
    for transform in every:
        transform.check()
    republish = config.republish
    if republish is not None and any(overlaps(republish.dest, s) for s in config.subjects):
        raise refuse("stream configuration for republish destination forms a cycle")


def check_update(old: StreamConfig, new: StreamConfig, *, empty: bool) -> None:
    """Refuse a change that the stream's history forbids.

    Counters may be turned off at any time, but turned on only while the stream is empty. A
    nats-server refuses both. Raises CounterError 10052 and 10055.
    """
    check_config(new)
    if new.allow_msg_counter and not old.allow_msg_counter and not empty:
        raise refuse("message counters can be enabled on an empty stream only")
    if (new.mirror is None) != (old.mirror is None):
        raise CounterError("stream mirror configuration can not be updated", code=10055)
    if new.retention != old.retention:
        raise refuse("stream configuration update can not change retention policy")


def check_overlap(config: StreamConfig, others: Sequence[StreamConfig]) -> None:
    """Refuse subjects on which another stream of the same store listens (10065)."""
    for other in others:
        if other.name != config.name and any(
            overlaps(a, b) for a in config.subjects for b in other.subjects
        ):
            text = "subjects overlap with an existing stream"
            raise CounterError(text, code=10065, about=f"{config.name} and {other.name}")


def cycle(config: StreamConfig, others: Sequence[StreamConfig]) -> list[str]:
    """Return the path by which this stream would read itself, or an empty list."""
    upstream = {c.name: _upstream(c) for c in others} | {config.name: _upstream(config)}
    paths = [[config.name, name] for name in upstream[config.name]]
    while paths:
        path = paths.pop()
        if path[-1] == config.name:
            return path
        paths += [[*path, name] for name in upstream.get(path[-1], ()) if name not in path[1:]]
    return []


def _upstream(config: StreamConfig) -> list[str]:
    return [source.name for source in config.every_source]
