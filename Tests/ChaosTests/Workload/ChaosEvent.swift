// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import WidgetModel

/// An event of the workload, with its expected effect for each offset that holds it.
struct ChaosEvent: Sendable {
    /// What an event does to a widget.
    enum Lifecycle: Sendable {
        case placed(WidgetPlacement)
        case configured(app: String, widget: String, WidgetConfiguration)
        case removed(app: String, widget: String)
        /// Applies to all of the person's widgets on the device.
        case environment(app: String, device: String, WidgetEnvironment)
    }

    enum Message: Sendable {
        case event(OutgoingEvent)
        /// A message that no decoder accepts.
        case malformed(topic: String, key: String)
    }

    /// The event's ID; unique in the run.
    let id: String
    let message: Message
    /// Indices of stable timelines whose `requested` grows by one.
    var marks: [Int] = []
    /// App whose generation grows.
    var appBump: String?
    /// Kinds whose generations grow.
    var kindBumps: [(app: String, kind: String)] = []
    var lifecycle: Lifecycle?
    var lifecycleTime: Timestamp?
    /// View of a stable timeline, by its index.
    var view: (timeline: Int, at: Timestamp)?
    var person: PersonEvent?
    /// Whether the event becomes a dead letter.
    var isRefused = false
    /// Error of the publishing clock.
    var clock: WrongClock?
    /// Sources that change before the event is published.
    var sources: [ChaosWorld.Source] = []

    init(id: String, message: Message) {
        self.id = id
        self.message = message
    }
}
