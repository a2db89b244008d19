"""Validates rendered Kubernetes manifests against schemas and further rules. Called by deploy/local/manifests."""

import copy
import json
import pathlib
import re
import sys

import jsonschema
import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).parent
# The oldest that the manifests are meant for (a sleep as preStop), and the newest known.
VERSIONS = ["1.31.0", "1.37.0"]


def custom_schemas():
    """Schemas of the operators' resources, by kind, limited to the fields that these manifests use."""
    return {path.stem: json.loads(path.read_text()) for path in (HERE / "schemas").glob("*.json")}


def name(item):
    return f"{item['kind']}/{item['metadata']['name']}"


def by_schema(items):
    schemas = custom_schemas()
    for item in items:
        if item["kind"] in schemas:
            for error in jsonschema.Draft202012Validator(schemas[item["kind"]]).iter_errors(item):
                yield f"{name(item)}: {'/'.join(map(str, error.path))}: {error.message}"
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(item, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{name(item)}: {'/'.join(map(str, error.path))}: {error.message} (Kubernetes {version})"
            except (kubernetes_validate.VersionNotSupportedError, kubernetes_validate.SchemaNotFoundError) as error:
                yield f"{name(item)}: no schema in Kubernetes {version}: {error}"


def pods(items):
    for item in items:
        if item["kind"] in ("Deployment", "Job", "StatefulSet"):
            yield item, item["spec"]["template"]


def containers(template):
    return template["spec"].get("initContainers", []) + template["spec"]["containers"]


def confinement(items):
    """Requires the restricted profile of Pod Security Standards, and a read-only root file system."""
    for item, template in pods(items):
        pod = template["spec"].get("securityContext", {})
        if not pod.get("runAsNonRoot") or pod.get("runAsUser") == 0:
            yield f"{name(item)}: may run as root"
        # The cluster assigns all of them, or none: a group of the secrets alone would be refused, too.
        if len({"runAsUser", "runAsGroup", "fsGroup"} & set(pod)) not in (0, 3):
            yield f"{name(item)}: only a part of user, group and group of the files is given"
        if pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name(item)}: no seccomp profile"
        if template["spec"].get("automountServiceAccountToken") is not False:
            yield f"{name(item)}: gets a token that it does not need"
        if template["spec"].get("enableServiceLinks") is not False:
            yield f"{name(item)}: variables of Services would be taken for settings"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if template["spec"].get(key):
                yield f"{name(item)}: {key}"
        for volume in template["spec"].get("volumes", []):
            if not set(volume) - {"name"} <= {"configMap", "secret", "emptyDir", "projected"}:
                yield f"{name(item)}: volume {volume['name']} is not allowed"
        for container in containers(template):
            context = container.get("securityContext", {})
            where = f"{name(item)} {container['name']}"
            if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
                yield f"{where}: may get more rights"
            if "ALL" not in context.get("capabilities", {}).get("drop", []):
                yield f"{where}: keeps capabilities"
            if context.get("capabilities", {}).get("add"):
                yield f"{where}: adds capabilities"
            if not context.get("readOnlyRootFilesystem"):
                yield f"{where}: can write its root file system"
            resources = container.get("resources", {})
            if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
                yield f"{where}: no requests of cpu and memory, or no limit of memory"
            if re.search(r":latest$|^[^:@]+$", container["image"].rsplit("/", 1)[-1]):
                yield f"{where}: image {container['image']} has no version"


