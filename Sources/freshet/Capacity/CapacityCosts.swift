/// What one step costs for one event or timeline.
struct StepCost: Hashable, Sendable {
    /// Of a processor of PostgreSQL, in milliseconds.
    var database = 0.0
    /// Of a processor of Freshet, in milliseconds.
    var service = 0.0
    /// Written to the write-ahead log.
    var walBytes = 0.0
}

/// The costs that a plan is made from. deploy/capacity.md says how they were measured, and beside what.
struct CapacityCosts: Hashable, Sendable {
    /// Reading and folding an event.
    var event = StepCost(service: 0.005)
    /// Marking a timeline.
    var apply = StepCost(database: 0.014, service: 0.001, walBytes: 450)
    var claim = StepCost(database: 0.017, service: 0.004, walBytes: 500)
    /// The provider's request and answer.
    var fetch = StepCost(service: 0.012)
    /// Storing content that has changed.
    var store = StepCost(database: 0.019, service: 0.003, walBytes: 1_000)
    var publish = StepCost(service: 0.006)
    var complete = StepCost(database: 0.018, service: 0.004, walBytes: 550)

    /// Of a widget's and a timeline's rows with their indexes, without the content.
    var bytesPerWidget = 420.0
    var bytesPerTimeline = 620.0
    /// Of those of a timeline, what its every reload touches.
    var hotBytesPerTimeline = 420.0
    /// What a content row takes beyond the content, free space included.
    var contentFactor = 1.8
}
