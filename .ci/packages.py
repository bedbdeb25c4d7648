"""Build the sdist and the wheel, and try each on every Python of this machine, where nothing may be compiled.

python .ci/packages.py            the wheel and the sdist on every Python
python .ci/packages.py --short    the wheel on every Python, the sdist on the newest one
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
BINARIES = ["--only-binary", ":all:"]
EXTRAS = ["kafka", "web"]
_VERSION = "import ssl, sys; v = sys.version_info; v.releaselevel == 'final' and print(v.major, v.minor)"
SENTENCE = "to be or not to be\n"


def declared() -> list[tuple[int, int]]:
    """The Pythons of the classifiers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if " :: Python :: 3." in line]
    return [(3, int(version.partition(".")[2])) for version in versions]


def pythons() -> dict[tuple[int, int], str]:
    """One of each version that is on the PATH, or of pyenv."""
    found: dict[tuple[int, int], str] = {}
    for path in _candidates():
        said = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, check=False).stdout.split()
        if said:
            found.setdefault((int(said[0]), int(said[1])), path)
    return found


def _candidates() -> Iterator[str]:
    yield sys.executable
    for directory in os.get_exec_path():
        yield from sorted(glob(f"{directory}/python3.[0-9][0-9]"))
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip()
        yield from sorted(glob(f"{root}/versions/*/bin/python3.[0-9][0-9]"))


def build(into: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both."""
    run("uv", "build", "--quiet", "--out-dir", into, ROOT)
    run("twine", "check", "--strict", *into.glob("streamtopo-*"))
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    _check(wheel)
    return sdist, wheel


def _check(wheel: Path) -> None:
    """Check that it has exactly the files of the package, also the marker of types, and links that work on PyPI."""
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        links = re.findall(r"\]\((?!https?:|#)[\w./-]+\.\w+(?:#[^)]*)?\)", archive.read(metadata).decode())
    assert not links, f"lead to nothing on PyPI: {links}"
    listed = subprocess.run(["git", "ls-files", "streamtopo"], cwd=ROOT, capture_output=True, text=True, check=True)
    there = set(listed.stdout.split())
    assert "streamtopo/py.typed" in packed
    assert packed == there, f"not as in the repository: {sorted(packed ^ there)}"


def try_package(package: Path, python: str, scratch: Path) -> None:
    """Install it into a fresh environment, and run word count there as a user does."""
    environment, home = scratch / "environment", scratch / "home"
    run("uv", "venv", "--quiet", "--python", python, environment)
    wanted = f"streamtopo[{','.join(EXTRAS)}] @ {package.as_uri()}"
    binaries = BINARIES if package.suffix == ".whl" else [*BINARIES, "--no-binary", "streamtopo"]
    run("uv", "pip", "install", "--quiet", "--python", environment / "bin/python", *binaries, wanted)
    shutil.copytree(ROOT / "apps/wordcount", home / "apps/wordcount")
    run(environment / "bin/python", "-c", "import confluent_kafka, streamtopo.web", cwd=home)
    _count_words(environment / "bin/streamtopo", home)


def _count_words(streamtopo: Path, home: Path) -> None:
    run(streamtopo, "topics", "create", "sentences", "--partitions", 2, cwd=home)
    run(streamtopo, "topics", "create", "word-counts", "--partitions", 2, cwd=home)
    run(streamtopo, "produce", "sentences", cwd=home, input=SENTENCE)
    with subprocess.Popen([streamtopo, "worker", "apps.wordcount"], cwd=home, stdout=subprocess.DEVNULL) as worker:
        try:
            counts = ["word-counts", "--app", "apps.wordcount", "--from-beginning", "--follow", "--max", 4]
            run(streamtopo, "consume", *counts, cwd=home)
        finally:
            worker.terminate()
    assert worker.returncode == 0, f"the worker ended with {worker.returncode}"
    assert run(streamtopo, "query", "apps.wordcount", "counts", "be", cwd=home).split()[-1:] == ["2"]


def run(*command: object, cwd: Path = ROOT, input: str | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, input=input, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    known, here = declared(), pythons()
    tried = [version for version in known if version in here]
    for _, minor in sorted(set(known) - here.keys()):
        print(f"no Python 3.{minor} is here: not tried", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        sdist, wheel = build(Path(scratch, "dist"))
        for version in tried:
            short = "--short" in sys.argv[1:] and version != tried[-1]
            for package in [wheel] if short else [wheel, sdist]:
                with tempfile.TemporaryDirectory(dir=scratch) as place:
                    try_package(package, here[version], Path(place))
                print(f"{package.name} counts words on Python 3.{version[1]}", flush=True)


if __name__ == "__main__":
    main()
