"""Sends Python code to the executors of a cluster: this package, and the modules of the application."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkContext


def ship(context: SparkContext, modules: Iterable[str], folder: Path) -> None:
    """Send the packages and files in which these modules are; the folder must stay as long as the session.

    Packages that have to be compiled, such as those that this one needs, cannot be sent so.
    """
    for name in sorted({module.partition(".")[0] for module in modules}):
        spec = find_spec(name)
        if spec is None:
            continue
        if spec.submodule_search_locations is None:
            context.addPyFile(str(spec.origin))
        else:
            context.addPyFile(str(_zipped(name, spec.submodule_search_locations, folder)))


def _zipped(name: str, places: Iterable[str], folder: Path) -> Path:
    target = folder / f"{name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for place in map(Path, places):
            for file in sorted(place.rglob("*.py")):
                archive.write(file, Path(name) / file.relative_to(place))
    return target
