"""The files in deploy/ are valid, and fit the server."""

import copy
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from starlette.testclient import TestClient

from regard.cli.app import app as commands
from regard.serve.app import make_app
from regard.serve.guard import PUBLIC_PATHS, Access
from regard.serve.metrics import RATIO
from regard.serve.registry import Registry
from regard.serve.server import DrainConfig

DEPLOY = Path(__file__).parents[1] / "deploy"
VERSIONS = ("1.30", kubernetes_validate.latest_version())
"""The oldest version of Kubernetes that deploy/kubernetes.yaml names, and the newest that the checker knows"""


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of deploy/kubernetes.yaml by kind and name"""
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def container() -> dict[str, Any]:
    [container] = manifests()["Deployment", "regard"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", manifests(), ids="/".join)
def test_manifests_follow_the_schema_of_kubernetes(name: tuple[str, str], version: str) -> None:
    kubernetes_validate.validate(manifests()[name], version, strict=True)


def paths_of(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each field; labels and selectors are free in their names."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if key not in ("labels", "matchLabels", "selector", "apiVersion", "kind", "limits", "requests"):
            if isinstance(key, str):
                yield (*path, key)
            yield from paths_of(value, (*path, key))


@pytest.mark.parametrize("name", manifests(), ids="/".join)
def test_a_field_that_is_misspelt_is_found(name: tuple[str, str]) -> None:
    paths = list(paths_of(manifests()[name]))
    assert len(paths) >= 4
    for *parents, key in paths:
        changed = copy.deepcopy(manifests()[name])
        field = changed
        for parent in parents:
            field = field[parent]
        field[f"{key}x"] = field.pop(key)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(changed, VERSIONS[1], strict=True)


def test_the_manifests_fit_together() -> None:
    objects = manifests()
    deployment, pod = objects["Deployment", "regard"], objects["Deployment", "regard"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert objects["PodDisruptionBudget", "regard"]["spec"]["selector"]["matchLabels"] == labels
    for name in ("regard", "regard-of-client"):
        service = objects["Service", name]["spec"]
        assert service["selector"] == labels
        assert [port["targetPort"] for port in service["ports"]] == [port["name"] for port in container()["ports"]]
    autoscaler = objects["HorizontalPodAutoscaler", "regard"]["spec"]
    assert autoscaler["scaleTargetRef"]["name"] == "regard" and "replicas" not in deployment["spec"]
    assert [metric["pods"]["metric"]["name"] for metric in autoscaler["metrics"]] == [RATIO]


def test_probes_and_the_autoscaler_ask_for_what_the_server_has() -> None:
    with TestClient(make_app(Registry([]), Access(frozenset({"testserver"})))) as client:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = container()[probe]["httpGet"]["path"]
            assert path in PUBLIC_PATHS and client.get(path).status_code == 200
        assert f"\n{RATIO} " in client.get("/metrics").text


def test_a_pod_has_no_rights_that_it_does_not_need() -> None:
    pod = manifests()["Deployment", "regard"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"USER {pod['securityContext']['runAsUser']}\n" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    [token] = [variable for variable in container()["env"] if variable["name"] == "REGARD_TOKEN"]
    assert "secretKeyRef" in token["valueFrom"] and "value" not in token


def test_there_is_time_to_stop() -> None:
    arguments = container()["args"]
    delay, seconds = (float(arguments[arguments.index(f"--drain-{name}") + 1]) for name in ("delay", "seconds"))
    assert (
        manifests()["Deployment", "regard"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        > delay + seconds
    )
    default = DrainConfig()
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    unit = (DEPLOY / "regard.service").read_text(encoding="utf-8")
    for grace in (compose["services"]["one"]["stop_grace_period"], re.findall(r"^TimeoutStopSec=(.*)$", unit, re.M)[0]):
        assert float(grace.removesuffix("s")) > default.delay + default.seconds


def test_options_of_the_server_exist() -> None:
    command = typer.main.get_command(commands)
    options = {option for parameter in command.commands["serve"].params for option in parameter.opts}  # type: ignore[attr-defined]
    for path in DEPLOY.iterdir():
        text = re.sub(r"docker (compose|build)\b.*", "", path.read_text(encoding="utf-8"))
        used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        foreign = {"--no-cache-dir", "--extra-index-url", "--build-arg", "--interval", "--from-literal"}
        assert used - foreign <= options, path.name


def test_the_systemd_unit_is_valid() -> None:
    try:
        check = subprocess.run(["systemd-analyze", "verify", DEPLOY / "regard.service"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("systemd is not installed")
    unexpected = [line for line in check.stderr.splitlines() if "/opt/regard/bin/regard" not in line]
    assert unexpected == []
