import JSON
package import WidgetModel
package import WidgetStore

extension TimelineDetail {
    /// JSON of the timeline for the API and the commands. Stored JSON is spliced in unchanged.
    ///
    /// - Parameter time: time of the current entry; that of the reading if nil.
    package func encoded(at time: Timestamp? = nil) -> [UInt8] {
        let entry = currentEntry(at: time)
        let object: JSONObject = [
            "timeline": .string(id.description), "app": .string(app), "kind": .string(kind),
            "family": .text(timeline.family?.name), "locale": .text(timeline.locale),
            "timeZone": .text(timeline.timeZone), "user": .text(timeline.user), "state": stateJSON,
            "url": .text(url(of: entry)), "revision": .count(revision), "storedAt": .text(storedAt?.rfc3339),
            "age": .seconds(age),
        ]
        return JSONValue.object(object).encoded.splicing([
            ("configuration", ArraySlice(timeline.configuration.canonical.utf8)),
            ("shown", ArraySlice(shown(entry))), ("currentEntry", entry), ("content", content.map { ArraySlice($0) }),
        ])
    }

    /// Link of the shown entry, else that of the kind for the configuration; nil if a tap opens the app.
    private func url(of entry: ArraySlice<UInt8>?) -> String? {
        var shown = entry
        if case .snapshot(let snapshot, _)? = fallback { shown = ArraySlice(snapshot.utf8) }
        return shown.flatMap(StoredEntries.url)
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
        content.flatMap { StoredEntries.current(in: $0, at: time ?? readAt) }
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
