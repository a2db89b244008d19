import WidgetModel

/// An id as a dictionary key, compared bytewise as in PostgreSQL and Kafka. `String` equality would fold the events of
/// users with canonically equivalent ids into one.
package struct Identifier: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: Identifier, right: Identifier) -> Bool {
        Text.equal(left.text, right.text)
    }

    package func hash(into hasher: inout Hasher) {
        Text.hash(text, into: &hasher)
    }
}

/// A widget, a user or a device of an app.
package struct ScopedIdentifier: Hashable, Sendable {
    package let appID: Int32
    package let id: Identifier

    package init(_ appID: Int32, _ id: String) {
        self.appID = appID
        self.id = Identifier(id)
    }
}
