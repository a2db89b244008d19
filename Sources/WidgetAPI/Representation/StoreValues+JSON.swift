// SPDX-License-Identifier: Apache-2.0

package import JSON
package import WidgetModel
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
        object["pausedAt"] = .time(pause?.at)
        object["appPausedAt"] = .time(appPause?.at)
        object["pause"] = pause?.json ?? .null
        object["appPause"] = appPause?.json ?? .null
        object["move"] = move?.json ?? .null
        object["definition"] = definition.json()
        if !definition.notices.isEmpty { object["notices"] = .texts(definition.notices) }
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

extension OperatorAction {
    package var json: JSONValue {
        ["at": .time(at), "by": .text(note?.operatorName), "reason": .text(note?.reason)]
    }
}

extension KindBudget {
    package var json: JSONValue {
        [
            "timelines": .count(timelines), "left": .rounded(left), "withoutToken": .count(withoutToken),
            "nextTokenAt": .time(nextTokenAt),
            "tomorrow": ["beginsAt": .time(tomorrow), "left": .rounded(leftTomorrow)],
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
    ///
    /// - Parameter notices: parts of the new definition without an effect.
    package func json(_ notices: [String]) -> JSONValue {
        var object: JSONObject = [
            "app": .string(app), "kind": .string(kind), "action": .string(action.rawValue),
            "fields": .texts(fields),
        ]
        object["moving"] = moving.map { .count($0) }
        if movingIsMinimum { object["movingIsMinimum"] = .bool(true) }
        if !notices.isEmpty { object["notices"] = .texts(notices) }
        return .object(object)
    }
}

extension PauseOutcome {
    /// - Parameter kind: nil for the app itself.
    package func json(app: String, kind: String?) -> JSONValue {
        var object: JSONObject = [
            "app": .string(app), "kind": .text(kind), "paused": .bool(pause != nil), "pausedAt": .time(pause?.at),
            "pause": pause?.json ?? .null, "changed": .bool(isChanged),
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

extension ExplainedStack {
    /// The plan, and why each widget is or is not on top now.
    package var json: JSONValue { ["plan": plan.json, "now": explanation.json] }
}

extension TimelineDetail {
    /// JSON of the timeline for the API. Stored JSON is spliced in unchanged.
    ///
    /// - Parameter time: time of the current entry; that of the reading if nil.
    package func encoded(at time: Timestamp? = nil) -> [UInt8] {
        let entry = currentEntry(at: time)
        return JSONValue.object(members(entry)).encoded.splicing([
            ("configuration", ArraySlice(timeline.configuration.canonical.utf8)),
            ("shown", ArraySlice(shown(entry))), ("currentEntry", entry), ("content", content.map { ArraySlice($0) }),
        ])
    }

    /// The same document as a tree, for the commands and the console. Only stored JSON is parsed.
    package func json(at time: Timestamp? = nil) throws(JSONError) -> JSONValue {
        let entry = currentEntry(at: time)
        let current = try JSONValue.parsed(entry)
        let shown: JSONValue
        if let fallback {
            shown = try fallback.json()
        } else {
            shown = ["state": "timeline", "entry": current]
        }
        var object = members(entry)
        object["configuration"] = timeline.configuration.value
        object["shown"] = shown
        object["currentEntry"] = current
        object["content"] = try JSONValue.parsed(content.map { ArraySlice($0) })
        return .object(object)
    }

    /// The members that are not stored as JSON.
    private func members(_ entry: ArraySlice<UInt8>?) -> JSONObject {
        [
            "timeline": .string(id.description), "app": .string(app), "kind": .string(kind),
            "family": .text(timeline.family?.name), "locale": .text(timeline.locale),
            "timeZone": .text(timeline.timeZone), "user": .text(timeline.user), "state": stateJSON,
            "url": .text(url(of: entry)), "revision": .count(revision), "storedAt": .text(storedAt?.rfc3339),
            "age": .seconds(age),
        ]
    }

    /// Link of the entry that is shown now.
    package var url: String? { url(of: currentEntry()) }

    /// Link of the shown entry, else that of the kind for the configuration; nil if a tap opens the app.
    private func url(of entry: ArraySlice<UInt8>?) -> String? {
        var shown = entry
        if case .snapshot(let snapshot, _)? = fallback { shown = ArraySlice(snapshot.utf8) }
        return shown.flatMap(ParsedTimeline.url)
            ?? widgetURL.flatMap { try? LinkTemplate($0) }?.url(for: timeline.configuration)
    }

    /// JSON of the shown content: `{"state", "entry"}`, where the state is `timeline`, `snapshot` or `placeholder`.
    ///
    /// The entry of a placeholder has only content; that of a timeline is null before its first date.
    package func shown(at time: Timestamp? = nil) -> [UInt8] { shown(currentEntry(at: time)) }

    private func shown(_ entry: ArraySlice<UInt8>?) -> [UInt8] {
        fallback?.encoded ?? (["state": "timeline"] as JSONValue).encoded.splicing([("entry", entry)])
    }

    /// JSON of the stored entry for a time; nil before the first entry, or without stored content.
    package func currentEntry(at time: Timestamp? = nil) -> ArraySlice<UInt8>? {
        content.flatMap { ParsedTimeline.currentEntry(in: $0, at: time ?? readAt) }
    }

    /// Time since the last render.
    package var age: Duration? { timeline.age }

    private var stateJSON: JSONValue {
        let kind = timeline.kind
        return [
            "stale": .bool(isStale), "requested": .count(requested), "rendered": .count(rendered),
            "kindGeneration": .count(kind.current), "renderedKindGeneration": .count(timeline.state.generation),
            "lane": .string(lane.name), "dueAt": .time(nextLook), "renderedAt": .time(renderedAt),
            "attempts": .count(attempts), "lastDecision": .text(decision?.name),
            "cause": latestCause.map(\.json) ?? .null,
        ]
    }
}

extension FallbackContent {
    /// JSON of the shown content without a timeline.
    package var encoded: [UInt8] {
        switch self {
        case .snapshot(let entry, let storedAt):
            (["state": "snapshot", "storedAt": .time(storedAt)] as JSONValue).encoded.splicing([
                ("entry", ArraySlice(entry.utf8))
            ])
        case .placeholder(let content, let fetchedAt):
            (["state": "placeholder", "source": fetchedAt == nil ? "manifest" : "provider"] as JSONValue).encoded
                .splicing([("entry", ArraySlice([UInt8]().splicing([("content", ArraySlice(content.utf8))])))])
        }
    }

    /// The same content as a tree.
    fileprivate func json() throws(JSONError) -> JSONValue {
        switch self {
        case .snapshot(let entry, let storedAt):
            return ["state": "snapshot", "storedAt": .time(storedAt), "entry": try JSONValue.parse(entry)]
        case .placeholder(let content, let fetchedAt):
            return [
                "state": "placeholder", "source": fetchedAt == nil ? "manifest" : "provider",
                "entry": ["content": try JSONValue.parse(content)],
            ]
        }
    }
}

extension JSONValue {
    /// Stored JSON as a tree; null for nil.
    fileprivate static func parsed(_ stored: ArraySlice<UInt8>?) throws(JSONError) -> JSONValue {
        guard let stored else { return .null }
        return try parse(Array(stored))
    }
}

extension [UInt8] {
    /// The JSON object with further members, whose values are JSON; nil is `null`. Empty bytes are an empty object.
    package func splicing(_ members: [(name: String, value: ArraySlice<UInt8>?)]) -> [UInt8] {
        var bytes = isEmpty ? [UInt8(ascii: "{")] : Array(dropLast())
        for (name, value) in members {
            if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
            bytes += Array("\"\(name)\":".utf8)
            if let value { bytes += value } else { bytes += Array("null".utf8) }
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }
}

extension EventPosition {
    fileprivate var json: JSONValue {
        ["topic": .count(topic), "partition": .count(partition), "offset": .count(offset)]
    }
}
