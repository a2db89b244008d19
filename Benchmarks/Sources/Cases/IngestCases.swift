import KafkaClient
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetStore

/// What ingest does with a polled batch before it goes to the database.
struct IngestCases {
    private static let count = 1_000
    private static let app = "com.example.bank"
    private static let kinds = ["RecentPurchases", "DueDate"]

    private let batch: KafkaBatch
    private let events: [BatchEvent]
    private let directory: KindDirectory

    init() throws {
        let batch = KafkaBatch(
            (0..<Self.count).map { index in
                let request = ReloadRequest(
                    app: Self.app, audience: .user("user-\(index * 7_919 % 100_000)"),
                    kinds: .kinds([Self.kinds[index % 2]]), reason: .push)
                let event = EventEncoder.encode(
                    .push(request), id: "load-\(index)", source: "/example/cards",
                    time: Timestamp(microseconds: 1_760_000_000_000_000 + Int64(index)))
                return KafkaBatch.Placed(
                    partition: Int32(index % 6), offset: Int64(index / 6),
                    message: KafkaMessage(
                        topic: "freshet.pushes", key: event.key, value: event.value,
                        headers: event.headers.map { KafkaHeader(name: $0.name, value: $0.value) },
                        timestampMilliseconds: 1_760_000_000_000))
            })
        self.batch = batch
        events = try (0..<batch.count).map { index in
            BatchEvent(
                record: index,
                position: EventPosition(
                    topic: 0, partition: batch.records[index].partition, offset: batch.records[index].offset),
                time: nil, event: try Self.decoded(index, of: batch).get().event)
        }
        directory = KindDirectory(
            apps: [RegisteredApp(id: 1, name: Self.app, isDeveloperMode: false, signingSecret: [])],
            kinds: Self.kinds.enumerated().map { WorkerCases.kind($1, id: Int32($0 + 1), app: Self.app) })
    }

    private static func decoded(_ index: Int, of batch: KafkaBatch) -> Result<DecodedEvent, EventError> {
        EventDecoder().decode(
            bytes: batch.bytes, value: batch.value(index),
            headers: batch.headers(index).lazy.map { (name: $0.name, value: $0.value) }, topic: .pushes)
    }

    /// Messages to events.
    var decode: MeasuredCase {
        MeasuredCase(name: "event decode", items: Self.count) { [batch] in
            var good = 0
            for index in 0..<batch.count {
                if case .success = Self.decoded(index, of: batch) { good += 1 }
            }
            return good
        }
    }

    /// Events to rows of SQL input.
    var fold: MeasuredCase {
        MeasuredCase(name: "fold", items: Self.count) { [events, directory] in
            var fold = BatchFold(directory: directory)
            for event in events { fold.add(event) }
            return fold.markCount
        }
    }

    /// A widget's configuration, as it came, to the id of its timeline.
    var identity: MeasuredCase {
        let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
        let texts = (0..<100).map {
            Array(#"{"units": "metric", "city": "City \#($0)", "hourly": true, "days": 5}"#.utf8)
        }
        return MeasuredCase(name: "canonical identity", items: texts.count) {
            var sum: UInt64 = 0
            for text in texts {
                guard let configuration = try? WidgetConfiguration(json: text) else { continue }
                sum &+=
                    TimelineIdentity(
                        app: Self.app, kind: "Weather", sharing: .perUser, variesBy: .all, family: .systemSmall,
                        configuration: configuration, environment: environment, user: "user-1"
                    ).id.low
            }
            return Int(truncatingIfNeeded: sum)
        }
    }
}
