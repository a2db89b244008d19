package import WidgetEvents
import WidgetStore

/// Names of the Kafka topics that ingest reads.
package struct IngestTopics: Hashable, Sendable {
    package var pushes = "freshet.pushes"
    package var appChanges = "freshet.app-changes"
    package var widgets = "freshet.widgets"
    package var donations = "freshet.donations"
    /// Further topics, for example one for each producer, with the sorts of events that they carry.
    package var more: [String: EventTopic] = [:]
    /// Apps whose events a topic may carry, by the topic's name. A topic that is not listed may carry events of any
    /// app.
    package var allowedApps: [String: Set<String>] = [:]

    package init() {}

    /// All names, in the order of ``EventPosition/topic``.
    package var all: [String] { [pushes, appChanges, widgets, donations] + more.keys.sorted() }

    /// A topic that ingest reads.
    struct Input: Sendable {
        /// Index in ``IngestTopics/all``.
        let index: Int16
        let carries: EventTopic
        /// Apps whose events the topic may carry; nil for any.
        let apps: Set<Identifier>?

        func allows(_ app: String) -> Bool { apps?.contains(Identifier(app)) ?? true }
    }

    /// The topics by name.
    var inputs: [String: Input] {
        let sorts = EventTopic.allCases + more.sorted { $0.key < $1.key }.map(\.value)
        let inputs = zip(all, sorts).enumerated().map { index, topic in
            let apps = allowedApps[topic.0].map { Set($0.map(Identifier.init)) }
            return (topic.0, Input(index: Int16(index), carries: topic.1, apps: apps))
        }
        return Dictionary(inputs) { first, _ in first }
    }
}
