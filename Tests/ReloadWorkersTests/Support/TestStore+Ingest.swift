// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

extension TestStore {
    /// Applies events in one transaction like ingest, without Kafka. Returns the codes of rejected events.
    @discardableResult
    func apply(_ events: [FreshetEvent], at time: Timestamp) async throws -> [String] {
        var fold = BatchFold(directory: try await directory())
        for (index, event) in events.enumerated() {
            let position = EventPosition(topic: 2, partition: 0, offset: Int64(index))
            fold.add(BatchEvent(record: index, position: position, time: time, event: event))
        }
        let applier = BatchApplier(pool: pool, audienceLimit: 1_000)
        let outcome = try await applier.apply(fold, advancing: []) { rejected in
            DeadLetter(
                topic: "test", partition: 0, offset: Int64(rejected.record), app: rejected.app, code: rejected.code,
                error: rejected.message, key: nil, headers: [], payload: nil)
        }
        return outcome.rejected.map(\.code)
    }

    /// Content that a widget shows instead of its timeline's; nil if it shows the timeline's or none.
    func fallback(of widget: String) async throws -> FallbackContent? {
        try await pool.query(.readWidgetTimeline(app: TestKinds.app, widget: widget)).first?.fallback
    }

    func timelineID(of widget: String) async throws -> TimelineID? {
        try await self.widget(widget)?.timelineID
    }

    /// Retries after a conflict with another writer, as ingest does.
    func applyRetrying(_ events: [FreshetEvent], at time: Timestamp) async throws {
        while true {
            do {
                try await apply(events, at: time)
                return
            } catch let error as PostgresError where error.isRetriable {
                continue
            }
        }
    }
}

extension FallbackContent {
    var isSnapshot: Bool {
        if case .snapshot = self { true } else { false }
    }
}
