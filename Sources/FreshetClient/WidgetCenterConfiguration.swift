import WidgetEvents

/// How a ``WidgetCenter`` reaches Kafka, and how much it takes on.
public struct WidgetCenterConfiguration: Sendable {
    /// `host:port`, several separated by commas.
    public var bootstrapServers: String
    /// Properties of librdkafka: TLS, SASL and the like. `linger.ms` says how long an event waits for others that share
    /// its request (5 by default).
    public var properties: [String: String]
    /// How long the brokers may take to acknowledge an event, and how long it may wait for room before that.
    public var deliveryTimeout: Duration
    /// What events name as their source; a URI reference such as `/bank/payments`. At most 1024 bytes.
    public var source: String
    /// Topics of the events, as the installation of Freshet has them.
    public var topics: Topics
    /// Most events that are with Kafka and not acknowledged.
    public var maximumEventsUnderWay: Int
    /// Most bytes of such events.
    public var maximumBytesUnderWay: Int
    /// What a call does when there is no room.
    public var backPressure: BackPressure
    /// How long ``WidgetCenter/shutdown()`` waits for the brokers at most.
    public var shutdownTimeout: Duration

    /// What a call does when as many events are under way as are allowed.
    public enum BackPressure: Hashable, Sendable {
        /// Waits, suspended, for its turn; first come first served, for at most the delivery timeout.
        case suspend
        /// Throws ``WidgetCenterError/Code-swift.struct/overloaded`` at once: for callers that would rather drop an
        /// event than be late.
        case fail
    }

    /// The names of the topics.
    public struct Topics: Hashable, Sendable {
        public var pushes: String
        public var appChanges: String
        public var widgets: String

        public init(
            pushes: String = "freshet.pushes", appChanges: String = "freshet.app-changes",
            widgets: String = "freshet.widgets"
        ) {
            self.pushes = pushes
            self.appChanges = appChanges
            self.widgets = widgets
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

    /// Whether events that are made with it can be taken; the rest is checked where it is used.
    func check() throws(WidgetCenterError) {
        if let problem = EventEncoder.attributeProblem(source) {
            throw WidgetCenterError(.invalidArgument, "source \(problem)")
        }
        guard shutdownTimeout >= .zero else {
            throw WidgetCenterError(.invalidArgument, "shutdownTimeout must not be negative")
        }
    }
}
