package import WidgetModel
package import WidgetStore

extension WidgetDetail {
    /// The widget as the API and the commands show it.
    package var json: JSONValue {
        var object = JSONObject()
        object["app"] = .string(app)
        object["widget"] = .string(id)
        object["kind"] = .string(kind)
        object["family"] = .string(family.name)
        object["user"] = .string(user)
        object["device"] = .string(device)
        object["configuration"] = configuration.flatMap { try? JSONValue.parse($0) } ?? .null
        object["environment"] = ["locale": .string(environment.locale), "timeZone": .string(environment.timeZone)]
        object["timeline"] = timelineID.map { .string($0.description) } ?? .null
        object["removed"] = .bool(timelineID == nil)
        object["placedAt"] = .string(placedAt.rfc3339)
        object["changedAt"] = .string(changedAt.rfc3339)
        object["lastViewedAt"] = viewedAt.map { .string($0.rfc3339) } ?? .null
        object["views"] = .number(JSONNumber(Int(views)))
        return .object(object)
    }
}
