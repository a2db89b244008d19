package import WidgetModel
package import WidgetStore

extension TimelineDetail {
    /// What a widget shows now: `{"state", "entry"}`, where the state is `timeline`, `snapshot` or `placeholder`.
    ///
    /// The entry of a placeholder has a content only; that of a timeline is null before its first date. Null as a whole
    /// when nothing is known of what stands in for a timeline that has never been stored.
    ///
    /// - Throws: `JSONError` when what is stored is broken.
    package func shown(at time: Timestamp, standIn: StandIn?) throws(JSONError) -> JSONValue {
        if content != nil {
            return ["state": "timeline", "entry": try currentEntry(at: time) ?? .null]
        }
        switch standIn {
        case .snapshot(let entry, let storedAt):
            return [
                "state": "snapshot", "entry": try JSONValue.parse(entry), "storedAt": .string(storedAt.rfc3339),
            ]
        case .placeholder(let content, let fetchedAt):
            return [
                "state": "placeholder", "entry": ["content": try JSONValue.parse(content)],
                "source": fetchedAt == nil ? "manifest" : "provider",
            ]
        case nil:
            return .null
        }
    }
}
