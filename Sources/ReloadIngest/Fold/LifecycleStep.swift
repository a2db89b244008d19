import WidgetEvents
import WidgetModel
import WidgetStore

/// A lifecycle event of the batch, in log order.
struct LifecycleStep: Sendable {
    enum Operation: Sendable {
        case widget(String, WidgetChange)
        case device(String, WidgetEnvironment, at: Timestamp)
        case view(String, at: Timestamp)
        /// Dynamic defaults of a placed widget of a kind; empty if it has none.
        case defaults(String, kind: String, WidgetConfiguration)
    }

    let record: Int
    let position: EventPosition
    let app: RegisteredApp
    let operation: Operation
    /// Placement of the widget that results from the event, if it has one.
    var resolved: ResolvedPlacement?
    var handling = EventHandling()

    /// The widget that the event removes.
    var removedWidget: WidgetScope.Name? {
        if case .widget(let id, .removed) = operation { (app.id, id) } else { nil }
    }

    /// The owner of the widget that the event places.
    var owner: PersonKey? {
        if case .widget(_, .placed(let placement, _)) = operation {
            PersonKey(appID: app.id, user: placement.user)
        } else {
            nil
        }
    }
}
