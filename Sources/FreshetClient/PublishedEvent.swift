/// An event that the brokers have stored.
public struct PublishedEvent: Hashable, Sendable {
    /// The event's own: what `freshet explain` and traces name it by.
    public let id: String
    public let topic: String
    public let partition: Int
    /// Nil in a rare case: the brokers' answer was lost, and that the event is stored follows from a later one.
    public let offset: Int64?
}
