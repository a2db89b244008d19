"""Uses the client that deploy/local/generated-client generates from schemas/openapi.yaml against a running API.

WIDGETS_URL, WIDGETS_APP and WIDGETS_TOKEN name the service, the app and its token.
"""

import importlib
import os
import pkgutil
import time
import unittest
import uuid
from datetime import datetime
from http import HTTPStatus

import freshet_client
from freshet_client import AuthenticatedClient, models
from freshet_client.api.events import get_event, publish_events
from freshet_client.api.kinds import list_kinds, put_kind
from freshet_client.api.timelines import get_timeline
from freshet_client.api.widgets import get_widget, list_widgets, place_widget, remove_widget

APP = os.environ["WIDGETS_APP"]
KIND = "RecentPurchases"
# Seconds; ends only waits that would never end.
PATIENCE = 120


class GeneratedClientTests(unittest.TestCase):
    def setUp(self) -> None:
        self.connect(os.environ["WIDGETS_TOKEN"])
        self.widget = f"widget-{uuid.uuid4()}"
        self.user = f"user-{uuid.uuid4()}"

    def connect(self, token: str) -> None:
        self.client = AuthenticatedClient(
            base_url=os.environ["WIDGETS_URL"], token=token, raise_on_unexpected_status=True, timeout=60
        )
        self.addCleanup(self.client.get_httpx_client().close)

    def answer(self, operation, status, expected, *path, **parameters):
        """Calls an operation and returns its parsed answer, which must have this status and be of this type."""
        response = operation.sync_detailed(*path, client=self.client, **parameters)
        self.assertEqual(response.status_code, status, response.content)
        self.assertIs(type(response.parsed), expected)
        return response.parsed

    def outcome(self, event):
        """The outcome of an event. The API waits ten seconds for it, and a slow machine may need longer."""
        deadline = time.monotonic() + PATIENCE
        while True:
            response = get_event.sync_detailed(APP, event.id, client=self.client, wait=models.GetEventWait.APPLIED)
            if response.status_code != HTTPStatus.NOT_FOUND or time.monotonic() > deadline:
                break
        self.assertEqual(response.status_code, HTTPStatus.OK, response.content)
        self.assertIs(type(response.parsed), models.Accepted)
        return response.parsed.outcome

    def placement(self, kind: str = KIND) -> models.Placement:
        return models.Placement(
            user=self.user,
            device="d7",
            kind=kind,
            family=models.Family.SYSTEMMEDIUM,
            environment=models.Environment(locale="en-US", time_zone="Europe/Berlin"),
            configuration=models.Configuration.from_dict({"card": "acme"}),
        )

    def test_every_module_can_be_imported(self) -> None:
        for module in pkgutil.walk_packages(freshet_client.__path__, "freshet_client."):
            importlib.import_module(module.name)

    def test_a_widget_is_placed_read_and_removed(self) -> None:
        placed = self.answer(place_widget, HTTPStatus.ACCEPTED, models.Accepted, APP, self.widget, body=self.placement())
        self.assertEqual(placed.event.type_, "freshet.widget.placed.v1")
        self.assertIsInstance(placed.event.offset, int)
        self.assertIs(self.outcome(placed.event).result, models.OutcomeResult.APPLIED)

        widget = self.answer(get_widget, HTTPStatus.OK, models.Widget, APP, self.widget)
        self.assertIs(widget.family, models.Family.SYSTEMMEDIUM)
        self.assertIsInstance(widget.placed_at, datetime)
        self.assertEqual(widget.configuration["card"], "acme")
        page = self.answer(list_widgets, HTTPStatus.OK, models.WidgetPage, APP, user=self.user)
        self.assertEqual([each.widget for each in page.widgets], [self.widget])

        timeline = self.answer(get_timeline, HTTPStatus.OK, models.Timeline, APP, self.widget, wait=30)
        self.assertIsInstance(timeline.current_entry, models.Entry)
        self.assertIsInstance(timeline.stored_at, datetime)
        self.assertIsInstance(timeline.shown.state, models.ShownState)

        response = remove_widget.sync_detailed(
            APP, self.widget, client=self.client, wait=models.RemoveWidgetWait.APPLIED
        )
        self.assertIs(type(response.parsed), models.Accepted, response.content)
        outcome = response.parsed.outcome
        if response.status_code == HTTPStatus.ACCEPTED:
            outcome = self.outcome(response.parsed.event)
        self.assertIs(outcome.result, models.OutcomeResult.APPLIED)

    def test_kinds_are_read_and_written(self) -> None:
        kinds = self.answer(list_kinds, HTTPStatus.OK, models.ListKindsResponse200, APP).kinds
        kind = next(kind for kind in kinds if kind.kind == KIND)
        self.assertIsInstance(kind, models.Kind)
        self.assertIn(models.Family.SYSTEMMEDIUM, kind.families)
        definition = models.KindDefinition(
            provider_url="https://widgets.example.com/bank", placeholder=[], minimum_spacing="5m"
        )
        change = self.answer(put_kind, HTTPStatus.OK, models.KindChange, APP, KIND, body=definition, dry_run=True)
        self.assertIs(change.action, models.KindChangeAction.CHANGE)

    def test_events_are_published(self) -> None:
        event = models.CloudEvent(
            specversion="1.0",
            id=str(uuid.uuid4()),
            source="/generated-client",
            type_=models.CloudEventType.FRESHET_PUSH_RECEIVED_V1,
            data=models.CloudEventData.from_dict({"app": APP, "audience": {"user": self.user}, "kinds": "all"}),
        )
        accepted = self.answer(publish_events, HTTPStatus.ACCEPTED, models.Accepted, APP, body=event)
        self.assertEqual(accepted.event.id, event.id)
        batch = self.answer(publish_events, HTTPStatus.OK, models.BatchResults, APP, body=[event.to_dict(), {}])
        self.assertEqual([result.status for result in batch.results], [HTTPStatus.ACCEPTED, HTTPStatus.UNPROCESSABLE_ENTITY])
        self.assertIs(type(batch.results[1].problem), models.Problem)

    def test_an_error_is_a_typed_problem(self) -> None:
        problem = self.answer(get_widget, HTTPStatus.NOT_FOUND, models.Problem, APP, self.widget)
        self.assertEqual(problem.status, HTTPStatus.NOT_FOUND)
        self.assertTrue(problem.type_.startswith("urn:freshet:problem:"), problem.type_)
        invalid = self.answer(
            place_widget, HTTPStatus.UNPROCESSABLE_ENTITY, models.Problem, APP, self.widget, body=self.placement(kind="")
        )
        self.assertEqual([error.pointer for error in invalid.errors], ["/kind"])
        self.connect("forged")
        self.answer(get_widget, HTTPStatus.UNAUTHORIZED, models.Problem, APP, self.widget)


if __name__ == "__main__":
    unittest.main()
