package import JSON
import WidgetModel
package import WidgetStore

extension RegisteredKind {
    /// The kind as the API and the commands show it.
    ///
    /// - Parameters:
    ///   - move: of its widgets to timelines of another identity, when that is under way.
    ///   - timelinesLeft: of a retired kind.
    package func json(move: KindMove?, timelinesLeft: Int? = nil, widgetsWithMisfits: Int? = nil) -> JSONValue {
        var object: JSONObject = [
            "app": .string(app), "developerMode": .bool(isDeveloperMode), "retired": .bool(isRetired),
        ]
        if let timelinesLeft { object["timelinesLeft"] = .count(timelinesLeft) }
        if let widgetsWithMisfits { object["widgetsWithMisfits"] = .count(widgetsWithMisfits) }
        object["paused"] = .bool(isPaused)
        object["pausedAt"] = .time(pausedAt)
        object["appPausedAt"] = .time(appPausedAt)
        object["move"] = move?.json ?? .null
        object["definition"] = definition.json()
        return .object(object)
    }

    /// The kind as a gallery of widgets shows it, without the properties of its timelines.
    package var galleryJSON: JSONValue {
        [
            "app": .string(app), "kind": .string(definition.name), "displayName": .string(definition.displayName),
            "description": .string(definition.description),
            "families": .texts(definition.families.map(\.name)),
            "accentColor": .text(definition.accentColor), "backgroundColor": .text(definition.backgroundColor),
            "placeholder": definition.placeholder,
        ]
    }
}

extension UnreadableKind {
    /// The kind as the commands show it.
    package var json: JSONValue {
        [
            "app": .string(app), "kind": .string(name), "retired": .bool(isRetired), "paused": .bool(isPaused),
            "unreadable": .string(problem),
        ]
    }
}

extension KindMove {
    fileprivate var json: JSONValue {
        [
            "startedAt": .time(startedAt), "pass": .count(pass),
            "passBeginsAt": .time(passBeginsAt),
            "passProgress": .rounded(passProgress),
            "movedInPass": .count(moved), "moved": .count(movedInAll),
        ]
    }
}

extension KindChange {
    /// The effect on the kind when its manifest is registered.
    package var json: JSONValue {
        var object: JSONObject = [
            "app": .string(app), "kind": .string(kind), "action": .string(action.rawValue),
            "fields": .texts(fields),
        ]
        object["moving"] = moving.map { .count($0) }
        return .object(object)
    }
}

extension PauseOutcome {
    /// - Parameter kind: nil for the app itself.
    package func json(app: String, kind: String?) -> JSONValue {
        var object: JSONObject = [
            "app": .string(app), "kind": .text(kind), "paused": .bool(pausedAt != nil), "pausedAt": .time(pausedAt),
            "changed": .bool(isChanged),
        ]
        if kind != nil { object["appPaused"] = .bool(isAppPaused) }
        return .object(object)
    }
}

extension AppSecrets {
    /// Without the secrets.
    package var json: JSONValue {
        [
            "app": .string(name), "developerMode": .bool(isDeveloperMode), "secretReplacedAt": .time(replacedAt),
            "previousSecretExpiresAt": .time(previousExpiresAt),
        ]
    }
}

extension WidgetStore.SecretRotation {
    /// - Parameter secret: the new secret, if it is to be disclosed.
    package func json(telling secret: SigningSecret?) -> JSONValue {
        guard case .object(var object) = secrets.json else { return secrets.json }
        object["changed"] = .bool(isChanged)
        if let secret { object["secret"] = .string(secret.exposed) }
        return .object(object)
    }
}

extension Erasure {
    package var json: JSONValue {
        ["widgets": .count(widgets), "timelines": .count(timelines), "deadLetters": .count(deadLetters)]
    }
}

extension DeadLetterSummary {
    /// The dead letter as the API and the commands list it.
    package var json: JSONValue {
        [
            "id": .count(id), "app": .text(app), "cause": .string(cause), "code": .string(code),
            "error": .string(error), "pointer": .text(pointer), "topic": .string(topic),
            "partition": .count(partition), "offset": .count(offset),
            "bytes": .count(bytes), "state": .string(state.rawValue),
            "receivedAt": .time(receivedAt), "forwardedAt": .time(forwardedAt),
            "unforwardableAt": .time(unforwardableAt), "forwardError": .text(forwardError),
            "replays": .count(replays), "lastReplayAt": .time(lastReplayAt),
            "replayedAt": .time(replayedAt), "discardedAt": .time(discardedAt),
        ]
    }
}

extension WidgetDetail {
    /// The widget as the API and the commands show it.
    package var json: JSONValue {
        [
            "app": .string(app), "widget": .string(id), "kind": .string(kind), "family": .text(family?.name),
            "user": .string(user), "device": .string(device),
            "configuration": configuration.flatMap { try? JSONValue.parse($0) } ?? .null,
            "misfits": .array(
                misfits.map { ["pointer": .string($0.pointer), "message": .string($0.message)] }),
            "environment": ["locale": .string(environment.locale), "timeZone": .string(environment.timeZone)],
            "timeline": .text(timelineID?.description), "suggested": .bool(StackPlan.isSuggestion(widget: id)),
            "removed": .bool(timelineID == nil),
            "placedAt": .time(placedAt), "changedAt": .time(changedAt),
            "lastViewedAt": .time(viewedAt), "views": .count(views),
        ]
    }
}
