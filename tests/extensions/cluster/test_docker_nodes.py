"""The compose file of several servers and the manifests of Kubernetes: valid by their schemas, and with commands,
settings and files that exist."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scholarbase.settings import PREFIX, Settings, load_settings
from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

NODES = ROOT / "docker" / "nodes"
KUBERNETES = ROOT / "docker" / "kubernetes"
SETTINGS = {PREFIX + name.upper() for name in Settings.model_fields}
VERSIONS = ("1.30", "1.35")
"""Versions of Kubernetes whose schemas the manifests obey."""


@cache
def manifests() -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        if path.name != "kustomization.yaml":
            found += [(path, one) for one in yaml.safe_load_all(path.read_text())]
    return found


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [one for _, one in manifests() if one["kind"] in kinds]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for one in of_kind("Deployment", "StatefulSet", "Job"):
        yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def containers() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, pod in pods():
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield name, pod, container


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((NODES / "compose.yaml").read_text())
    return content


# -- schemas ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_obey_the_schemas_of_kubernetes(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for path, one in manifests():
        used = validator.validate(one, version, strict=True)
        assert used.startswith(version), f"{path.name} has no schema of Kubernetes {version}"
    wrong = {**of_kind("Service")[0], "specc": {}}
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, version, strict=True)


# -- files and settings -----------------------------------------------------------------------------------


def literals() -> dict[str, str]:
    content = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    [generator] = content["configMapGenerator"]
    return dict(one.split("=", 1) for one in generator["literals"])


def test_the_settings_exist_and_are_valid(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert literals().keys() <= SETTINGS
    for name in ("load", "api-1", "api-2"):
        variables = compose["services"][name]["environment"]
        assert {one for one in variables if one.startswith(PREFIX)} == variables.keys() - {"PGPASSWORD"}
        assert variables.keys() - {"PGPASSWORD"} <= SETTINGS
    for variables in (literals(), compose["services"]["api-1"]["environment"]):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value if "$" not in value else "1")
            settings = load_settings()
        assert len(settings.qdrant_url or ()) == 3
        assert settings.sessions_location == "postgresql://scholarbase@postgres/scholarbase"
    text = "".join(path.read_text() for path in [*KUBERNETES.rglob("*.yaml"), *NODES.iterdir()])
    # A password is neither in a file nor in a URL.
    assert "POSTGRES_PASSWORD:?" in text
    assert not any("password:" in line.lower() and "$" not in line for line in text.splitlines())


def test_names_refer_to_what_exists() -> None:
    """Services, claims, secrets, ports and labels."""
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind("Service")}
    labels = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind("Deployment", "StatefulSet")
    }
    for name, spec in services.items():
        assert spec["selector"] == labels[name]
        [pod] = [pod for owner, pod in pods() if owner == name]
        ports = {
            port["name"]: port["containerPort"]
            for container in pod["containers"]
            for port in container["ports"]
        }
        for port in spec["ports"]:
            assert port.get("targetPort", port["port"]) in (*ports, *ports.values())
    for one in of_kind("PodDisruptionBudget"):
        assert one["spec"]["selector"]["matchLabels"] == labels[one["metadata"]["name"]]
    for one in of_kind("StatefulSet"):
        assert one["spec"]["serviceName"] in services
    [ingress] = of_kind("Ingress")
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] in services
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    secrets = {one["name"] for one in kustomization["secretGenerator"]}
    claims = {one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")} | {"sources"}
    for _, pod in pods():
        for volume in pod.get("volumes", ()):
            assert volume.get("secret", {}).get("secretName", "scholarbase-keys") in secrets
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "library") in claims
    hosts = {f"http://qdrant-{place}.qdrant:6333" for place in range(3)}
    assert set(literals()["SCHOLARBASE_QDRANT_URL"].split(",")) == hosts
    [qdrant] = [one for one in of_kind("StatefulSet") if one["metadata"]["name"] == "qdrant"]
    assert qdrant["spec"]["replicas"] == len(hosts)
