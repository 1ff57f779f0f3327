"""Random programs of counter operations, for two backends side by side.

What the embedded store answers otherwise on purpose is left out: planted source maps, limits by
age and total number, toggling the setting, bodies that only begin like numbers.
"""

from __future__ import annotations

from random import Random
from typing import Any

Step = dict[str, Any]

INCREMENTS = ["+1", "-1", "1", "0", "+0", "-0", "+25", "-40", "007", "+0010", " +3", "  -2"]
REFUSED = ["", "abc", "+", "1e3", "+1.5", "++1", "1_0", "１", "1 ", "0x1", "-", "+-1"]
EXTRA = [
    ("X-Who", "me"), ("X-Who", "you"), ("Nats-Rollup", "sub"), ("Nats-Rollup", ""),
    ("Nats-Expected-Stream", "C"), ("Nats-Expected-Stream", "Z"),
    ("Nats-Expected-Last-Sequence", "1"), ("Nats-Expected-Last-Subject-Sequence", "0"),
    ("Nats-Expected-Last-Msg-Id", "m1"), ("Nats-Expected-Subject-Last-Sequence", "1"),
    ("Nats-TTL", "1s"), ("Nats-TTL", "abc"), ("Nats-TTL", "0"), ("Nats-TTL", "never"),
    ("Nats-Schedule", "@every 1m"), ("Nats-Stream-Source", "X 1 > > c.a"),
    ("Nats-Required-Api-Level", "99"), ("KV-Operation", "DEL"), ("Nats-Incr", "+9"),
]  # fmt: skip


ES = {"name": "ES", "subject_transforms": [{"src": "es.*", "dest": "n.{{wildcard(1)}}"}]}
EU = {"name": "EU", "subject_transforms": [{"src": "eu.*", "dest": "n.{{wildcard(1)}}"}]}
FOLD = {"name": "ES", "subject_transforms": [{"src": "es.*", "dest": "n.all"}]}
SOURCES: list[list[dict[str, Any]]] = [[ES], [EU], [ES, EU], [ES, EU, FOLD], [FOLD], []]


def counter(name: str, subjects: list[str], **more: Any) -> Step:
    config = {"name": name, "allow_msg_counter": True, "allow_direct": True, **more}
    return config | ({"subjects": subjects} if subjects else {})


