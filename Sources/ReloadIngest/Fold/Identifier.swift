import WidgetModel

/// An id as a dictionary key, compared by its bytes as PostgreSQL and Kafka compare it. Swift's own `String` equality
/// takes canonically equivalent texts for one, which would fold the events of two users into one.
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
