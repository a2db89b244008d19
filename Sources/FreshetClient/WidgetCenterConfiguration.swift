import WidgetEvents

/// How a ``WidgetCenter`` reaches Kafka.
public struct WidgetCenterConfiguration: Sendable {
    /// `host:port`, several separated by commas.
    public var bootstrapServers: String
    /// Properties of librdkafka: TLS, SASL and the like.
    public var properties: [String: String]
    /// How long the brokers may take to acknowledge an event.
    public var deliveryTimeout: Duration
    /// What events name as their source; a URI reference such as `/bank/payments`.
    public var source: String
    /// Topics of the events, as the installation of Freshet has them.
    public var topics: Topics

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
        source: String, topics: Topics = Topics()
    ) {
        self.bootstrapServers = bootstrapServers
        self.properties = properties
        self.deliveryTimeout = deliveryTimeout
        self.source = source
        self.topics = topics
    }
}