class Program:
    """Steps drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps: list[Step] = []
        self.choices = SOURCES

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def increment(self) -> str:
        if self.chance(0.06):
            digits = self.random.choice([18, 19, 20, 40, 200, 4_299, 4_300, 4_301])
            return self.random.choice(["+", "-", ""]) + "9" * digits
        return self.random.choice(INCREMENTS)

    def publish(self, subject: str, *, clean: bool = False) -> Step:
        headers: list[tuple[str, str]] = []
        refuse = not clean and self.chance(0.12)
        if clean or not self.chance(0.05):
            text = self.random.choice(REFUSED) if refuse else self.increment()
            headers.append(("Nats-Incr", text))
        if self.chance(0.2):
            headers.append(("Nats-Msg-Id", f"m{self.random.randrange(4)}"))
        if clean and self.chance(0.2):
            headers.append(self.random.choice(EXTRA[:2]))
        if not clean and self.chance(0.3):
            headers += self.random.sample(EXTRA, self.random.choice([1, 1, 2]))
        body = "x" if not clean and self.chance(0.05) else ""
        return {"op": "publish", "subject": subject, "headers": headers or None, "body": body}

    def purge(self, stream: str, subject: str, upto: int) -> Step:
        step: Step = {"op": "purge", "stream": stream}
        if self.chance(0.8):
            step["filter"] = subject
        kind = self.random.randrange(4)
        if kind == 1:
            step["seq"] = self.random.randrange(1, upto + 3)
        elif kind == 2:
            step["keep"] = self.random.randrange(1, 4)
        return step

    def look(self, stream: str, upto: int) -> Step:
        """A read of several subjects, now or as of a sequence."""
        subjects = [self.random.choice([">", "c.*", "*.a", "c.a"])]
        step: Step = {"op": "get_multi", "stream": stream, "subjects": subjects}
        if self.chance(0.5):
            step["up_to_seq"] = self.random.randrange(1, upto + 2)
        return step


def single(seed: int, length: int = 40) -> list[Step]:
    """One counter stream and one plain stream: publishes good and bad, purges, batches, reads."""
    program = Program(seed)
    chance, choice = program.chance, program.random.choice
    more: dict[str, Any] = {"max_msgs_per_subject": choice([-1, -1, 1, 2, 5])}
    if chance(0.3):
        more["max_msg_size"] = choice([60, 90, 300])
    if chance(0.7):
        more["allow_atomic"] = True
    if chance(0.2):
        more["first_seq"] = 100
    if chance(0.3):
        more["subject_transform"] = choice(
            [{"src": "c.*", "dest": "c.x.{{wildcard(1)}}"}, {"src": "c.*", "dest": "c.all"},
             {"src": "c.>", "dest": "c.t.>"}]
        )  # fmt: skip
    program.steps += [
        {"op": "create_stream", "config": counter("C", ["c.>"], **more)},
        {"op": "create_stream", "config": {"name": "P", "subjects": ["p.>"], "allow_direct": True}},
    ]
    subjects = ["c.a", "c.b", "c.d.e"]
    for number in range(length):
        program.steps.append(_one_single(program, subjects, number))
    for stream in ("C", "P"):
        program.steps += [{"op": "dump", "stream": stream}, {"op": "state", "stream": stream}]
    return program.steps


def _one_single(program: Program, subjects: list[str], number: int) -> Step:
    subject = program.random.choice(subjects)
    draw = program.random.random()
    if draw < 0.72:
        return program.publish(subject)
    if draw < 0.77:
        return program.publish("p.a")
    if draw < 0.81:
        return program.publish("nobody.listens")
    if draw < 0.87:
        messages = [program.publish(program.random.choice(subjects), clean=True) for _ in range(3)]
        return {"op": "publish_batch", "batch_id": f"b{number}", "messages": messages}
    if draw < 0.90:
        return program.purge("C", subject, number)
    if draw < 0.92:
        seq = program.random.randrange(1, number + 4)
        return {"op": "delete_msg", "stream": "C", "seq": seq}
    if draw < 0.95:
        return program.look("C", number)
    return {"op": "get_last", "stream": "C", "subject": subject}


def sourced(seed: int, length: int = 14) -> list[Step]:
    """Two counters, an aggregate with local counts, a tier above it, plain and mirrored copies."""
    program = Program(seed)
    chance, choice = program.chance, program.random.choice
    limit = {"max_msgs_per_subject": choice([-1, -1, 1, 3])}
    aggregate = counter("AGG", ["n.*"])
    program.choices = SOURCES
    if chance(0.3):  # which of two sources at once keeps a message id is not fixed
        aggregate["duplicate_window"] = 60 * 10**9
        program.choices = [[ES], [EU], [FOLD]]
    program.steps += [
        {"op": "create_stream", "config": counter("ES", ["es.*"], **limit)},
        {"op": "create_stream", "config": counter("EU", ["eu.*"])},
        {"op": "create_stream", "config": aggregate | {"sources": choice(program.choices[:3])}},
    ]
    upper = choice(["TOP", "PLAIN", "MIRROR", "THROUGH"])
    program.steps.append({"op": "create_stream", "config": _upper(upper)})
    seen = aggregate
    for _ in range(length):
        program.steps += _one_sourced(program, seen)
        program.steps += [{"op": "settle", "stream": "AGG"}, {"op": "settle", "stream": upper}]
    for stream in ("ES", "EU", "AGG", upper):
        program.steps.append({"op": "dump", "stream": stream})
        program.steps.append({"op": "state", "stream": stream})
    return program.steps


def _upper(name: str) -> dict[str, Any]:
    if name == "MIRROR":
        return {"name": name, "allow_direct": True, "mirror": {"name": "AGG"}}
    if name == "PLAIN":
        return {"name": name, "allow_direct": True, "sources": [{"name": "AGG"}]}
    if name == "THROUGH":
        return counter(name, [], sources=[{"name": "AGG", "filter_subject": "n.a"}])
    transform = {"src": "n.*", "dest": "top"}
    return counter(name, [], sources=[{"name": "AGG", "subject_transforms": [transform]}])


def _one_sourced(program: Program, aggregate: dict[str, Any]) -> list[Step]:
    draw = program.random.random()
    if draw < 0.5:
        source = program.random.choice(["es", "eu"])
        return [program.publish(f"{source}.{program.random.choice('ab')}", clean=True)]
    if draw < 0.7:
        return [program.publish(f"n.{program.random.choice('ab')}", clean=True)]
    if draw < 0.85:
        config = aggregate | {"sources": program.random.choice(program.choices)}
        return [{"op": "update_stream", "config": config}]
    stream, prefix = program.random.choice([("ES", "es"), ("EU", "eu")])
    if draw < 0.93:
        return [program.purge(stream, f"{prefix}.{program.random.choice('ab')}", 8)]
    seq = program.random.randrange(1, 8)
    return [{"op": "get_msg", "stream": stream, "seq": seq}]
