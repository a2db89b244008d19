// SPDX-License-Identifier: Apache-2.0

import WidgetEvents

/// Settings of a ``WidgetCenter``.
public struct WidgetCenterConfiguration: Sendable {
    /// One or more `host:port`, separated by commas.
    public var bootstrapServers: String
    /// Properties of librdkafka, such as TLS and SASL. `linger.ms` is the time that an event waits for others to share
    /// its request (5 by default).
    public var properties: [String: String] = [:]
    /// Longest wait for the acknowledgement of an event, and for room before it is sent.
    public var deliveryTimeout = Duration.seconds(30)
    /// Source of the events: a URI reference such as `/bank/payments`, at most 1024 bytes.
    public var source: String
    /// Topics of the Freshet installation.
    public var topics = Topics()
    /// Largest number of events that are sent and not yet acknowledged.
    public var maximumEventsUnderWay = 100_000
    /// Largest total size of such events, in bytes.
    public var maximumBytesUnderWay = 64 << 20
    /// Behavior of calls that find no room.
    public var backPressure = BackPressure.suspend
    /// Longest wait of ``WidgetCenter/shutdown()``.
    public var shutdownTimeout = Duration.seconds(10)

    /// Behavior of calls when as many events as allowed are under way.
    public enum BackPressure: Hashable, Sendable {
        /// Waits for room, first come first served, for at most the delivery timeout.
        case suspend
        /// Throws ``WidgetCenterError/Code-swift.struct/overloaded`` at once.
        case fail
    }

    /// Names of the topics.
    public struct Topics: Hashable, Sendable {
        public var pushes = EventTopic.pushes.defaultName
        public var appChanges = EventTopic.appChanges.defaultName
        public var widgets = EventTopic.widgets.defaultName
        public var donations = EventTopic.donations.defaultName

        public init() {}
    }

    public init(bootstrapServers: String, source: String) {
        self.bootstrapServers = bootstrapServers
        self.source = source
    }

    /// Checks the settings that nothing else checks.
    func check() throws(WidgetCenterError) {
        if let problem = FreshetEvent.attributeProblem(source) {
            throw WidgetCenterError(.invalidArgument, "source \(problem)")
        }
        guard shutdownTimeout >= .zero else {
            throw WidgetCenterError(.invalidArgument, "shutdownTimeout must not be negative")
        }
    }
}
