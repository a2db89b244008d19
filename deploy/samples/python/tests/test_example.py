"""Runs the example against the service that WIDGETS_URL, WIDGETS_APP and WIDGETS_TOKEN name."""

import json
import os
import subprocess
import sys
import time
import unittest
import uuid

from freshet_example import Freshet, Problem


class ExampleTests(unittest.TestCase):
    def setUp(self) -> None:
        self.freshet = Freshet(*(os.environ[name] for name in ("WIDGETS_URL", "WIDGETS_APP", "WIDGETS_TOKEN")))
        self.user = f"user-{uuid.uuid4()}"
        self.widget = f"widget-{uuid.uuid4()}"

    def place(self) -> None:
        placement = {
            "user": self.user,
            "device": "d1",
            "kind": "RecentPurchases",
            "family": "systemMedium",
            "configuration": {"card": "acme"},
            "environment": {"locale": "en-US", "timeZone": "Europe/Berlin"},
        }
        _, _, answer = self.freshet.request("PUT", f"widgets/{self.widget}?wait=applied", placement)
        self.applied(answer)
        self.addCleanup(self.freshet.request, "DELETE", f"widgets/{self.widget}")

    def applied(self, answer):
        """The answer with the outcome of its event, for which a slow machine may need longer than the API waits."""
        deadline = time.monotonic() + 120
        while "outcome" not in answer and time.monotonic() < deadline:
            try:
                _, _, answer = self.freshet.request("GET", f"events/{answer['event']['id']}?wait=applied")
            except Problem as problem:
                self.assertEqual(problem.status, 404)
        return answer

    def test_a_push_brings_new_content_to_a_follower(self) -> None:
        self.place()
        timelines = self.freshet.follow(self.widget)
        first = next(timelines)
        answer = self.applied(self.freshet.push(self.user, ["RecentPurchases"]))
        self.assertEqual(answer["outcome"]["result"], "applied")
        second = next(timelines)
        self.assertGreater(second["revision"], first["revision"])
        self.assertNotEqual(second["content"], first["content"])

    def test_the_command_prints_what_was_published(self) -> None:
        self.place()
        push = subprocess.run(
            [sys.executable, "-m", "freshet_example", "push", self.user, "RecentPurchases"],
            capture_output=True,
            check=True,
            timeout=60,
        )
        self.assertEqual(json.loads(push.stdout)["event"]["type"], "freshet.push.received.v1")

    def test_an_error_is_a_problem(self) -> None:
        with self.assertRaises(Problem) as raised:
            next(self.freshet.follow(f"widget-{uuid.uuid4()}"))
        self.assertEqual(raised.exception.status, 404)
        self.assertEqual(raised.exception.details["status"], 404)


if __name__ == "__main__":
    unittest.main()
