// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

private func code(_ error: any Error) -> WidgetCenterError.Code? { (error as? WidgetCenterError)?.code }

private final class Flag: Sendable {
    private let value = Atomic(false)

    var isRaised: Bool { value.load(ordering: .acquiring) }
    func raise() { value.store(true, ordering: .releasing) }
}

@Suite(.timeLimit(.patience))
struct PublishingTests {
    @Test("Many events are published in one call, in order, with their positions")
    func batch() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            var events: [WidgetEvent] = (0..<2_000).map { .widgetViewed("w\($0)", of: "u") }
            events.append(.reloadTimelines(ofKind: "Purchases", for: .user("u")))
            let results = try await center.publish(events)
            #expect(results.map(\.id) == events.map(\.id))
            #expect(results.dropLast().allSatisfy { $0.topic == "freshet.widgets" && $0.partition == 0 })
            #expect(results.dropLast().compactMap(\.offset) == (0..<2_000).map(Int64.init))
            #expect(results.last?.topic == "freshet.pushes")
            #expect(try await center.publish([]) == [])
            #expect(center.eventsUnderWay == 0)
            await center.shutdown()
            let received = try await kafka.received(count: 2_001)
            #expect(received.count == 2_001)
            let ids = received.filter { $0.topic == "freshet.widgets" }.map(\.event.id)
            #expect(ids == events.dropLast().map(\.id))
        }
    }

    @Test("Concurrent calls share requests to the brokers")
    func sharedRequests() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            try await center.reloadAllTimelines()
            // One request at a time with a fixed latency: separate calls would exceed the test's time limit.
            try kafka.setRoundTripTime(broker: 1, .seconds(1))
            try await withThrowingTaskGroup { group in
                for index in 0..<3 * Patience.limit.components.seconds {
                    group.addTask { _ = try await center.reloadAllTimelines(for: .user("u\(index)")) }
                }
                try await group.waitForAll()
            }
            try kafka.setRoundTripTime(broker: 1, .zero)
            await center.shutdown()
        }
    }

    @Test("One invalid event refuses the whole call and is reported by its index")
    func invalidInBatch() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            do throws(WidgetCenterError) {
                try await center.publish([.reloadAllTimelines(), .widgetViewed("", of: "u")])
                Issue.record("accepted")
            } catch {
                #expect(error.code == .invalidArgument && error.failedEvents == [1])
                #expect(error.message.hasPrefix("event 1: /widget: "))
            }
            try await center.publish(.widgetViewed("w", of: "u"))
            await center.shutdown()
            #expect(try await kafka.received(count: 1).map(\.topic) == ["freshet.widgets"])
        }
    }

    @Test("The error of a partial failure lists the events to publish again")
    func partialFailure() async throws {
        try await withCluster { kafka in
            let center = try kafka.center { $0.properties["message.max.bytes"] = "20000" }
            var large = WidgetEvent.widgetPlaced(
                "w", of: "u", device: "d", kind: "K", family: .systemSmall,
                configuration: ["text": .string(String(repeating: "x", count: 16_000))],
                environment: WidgetCenter.Environment(locale: "en", timeZone: "Etc/UTC"))
            large.id = "large"
            // Events below the limit are published, those above are not.
            try await center.publish(large)
            let many = (0..<200).map { "kind-\($0)-" + String(repeating: "k", count: 200) }
            do throws(WidgetCenterError) {
                try await center.publish([
                    .widgetViewed("a", of: "u"), .reloadTimelines(ofKinds: many), .widgetViewed("b", of: "u"),
                ])
                Issue.record("accepted")
            } catch {
                #expect(error.code == .tooLarge && error.failedEvents == [1])
                #expect(!error.isRetriable && !error.isPossiblyStored)
            }
            await center.shutdown()
            #expect(try await kafka.received(count: 3).map(\.topic).allSatisfy { $0 == "freshet.widgets" })
        }
    }

    @Test("Without room a call waits or fails at once, depending on the back-pressure")
    func backPressure() async throws {
        try await withCluster { kafka in
            try kafka.stopBroker(1)
            let failing = try kafka.center {
                $0.maximumEventsUnderWay = 10
                $0.backPressure = .fail
            }
            let suspending = try kafka.center { $0.maximumEventsUnderWay = 10 }
            let events = (0..<8).map { WidgetEvent.widgetViewed("w\($0)", of: "u") }
            try await withThrowingTaskGroup { group in
                group.addTask { _ = try await failing.publish(events) }
                group.addTask { _ = try await suspending.publish(events) }
                group.addTask { _ = try await suspending.publish(events) }
                try await eventually("both centers are full") {
                    failing.eventsUnderWay == 8 && suspending.eventsUnderWay == 16
                }
                await #expect { try await failing.publish(Array(events.prefix(3))) } throws: { error in
                    guard let error = error as? WidgetCenterError else { return false }
                    return error.code == .overloaded && error.isRetriable && !error.isPossiblyStored
                        && error.failedEvents == [0, 1, 2]
                }
                // The refused call left its room to one that fits exactly; then there is none.
                group.addTask { _ = try await failing.publish(Array(events.prefix(2))) }
                try await eventually("the limit is reached") { failing.eventsUnderWay == 10 }
                await #expect { try await failing.publish(events[0]) } throws: { code($0) == .overloaded }
                try kafka.startBroker(1)
                try await group.waitForAll()
            }
            #expect(failing.eventsUnderWay == 0 && suspending.eventsUnderWay == 0)
            try await failing.publish(Array(events.prefix(3)))
            // A call beyond the limit is published alone.
            try await failing.publish((0..<30).map { .widgetViewed("x\($0)", of: "u") })
            await failing.shutdown()
            await suspending.shutdown()
            #expect(try await kafka.received(count: 59).count == 59)
        }
    }

    @Test("A call that is cancelled while it waits for room publishes nothing")
    func cancellation() async throws {
        try await withCluster { kafka in
            try kafka.stopBroker(1)
            let center = try kafka.center { $0.maximumEventsUnderWay = 1 }
            try await withThrowingTaskGroup { group in
                group.addTask { _ = try await center.publish(.widgetViewed("first", of: "u")) }
                try await eventually("the call is under way") { center.eventsUnderWay == 1 }
                let waiting = Task { try await center.publish(.widgetViewed("second", of: "u")) }
                try await eventually("the second call waits") { center.eventsUnderWay == 2 }
                waiting.cancel()
                await #expect { _ = try await waiting.value } throws: { code($0) == .cancelled }
                try kafka.startBroker(1)
                try await group.waitForAll()
            }
            await center.shutdown()
            let received = try await kafka.received(count: 1)
            #expect(received.map(\.event.event) == [.viewed(app: "com.example.bank", widget: "first")])
        }
    }

    @Test("Unacknowledged events delay the shutdown no longer than its timeout")
    func boundedShutdown() async throws {
        var configuration = WidgetCenterConfiguration(bootstrapServers: "127.0.0.1:1", source: "/t")
        configuration.deliveryTimeout = .seconds(900)
        configuration.maximumEventsUnderWay = 2
        configuration.shutdownTimeout = .milliseconds(300)
        let center = try WidgetCenter(app: "a", configuration: configuration, logger: quiet)
        let events = (0..<5).map { WidgetEvent.widgetViewed("w\($0)", of: "u") }
        async let outcome: [PublishedEvent] = center.publish(events)
        try await eventually("the call is under way") { center.eventsUnderWay == 5 }
        let time = await ContinuousClock().measure { await center.shutdown() }
        #expect(time >= .milliseconds(300))
        do {
            _ = try await outcome
            Issue.record("published")
        } catch let error as WidgetCenterError {
            #expect(error.code == .notAcknowledged && error.failedEvents == [0, 1, 2, 3, 4])
        }
        await center.shutdown()
    }

    @Test("Flush waits for the events published before it")
    func flush() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            let (begun, started, flushed) = (Flag(), Flag(), Flag())
            try kafka.stopBroker(1)
            try await withThrowingTaskGroup { group in
                group.addTask { _ = try await center.reloadAllTimelines() }
                try await eventually("the call is under way") { center.eventsUnderWay == 1 }
                group.addTask {
                    begun.raise()
                    await center.flush()
                    let isStarted = started.isRaised
                    #expect(isStarted, "the flush ended before the broker was there")
                    flushed.raise()
                }
                try await eventually("the flush waits") { begun.isRaised }
                started.raise()
                try kafka.startBroker(1)
                try await eventually("earlier events are flushed") { flushed.isRaised }
                try await group.waitForAll()
            }
            #expect(try await kafka.received(count: 1).count == 1)
            await center.shutdown()
        }
    }

    /// A service that signals that the group runs.
    private final class Witness: Service {
        let running = Flag()

        func run() async throws {
            running.raise()
            try await gracefulShutdown()
        }
    }

    @Test("A service group delivers pending events before it ends")
    func serviceGroup() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            let witness = Witness()
            let group = ServiceGroup(services: [center, witness], logger: quiet)
            try kafka.stopBroker(1)
            try await withThrowingTaskGroup { tasks in
                tasks.addTask { try await group.run() }
                tasks.addTask { _ = try await center.reloadAllTimelines() }
                try await eventually("all events are under way") {
                    center.eventsUnderWay == 1 && witness.running.isRaised
                }
                await group.triggerGracefulShutdown()
                try kafka.startBroker(1)
                try await tasks.waitForAll()
            }
            await #expect { try await center.reloadAllTimelines() } throws: { code($0) == .shutDown }
            let first = try #require(try await kafka.received(count: 1).first)
            #expect(first.key == "com.example.bank")
        }
    }

    @Test("A repeated event keeps its ID and time")
    func identity() async throws {
        try await withCluster { kafka in
            let center = try kafka.center()
            var event = WidgetEvent.widgetViewed("w", of: "u")
            event.id = "view-1"
            event.date = Date(timeIntervalSince1970: 1_782_122_400.25)
            try await center.publish(event)
            try await center.publish(event)
            await center.shutdown()
            let events = try await kafka.received(count: 2).map(\.event)
            #expect(events.map(\.id) == ["view-1", "view-1"])
            #expect(events.map(\.time) == Array(repeating: Timestamp(rfc3339: "2026-06-22T10:00:00.25Z"), count: 2))
        }
    }
}
