// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel

/// The body of a request as the data of an event, with its errors.
struct EventBody {
    private var object: JSONObject
    private var errors: [Problem.Item]

    /// - Parameter members: names that the body may have.
    init(_ object: JSONObject, members: [String]) {
        self.object = object
        let unknown = object.keys.filter { key in !members.contains { Text.equal($0, key) } }
        errors = unknown.map { key in
            Problem.Item(
                detail: "unknown member, expected \(members.joined(separator: ", "))",
                pointer: "/" + JSONPointer.escape(Text.printable(key, maximum: 64)))
        }
    }

    /// The body of a call, with the app and the parameters of the path as members.
    init(_ call: APICall, path names: [String], members: [String]) async throws {
        let values = try names.map { ($0, try call.path($0)) }
        self.init(try await call.body(), members: ["app"] + names + members)
        bind("app", to: call.app)
        for (name, value) in values { bind(name, to: value) }
    }

    subscript(member: String) -> JSONValue? {
        get { object[member] }
        set { object[member] = newValue }
    }

    mutating func fail(_ member: String, detail: String) {
        errors.append(Problem.Item(detail: detail, pointer: "/\(member)"))
    }

    /// Sets a member from the path. The body may repeat the value.
    mutating func bind(_ member: String, to value: String) {
        if let said = object[member], said != .string(value) {
            fail(member, detail: "must equal the value in the path, or be left out")
        }
        object[member] = .string(value)
    }

    /// A list of texts; empty if it is left out.
    mutating func texts(_ member: String) -> [String] {
        guard let value = object[member] else { return [] }
        let texts = value.arrayValue?.map(\.stringValue) ?? [nil]
        if texts.contains(nil) { fail(member, detail: "expected an array of strings") }
        return texts.compactMap { $0 }
    }

    /// A list of unique ids, at least one.
    mutating func identifiers(_ member: String, atMost limit: Int) -> [String] {
        let texts = texts(member)
        if !(1...limit).contains(texts.count) {
            fail(member, detail: "expected 1 to \(limit) ids, found \(texts.count)")
        }
        for (index, text) in texts.enumerated() {
            if let problem = Text.identifierProblem(text) { fail("\(member)/\(index)", detail: problem) }
        }
        if Set(texts.map { Array($0.utf8) }).count < texts.count { fail(member, detail: "has an id twice") }
        return texts
    }

    /// Throws all errors.
    func check() throws(Problem) {
        guard errors.isEmpty else { throw .unprocessable(errors) }
    }

    /// The event, by the rules for messages.
    func event(of type: EventType) throws(Problem) -> FreshetEvent {
        let bytes = JSONValue.object(object).encoded
        let event: FreshetEvent
        do throws(EventError) {
            event = try EventDecoder().decode(data: bytes, of: type)
        } catch {
            let found = EventDecoder().problems(data: bytes, of: type)
            guard !found.isEmpty else { throw Problem(error) }
            throw .unprocessable(errors + found.map { Problem.Item(detail: $0.message, pointer: $0.pointer) })
        }
        try check()
        return event
    }
}
