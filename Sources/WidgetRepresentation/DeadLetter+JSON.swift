package import WidgetModel
package import WidgetStore

extension DeadLetterSummary {
    /// The dead letter as the API and the commands list it.
    package var json: JSONValue {
        var object = JSONObject()
        object["id"] = .number(JSONNumber(Int(id)))
        object["app"] = app.map { .string($0) } ?? .null
        object["cause"] = .string(cause)
        object["code"] = .string(code)
        object["error"] = .string(error)
        object["pointer"] = pointer.map { .string($0) } ?? .null
        object["topic"] = .string(topic)
        object["partition"] = .number(JSONNumber(Int(partition)))
        object["offset"] = .number(JSONNumber(Int(offset)))
        object["bytes"] = bytes.map { .number(JSONNumber($0)) } ?? .null
        object["state"] = .string(state.rawValue)
        object["receivedAt"] = .string(receivedAt.rfc3339)
        object["forwardedAt"] = forwardedAt.map { .string($0.rfc3339) } ?? .null
        object["unforwardableAt"] = unforwardableAt.map { .string($0.rfc3339) } ?? .null
        object["forwardError"] = forwardError.map { .string($0) } ?? .null
        object["replays"] = .number(JSONNumber(replays))
        object["lastReplayAt"] = lastReplayAt.map { .string($0.rfc3339) } ?? .null
        object["replayedAt"] = replayedAt.map { .string($0.rfc3339) } ?? .null
        object["discardedAt"] = discardedAt.map { .string($0.rfc3339) } ?? .null
        return .object(object)
    }
}
