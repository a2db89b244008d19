package import WidgetEvents
package import WidgetStore

/// How ingest consumes and applies. Defaults are safe for production.
package struct IngestConfiguration: Sendable {
    /// Name of the Kafka topic that plays each part.
    package struct Topics: Hashable, Sendable {
        package var pushes = "freshet.pushes"
        package var appChanges = "freshet.app-changes"
        package var widgets = "freshet.widgets"

        /// Topics besides those, and what they carry: one for each producer, say, that others may not write to.
        package var more: [More] = []
        /// The apps whose events a topic may carry, by its name; a topic that is not listed carries those of any app.
        package var allowedApps: [String: Set<String>] = [:]

        /// One more topic.
        package struct More: Hashable, Sendable {
            package var name: String
            package var carries: EventTopic

            package init(name: String, carries: EventTopic) {
                self.name = name
                self.carries = carries
            }
        }

        package init() {}

        /// In the order of ``EventPosition/topic``.
        package var all: [String] { [pushes, appChanges, widgets] + more.map(\.name) }

        /// What the topic with this index carries.
        func carries(_ index: Int) -> EventTopic {
            index < EventTopic.allCases.count
                ? EventTopic.allCases[index] : more[index - EventTopic.allCases.count].carries
        }
    }

    package var topics = Topics()
    package var group = "freshet"
    /// Most messages that are polled at a time. How many of them one transaction applies is ``maximumMarks``' to say.
    package var maximumBatch = 4096
    /// Largest number of rows of SQL input that targeted requests may come to in one transaction: it holds the locks of as
    /// many timelines at least. What is more goes into the next one.
    package var maximumMarks = 4_096
    /// An audience with more widgets than this is materialised by the sweeper, not in the transaction.
    package var audienceLimit = 10_000
    /// Largest event, in bytes; a larger one becomes a dead letter.
    package var maximumEventBytes = 1_048_576
    /// How old the known kinds may get before they are read again.
    package var directoryAge: Duration = .seconds(5)
    /// Back-off when the database does not take a batch: first and longest delay.
    package var retryBase: Duration = .milliseconds(50)
    package var retryCap: Duration = .seconds(5)
    /// How often to look whether a position was set from outside.
    package var positionInterval: Duration = .seconds(2)
    /// When an app is diverted, and when ingest halts.
    package var deadLetters = DeadLetterLimits()
    /// How often to look whether apps are diverted and ingest is halted, or no longer.
    package var flowInterval: Duration = .seconds(2)
    /// How long dead letters are kept that were forwarded, replayed or discarded.
    package var retention: Duration = .seconds(30 * 86_400)
    /// Where dead letters are published.
    package var deadLetterTopic = "freshet.dead-letters"

    /// What to do when the log does not have the next offset of a partition.
    package var offsetOutOfRange = OffsetOutOfRangePolicy.stop
    /// Longest pause before a consumer that has failed for good is replaced; one that lived for twice this long does not
    /// count with those before it.
    package var restartCap: Duration = .seconds(30)
    /// How often to find out whether topics that could not be read can be.
    package var recheckInterval: Duration = .seconds(10)
    /// How often to say again what holds ingest up.
    package var noticeInterval: Duration = .seconds(60)

    package init() {}
}
