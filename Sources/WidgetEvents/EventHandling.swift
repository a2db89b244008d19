import JSON
internal import WidgetModel

/// A publisher's options for the application of its event, in headers of the message.
package struct EventHandling: Hashable, Sendable {
    /// Whether a lifecycle event is ordered by its arrival, so that it is never older than an applied one.
    package var isOrderedByArrival = false
    /// Owner to whom changes are limited; nil for any.
    package var user: String?
    /// Whether the outcome is kept for an hour, for the publisher to read, and to make repetitions ineffective.
    package var keepsOutcome = false

    package init(isOrderedByArrival: Bool = false, user: String? = nil, keepsOutcome: Bool = false) {
        self.isOrderedByArrival = isOrderedByArrival
        self.user = user
        self.keepsOutcome = keepsOutcome
    }

    /// Name of the header that orders an event by its arrival.
    package static let orderHeader = "freshet-order"
    private static let arrival = "arrival"
    private static let kept = "kept"

    package var headers: [(name: String, value: [UInt8])] {
        var headers: [(name: String, value: [UInt8])] = []
        if isOrderedByArrival { headers.append((Self.orderHeader, Array(Self.arrival.utf8))) }
        if let user { headers.append(("freshet-user", Array(user.utf8))) }
        if keepsOutcome { headers.append(("freshet-outcome", Array(Self.kept.utf8))) }
        return headers
    }

    /// Reads the headers of a message.
    ///
    /// - Throws: ``EventError`` if the user is not a valid id.
    package init(_ attributes: EventAttributes, in bytes: [UInt8]) throws(EventError) {
        func says(_ range: Range<Int>?, _ text: String) -> Bool {
            range.map { bytes[$0].elementsEqual(text.utf8) } ?? false
        }
        isOrderedByArrival = says(attributes.order, Self.arrival)
        if let range = attributes.user {
            guard let text = String(validating: bytes[range], as: UTF8.self) else {
                throw EventError(code: .invalidAttribute, message: "header freshet-user is not UTF-8")
            }
            if let problem = Text.identifierProblem(text) {
                throw EventError(code: .invalidAttribute, message: "header freshet-user: \(problem)")
            }
            user = text
        }
        keepsOutcome = says(attributes.outcome, Self.kept)
    }
}
