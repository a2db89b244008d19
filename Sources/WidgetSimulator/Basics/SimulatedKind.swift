import JSON
package import WidgetModel

/// A kind of the simulated manifest, with its rules and counters.
struct SimulatedKind {
    let app: String
    let definition: KindDefinition
    let rules: ReloadRules
    /// Index of its provider.
    let provider: Int
    var generations = KindGenerations()
    /// Reason of the latest reload of everyone.
    var reason = ReloadReason.push
    /// Indices of its timelines, in the order in which they were made; those that were collected included.
    var timelines: [Int32] = []
}

/// A provider: apps never share requests, even to one URL.
struct SimulatedProvider: Hashable {
    let app: String
    let url: String
}

/// A timeline to ask a provider for.
package final class SimulatedTarget: Sendable {
    package let id: TimelineID
    package let identity: TimelineIdentity
    /// Index of the kind.
    package let kind: Int
    package let definition: KindDefinition

    init(id: TimelineID, identity: TimelineIdentity, kind: Int, definition: KindDefinition) {
        (self.id, self.identity, self.kind, self.definition) = (id, identity, kind, definition)
    }
}

/// A decision at its virtual time.
package struct SimulatedDecision: Hashable, Sendable {
    package var time: Timestamp
    package var timeline: TimelineID
    package var decision: Decision
    package var rule: ReloadRule
    package var reason: ReloadReason
}

/// A name within an app, compared by bytes.
struct ScopedName: Hashable {
    let app: String
    let name: String

    static func == (left: ScopedName, right: ScopedName) -> Bool {
        Text.equal(left.name, right.name) && Text.equal(left.app, right.app)
    }

    func hash(into hasher: inout Hasher) { Text.hash(name, into: &hasher) }
}
