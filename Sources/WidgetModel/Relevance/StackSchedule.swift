/// Top widget of a stack from now on, with reasons, and the widgets that are inserted meanwhile.
package struct StackSchedule: Hashable, Sendable {
    /// A widget of the stack, or one that is inserted for a while.
    package enum Item: Hashable, Sendable {
        case widget(String)
        case suggestion(WidgetContent)

        /// Id of a widget of the stack; nil for a suggestion.
        package var widget: String? {
            if case .widget(let id) = self { id } else { nil }
        }
    }

    package enum Reason: Hashable, Sendable {
        /// Nothing moved it to the top: it has been there since the stack is known.
        case start
        case personsChoice
        case relevance(score: Double, rank: Double)
        case prediction(probability: Double, explanation: String)
        case shortcut(role: String)
        /// The suggested widget before it was removed.
        case suggestionEnded
    }

    /// Change of the top widget.
    package struct Rotation: Hashable, Sendable {
        package var from: Timestamp
        package var item: Item
        package var reason: Reason
    }

    /// Time in which a suggested widget is part of the stack.
    package struct Insertion: Hashable, Sendable {
        package var from: Timestamp
        /// Nil: beyond the end of the schedule.
        package var until: Timestamp?
        package var content: WidgetContent
        /// Shortcut or prediction.
        package var reason: Reason

        package func holds(at time: Timestamp) -> Bool { from <= time && time < until ?? .distantFuture }
    }

    /// In the order of their times. The first, which may be past, is to a widget of the stack; none for an empty stack.
    package var rotations: [Rotation] = []
    /// In the order of their times; at most one holds at a time.
    package var insertions: [Insertion] = []

    package init() {}

    /// Top of the stack at a time.
    package func top(at time: Timestamp) -> Rotation? { rotations.last { $0.from <= time } }

    package func insertion(at time: Timestamp) -> Insertion? { insertions.first { $0.holds(at: time) } }
}
