"""Objects of Kubernetes for one set of equal containers, as plain values. Pure.

Sources: the API reference of apps/v1, v1, policy/v1, batch/v1 and networking.k8s.io/v1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.rendering.containers import (
    PYTHON,
    SETTINGS,
    USER_ID,
    Container,
)
from topology.rendering.placed import dns_label
from topology.rendering.processes import CONFIGURATION, STATE, STOP_S

Object = dict[str, Any]

CHECK_S: Final = 10
FAILED_CHECKS_MAX: Final = 3
START_CHECKS_MAX: Final = 60
"""Checks until a container that does not start is restarted: a broker reads its logs."""
JOB_KEPT_S: Final = 3_600
ZONE: Final = "topology.kubernetes.io/zone"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all objects share."""

    deployment: str
    namespace: str
    image: str
    storage: str
    """Size of each volume, as Kubernetes writes it."""
    storage_class: str | None = None

    @property
    def instance(self) -> str:
        return dns_label(self.deployment)

    @property
    def files_secret(self) -> str:
        """The Secret with the certificates and secret files."""
        return f"{self.instance}-files"

    @property
    def environment_secret(self) -> str:
        """The Secret with the environment variables."""
        return f"{self.instance}-environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSet:
    """Containers that differ in their number only."""

    containers: Sequence[Container]
    ports: Mapping[str, int]
    """Port by name, at most 15 characters each."""
    takes_rack_of_zone: bool = False
    """Whether a broker's rack is the zone of its node."""

    @property
    def first(self) -> Container:
        return self.containers[0]

    @property
    def name(self) -> str:
        return self.first.place.set_name

    @property
    def settings(self) -> dict[str, str]:
        return {name: text for each in self.containers for name, text in each.settings.items()}


def labels(site: Site, each: ContainerSet) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "heliograph",
        "app.kubernetes.io/instance": site.instance,
        "app.kubernetes.io/component": each.first.place.role,
        "heliograph/of": dns_label(each.first.place.of),
    }


def secret_key(relative_path: str) -> str:
    """Return the key of a file in the Secret."""
    return relative_path.replace("/", "-")


def config_map(site: Site, each: ContainerSet) -> Object:
    return {**_head("v1", "ConfigMap", f"{each.name}-settings", site, each), "data": each.settings}


def headless_service(site: Site, each: ContainerSet) -> Object:
    """Return the Service that gives each pod a name, also before it is ready."""
    return {
        **_head("v1", "Service", each.name, site, each),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(site, each),
            "ports": _service_ports(each),
        },
    }


def bootstrap_service(site: Site, each: ContainerSet) -> Object:
    """Return the Service that connects a client to any ready broker."""
    name = dns_label(f"bootstrap-{each.first.place.of}")
    return {
        **_head("v1", "Service", name, site, each),
        "spec": {"selector": labels(site, each), "ports": _service_ports(each)},
    }


def disruption_budget(site: Site, each: ContainerSet) -> Object:
    """Return the limit of one pod at a time for drains of nodes."""
    return {
        **_head("policy/v1", "PodDisruptionBudget", each.name, site, each),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(site, each)}},
    }


def network_policy(site: Site, each: ContainerSet) -> Object:
    """Return the rule that only pods of the deployment reach a ZooKeeper."""
    ours = {"app.kubernetes.io/name": "heliograph", "app.kubernetes.io/instance": site.instance}
    return {
        **_head("networking.k8s.io/v1", "NetworkPolicy", each.name, site, each),
        "spec": {
            "podSelector": {"matchLabels": labels(site, each)},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": ours}}]}],
        },
    }


def stateful_set(site: Site, each: ContainerSet) -> Object:
    return {
        **_head("apps/v1", "StatefulSet", each.name, site, each),
        "spec": {
            "serviceName": each.name,
            "replicas": len(each.containers),
            "ordinals": {"start": each.first.place.number},
            # All start at once; an update still restarts them one by one.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels(site, each)},
            "template": _template(site, each, is_job=False),
            "volumeClaimTemplates": [_claim(site, name) for name in _volumes(each.first)],
        },
    }


def job(site: Site, each: ContainerSet) -> Object:
    """Return a Job whose name changes with its settings: a Job cannot be changed."""
    return {
        **_head("batch/v1", "Job", f"{each.name}-{_digest(each)[:8]}", site, each),
        "spec": {
            "backoffLimit": START_CHECKS_MAX,
            "ttlSecondsAfterFinished": JOB_KEPT_S,
            "template": _template(site, each, is_job=True),
        },
    }


