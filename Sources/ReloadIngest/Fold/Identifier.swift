import WidgetModel

/// An id as a dictionary key, compared bytewise as in PostgreSQL and Kafka. `String` equality would fold the events of
/// users with canonically equivalent ids into one.
struct Identifier: Hashable, Sendable {
    let text: String

    init(_ text: String) {
        self.text = text
    }

    static func == (left: Identifier, right: Identifier) -> Bool {
        Text.equal(left.text, right.text)
    }

    func hash(into hasher: inout Hasher) {
        Text.hash(text, into: &hasher)
    }
}

/// A widget, a user or a device of an app.
struct ScopedIdentifier: Hashable, Sendable {
    let appID: Int32
    let id: Identifier

    init(_ appID: Int32, _ id: String) {
        self.appID = appID
        self.id = Identifier(id)
    }
}
