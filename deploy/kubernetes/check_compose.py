"""Checks deploy/compose.yaml as compose has read it: order, secrets, health. Called by deploy/local/manifests."""

import json
import pathlib
import sys


def problems(document, folder):
    services = document["services"]
    wanted = {"postgres", "kafka", "migrate", "topics", "ingest", "workers", "delivery", "api", "provider", "prometheus", "grafana"}
    for missing in sorted(wanted - set(services)):
        yield f"no {missing}"
    for service, body in services.items():
        ours = "freshet" in body["image"]
        is_once = body.get("restart") == "no"
        for other, how in body.get("depends_on", {}).items():
            target = services[other]
            if how["condition"] == "service_healthy" and target.get("healthcheck", {}).get("disable"):
                yield f"{service} waits for the health of {other}, which has none"
            if how["condition"] == "service_completed_successfully" and target.get("restart") != "no":
                yield f"{service} waits for the end of {other}, which is restarted"
        if ours and not (body.get("read_only") and body.get("cap_drop") == ["ALL"]):
            yield f"{service} may write, or has capabilities"
        if ours and not is_once and service != "provider":
            if "--ready" not in body.get("healthcheck", {}).get("test", []):
                yield f"{service} does not say whether it is ready"
            if not any(k in body.get("depends_on", {}) for k in ("migrate",)):
                yield f"{service} does not wait for the schema"
        for name, value in (body.get("environment") or {}).items():
            is_file = name.endswith(("_FILE", "__FILE"))
            if not is_file and any(word in name for word in ("PASSWORD", "TOKEN", "SECRET", "_URL")):
                yield f"{service}: {name} holds a secret, or may"
            if is_file and name != "FRESHET_CONFIG_FILE":
                given = {f"/run/secrets/{pathlib.PurePath(s['target']).name}" for s in body.get("secrets", [])}
                if value not in given:
                    yield f"{service}: {name} names {value}, which is not one of its secrets"
        for port in body.get("ports", []):
            if port.get("host_ip") != "127.0.0.1":
                yield f"{service}: port {port['target']} is open to the network"
    if services["workers"].get("deploy", {}).get("replicas") != 2:
        yield "not two workers"
    used = {s["source"] for body in services.values() for s in body.get("secrets", [])}
    for unused in sorted(set(document.get("secrets", {})) - used):
        yield f"nobody uses the secret {unused}"
    for name, config in document.get("configs", {}).items():
        if not pathlib.Path(config["file"]).exists():
            yield f"the file of the config {name} is not there: {pathlib.Path(config['file']).relative_to(folder)}"


def main(path, folder):
    found = list(problems(json.loads(pathlib.Path(path).read_text()), folder))
    for problem in found:
        print(f"manifests: compose: {problem}", file=sys.stderr)
    print(f"manifests: compose: {len(json.loads(pathlib.Path(path).read_text())['services'])} services")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