def _head(version: str, kind: str, name: str, site: Site, each: ContainerSet) -> Object:
    metadata = {"name": name, "namespace": site.namespace, "labels": labels(site, each)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _service_ports(each: ContainerSet) -> list[Object]:
    return [{"name": name, "port": port} for name, port in each.ports.items()]


def _digest(each: ContainerSet) -> str:
    return hashlib.sha256(json.dumps(each.settings, sort_keys=True).encode()).hexdigest()[:16]


def _template(site: Site, each: ContainerSet, *, is_job: bool) -> Object:
    mounts: list[Object] = [
        {"name": "settings", "mountPath": SETTINGS, "readOnly": True},
        {"name": "ready", "mountPath": f"{STATE}/ready"},
        {"name": "tmp", "mountPath": "/tmp"},
        *({"name": name, "mountPath": path} for name, path in _volumes(each.first).items()),
    ]
    volumes: list[Object] = [
        {"name": "settings", "configMap": {"name": f"{each.name}-settings"}},
        {"name": "ready", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    files = dict.fromkeys(path for one in each.containers for path in one.files)
    if files:
        names = [path.removeprefix(f"{CONFIGURATION}/") for path in files]
        mounts.append({"name": "files", "mountPath": CONFIGURATION, "readOnly": True})
        items = [{"key": secret_key(name), "path": name} for name in names]
        secret = {"secretName": site.files_secret, "defaultMode": 0o440, "items": items}
        volumes.append({"name": "files", "secret": secret})
    spec: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(site, each, mounts, is_job=is_job)],
        "volumes": volumes,
    }
    if is_job:
        spec["restartPolicy"] = "OnFailure"
    elif len(each.containers) > 1:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels(site, each)},
            }
            for key in (ZONE, "kubernetes.io/hostname")
        ]
    annotations = {"heliograph/settings": _digest(each)}
    return {"metadata": {"labels": labels(site, each), "annotations": annotations}, "spec": spec}


def _container(site: Site, each: ContainerSet, mounts: list[Object], *, is_job: bool) -> Object:
    # The name of the first settings file is that of its pod.
    name = next(iter(each.first.settings))
    if not is_job:
        name = name.replace(each.first.name, "$(POD_NAME)")
    first = f"{SETTINGS}/{name}"
    environment = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        *(_label_variable(*pair) for pair in _LABELS[: 0 if is_job else 2]),
        *(
            {
                "name": variable,
                "valueFrom": {"secretKeyRef": {"name": site.environment_secret, "key": variable}},
            }
            for variable in dict.fromkeys(v for one in each.containers for v in one.variables)
        ),
    ]
    command = each.first.command(first, "$(POD_INDEX)")
    if each.takes_rack_of_zone:
        command += ["--rack", "$(ZONE)"]
    container: Object = {
        "name": each.first.place.role,
        "image": site.image,
        "command": command,
        "env": environment,
        "ports": [{"name": name, "containerPort": port} for name, port in each.ports.items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    return container if is_job else {**container, **_probes(each, first)}


_LABELS: Final = (("POD_INDEX", POD_INDEX), ("ZONE", ZONE))


def _label_variable(name: str, label: str) -> Object:
    """Return a variable with a label of the pod; it is empty if the pod has no such label."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def _probes(each: ContainerSet, settings_file: str) -> Object:
    if each.first.place.role == "zookeeper":
        alive: Object = {"tcpSocket": {"port": "client"}}
        check = [PYTHON, "-P", "-m", "topology.container_check", "zookeeper"]
        # `$(POD_NAME)` is not replaced in a probe, but a shell knows the variable.
        shell = " ".join([*check, settings_file.replace("$(POD_NAME)", "$POD_NAME")])
        ready: Object = {"exec": {"command": ["sh", "-c", shell]}}
    else:
        port = {"port": "http", "scheme": each.first.http_scheme.upper()}
        alive = {"httpGet": {"path": "/healthz", **port}}
        # An update continues with the next broker only when this one is in sync.
        query = "?in_sync=1" if each.first.place.role == "broker" else ""
        ready = {"httpGet": {"path": f"/readyz{query}", **port}}
    times = {"periodSeconds": CHECK_S, "timeoutSeconds": CHECK_S}
    return {
        "startupProbe": {**alive, **times, "failureThreshold": START_CHECKS_MAX},
        "livenessProbe": {**alive, **times, "failureThreshold": FAILED_CHECKS_MAX},
        "readinessProbe": {**ready, **times},
    }


def _volumes(container: Container) -> dict[str, str]:
    """Return the path of each persistent volume by its name."""
    return {
        "data" if index == 0 else f"data-{dns_label(path)}": path
        for index, path in enumerate(container.data)
    }


def _claim(site: Site, name: str) -> Object:
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": site.storage}},
    }
    if site.storage_class is not None:
        spec["storageClassName"] = site.storage_class
    return {"metadata": {"name": name}, "spec": spec}
