import HTTPTypes
import Hummingbird
import PostgresClient
import WidgetModel
import WidgetStore

/// One widget of an app, and the timeline that it shows.
struct WidgetRoutes: Sendable {
    let store: WidgetStore

    func add(to group: RouterGroup<BasicRequestContext>) {
        group.get("apps/:app/widgets/:widget") { request, context in
            try await widget(context).json.response()
        }
        group.get("apps/:app/widgets/:widget/timeline") { request, context in
            let widget = try await widget(context)
            guard let id = widget.timelineID else { throw Problem.notFound("the widget was removed") }
            guard let (timeline, standIn) = try await store.timeline(id, of: widget.app, shownBy: widget) else {
                throw Problem.notFound("the widget's timeline is being replaced; ask again")
            }
            return try timeline.json(standIn: standIn).response()
        }
    }

    private func widget(_ context: BasicRequestContext) async throws -> WidgetDetail {
        let app = try identifier("app", context)
        let id = try identifier("widget", context)
        guard let widget = try await store.pool.query(ListWidgets(WidgetFilter(app: app, widget: id), limit: 1)).first
        else { throw Problem.notFound("app \(Text.quoted(app)) has no widget \(Text.quoted(id))") }
        return widget
    }

    private func identifier(_ name: String, _ context: BasicRequestContext) throws -> String {
        let raw = try context.parameters.require(name)
        guard let text = PercentEncoding.decode(raw) else {
            throw Problem.badRequest("\(name) in the path is not percent-encoded UTF-8")
        }
        if let problem = Text.identifierProblem(text) { throw Problem.badRequest("\(name) in the path \(problem)") }
        return text
    }
}

enum PercentEncoding {
    /// A part of a path, decoded; nil when an escape or the UTF-8 is broken.
    static func decode(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next().flatMap(digit), let low = rest.next().flatMap(digit) else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
