import FreshetService
import KafkaClient
import WidgetModel

struct DecisionHistory: Sendable {
    static let limit = 50
    /// Messages of each partition that are looked through, from the end.
    static let scanned: Int64 = 50_000

    struct Entry: Sendable {
        let time: String
        let decision: JSONValue

        var json: JSONValue {
            guard case .object(let object) = decision else { return decision }
            return .object(JSONObject([JSONObject.Member(key: "time", value: .string(time))] + object.members))
        }

        var cells: [String] {
            func text(_ name: String) -> String {
                switch decision[name] {
                case .string(let text)?: text
                case .number(let number)?: number.text
                default: "-"
                }
            }
            let cause = decision["cause"].flatMap { cause -> String? in
                guard let topic = cause["topic"]?.stringValue, let partition = cause["partition"]?.numberValue,
                    let offset = cause["offset"]?.numberValue
                else { return nil }
                return "\(topic)[\(partition)] \(offset)"
            }
            return [time, text("decision"), text("rule"), text("reason"), cause ?? "-", text("dueAt")]
        }
    }

    let kafka: KafkaConfiguration
    let topic: String

    /// The last decisions on a timeline, oldest first.
    func entries(of timeline: TimelineID) async throws -> [Entry] {
        let admin = KafkaAdmin(configuration: kafka, timeout: .seconds(10), logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        guard let description = try await admin.describe(topics: [topic]).first else { return [] }
        let places = description.partitions.map { TopicPartition(topic: topic, partition: $0.id) }
        let key = Array(timeline.description.utf8)
        var entries: [Entry] = []
        for (place, bounds) in try await admin.bounds(of: places) where bounds.end > bounds.earliest {
            let first = max(bounds.earliest, bounds.end - Self.scanned)
            guard let batch = try await reader.messages(of: place, at: first...bounds.end - 1) else { continue }
            for index in 0..<batch.count {
                guard let range = batch.key(index), batch.bytes[range].elementsEqual(key),
                    let value = batch.value(index), let decision = try? JSONValue.parse(Array(batch.bytes[value]))
                else { continue }
                let time = batch.header(index, named: "ce_time").map { batch.bytes[$0] } ?? []
                entries.append(Entry(time: String(decoding: time, as: UTF8.self), decision: decision))
            }
        }
        // The events of one timeline are in one partition, unless the number of partitions was changed.
        return Array(entries.sorted { $0.time < $1.time }.suffix(Self.limit))
    }
}
