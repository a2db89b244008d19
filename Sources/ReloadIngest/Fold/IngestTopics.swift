package import WidgetEvents

/// Names of the Kafka topics that ingest reads.
package struct IngestTopics: Hashable, Sendable {
    package var pushes = "freshet.pushes"
    package var appChanges = "freshet.app-changes"
    package var widgets = "freshet.widgets"
    /// Further topics, for example one for each producer.
    package var more: [More] = []
    /// Apps whose events a topic may carry, by the topic's name; topics that are not listed carry those of any app.
    package var allowedApps: [String: Set<String>] = [:]

    /// A further topic and the sort of events that it carries.
    package struct More: Hashable, Sendable {
        package var name: String
        package var carries: EventTopic

        package init(name: String, carries: EventTopic) {
            self.name = name
            self.carries = carries
        }
    }

    package init() {}

    /// All names, in the order of ``EventPosition/topic``.
    package var all: [String] { [pushes, appChanges, widgets] + more.map(\.name) }

    /// Sort of events that the topic with this index carries.
    func carries(_ index: Int) -> EventTopic {
        index < EventTopic.allCases.count
            ? EventTopic.allCases[index] : more[index - EventTopic.allCases.count].carries
    }
}
