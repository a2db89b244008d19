/// An event that the brokers have stored.
public struct PublishedEvent: Hashable, Sendable {
    /// The event's id, as in `freshet explain` and traces.
    public let id: String
    public let topic: String
    public let partition: Int
    /// Nil in the rare case that the brokers' answer was lost and a later one shows that the event is stored.
    public let offset: Int64?
}
