// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@Suite(.tags(.process), .timeLimit(.patience))
struct ShutdownTests {
    /// A running process with placed widgets whose provider takes a minute.
    private func withSlowProvider(
        graceTime: String, widgets: Int, _ body: @Sendable (Installation, FreshetProcess) async throws -> Void
    ) async throws {
        let provider = try FreshetProcess(["provider", "--port", "0", "--latency", "60s"])
        let port = try #require(try await provider.firstLine()["port"]?.numberValue?.int64)
        try await withInstallation { installation in
            var apps = Installation.apps(providerPort: Int(port))
            for index in apps[0].kinds.indices { apps[0].kinds[index].timeout = .seconds(60) }
            _ = try await installation.store.store.apply(apps, secrets: [:]) { Array(repeating: 7, count: 32) }
            let (process, _) = try await installation.run("--set", "workers.graceTime=\(graceTime)")
            let environment = try WidgetEnvironment(locale: "en-GB", timeZone: "Europe/London")
            try await installation.publish(
                (0..<widgets).map { number in
                    OutgoingEvent(
                        .placed(
                            WidgetPlacement(
                                app: Installation.app, widget: "w\(number)", user: "u\(number)", device: "d\(number)",
                                kind: "DueDate", family: .systemSmall, environment: environment)),
                        time: Timestamp.now())
                })
            try await body(installation, process)
        }
    }

    @Test("The first signal waits for work in flight; the second ends the process at once and returns the work")
    func secondSignal() async throws {
        try await withSlowProvider(graceTime: "60s", widgets: 1) { installation, process in
            try await eventually("the timeline is being fetched") {
                try await installation.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL") == 1
            }
            process.send(signal: SIGTERM)
            try await eventually("the process reports that it stops") { process.standardError.contains("stopping") }
            #expect(process.isRunning)
            #expect(try await installation.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL") == 1)
            process.send(signal: SIGTERM)
            #expect(try await process.end() == FreshetProcess.Exit(status: 1, isSignal: false))
            #expect(try await installation.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL") == 0)
            #expect(process.standardError.contains("stopping at once"))
            #expect(process.standardError.contains("stopped before everything was done"))
        }
    }

    @Test("Work that exceeds the grace time is returned, and the process ends in order")
    func graceTime() async throws {
        try await withSlowProvider(graceTime: "1s", widgets: 20) { installation, process in
            // Placements on different partitions may be applied one after the other.
            try await eventually("all timelines are in lists, and some are being fetched") {
                let listed = try await installation.store.integer(
                    "SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work")
                let leased = try await installation.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL")
                return listed == 20 && leased > 0
            }
            process.send(signal: SIGTERM)
            // The provider would take 60 s.
            #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
            // Another worker may claim the timelines at once, long before their lease ends.
            #expect(try await installation.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL") == 0)
            #expect(
                try await installation.store.integer(
                    "SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work WHERE ready_at <= now()") == 20)
        }
    }
}
