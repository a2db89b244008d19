// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

/// The HTTP API end to end, through the commands and processes that users have.
@Suite(.tags(.process), .timeLimit(.patience))
struct APIProcessTests {
    @Test("A widget just placed can be removed, and each write reports its outcome")
    func atOnce() async throws {
        try await withInstallation { installation in
            try await installation.withKeys { keys in
                let token = try await installation.token(
                    keys, "--scope", "widgets:read", "--scope", "widgets:write", "--scope", "operate")
                let api = try await installation.run("--role", "api", "--set", "api.keys=\(keys)")
                let ingest = try await installation.run("--role", "ingest")
                let port = try #require(api.ready["apiPort"]?.numberValue?.int64)
                let probe = APIProbe(port: Int(port), token: token)
                let body: JSONValue = [
                    "user": "u1", "device": "d1", "kind": "RecentPurchases", "family": "systemSmall",
                    "environment": ["locale": "en-GB", "timeZone": "Europe/London"],
                ]
                func settled(_ answer: APIProbe.Answer) async throws -> JSONValue {
                    let id = try #require(answer.document["event"]?["id"]?.stringValue)
                    try await eventually("the event is applied") {
                        try await probe.ask(.get, "events/\(id)").status == 200
                    }
                    let event = try await probe.ask(.get, "events/\(id)?wait=applied")
                    return event.document["outcome"]?["result"] ?? .null
                }
                var last: [APIProbe.Answer] = []
                for number in 0..<20 {
                    let widget = "widgets/w\(number)"
                    #expect(try await probe.ask(.put, widget, body: body).status == 202)
                    let removed = try await probe.ask(.delete, widget)
                    #expect(removed.status == 202, "\(removed.text)")
                    last.append(removed)
                }
                for answer in last { #expect(try await settled(answer) == "applied") }
                let left = try await probe.ask(.get, "widgets").document["widgets"]?.arrayValue
                #expect(left?.isEmpty == true)

                let configured = try await probe.ask(
                    .put, "widgets/w0/configuration?wait=applied", body: ["configuration": [:]])
                if configured.status != 200 { #expect(try await settled(configured) == "ignored") }
                let explained = try await probe.ask(.get, "widgets/w0/explanation").document["ignored"]?.arrayValue
                #expect(explained?.first?["code"] == "removedWidget")
                for process in [ingest, api] {
                    process.process.send(signal: SIGTERM)
                    _ = try await process.process.end()
                }
            }
        }
    }

    @Test("With a token from the command a user places a widget, reads it, waits for its reload and is notified")
    func journey() async throws {
        try await withInstallation { installation in
            try await installation.withKeys(
                { keys in
                    let token = try await installation.token(
                        keys, "--scope", "widgets:read", "--scope", "widgets:write", "--scope", "reload",
                        "--scope", "operate")
                    let shown = try await FreshetProcess.run(["tokens", "show", "--keys", keys], input: token + "\n")
                    #expect(shown.status == 0 && shown.out.contains("com.example.bank"))
                    #expect(try await FreshetProcess.run(["tokens", "show", "--keys", keys], input: "no").status == 1)

                    let api = try await installation.run("--role", "api", "--set", "api.keys=\(keys)")
                    let ingest = try await installation.run("--role", "ingest")
                    let workers = try await installation.run("--role", "workers")
                    let port = try #require(api.ready["apiPort"]?.numberValue?.int64)
                    let probe = APIProbe(port: Int(port), token: token)

                    let place = try await probe.ask(
                        .put, "widgets/w1",
                        body: [
                            "user": "u1", "device": "d1", "kind": "RecentPurchases", "family": "systemSmall",
                            "configuration": ["card": "acme"],
                            "environment": ["locale": "en-GB", "timeZone": "Europe/London"],
                        ])
                    #expect(place.status == 202, "\(place.text)")
                    #expect(place.document["event"]?["type"] == "freshet.widget.placed.v1")
                    try await eventually("the widget is known") {
                        try await probe.ask(.get, "widgets/w1").status == 200
                    }

                    // The API itself waits for a limited time.
                    var first = try await probe.ask(.get, "widgets/w1/timeline?wait=30")
                    try await eventually("the widget has content") {
                        if first.status == 200, first.document["content"] != .null { return true }
                        first = try await probe.ask(.get, "widgets/w1/timeline?wait=30")
                        return false
                    }
                    let etag = try #require(first.etag)
                    try await eventually("no timeline is stale") {
                        try await probe.ask(.get, "widgets/w1/timeline", known: etag).stale == "false"
                    }
                    #expect(try await probe.ask(.get, "widgets/w1/timeline", known: etag).status == 304)

                    // The waiting request and the stream both report the reload.
                    async let waited = probe.ask(.get, "widgets/w1/timeline?wait=60", known: etag)
                    async let streamed = probe.ask(.get, "devices/d1/events?for=8")
                    let reload = try await probe.ask(
                        .post, "reloads",
                        body: ["audience": ["user": "u1"], "kinds": ["RecentPurchases"], "reason": "operator"])
                    #expect(reload.status == 202, "\(reload.text)")
                    let second = try await waited
                    #expect(second.status == 200 && second.etag != nil && second.etag != etag, "\(second.text)")
                    let stream = try await streamed.text
                    #expect(stream.contains("event: timeline"), "\(stream)")

                    let explained = try await probe.ask(.get, "widgets/w1/explanation")
                    #expect(explained.status == 200)
                    let device = APIProbe(
                        port: Int(port),
                        token: try await installation.token(
                            keys, "--user", "u2", "--scope", "widgets:read", "--scope", "widgets:write"))
                    #expect(try await device.ask(.get, "widgets/w1/timeline").status == 404)

                    for process in [workers, ingest, api] {
                        process.process.send(signal: SIGTERM)
                        #expect(try await process.process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
                    }
                    #expect(api.process.standardError.contains("audit"))
                    #expect(!api.process.standardError.contains(token))
                })
        }
    }
}
