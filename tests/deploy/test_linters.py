"""The files in deploy/ and .github/ are what Docker, Compose, Kubernetes, systemd and GitHub take."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def lint(tool: str, *arguments: object) -> str:
    """Return what the tool complains about."""
    program = shutil.which(tool, path=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{tool} is not here")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}" if done.returncode or "systemd" in tool else ""


def test_the_dockerfile() -> None:
    assert lint("hadolint", DEPLOY / "Dockerfile") == ""


def test_the_compose_file() -> None:
    assert lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml") == ""


@pytest.mark.parametrize(
    "manifest", [one for one in MANIFESTS if one.stem != "kustomization"], ids=lambda one: one.stem
)
def test_the_manifests(manifest: Path) -> None:
    assert lint("kubernetes-validate", "--strict", manifest) == ""


def test_the_kustomization_names_the_manifests() -> None:
    named = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert {*named, "autoscaling.yaml", "kustomization.yaml"} == {manifest.name for manifest in MANIFESTS}


def test_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "opt" / "wordcount" / ".venv" / "bin" / "streamtopo"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    unit = (DEPLOY / "systemd" / "streamtopo@.service").read_text().replace("/opt/%i", f"{tmp_path}/opt/wordcount")
    (tmp_path / "streamtopo@wordcount.service").write_text(unit)
    assert lint("systemd-analyze", "verify", "--man=no", tmp_path / "streamtopo@wordcount.service") == ""


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.stem))
def test_the_issue_forms(form: Path) -> None:
    kind = "config" if form.stem == "config" else "forms"
    assert lint("check-jsonschema", "--builtin-schema", f"vendor.github-issue-{kind}", form) == ""


@pytest.mark.parametrize("script", ["run", "release"])
def test_the_scripts_of_ci(script: str) -> None:
    assert lint("shellcheck", ROOT / ".ci" / script) == ""
