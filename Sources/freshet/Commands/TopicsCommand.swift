// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import KafkaClient
import ReloadIngest
import ReloadWorkers
import WidgetModel

struct TopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract: "Checks Freshet's topics, or creates those that are missing.",
        discussion: """
            The topics are those of the settings topics.… . Each should have topics.partitions partitions; the input \
            topics keep messages for topics.retention, the dead letters for deadLetters.retention; the timelines' topic \
            is compacted.

            Examples:
              freshet topics check --config freshet.yaml
              freshet topics apply --replication-factor 3 --set topics.partitions=48
            """,
        subcommands: [TopicsCheckCommand.self, TopicsApplyCommand.self])
}

struct TopicsCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Shows how the topics differ from the settings, without changes.",
        discussion: """
            More partitions and a longer retention than the settings require are no difference. Reading a topic's \
            configuration needs the ACL DESCRIBE_CONFIGS; without it, a message says that it was not checked.

            Examples:
              freshet topics check
              freshet topics check --json

            Exit status: 0 the topics are as they should be; 1 some are not; 69 Kafka cannot be reached.
            """)

    @OptionGroup var options: TopicOptions

    func run() async throws {
        let (admin, targets) = try options.load()
        let plan = try await TopicPlan(asking: admin, for: targets)
        options.report(plan)
        if !plan.differences.isEmpty { throw ExitCode(CommandStatus.failure.rawValue) }
    }
}

struct TopicsApplyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Creates the topics that are missing, and reports what else differs.",
        discussion: """
            It never deletes a topic, removes partitions or changes the configuration of an existing topic: for that it \
            prints the command of Kafka's own tools. It may be repeated.

            With --add-partitions it also adds missing partitions to the input topics and the dead letters. Keys then move \
            to other partitions: events of one person from before and after may be applied out of order, so do it while \
            producers are quiet. The compacted topic never grows.

            Examples:
              freshet topics apply --replication-factor 3
              freshet topics apply --add-partitions --set topics.partitions=96

            Exit status: 0 all topics are as they should be; 1 some are not; 69 Kafka cannot be reached.
            """)

    @Flag(help: "Add missing partitions to existing topics.")
    var addPartitions = false

    @OptionGroup var options: TopicOptions

    func run() async throws {
        let (admin, targets) = try options.load()
        var plan = try await TopicPlan(asking: admin, for: targets)
        try await create(plan.missing, admin, &plan)
        for target in addPartitions ? plan.growing : [] {
            do throws(KafkaError) {
                try await admin.createPartitions(target.name, count: target.partitions)
                plan.grown.append(target.name)
            } catch {
                plan.failures[target.name] = error.description
            }
        }
        if !plan.created.isEmpty || !plan.grown.isEmpty {
            let after = try await TopicPlan(asking: admin, for: targets)
            plan.differences = after.differences.filter { difference in
                // A cluster takes a moment to show what it has just made.
                !(difference.kind == .missing && plan.created.contains(difference.topic))
                    && !(difference.kind == .partitions && plan.grown.contains(difference.topic))
            }
        }
        options.report(plan)
        if !plan.differences.isEmpty || !plan.failures.isEmpty { throw ExitCode(CommandStatus.failure.rawValue) }
    }

    private func create(
        _ targets: [TopicTarget], _ admin: KafkaAdmin, _ plan: inout TopicPlan
    ) async throws(KafkaError) {
        let errors = try await admin.createTopics(targets.map(\.specification))
        for target in targets {
            if let error = errors[target.name], error.code != .topicAlreadyExists {
                plan.failures[target.name] = error.description
            } else {
                plan.created.append(target.name)
            }
        }
    }
}

struct TopicOptions: ParsableArguments {
    @Option(
        help: "Replicas of each topic (setting topics.replicationFactor); the brokers' default otherwise.",
        transform: OptionText.number(1...32))
    var replicationFactor: Int?

    @Flag(help: "Print one JSON document.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    /// The cluster and the topics of the settings.
    func load() throws -> (admin: KafkaAdmin, targets: [TopicTarget]) {
        var options: [String: String] = [:]
        if let replicationFactor { options["topics.replicationFactor"] = "\(replicationFactor)" }
        let values = try settings.load(options: options, requiring: ["kafka.bootstrapServers"]).settings
        let admin = KafkaAdmin(configuration: try values.requiredKafka(), logger: .ofCommands)
        return (admin, values.topicTargets)
    }

    func report(_ plan: TopicPlan) {
        if json { Terminal.print(plan.json) } else { plan.printed() }
    }
}

struct TopicTarget: Hashable, Sendable {
    let name: String
    /// The setting that names it.
    let key: String
    let partitions: Int
    /// Nil for the brokers' default.
    let replicationFactor: Int?
    let isCompacted: Bool
    /// Shortest retention; nil for the brokers' default.
    let retention: Duration?

