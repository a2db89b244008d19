// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import WidgetEvents
import WidgetModel

@testable import KafkaClient
@testable import ReloadIngest
@testable import WidgetStore

/// What ingest does with a polled batch before it goes to the database.
struct IngestCases {
    private static let count = 1_000
    private static let app = "com.example.bank"
    private static let kinds = ["RecentPurchases", "DueDate"]
    private static let topics = IngestTopics()

    /// Requests, each for one user and kind.
    private let requests = Self.batch(of: topics.pushes) { index in
        // Of the thousand, the last four hundred are for users and kinds that were asked for before.
        FreshetEvent(
            ReloadRequest(
                app: app, audience: .user("user-\(index * 7_919 % 600)"), kinds: .kinds([kinds[index % 2]]),
                reason: .push))
    }
    /// What a device tells of its widgets.
    private let widgets = Self.batch(of: topics.widgets) { index in
        switch index % 5 {
        case 0, 1: FreshetEvent(app: app, .view(widget: "widget-\(index)"))
        case 2: FreshetEvent(placement(index))
        case 3:
            FreshetEvent(
                app: app, .widget(.configured(widget: "widget-\(index)", placement(index).configuration)))
        default: FreshetEvent(app: app, .widget(.removed(widget: "widget-\(index)")))
        }
    }
    private let directory = KindDirectory(
        apps: [RegisteredApp(id: 1, name: app, isDeveloperMode: false, signingSecret: [])],
        kinds: kinds.enumerated().map { WorkerCases.kind($1, id: Int32($0 + 1), app: app) })

    private static func placement(_ index: Int) -> WidgetPlacement {
        WidgetPlacement(
            app: app, widget: "widget-\(index)", user: "user-\(index)", device: "device-\(index)", kind: kinds[0],
            family: .systemSmall, configuration: WidgetConfiguration(storedCanonical: #"{"card":"card-\#(index)"}"#),
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
    }

    /// A batch as the consumer's thread makes it: six partitions, CloudEvents in binary mode.
    private static func batch(of topic: String, _ event: (Int) -> FreshetEvent) -> KafkaBatch {
        KafkaBatch(
            (0..<count).map { index in
                let event = event(index).encode(
                    id: "load-\(index)", source: "/example/cards",
                    time: Timestamp(microseconds: 1_760_000_000_000_000 + Int64(index)))
                let message = KafkaMessage(
                    topic: topic, partition: Int32(index % 6), key: event.key, value: event.value,
                    headers: event.headers.map { KafkaHeader(name: $0.name, value: $0.value) },
                    timestampMilliseconds: 1_760_000_000_000)
                return (offset: Int64(index / 6), message: message)
            })
    }

    /// Requests to what ingest folds.
    var decode: MeasuredCase { decoding(requests, as: "event decode") }

    /// The same for the events of widgets.
    var decodeWidgets: MeasuredCase { decoding(widgets, as: "event decode, widgets") }

    private func decoding(_ batch: KafkaBatch, as name: String) -> MeasuredCase {
        let decoder = RecordDecoder(Self.topics)
        return MeasuredCase(name: name, items: Self.count, expected: Self.count) {
            let prepared = PreparedBatch(batch, decoder: decoder)
            return prepared.items.count { item in
                switch prepared.content(item) {
                case .reload, .event: true
                case .rejected, .repeated: false
                }
            }
        }
    }

    /// What was decoded to the parameters of the statement that marks.
    var fold: MeasuredCase {
        let prepared = PreparedBatch(requests, decoder: RecordDecoder(Self.topics))
        return MeasuredCase(name: "fold", items: Self.count, expected: 600) { [directory] in
            let (fold, count) = prepared.fold(prepared.items, directory)
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.markUsers(fold.marks, limit: 10_000))
            guard count == Self.count, fold.accepted == Self.count, pipeline.count == 1 else { return 0 }
            return fold.markCount
        }
    }

    /// A widget's configuration, as it came, to the id of its timeline.
    var identity: MeasuredCase {
        let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")
        let texts = (0..<100).map {
            Array(#"{"units": "metric", "city": "City \#($0)", "hourly": true, "days": 5}"#.utf8)
        }
        return MeasuredCase(name: "canonical identity", items: texts.count, expected: texts.count) {
            var made = 0
            var last: TimelineID?
            for text in texts {
                guard let configuration = try? WidgetConfiguration(json: text) else { continue }
                let id = TimelineIdentity(
                    app: Self.app, kind: "Weather", sharing: .perUser, variesBy: .all, family: .systemSmall,
                    configuration: configuration, environment: environment, user: "user-1"
                ).id
                if id != last { made += 1 }
                last = id
            }
            return made
        }
    }
}
