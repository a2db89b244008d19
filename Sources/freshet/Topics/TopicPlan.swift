import FreshetService
import KafkaClient
import ReloadIngest
import ReloadWorkers
import WidgetModel

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

struct TopicState: Sendable {
    var description: KafkaTopicDescription
    /// Nil if these credentials may not read it.
    var configuration: [String: String]?
}

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

/// Compares the existing topics with those of the settings. Pure.
struct TopicPlan: Sendable {
    let targets: [TopicTarget]
    let states: [String: TopicState]

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

    var differences: [TopicDifference] {
        targets.flatMap { target in
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

    private static func differences(of state: TopicState, from target: TopicTarget) -> [TopicDifference] {
        var found: [TopicDifference] = []
        func differs(_ kind: TopicDifference.Kind, _ message: String, _ advice: String) {
            found.append(TopicDifference(topic: target.name, kind: kind, message: message, advice: advice))
        }
        let partitions = state.description.partitions
        if partitions.count < target.partitions {
            differs(
                .partitions, "has \(partitions.count) partitions; expected \(target.partitions)",
                target.isCompacted
                    ? "a compacted topic cannot grow without leaving old messages behind: lower topics.partitions, or "
                        + "make another topic and let it be published anew"
                    : "run `freshet topics apply --add-partitions` while producers are quiet: keys move to other partitions"
            )
        }
        if let factor = target.replicationFactor, let least = partitions.map(\.replicas.count).min(), least < factor {
            differs(
                .replication, "has \(least) replicas; expected \(factor)",
                "reassign its partitions with kafka-reassign-partitions.sh")
        }
        guard let configuration = state.configuration else { return found }
        if let policy = configuration["cleanup.policy"] {
            let expected = target.isCompacted ? "compact" : "delete"
            if policy != expected {
                differs(
                    .cleanupPolicy, "has cleanup.policy=\(policy); expected \(expected)",
                    Self.alter(target.name, "cleanup.policy=\(expected)"))
            }
        }
        if let retention = target.retention, !target.isCompacted,
            let text = configuration["retention.ms"], let milliseconds = Int64(text), milliseconds >= 0,
            Duration.milliseconds(milliseconds) < retention
        {
            differs(
                .retention,
                "keeps messages for \(Duration.milliseconds(milliseconds).words); expected \(retention.words)",
                Self.alter(target.name, "retention.ms=\(retention.wholeMicroseconds / 1_000)"))
        }
        return found
    }

    private static func alter(_ topic: String, _ configuration: String) -> String {
        "kafka-configs.sh --alter --entity-type topics --entity-name \(topic) --add-config \(configuration)"
    }
}

extension Settings {
    var topicTargets: [TopicTarget] {
        func target(_ name: String, _ key: String, isCompacted: Bool = false, retention: Duration?) -> TopicTarget {
            TopicTarget(
                name: name, key: key, partitions: topics.partitions, replicationFactor: topics.replicationFactor,
                isCompacted: isCompacted, retention: retention)
        }
        // All that ingest reads, whichever those are.
        let keys = ["topics.pushes", "topics.appChanges", "topics.widgets", "topics.donations"]
        var targets = topics.inputs.enumerated().map { index, name in
            target(name, index < keys.count ? keys[index] : "topics", retention: topics.retention)
        }
        targets += [
            target(topics.timelines, "topics.timelines", isCompacted: true, retention: nil),
            target(topics.suggestions, "topics.suggestions", isCompacted: true, retention: nil),
            target(topics.deadLetters, "topics.deadLetters", retention: ingest.retention),
        ]
        if workers.publishDecisions {
            targets.append(target(topics.decisions, "topics.decisions", retention: nil))
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
            states[description.name] = TopicState(description: description)
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
