// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Results of waiting reads and streams", .tags(.api), .timeLimit(.patience))
struct StreamTests {
    @Test("A reader that waits for a reload gets its content and freshness in one answer")
    func reloaded() async throws {
        let changes = TimelineChanges()
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 1)
            try await withAPI(store, changes: changes) { api in
                var headers = HTTPFields()
                headers[.ifNoneMatch] = "W/\"00000000-0000-0000-0000-000000000001\""
                let known = headers
                async let waited = api.ask(.get, "\(TestAPI.base)/widgets/w1/timeline?wait=60", headers: known)
                try await eventually("a request waits") { changes.counts.polls == 1 }
                try await store.sql(
                    """
                    UPDATE timeline SET rendered = requested, hash = '00000000-0000-0000-0000-000000000002',
                        content_revision = 2, revision = 2
                    """)
                changes.notify([.timeline(id)])
                let answer = try await waited
                #expect(answer.status == 200 && answer.headers[.freshetRevision] == "2")
                #expect(answer.headers[.freshetStale] == "false" && answer.document["state"]?["stale"] == false)
            }
        }
    }

    @Test("A stream plans the stacks of its device and sends their schedules and changes")
    func schedules() async throws {
        let changes = TimelineChanges()
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.saveSchedule(of: "u1", revision: 7)
            try await store.sql("DELETE FROM stack_schedule")
            try await withServedAPI(store, configuration: APIConfiguration.test(), changes: changes) { port, tokens in
                let connection = try await RawConnection.open(port)
                try await connection.send(
                    "GET \(TestAPI.base)/devices/d1/events HTTP/1.1\r\nHost: a\r\n"
                        + "Authorization: Bearer \(try await tokens.token())\r\n\r\n")
                try await eventually("the stack is due for planning") {
                    try await store.integer("SELECT count(*) FROM stack_schedule WHERE due_at <= now()") == 1
                }
                for revision in [8, 9] {
                    try await store.saveSchedule(of: "u1", revision: Int64(revision))
                    changes.notify([.user(app: TestKinds.app, user: "u1")])
                    try await eventually("revision \(revision) is sent") {
                        connection.text.contains("\"stack\":\"home\",\"revision\":\(revision),")
                    }
                }
                #expect(connection.text.ranges(of: "event: schedule\n").count == 2)
            }
        }
    }

    @Test("A stream goes on wanting the stacks of its device, new ones included")
    func wanting() async throws {
        let changes = TimelineChanges(patience: .milliseconds(50))
        changes.set(isLive: true)
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withServedAPI(store, configuration: APIConfiguration.test(), changes: changes) { port, tokens in
                let connection = try await RawConnection.open(port)
                try await connection.send(
                    "GET \(TestAPI.base)/devices/d1/events HTTP/1.1\r\nHost: a\r\n"
                        + "Authorization: Bearer \(try await tokens.token())\r\n\r\n")
                try await eventually("it is open") { changes.counts.streams == 1 }
                try await store.saveSchedule(of: "u1", revision: 7)
                try await store.sql("DELETE FROM stack_schedule")
                let wanted = "SELECT count(*) FROM stack_schedule WHERE read_at > now() - interval '1 minute'"
                try await eventually("the new stack is wanted") { try await store.integer(wanted) == 1 }
                try await store.sql("UPDATE stack_schedule SET read_at = now() - interval '8 days'")
                try await eventually("it is still wanted") { try await store.integer(wanted) == 1 }
                try await connection.close()
            }
        }
    }

    @Test("A stream reports changes of staleness and resumes after the ID of its last event")
    func stream() async throws {
        let changes = TimelineChanges()
        try await withStore { store in
            let id = try await store.place([.test("w1"), .test("w2", kind: "DueDate")])[0]
            try await store.saveContent(id, hash: 1)
            try await withServedAPI(store, configuration: APIConfiguration.test(), changes: changes) { port, tokens in
                let token = try await tokens.token()
                func open(_ headers: String = "") async throws -> RawConnection {
                    let connection = try await RawConnection.open(port)
                    try await connection.send(
                        "GET \(TestAPI.base)/devices/d1/events HTTP/1.1\r\nHost: a\r\n"
                            + "Authorization: Bearer \(token)\r\n\(headers)\r\n")
                    return connection
                }
                func events(_ connection: RawConnection, _ name: String) -> Int {
                    connection.text.ranges(of: "event: \(name)\n").count
                }
                func ids(_ connection: RawConnection) -> [Substring] {
                    connection.text.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("id: ") }
                        .map { $0.dropFirst(4) }
                }
                let first = try await open()
                try await eventually("both timelines are sent") {
                    events(first, "timeline") == 2 && ids(first).count == 1
                }
                #expect(first.text.contains("\"stale\":true") && !first.text.contains("\"stale\":false"))
                try await store.settle()
                changes.notify([.timeline(id)])
                try await eventually("both timelines are fresh: \(first.text)") {
                    first.text.ranges(of: "\"stale\":false").count == 2
                }
                #expect(ids(first).count == 2)
                let last = try #require(ids(first).last)
                try await first.close()

                // Nothing has changed since the last event.
                let second = try await open("Last-Event-ID: \(last)\r\n")
                try await eventually("the stream is open") { second.text.contains("still here") }
                #expect(events(second, "timeline") == 0 && events(second, "widgets") == 0)
                try await second.close()

                // After a change all widgets are listed, so that the client removes the others.
                try await store.saveContent(id, hash: 2)
                let third = try await open("Last-Event-ID: \(last)\r\n")
                try await eventually("all widgets are sent: \(third.text)") {
                    events(third, "timeline") == 2 && ids(third).count == 1
                }
                #expect(third.text.contains("event: widgets\ndata: {\"widgets\":[\"w1\",\"w2\"]}"))
                #expect(ids(third).first != last)
                try await third.close()
            }
        }
    }

    @Test("Open polls and streams are counted")
    func metric() throws {
        let registry = MetricRegistry()
        let changes = TimelineChanges(metrics: registry)
        let holder = TimelineChanges.Holder(app: "a")
        var streams = try (0..<3).map { _ in try changes.watch(.stream, [], for: holder) }
        let poll = try changes.watch(.poll, [], for: holder)
        #expect(registry.page.contains(#"freshet_api_waiting{sort="stream"} 3"#), "\(registry.page)")
        #expect(registry.page.contains(#"freshet_api_waiting{sort="poll"} 1"#))
        streams.removeAll()
        #expect(registry.page.contains(#"freshet_api_waiting{sort="stream"} 0"#))
        withExtendedLifetime(poll) {}
    }
}
