// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Settings of ingest. The defaults are safe for production.
package struct IngestConfiguration: Hashable, Sendable {
    package var topics = IngestTopics()
    /// Consumer group under which positions are committed to Kafka, for lag tools.
    package var group = "freshet"
    /// Largest number of messages in a polled batch. ``maximumMarks`` limits how many of them one transaction applies.
    package var maximumBatch = 4096
    /// Largest number of rows of SQL input for targeted requests in one transaction, which locks at least as many
    /// timelines.
    package var maximumMarks = 4_096
    /// Number of waiting messages from which ingest counts as behind. It then gathers larger batches and hands none
    /// over to workers.
    package var backlog: Int64 = 4096
    /// Least number of events in a batch of a backlog that two transactions apply, and that pauses claims.
    package var leastDivided = 1_024
    /// Least time between the starts of two batches, unless ingest is behind. A transaction, its requests and their
    /// stores cost little more for several events than for one, so the events of a busy topic share them. An event
    /// after a quiet time does not wait.
    package var spacing: Duration = .milliseconds(5)
    /// The same while this process's workers hold many timelines, so that processor time is scarce.
    package var busySpacing: Duration = .milliseconds(16)
    /// Pause after a small batch while ingest is behind, so that the next one is larger.
    package var gatherTime: Duration = .milliseconds(20)
    /// Largest audience, in widgets, that the transaction materializes. The sweeper materializes larger ones.
    package var audienceLimit = 10_000
    /// Largest event, in bytes. A larger one becomes a dead letter.
    package var maximumEventBytes = 1_048_576
    /// Age at which the directory of kinds is read again.
    package var directoryAge: Duration = .seconds(5)
    /// First and longest delay while the database does not accept a batch.
    package var retryBase: Duration = .milliseconds(50)
    package var retryCap: Duration = .seconds(5)
    /// Interval at which the process registers and checks its share of the partitions.
    package var memberInterval: Duration = .seconds(1)
    /// Time after which the partitions of a silent process go to the others.
    package var memberTimeout: Duration = .seconds(5)
    /// Limits at which an app is diverted and at which ingest halts.
    package var deadLetters = DeadLetterLimits()
    /// Interval of checks for diversions and halts.
    package var flowInterval: Duration = .seconds(2)
    /// Retention of dead letters that were forwarded, replayed or discarded.
    package var retention: Duration = .seconds(30 * 86_400)
    /// Topic of dead letters.
    package var deadLetterTopic = OutputTopic.deadLetters
    /// Keys that seal the tokens of devices. If nil, devices with tokens cannot be registered.
    package var tokenKeys: DeviceTokenKeys?
    /// Limits of registrations of devices.
    package var registrations = RegistrationRules()

    /// Policy for a partition whose next offset is not in the log.
    package var offsetOutOfRange = OffsetOutOfRangePolicy.stop
    /// Longest pause before a failed consumer is replaced. The back-off restarts after a consumer that ran for twice as
    /// long.
    package var restartCap: Duration = .seconds(30)
    /// Interval of checks of topics that could not be read.
    package var recheckInterval: Duration = .seconds(10)
    /// Interval of log messages about obstacles.
    package var noticeInterval: Duration = .seconds(60)

    package init() {}
}

extension DeadLetterReplayer {
    package init(configuration: IngestConfiguration, pool: PostgresPool) {
        self.init(
            decoder: RecordDecoder(configuration.topics, maximumEventBytes: configuration.maximumEventBytes),
            directoryAge: configuration.directoryAge,
            applier: BatchApplier(
                pool: pool, audienceLimit: configuration.audienceLimit, tokenKeys: configuration.tokenKeys,
                registrations: configuration.registrations))
    }
}