    var specification: KafkaTopicSpecification {
        var configuration = ["cleanup.policy": isCompacted ? "compact" : "delete"]
        if let retention { configuration["retention.ms"] = "\(retention.wholeMicroseconds / 1_000)" }
        return KafkaTopicSpecification(
            name: name, partitions: partitions, replicationFactor: replicationFactor, configuration: configuration)
    }
}

/// A topic as it is; its configuration is nil if these credentials may not read it.
typealias TopicState = (description: KafkaTopicDescription, configuration: [String: String]?)

/// Difference of a topic from its target, with advice.
struct TopicDifference: Hashable, Sendable {
    enum Kind: String, Sendable {
        case missing
        /// Fewer than expected.
        case partitions
        case replication
        case cleanupPolicy
        case retention
    }

    let topic: String
    let kind: Kind
    /// Actual and expected value.
    let message: String
    let advice: String
}

/// The existing topics beside those of the settings, and what was done about their differences. Pure.
struct TopicPlan: Sendable {
    let targets: [TopicTarget]
    let states: [String: TopicState]
    var differences: [TopicDifference]
    var created: [String] = []
    /// Topics that got partitions.
    var grown: [String] = []
    /// Errors by topic.
    var failures: [String: String] = [:]

    init(targets: [TopicTarget], states: [String: TopicState]) {
        (self.targets, self.states) = (targets, states)
        differences = targets.flatMap { target in
            guard let state = states[target.name] else {
                return [
                    TopicDifference(
                        topic: target.name, kind: .missing, message: "is not there",
                        advice: "run `freshet topics apply`, or let these credentials see it (DESCRIBE)")
                ]
            }
            return Self.differences(of: state, from: target)
        }
    }

    var missing: [TopicTarget] { targets.filter { states[$0.name] == nil } }

    /// Topics that can get more partitions. The compacted topic cannot, since the messages of a key would stay in its
    /// old partition.
    var growing: [TopicTarget] {
        targets.filter { target in
            guard !target.isCompacted, let state = states[target.name] else { return false }
            return state.description.partitions.count < target.partitions
        }
    }

    /// Topics whose configuration these credentials may not read.
    var unknown: [String] {
        targets.compactMap { target in
            states[target.name].flatMap { $0.configuration == nil ? target.name : nil }
        }
    }

    private static func differences(of state: TopicState, from target: TopicTarget) -> [TopicDifference] {
        var found: [TopicDifference] = []
        func differs(_ kind: TopicDifference.Kind, _ message: String, advice: String) {
            found.append(TopicDifference(topic: target.name, kind: kind, message: message, advice: advice))
        }
        let partitions = state.description.partitions
        if partitions.count < target.partitions {
            differs(
                .partitions, "has \(partitions.count) partitions; expected \(target.partitions)",
                advice: target.isCompacted
                    ? "a compacted topic cannot grow without leaving old messages behind: lower topics.partitions, or "
                        + "make another topic and let it be published anew"
                    : "run `freshet topics apply --add-partitions` while producers are quiet: keys move to other partitions"
            )
        }
        if let factor = target.replicationFactor, let least = partitions.map(\.replicas.count).min(), least < factor {
            differs(
                .replication, "has \(least) replicas; expected \(factor)",
                advice: "reassign its partitions with kafka-reassign-partitions.sh")
        }
        guard let configuration = state.configuration else { return found }
        if let policy = configuration["cleanup.policy"] {
            let expected = target.isCompacted ? "compact" : "delete"
            if policy != expected {
                differs(
                    .cleanupPolicy, "has cleanup.policy=\(policy); expected \(expected)",
                    advice: Self.alter(target.name, set: "cleanup.policy=\(expected)"))
            }
        }
        if let retention = target.retention, !target.isCompacted,
            let text = configuration["retention.ms"], let milliseconds = Int64(text), milliseconds >= 0,
            Duration.milliseconds(milliseconds) < retention
        {
            differs(
                .retention,
                "keeps messages for \(Duration.milliseconds(milliseconds).words); expected \(retention.words)",
                advice: Self.alter(target.name, set: "retention.ms=\(retention.wholeMicroseconds / 1_000)"))
        }
        return found
    }

    private static func alter(_ topic: String, set configuration: String) -> String {
        "kafka-configs.sh --alter --entity-type topics --entity-name \(topic) --add-config \(configuration)"
    }
}

// MARK: Report

extension TopicDifference {
    /// The advice for several topics, whose names it does not have.
    fileprivate var generalAdvice: String { advice.replacing("--entity-name \(topic) ", with: "--entity-name TOPIC ") }