def network(items):
    """Requires that pods listen on IPv6 and IPv4, and reach the DNS of usual clusters."""
    for item in items:
        if item["kind"] == "ConfigMap" and "freshet.yaml" in item.get("data", {}):
            settings = yaml.safe_load(item["data"]["freshet.yaml"])
            for part in ("health", "api"):
                if settings[part].get("host") != "::":
                    yield f"{name(item)}: {part}.host is not that of both protocols"
    allowed = set()
    for item in items:
        for rule in item["spec"].get("egress", []) if item["kind"] == "NetworkPolicy" else []:
            for peer in rule.get("to", []):
                labels = peer.get("namespaceSelector", {}).get("matchLabels", {})
                place = labels.get("kubernetes.io/metadata.name") or peer.get("ipBlock", {}).get("cidr")
                allowed |= {(place, port["protocol"], port["port"]) for port in rule.get("ports", [])}
    for place, port in (("kube-system", 53), ("openshift-dns", 5353), ("169.254.20.10/32", 53)):
        for protocol in ("UDP", "TCP"):
            if (place, protocol, port) not in allowed:
                yield f"NetworkPolicy: no DNS at {place}, {protocol} {port}"
    # Variables of the image go over the ConfigMap.
    for variable in re.findall(r"^(?:ENV)?\s+(FRESHET_\w+)=", (HERE.parent / "container/Containerfile").read_text(), re.M):
        if variable != "FRESHET_CONFIG_FILE":
            yield f"the image: {variable} goes over the ConfigMap"


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def lifecycle(items):
    """Requires probes of the right type, and enough time for a graceful shutdown."""
    configured = {}
    for item in items:
        if item["kind"] == "ConfigMap" and "freshet.yaml" in item.get("data", {}):
            configured = yaml.safe_load(item["data"]["freshet.yaml"])
    grace = seconds(configured.get("workers", {}).get("graceTime", "20s"))
    for item, template in pods(items):
        if item["kind"] != "Deployment":
            continue
        main = template["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in main.get("ports", [])}
        for probe, path in (("startupProbe", "live"), ("livenessProbe", "live"), ("readinessProbe", "ready")):
            found = main.get(probe, {}).get("httpGet", {})
            if found.get("path") != f"/health/{path}" or found.get("port") not in ports:
                yield f"{name(item)}: {probe} does not ask /health/{path} on a port that there is"
        if ports.get("health") != configured.get("health", {}).get("port"):
            yield f"{name(item)}: health.port is another one"
        if ports.get("http", configured["api"]["port"]) != configured["api"]["port"]:
            yield f"{name(item)}: api.port is another one"
        stop = main.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if template["spec"].get("terminationGracePeriodSeconds", 30) < grace + stop + 10:
            yield f"{name(item)}: killed before it has ended in order"
        if not any("--check" in init.get("args", []) for init in template["spec"].get("initContainers", [])):
            yield f"{name(item)}: does not wait for its schema"


def matches(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def references(items):
    """Requires that selectors match pods, ports exist, and named objects exist or are made by the operator."""
    names = {(item["kind"], item["metadata"]["name"]) for item in items}
    given = {("Secret", "freshet-secrets"), ("Secret", "freshet-keda"), ("Secret", "freshet-apns")}
    templates = [template for _, template in pods(items)]
    for item, template in pods(items):
        labels = template["metadata"]["labels"]
        if item["kind"] == "Deployment" and not matches(item["spec"]["selector"]["matchLabels"], labels):
            yield f"{name(item)}: does not select its own pods"
        if ("ServiceAccount", template["spec"].get("serviceAccountName")) not in names:
            yield f"{name(item)}: its service account is not there"
        for rule in template["spec"].get("topologySpreadConstraints", []):
            if not matches(rule["labelSelector"]["matchLabels"], labels):
                yield f"{name(item)}: spreads other pods than its own"
        volumes = {volume["name"] for volume in template["spec"].get("volumes", [])}
        for volume in template["spec"].get("volumes", []):
            if "configMap" in volume and ("ConfigMap", volume["configMap"]["name"]) not in names:
                yield f"{name(item)}: ConfigMap {volume['configMap']['name']} is not there"
            if "secret" in volume and ("Secret", volume["secret"]["secretName"]) not in names | given:
                yield f"{name(item)}: Secret {volume['secret']['secretName']} is not there"
        for container in containers(template):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{name(item)}: no volume {mount['name']}"
    for item in items:
        kind, spec = item["kind"], item.get("spec", {})
        if kind == "Service":
            found = [t for t in templates if matches(spec["selector"], t["metadata"]["labels"])]
            if not found:
                yield f"{name(item)}: selects nothing"
            for template in found:
                ports = {p["name"] for p in template["spec"]["containers"][0].get("ports", [])}
                for port in spec["ports"]:
                    if port["targetPort"] not in ports:
                        yield f"{name(item)}: port {port['targetPort']} is not there"
        if kind == "PodDisruptionBudget":
            if not any(matches(spec["selector"]["matchLabels"], t["metadata"]["labels"]) for t in templates):
                yield f"{name(item)}: selects nothing"
            if spec.get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
                yield f"{name(item)}: a pod that is not ready would keep its node from being drained"
        if kind == "NetworkPolicy":
            selector = spec["podSelector"].get("matchLabels", {})
            if not any(matches(selector, t["metadata"]["labels"]) for t in templates):
                yield f"{name(item)}: selects nothing"
        if kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = spec["scaleTargetRef"]
            reference = (target.get("kind", "Deployment"), target["name"])
            if reference not in names:
                yield f"{name(item)}: scales nothing"
            for other in items:
                if (other["kind"], other["metadata"]["name"]) == reference and "replicas" in other["spec"]:
                    yield f"{name(item)}: {name(other)} fixes the number that it is to choose"
        if kind == "ServiceMonitor":
            services = [i for i in items if i["kind"] == "Service"
                        and matches(spec["selector"]["matchLabels"], i["metadata"].get("labels", {}))]
            ports = {port["name"] for service in services for port in service["spec"]["ports"]}
            if not services or not {endpoint["port"] for endpoint in spec["endpoints"]} <= ports:
                yield f"{name(item)}: finds no port"
        if item["kind"] not in ("Namespace",) and item["metadata"].get("namespace") != "freshet":
            yield f"{name(item)}: is in no namespace"


def scaling(items):
    """Checks the settings of scaling by lag."""
    triggers = {("TriggerAuthentication", item["metadata"]["name"])
                for item in items if item["kind"] == "TriggerAuthentication"}
    for item in items:
        if item["kind"] != "ScaledObject":
            continue
        if item["spec"].get("minReplicaCount", 0) < 1:
            yield f"{name(item)}: may go to zero, from where excludePersistentLag lets nothing come back"
        for trigger in item["spec"]["triggers"]:
            metadata = trigger["metadata"]
            if metadata.get("excludePersistentLag") != "true":
                yield f"{name(item)}: a poisoned partition would scale it for ever"
            if metadata.get("allowIdleConsumers", "false") != "false":
                yield f"{name(item)}: scales beyond the partitions"
            reference = trigger.get("authenticationRef")
            if reference and ("TriggerAuthentication", reference["name"]) not in triggers:
                yield f"{name(item)}: {reference['name']} is not there"


def problems(items):
    """Problems of the manifests. The rules apply only if the schemas are satisfied."""
    rules = [confinement, network, lifecycle, references, scaling]
    return list(by_schema(items)) or [problem for check in rules for problem in check(items)]


def first(items, kind, starts=""):
    return next(i for i in items if i["kind"] == kind and i["metadata"]["name"].startswith(starts))


# Errors, as changes of the rendered manifests. Each must be detected.
MUTATIONS = {
    "a field that is not there": lambda i: first(i, "Deployment")["spec"].update(replica=1),
    "a wrong type": lambda i: first(i, "Deployment")["spec"]["template"]["spec"].update(
        terminationGracePeriodSeconds="45"),
    "root": lambda i: first(i, "Deployment")["spec"]["template"]["spec"].pop("securityContext"),
    "a user without the group of its files": lambda i: first(i, "Deployment")["spec"]["template"]["spec"][
        "securityContext"].update(runAsUser=65532, runAsGroup=65532) or first(i, "Deployment")["spec"]["template"][
        "spec"]["securityContext"].pop("fsGroup", None),
    "a host of IPv4 only": lambda i: (lambda data: data.update({"freshet.yaml": data["freshet.yaml"].replace(
        '"::"', "0.0.0.0", 1)}))(first(i, "ConfigMap", "freshet-config")["data"]),
    "no DNS on OpenShift": lambda i: first(i, "NetworkPolicy", "freshet-default")["spec"]["egress"].pop(1),
    "a root that can be written": lambda i: first(i, "Job")["spec"]["template"]["spec"]["containers"][0][
        "securityContext"].pop("readOnlyRootFilesystem"),
    "no requests": lambda i: first(i, "Deployment")["spec"]["template"]["spec"]["containers"][0].pop("resources"),
    "a liveness that asks for PostgreSQL": lambda i: first(i, "Deployment")["spec"]["template"]["spec"]["containers"][
        0]["livenessProbe"]["httpGet"].update(path="/health/ready"),
    "too little time to end": lambda i: first(i, "Deployment", "freshet-workers")["spec"]["template"]["spec"].update(
        terminationGracePeriodSeconds=25),
    "a selector that finds nothing": lambda i: first(i, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].update(
        {"app.kubernetes.io/component": "other"}),
    "a port that is not there": lambda i: first(i, "Service")["spec"]["ports"][0].update(targetPort="other"),
    "a Secret of another name": lambda i: first(i, "Deployment")["spec"]["template"]["spec"]["volumes"][1][
        "secret"].update(secretName="other"),
    "an image without a version": lambda i: first(i, "Deployment")["spec"]["template"]["spec"]["containers"][0].update(
        image="registry.example.com:5000/freshet"),
    "a budget that blocks": lambda i: first(i, "PodDisruptionBudget")["spec"].pop("unhealthyPodEvictionPolicy"),
    "a namespace forgotten": lambda i: first(i, "Service")["metadata"].pop("namespace"),
    "scaling to zero": lambda i: first(i, "ScaledObject")["spec"].update(minReplicaCount=0),
    "a poisoned partition that scales": lambda i: first(i, "ScaledObject")["spec"]["triggers"][0]["metadata"].pop(
        "excludePersistentLag"),
    "a fixed number beside an autoscaler": lambda i: first(i, "HorizontalPodAutoscaler") and first(
        i, "Deployment", "freshet-workers")["spec"].update(replicas=2),
    "an unknown key of a trigger": lambda i: first(i, "ScaledObject")["spec"]["triggers"][0]["metadata"].update(
        lagTreshold="5"),
}


def main(paths):
    failed = False
    for path in map(pathlib.Path, paths):
        items = [item for item in yaml.safe_load_all(path.read_text()) if item]
        found = problems(items)
        for problem in found:
            print(f"manifests: {path.stem}: {problem}", file=sys.stderr)
        failed |= bool(found)
        missed = []
        for what, change in MUTATIONS.items():
            broken = copy.deepcopy(items)
            try:
                change(broken)
            except StopIteration:
                continue
            if not problems(broken):
                missed.append(what)
        for what in missed:
            print(f"manifests: {path.stem}: not noticed: {what}", file=sys.stderr)
        failed |= bool(missed)
        print(f"manifests: {path.stem}: {len(items)} objects, Kubernetes {' and '.join(VERSIONS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
