"""A client of Freshet's HTTP API (deploy/api.md) for two of its operations."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote


class Problem(Exception):
    """An error of the API: problem details (RFC 9457)."""

    def __init__(self, status: int, details: dict[str, Any], retry_after: int | None = None):
        super().__init__(f"{status} {details.get('title', '')}: {details.get('detail', '')}")
        self.status = status
        self.details = details
        self.retry_after = retry_after


class Freshet:
    """One app of a Freshet service."""

    def __init__(self, url: str, app: str, token: str):
        self.app = app
        self._base = f"{url.rstrip('/')}/v1/apps/{quote(app, safe='')}/"
        self._token = token

    def push(self, user: str, kinds: list[str], source: str = "/python-example") -> dict[str, Any]:
        """Publishes a push for all widgets of a user and waits for its outcome.

        The outcome is missing from the answer if the push has not been applied within 10 s.
        """
        event = {
            "specversion": "1.0",
            "id": str(uuid.uuid4()),
            "source": source,
            "type": "freshet.push.received.v1",
            "data": {"app": self.app, "audience": {"user": user}, "kinds": kinds},
        }
        _, _, answer = self.request("POST", "events?wait=applied", event, {"Content-Type": "application/cloudevents+json"})
        return answer

    def follow(self, widget: str) -> Iterator[dict[str, Any]]:
        """Yields the present timeline of a widget, then each one with other content, without end."""
        entity_tag = None
        while True:
            try:
                status, headers, timeline = self.request(
                    "GET",
                    f"widgets/{quote(widget, safe='')}/timeline?wait=30",
                    headers={"If-None-Match": entity_tag} if entity_tag else {},
                )
            except Problem as problem:
                if problem.retry_after is None:
                    raise
                time.sleep(problem.retry_after)
                continue
            if status == 304 or timeline["content"] is None:
                continue
            entity_tag = headers["ETag"]
            yield timeline

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, Any]:
        """Sends a request and returns the status, headers and body of the answer; raises Problem for an error."""
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return error.code, error.headers, None
                if error.headers.get_content_type() == "application/problem+json":
                    details = json.load(error)
                else:
                    details = {"title": error.reason}
                retry_after = error.headers.get("Retry-After")
                raise Problem(error.code, details, int(retry_after) if retry_after else None) from None
