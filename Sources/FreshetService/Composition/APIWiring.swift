import Dispatch
import Foundation
import KafkaClient
import Logging
import ServiceLifecycle
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetRepresentation

struct APIWiring: Sendable {
    private let settings: Settings
    private let kafka: KafkaConfiguration
    private let logger: Logger
    private let changes: TimelineChanges

    init(settings: Settings, kafka: KafkaConfiguration, logger: Logger) {
        self.settings = settings
        self.kafka = kafka
        self.logger = logger
        changes = TimelineChanges(
            limits: TimelineChanges.Limits(
                polls: settings.api.maximumWaiting, streams: settings.api.maximumStreams,
                ofApp: settings.api.appConnections > 0 ? settings.api.appConnections : nil))
    }

    /// Runs beside the API; nothing when there is nobody to serve.
    var services: [any Service] {
        guard settings.api.keys != nil else { return [] }
        return [
            TimelineTail(
                kafka: kafka, topic: settings.topics.timelines, group: settings.kafka.group, changes: changes,
                logger: logger)
        ]
    }

    func resources(publishingTo producer: KafkaProducer?) -> APIResources {
        let topics = settings.topics
        let events = producer.map { producer in
            EventOutlet(
                topics: [.pushes: topics.pushes, .appChanges: topics.appChanges, .widgets: topics.widgets],
                send: { await producer.send($0) })
        }
        var resources = APIResources(
            keys: settings.api.keys.map { path in
                TokenKeyStore(logger: logger) { try await TokenKeyFile.read(path: path) }
            },
            events: events,
            lookup: EventLookup(
                reader: KafkaReader(configuration: kafka, logger: logger), topics: topics.inputs,
                sorts: topics.inputSorts),
            changes: changes, providerProblem: ProviderCheck(settings.providers).problem)
        let probe = ProviderProbe(settings)
        resources.askProvider = { url, secrets in await probe.trial(url, secrets: secrets) }
        resources.ingest = settings.ingestConfiguration
        return resources
    }
}

package enum TokenKeyFile {
    /// Reads it on a thread that may block.
    package static func read(path: String) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result { Array(try BoundedFile.read(path: path, maximumBytes: TokenKeys.maximumBytes).utf8) })
            }
        }
    }
}
