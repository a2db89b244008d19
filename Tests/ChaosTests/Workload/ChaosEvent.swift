import FreshetClient
import WidgetModel

/// An event of the workload: the message, and what it must do when it is applied, once for each offset that holds it.
struct ChaosEvent: Sendable {
    /// What an event does to a widget.
    enum Lifecycle: Sendable {
        case placed(WidgetPlacement)
        case configured(app: String, widget: String, WidgetConfiguration)
        case removed(app: String, widget: String)
        /// Of all the person's widgets on the device.
        case environment(app: String, device: String, WidgetEnvironment)
    }

    enum Message: Sendable {
        case event(OutgoingEvent)
        /// What no decoder takes.
        case malformed(topic: String, key: String)
    }

    /// The event's id; unique in the run.
    let id: String
    let message: Message
    /// Indices of stable timelines whose `requested` grows by one.
    var marks: [Int] = []
    /// By app name.
    var appBump: String?
    /// By app and kind.
    var kindBumps: [(app: String, kind: String)] = []
    var lifecycle: Lifecycle?
    var lifecycleTime: Timestamp?
    /// A view of a stable timeline, by its index.
    var view: (timeline: Int, at: Timestamp)?
    var person: PersonEvent?
    /// Becomes a dead letter.
    var isRefused = false
    /// What changes before it is published.
    var sources: [ChaosWorld.Source] = []

    init(id: String, message: Message) {
        self.id = id
        self.message = message
    }
}
