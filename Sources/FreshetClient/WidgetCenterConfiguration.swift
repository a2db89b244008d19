import WidgetEvents

/// Settings of a ``WidgetCenter``.
public struct WidgetCenterConfiguration: Sendable {
    /// `host:port`, several separated by commas.
    public var bootstrapServers: String
    /// Properties of librdkafka, such as TLS and SASL. `linger.ms` is the time that an event waits for others to share its
    /// request (5 by default).
    public var properties: [String: String]
    /// Longest wait for the acknowledgement of an event, and before that for room.
    public var deliveryTimeout: Duration
    /// Source of the events: a URI reference such as `/bank/payments`, at most 1024 bytes.
    public var source: String
    /// Topics of the Freshet installation.
    public var topics: Topics
    /// Most events that are sent and not acknowledged.
    public var maximumEventsUnderWay: Int
    /// Most bytes of such events.
    public var maximumBytesUnderWay: Int
    /// Behaviour of calls without room.
    public var backPressure: BackPressure
    /// Longest wait of ``WidgetCenter/shutdown()``.
    public var shutdownTimeout: Duration

    /// Behaviour of calls when as many events as allowed are under way.
    public enum BackPressure: Hashable, Sendable {
        /// Waits for room, first come first served, for at most the delivery timeout.
        case suspend
        /// Throws ``WidgetCenterError/Code-swift.struct/overloaded`` at once.
        case fail
    }

    /// The names of the topics.
    public struct Topics: Hashable, Sendable {
        public var pushes: String
        public var appChanges: String
        public var widgets: String
        public var donations: String

        public init(
            pushes: String = "freshet.pushes", appChanges: String = "freshet.app-changes",
            widgets: String = "freshet.widgets", donations: String = "freshet.donations"
        ) {
            self.pushes = pushes
            self.appChanges = appChanges
            self.widgets = widgets
            self.donations = donations
        }
    }

    public init(
        bootstrapServers: String, properties: [String: String] = [:], deliveryTimeout: Duration = .seconds(30),
        source: String, topics: Topics = Topics(), maximumEventsUnderWay: Int = 100_000,
        maximumBytesUnderWay: Int = 64 << 20, backPressure: BackPressure = .suspend,
        shutdownTimeout: Duration = .seconds(10)
    ) {
        self.bootstrapServers = bootstrapServers
        self.properties = properties
        self.deliveryTimeout = deliveryTimeout
        self.source = source
        self.topics = topics
        self.maximumEventsUnderWay = maximumEventsUnderWay
        self.maximumBytesUnderWay = maximumBytesUnderWay
        self.backPressure = backPressure
        self.shutdownTimeout = shutdownTimeout
    }

    /// Checks the settings that nothing else checks.
    func check() throws(WidgetCenterError) {
        if let problem = EventEncoder.attributeProblem(source) {
            throw WidgetCenterError(.invalidArgument, "source \(problem)")
        }
        guard shutdownTimeout >= .zero else {
            throw WidgetCenterError(.invalidArgument, "shutdownTimeout must not be negative")
        }
    }
}
