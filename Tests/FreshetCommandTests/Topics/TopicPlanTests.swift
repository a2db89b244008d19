// SPDX-License-Identifier: Apache-2.0

import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import KafkaClient
@testable import freshet

@Suite(.timeLimit(.patience)) struct TopicPlanTests {
    private static let events = TopicTarget(
        name: "events", key: "topics.pushes", partitions: 12, replicationFactor: 3, isCompacted: false,
        retention: .seconds(7 * 86_400))
    private static let timelines = TopicTarget(
        name: "timelines", key: "topics.timelines", partitions: 12, replicationFactor: nil, isCompacted: true,
        retention: nil)

    private static func state(
        _ name: String, partitions: Int = 12, replicas: Int = 3, _ configuration: [String: String]? = [:]
    ) -> TopicState {
        (
            description: KafkaTopicDescription(
                name: name,
                partitions: (0..<partitions).map {
                    .init(
                        id: Int32($0), leader: 1, replicas: Array(repeating: 1, count: replicas),
                        inSyncReplicas: [1])
                }), configuration: configuration
        )
    }

    private struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let target: TopicTarget
        let state: TopicState?
        let differences: [TopicDifference.Kind]
    }

    private static let cases: [Case] = [
        Case(testDescription: "missing", target: events, state: nil, differences: [.missing]),
        Case(
            testDescription: "as required", target: events,
            state: state("events", ["cleanup.policy": "delete", "retention.ms": "604800000"]), differences: []),
        Case(
            testDescription: "more than required", target: events,
            state: state(
                "events", partitions: 24, replicas: 5, ["cleanup.policy": "delete", "retention.ms": "999999999999"]),
            differences: []),
        Case(
            testDescription: "unlimited retention", target: events,
            state: state("events", ["cleanup.policy": "delete", "retention.ms": "-1"]), differences: []),
        Case(
            testDescription: "too few partitions", target: events, state: state("events", partitions: 11),
            differences: [.partitions]),
        Case(
            testDescription: "too few replicas", target: events, state: state("events", replicas: 2),
            differences: [.replication]),
        Case(
            testDescription: "retention too short", target: events,
            state: state("events", ["retention.ms": "604799999"]),
            differences: [.retention]),
        Case(
            testDescription: "input compacted", target: events, state: state("events", ["cleanup.policy": "compact"]),
            differences: [.cleanupPolicy]),
        Case(
            testDescription: "output not compacted", target: timelines,
            state: state("timelines", ["cleanup.policy": "delete", "retention.ms": "1"]), differences: [.cleanupPolicy]),
        Case(
            testDescription: "output compacted and deleted", target: timelines,
            state: state("timelines", ["cleanup.policy": "compact,delete"]), differences: [.cleanupPolicy]),
        Case(
            testDescription: "output with few partitions", target: timelines,
            state: state("timelines", partitions: 1, ["cleanup.policy": "compact"]), differences: [.partitions]),
        Case(
            testDescription: "configuration unknown", target: timelines, state: state("timelines", nil),
            differences: []),
    ]

    @Test("Differences are reported with a remedy", arguments: cases)
    private func differences(_ given: Case) {
        let plan = TopicPlan(targets: [given.target], states: given.state.map { [given.target.name: $0] } ?? [:])
        #expect(plan.differences.map(\.kind) == given.differences)
        #expect(plan.differences.allSatisfy { !$0.advice.isEmpty && !$0.message.isEmpty })
    }

    @Test("Topics that differ in the same way have one sentence with their names, and advice without a name")
    func summaries() {
        let names = ["a", "b", "c"]
        let targets = names.map {
            TopicTarget(
                name: $0, key: "topics.pushes", partitions: 12, replicationFactor: 3, isCompacted: false,
                retention: .seconds(7 * 86_400))
        }
        var states = Dictionary(
            uniqueKeysWithValues: names.map { ($0, Self.state($0, replicas: 1, ["retention.ms": "1000"])) })
        let several = TopicPlan(targets: targets, states: states).summaries
        #expect(several.map(\.sentence).first == "each of 3 topics has 1 replicas; expected 3: a, b, c")
        #expect(several.count == 2 && several[1].advice.contains("--entity-name TOPIC "))
        states["b"] = Self.state("b", replicas: 2)
        let mixed = TopicPlan(targets: targets, states: states).summaries.map(\.sentence)
        #expect(mixed.contains("b has 2 replicas; expected 3"), "\(mixed)")
        #expect(mixed.contains("each of 2 topics has 1 replicas; expected 3: a, c"), "\(mixed)")
    }

    @Test("Only missing topics are created, and the compacted topic never grows")
    func actions() {
        let plan = TopicPlan(
            targets: [Self.events, Self.timelines], states: ["timelines": Self.state("timelines", partitions: 1)])
        #expect(plan.missing == [Self.events])
        #expect(plan.growing.isEmpty)
        let small = TopicPlan(targets: [Self.events], states: ["events": Self.state("events", partitions: 1)])
        #expect(small.missing.isEmpty)
        #expect(small.growing == [Self.events])
        #expect(TopicPlan(targets: [Self.events], states: ["events": Self.state("events", nil)]).unknown == ["events"])
    }

    @Test("Created topics have the policy and retention of their use")
    func specification() {
        #expect(Self.timelines.specification.configuration == ["cleanup.policy": "compact"])
        #expect(
            Self.events.specification.configuration == ["cleanup.policy": "delete", "retention.ms": "604800000"])
        #expect(Self.events.specification.replicationFactor == 3)
        var settings = Settings()
        #expect(Set(settings.topicTargets.map(\.name)) == Set(settings.topics.all))
        settings.workers.publishDecisions = true
        #expect(settings.topicTargets.contains { $0.name == settings.topics.decisions })
    }
}