    fileprivate func isLike(_ other: TopicDifference) -> Bool {
        kind == other.kind && message == other.message && generalAdvice == other.generalAdvice
    }
}

extension TopicPlan {
    /// The differences as sentences, with one for all topics that differ in the same way.
    var summaries: [(kind: TopicDifference.Kind, sentence: String, advice: String)] {
        var groups: [[TopicDifference]] = []
        for difference in differences {
            if let index = groups.firstIndex(where: { $0[0].isLike(difference) }) {
                groups[index].append(difference)
            } else {
                groups.append([difference])
            }
        }
        return groups.map { group in
            let first = group[0]
            guard group.count > 1 else { return (first.kind, "\(first.topic) \(first.message)", first.advice) }
            let names = group.map(\.topic).joined(separator: ", ")
            return (first.kind, "each of \(group.count) topics \(first.message): \(names)", first.generalAdvice)
        }
    }

    var json: JSONValue {
        let topics = targets.map { target -> JSONValue in
            let state = states[target.name]
            return [
                "name": .string(target.name), "setting": .string(target.key), "exists": .bool(state != nil),
                "partitions": .count(state?.description.partitions.count),
                "expectedPartitions": .count(target.partitions),
                "configurationKnown": .bool(state?.configuration != nil),
            ]
        }
        return [
            "topics": .array(topics), "created": .texts(created), "grown": .texts(grown),
            "failed": .array(
                failures.sorted { $0.key < $1.key }.map { ["topic": .string($0.key), "message": .string($0.value)] }),
            "differences": .array(
                differences.map { difference in
                    [
                        "topic": .string(difference.topic), "what": .string(difference.kind.rawValue),
                        "message": .string(difference.message), "advice": .string(difference.advice),
                    ]
                }),
        ]
    }

    func printed() {
        TextTable(
            "TOPIC", "PARTITIONS", "EXPECTED", "CLEANUP",
            rows: targets.map { target in
                let state = states[target.name]
                return [
                    target.name, state.map { "\($0.description.partitions.count)" } ?? "missing",
                    "\(target.partitions)", state?.configuration?["cleanup.policy"] ?? "?",
                ]
            }
        ).printed()
        for name in created { Terminal.print("created \(name)") }
        for name in grown { Terminal.print("added partitions to \(name)") }
        for (name, message) in failures.sorted(by: { $0.key < $1.key }) {
            Terminal.complain("\(name): not created: \(message)")
        }
        for summary in summaries { Terminal.print("\(summary.sentence)\n  → \(summary.advice)") }
        if !unknown.isEmpty {
            Terminal.complain(
                "not checked, because these credentials may not read it (DESCRIBE_CONFIGS): the configuration of "
                    + unknown.joined(separator: ", "))
        }
    }
}

extension Settings {
    var topicTargets: [TopicTarget] {
        func target(_ name: String, key: String, isCompacted: Bool = false, retention: Duration?) -> TopicTarget {
            TopicTarget(
                name: name, key: key, partitions: topics.partitions, replicationFactor: topics.replicationFactor,
                isCompacted: isCompacted, retention: retention)
        }
        // All that ingest reads, whichever those are.
        let keys = ["topics.pushes", "topics.appChanges", "topics.widgets", "topics.donations"]
        var targets = topics.inputs.enumerated().map { index, name in
            target(name, key: index < keys.count ? keys[index] : "topics", retention: topics.retention)
        }
        targets += [
            target(topics.timelines, key: "topics.timelines", isCompacted: true, retention: nil),
            target(topics.suggestions, key: "topics.suggestions", isCompacted: true, retention: nil),
            target(topics.deadLetters, key: "topics.deadLetters", retention: ingest.retention),
        ]
        if workers.publishDecisions {
            targets.append(target(topics.decisions, key: "topics.decisions", retention: nil))
        }
        return targets
    }
}

extension TopicPlan {
    /// Reads the plan from the cluster. Configuration that these credentials may not read stays nil.
    ///
    /// - Throws: when the cluster does not answer.
    init(asking admin: KafkaAdmin, for targets: [TopicTarget]) async throws(KafkaError) {
        let names = Set(targets.map(\.name))
        var states: [String: TopicState] = [:]
        for description in try await admin.describe() where names.contains(description.name) {
            states[description.name] = (description, nil)
        }
        for target in targets where states[target.name] != nil {
            do throws(KafkaError) {
                let configuration = try await admin.configuration(ofTopic: target.name)
                states[target.name]?.configuration = configuration.isEmpty ? nil : configuration
            } catch {
                // Whatever refuses one topic's configuration refuses all: an embedded cluster, or the lack of
                // DESCRIBE_CONFIGS.
                break
            }
        }
        self.init(targets: targets, states: states)
    }
}
