package import WidgetModel
package import WidgetStore

extension RegisteredKind {
    /// The kind as the API and the commands show it.
    ///
    /// - Parameters:
    ///   - move: of its widgets to timelines of another identity, when that is under way.
    ///   - timelinesLeft: of a retired kind.
    package func json(move: KindMove?, timelinesLeft: Int? = nil) -> JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["developerMode"] = .bool(isDeveloperMode)
        object["retired"] = .bool(isRetired)
        if let timelinesLeft { object["timelinesLeft"] = .number(JSONNumber(timelinesLeft)) }
        object["paused"] = .bool(isPaused)
        object["pausedAt"] = pausedAt.map { .string($0.rfc3339) } ?? .null
        object["appPausedAt"] = appPausedAt.map { .string($0.rfc3339) } ?? .null
        object["move"] = move?.json ?? .null
        object["definition"] = definition.json()
        return .object(object)
    }

    /// What a gallery of widgets shows of it: nothing of how its timelines are made.
    package var galleryJSON: JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["kind"] = .string(definition.name)
        object["displayName"] = .string(definition.displayName)
        object["description"] = .string(definition.description)
        object["families"] = .array(definition.families.map { .string($0.name) })
        object["accentColor"] = .text(definition.accentColor)
        object["backgroundColor"] = .text(definition.backgroundColor)
        object["placeholder"] = definition.placeholder
        return .object(object)
    }
}

extension KindMove {
    fileprivate var json: JSONValue {
        [
            "startedAt": .string(startedAt.rfc3339), "pass": .number(JSONNumber(pass)),
            "passBeginsAt": .string(passBeginsAt.rfc3339),
            "passProgress": JSONNumber((passProgress * 1000).rounded() / 1000).map { .number($0) } ?? .null,
            "movedInPass": .number(JSONNumber(Int(moved))), "moved": .number(JSONNumber(Int(movedInAll))),
        ]
    }
}

extension KindChange {
    /// What registering a manifest does to the kind.
    package var json: JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["kind"] = .string(kind)
        object["action"] = .string(action.rawValue)
        object["fields"] = .array(fields.map { .string($0) })
        object["moving"] = moving.map { .number(JSONNumber($0)) }
        return .object(object)
    }
}

extension PauseOutcome {
    /// - Parameter kind: nil: the app itself.
    package func json(app: String, kind: String?) -> JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["kind"] = .text(kind)
        object["paused"] = .bool(pausedAt != nil)
        object["pausedAt"] = pausedAt.map { .string($0.rfc3339) } ?? .null
        object["changed"] = .bool(isChanged)
        if kind != nil { object["appPaused"] = .bool(isAppPaused) }
        return .object(object)
    }
}
