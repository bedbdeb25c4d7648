"""What is said about a release: one version, and the Pythons that it is for."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from click.testing import CliRunner

import streamtopo
from streamtopo.cli import main

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]


def test_there_is_one_version() -> None:
    said = CliRunner().invoke(main, ["--version"]).output
    assert said == f"streamtopo, version {streamtopo.__version__}\n"
    assert importlib.metadata.version("streamtopo") == streamtopo.__version__
    assert "version" in PROJECT["dynamic"]


def test_the_classifiers_begin_with_the_oldest_python() -> None:
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if " :: Python :: 3." in line]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert versions == [f"3.{11 + number}" for number in range(len(versions))]


def test_links_and_pictures_of_the_readme_lead_somewhere_on_pypi() -> None:
    readme = (ROOT / "README.md").read_text()
    for one in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        readme = re.sub(one["pattern"], one["replacement"], readme)
    targets = re.findall(r"\]\(([^)]*)\)|src=\"([^\"]*)\"", readme)
    assert len(targets) > 20
    assert [target for pair in targets for target in pair if target and not target.startswith("https://")] == []
