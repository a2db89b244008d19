// SPDX-License-Identifier: Apache-2.0

import JSON
internal import Randomness
package import WidgetEvents
package import WidgetModel

/// A kind of the simulated manifest, with its rules and counters.
struct SimulatedKind {
    let app: String
    let definition: KindDefinition
    let rules: ReloadRules
    /// Index of its provider in the report.
    let provider: Int
    var generations = KindGenerations()
    /// Reason of the latest reload of everyone.
    var reason = ReloadReason.push
    /// Indices of its timelines, in the order in which they were made; those that were collected included.
    var timelines: [Int32] = []
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

/// An event with its time.
package typealias TimedEvent = (time: Timestamp, event: FreshetEvent)

extension SeededGenerator {
    /// The numbers of one of many people.
    init(seed: UInt64, stream: Int) {
        self.init(seed: seed &* 0xD134_2543_DE82_EF95 &+ UInt64(bitPattern: Int64(stream)) &* 0x2545_F491_4F6C_DD1D)
        self.init(seed: next())
    }

    mutating func chance(_ probability: Double) -> Bool {
        Double(next() >> 11) / Double(UInt64(1) << 53) < probability
    }

    /// A random number with a mean, of `tries` attempts.
    mutating func count(mean: Double, tries: Int = 16) -> Int {
        (0..<tries).reduce(0) { sum, _ in sum + (chance(mean / Double(tries)) ? 1 : 0) }
    }
}
